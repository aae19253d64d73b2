"""What tests on a real YARN share: small tasks of ours, and how these are killed or lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.cli.spark_wheel import LIBRARIES
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator, HiveAcidInsertOperator
from airflow_hiveacid.operators.submission.cluster_run import ClusterRun
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.support import airflow_support, mini_yarn, short_jvms

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

SPARK: Final = Path(__file__).resolve().parents[2] / ".venv-spark"
SMALL: Final[dict[str, Any]] = {
    "spark_bin_dir": str(SPARK / "bin"),
    "driver_memory": "512m",
    "executor_memory": "512m",
    "executor_cores": 1,
    "num_executors": 1,
}
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.yarn.am.memory": "256m",
    "spark.yarn.am.extraJavaOptions": short_jvms.SHORT_LIVED,
    "spark.executor.extraJavaOptions": short_jvms.SHORT_LIVED,
}
_DEADLINE_S: Final = 300
# Of a distribution and all that it needs, which files are installed: asked of who has them.
_FILES_OF: Final = """
import importlib.metadata as metadata, re, sys
from packaging.requirements import Requirement
wanted, seen = list(sys.argv[1:]), set()
while wanted:
    need = Requirement(wanted.pop())
    if need.name in seen or (need.marker and not need.marker.evaluate({"extra": ""})):
        continue
    seen.add(need.name)
    found = metadata.distribution(need.name)
    extras = {re.sub("[-_.]+", "-", extra).lower() for extra in need.extras}
    for text in found.requires or ():
        other = Requirement(text)
        if not other.marker or any(other.marker.evaluate({"extra": e}) for e in extras | {""}):
            other.marker = None
            wanted.append(str(other))
    for file in found.files or ():
        print(file.locate())
"""


def small(mode: str, *, python: bool = True, **conf: str) -> dict[str, Any]:
    """The arguments that make a task of ours a small application.

    Args:
        mode: client or cluster, which is a connection's name, too.
        python: nodes are told where Python is with its libraries.
        conf: more of Spark's settings.
    """
    jars = next(SPARK.glob("lib/python3*/site-packages/pyspark/jars"))
    own = {"spark.yarn.jars": f"local:{jars}/*"}
    if python:
        own["spark.pyspark.python"] = str(SPARK / "bin" / "python")
    if mode == "cluster":
        own["spark.driver.extraJavaOptions"] = short_jvms.SHORT_LIVED
    return {"conn_id": f"yarn_{mode}", "conf": _CONF | own | conf, **SMALL}


def insertion(table: object, ids: tuple[int, ...], **more: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    """A task that inserts rows of these IDs with Spark; `source` adds to their values."""
    source = {"values": [[i] for i in ids], "columns": ["id"], **more.pop("source", {})}
    return HiveAcidInsertOperator(
        task_id="insert", table=str(table), source=source, engine="spark", **more
    )


def insert(table: object, mode: str, *ids: int, **more: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    """A task on YARN that inserts rows of these IDs."""
    return insertion(table, ids, **small(mode, **more.pop("conf", {})), **more)


def insert_and_delete(insertion: HiveAcidInsertOperator, **more: Any) -> None:  # noqa: ANN401
    """Insert three rows, then delete that of ID 2, each with a driver of its own."""
    deletion = HiveAcidDeleteOperator(
        task_id="delete", table=insertion.table, where="id = 2", engine="spark", **more
    )
    for task, kind, number in ((insertion, "inserted", 3), (deletion, "deleted", 1)):
        store = airflow_support.StateStore()
        context = airflow_support.context_of(task.task_id, task_state_store=store)
        done = airflow_support.run_task(task, context)
        assert (done["status"], done["rows"][kind]) == ("committed", number)


def rows_of(client: MetastoreClient, table: TableInfo) -> list[dict[str, Any]]:
    """What a reader finds, by ID."""
    txns = client.valid_txns()
    write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
    batches = scan(table.location, table.columns, write_ids, txns)
    return sorted((row for b in batches for row in b.to_pylist()), key=lambda row: row["id"])


def ids_of(client: MetastoreClient, table: TableInfo) -> list[int]:
    """The IDs that a reader finds."""
    return [row["id"] for row in rows_of(client, table)]


def wait_for_lock(client: MetastoreClient, table: TableRef) -> None:
    """Return when the driver is in the middle of its transaction."""
    deadline = time.monotonic() + _DEADLINE_S
    with client.clone() as own:
        while not own.show_locks(table):
            assert time.monotonic() < deadline
            time.sleep(0.2)


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it does."""
    deadline = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def kill_containers(yarn: mini_yarn.MiniYarn, application: str, *, driver: bool) -> int:
    """Kill all processes of an application's first container, or of its others; answers how many.

    The first is the application master's, with the driver in it in cluster mode.
    """
    own = {p: Path(cwd).name for p, cwd in yarn.containers().items() if application[12:] in cwd}
    chosen = [p for p, name in own.items() if name.endswith("_000001") == driver]
    for process in chosen:
        os.kill(process, signal.SIGKILL)
    return len(chosen)


def environment_in(home: Path) -> Path:
    """A Spark environment without Spark, as `spark-environment` would fill it, by copies."""
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python3*/site-packages")
    (installed,) = SPARK.resolve().glob("lib/python3*/site-packages")
    program = SPARK / "bin" / "python"
    told = subprocess.run(
        [program, "-c", _FILES_OF, *LIBRARIES], capture_output=True, text=True, check=True
    )
    for line in told.stdout.splitlines():
        file = Path(line).resolve()
        if file.is_relative_to(installed) and file.is_file():
            place = packages / file.relative_to(installed)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    return home


def lost_when(task: BaseOperator, context: dict[str, Any], ready: Any) -> None:  # noqa: ANN401
    """Run a task, and lose its worker once something has come: nothing is said to anybody."""
    is_lost = threading.Event()
    threading.Thread(target=lambda: (ready(), is_lost.set()), daemon=True).start()

    def pause(*_: object) -> None:
        if is_lost.wait(1):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRun, "_pause", pause)
        with pytest.raises(KeyboardInterrupt):
            airflow_support.run_task(task, context)
