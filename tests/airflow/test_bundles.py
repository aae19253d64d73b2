"""The setting that loads the example DAGs, as the documentation has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "tutorial" / "your-cluster.md"
VARIABLE = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
PROGRAM = """
from airflow.dag_processing.bundles.manager import DagBundlesManager
for bundle in DagBundlesManager().get_all_dag_bundles():
    bundle.initialize()
    print(bundle.name, bundle.path)
"""


def test_one_setting_loads_the_example_dags_beside_the_users_dags_folder(tmp_path: Path) -> None:
    (setting,) = re.findall(rf"{VARIABLE}='([^']+)'", PAGE.read_text())
    assert [bundle["name"] for bundle in json.loads(setting)] == [
        "dags-folder",
        "hiveacid-examples",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            VARIABLE: setting,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == [
        f"dags-folder {tmp_path}/dags",
        f"hiveacid-examples {REPOSITORY}/dags",
    ]
