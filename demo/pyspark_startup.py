"""The startup file of an interactive `pyspark`: it defines `flights` and `table("db.name")`.

Every Python that starts in the demonstration's shell runs this file, but only `pyspark` has a
Spark session.
"""

from __future__ import annotations

import atexit
import os
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_open = ExitStack()


def table(name: str) -> DataFrame:
    """Return a DataFrame of a table's current rows; its files are kept until this PySpark exits."""
    from airflow_hiveacid import acid  # noqa: PLC0415 - a plain python may lack it

    metastore = acid.Metastore(uris=(os.environ["HIVE_METASTORE_URIS"],))
    key = f"pyspark/{uuid.uuid4()}"
    snapshot = _open.enter_context(acid.read_snapshot(metastore, [name], job_key=key))
    return acid.read_table(globals()["spark"], name, snapshot)


if "spark" in globals():
    atexit.register(_open.close)
    flights = table("demo.flights")
    print("flights: the current rows of demo.flights; table('db.name'): those of any table")
