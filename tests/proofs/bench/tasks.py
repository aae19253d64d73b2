"""The duration of a task that has little to do: most of it passes before and after the statement.

    python -m tests.proofs.bench.tasks [--repeats N]

It needs Airflow's environment. It starts a metastore, and runs every task in a new process, as a
worker does; drivers run with `spark-submit` and `local[2]`. The measured time begins when Airflow
calls the operator and ends with its result, so it includes all imports of the operator, and of a
driver also its start. It prints the medians beside their aims, and writes build/bench-tasks.json. A
duration above its aim is shown and does not fail the command, because other programs may have
slowed it down.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_RECORDS: Final = _REPOSITORY / "build" / "bench-tasks.json"
_TABLE: Final = "default.customers"
_AIMS_S: Final[Mapping[str, float]] = {
    "a MERGE of two rows": 2.0,
    "the same MERGE in a Spark driver": 9.0,
    "a cleaning with nothing to do": 5.0,
    "a compaction with nothing due": 5.0,
    "the same cleaning in a Spark driver": 5.0,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every task, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.bench.tasks")
    parser.add_argument("--repeats", type=int, default=5, help="of each task (5)")
    parser.add_argument("--one", choices=_AIMS_S, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.one:
        print(json.dumps(_seconds_of(asked.one)))
        return 0
    with tempfile.TemporaryDirectory(prefix="hiveacid-bench-") as folder:
        took = _measure(Path(folder), asked.repeats)
    _RECORDS.parent.mkdir(exist_ok=True)
    _RECORDS.write_text(json.dumps(took, indent=2) + "\n")
    shown = Table("task", "median, s", "of", "aim, s", title="Duration of a task")
    for case, seconds in took.items():
        listed = ", ".join(f"{one:.1f}" for one in seconds)
        shown.add_row(case, f"{statistics.median(seconds):.1f}", listed, f"{_AIMS_S[case]:g}")
    Console().print(shown)
    return 0


def _measure(folder: Path, repeats: int) -> dict[str, list[float]]:
    config = LocalMetastoreConfig(data_dir=folder / "metastore", ends_with_parent=True)
    took: dict[str, list[float]] = defaultdict(list)
    with (
        LocalMetastore(config) as metastore,
        connect(MetastoreEndpoint(uris=(metastore.uri,))) as client,
    ):
        columns = (Column(name="id", type="bigint"), Column(name="name", type="string"))
        client.create_table(NewTable(ref=TableRef.parse(_TABLE), columns=columns))
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(_REPOSITORY / ".venv-spark" / "bin"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(
                {"conn_type": "hive_acid_metastore", "extra": {"uris": metastore.uri}}
            ),
        }
        for _ in range(repeats):
            for case in _AIMS_S:
                command = [sys.executable, "-m", "tests.proofs.bench.tasks", "--one", case]
                ended = subprocess.run(
                    command, env=environment, stdout=subprocess.PIPE, text=True, check=True
                )
                took[case].append(float(ended.stdout.splitlines()[-1]))
    return took


def _seconds_of(case: str) -> float:
    """Run one task in this process, and return its seconds."""
    from airflow_hiveacid.operators import (  # noqa: PLC0415 - only in Airflow's environment
        HiveAcidCleanOperator,
        HiveAcidCompactOperator,
        HiveAcidMergeOperator,
    )
    from tests.support.airflow_support import run_task  # noqa: PLC0415 - as above

    merge = partial(
        HiveAcidMergeOperator,
        task_id="merge",
        table=_TABLE,
        source={"columns": ["id", "name"], "values": [[1, "Ada"], [2, "Bob"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
    )
    tasks: Mapping[str, Callable[[], Any]] = {
        "a MERGE of two rows": lambda: merge(engine="worker"),
        "the same MERGE in a Spark driver": lambda: merge(engine="spark"),
        "a cleaning with nothing to do": lambda: HiveAcidCleanOperator(
            task_id="clean", table=_TABLE
        ),
        "a compaction with nothing due": lambda: HiveAcidCompactOperator(
            task_id="compact", table=_TABLE
        ),
        "the same cleaning in a Spark driver": lambda: HiveAcidCleanOperator(
            task_id="clean", table=_TABLE, engine="spark"
        ),
    }
    task = tasks[case]()
    began = time.monotonic()
    run_task(task)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
