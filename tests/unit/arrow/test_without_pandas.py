"""Arrow works without pandas until pandas is imported, and then knows its objects."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from airflow_hiveacid.arrow.without_pandas import let_pandas_wait
let_pandas_wait()
import pyarrow as pa
import airflow_hiveacid.arrow.job
assert pa.array([1, None]).null_count == 1
assert "pandas" not in sys.modules
import pandas
assert pa.array(pandas.Series([1.0, None])).null_count == 1
assert pa.table({"a": [1]}).to_pandas().a.tolist() == [1]
assert pandas.__spec__.loader.get_source("pandas")
assert not [finder for finder in sys.meta_path if "without_pandas" in type(finder).__module__]
let_pandas_wait()
print("ok")
"""


def test_arrow_learns_of_pandas_when_it_is_imported() -> None:
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert run.stdout == "ok\n", run.stderr
