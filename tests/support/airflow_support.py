"""What the tests of the Airflow rooms share: connections, a pretending `spark-submit`, a context.

It lies beside the folder, not in it: `airflow.` is somebody else's name.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid import operators
from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.contract import CONTRACT_VERSION
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

METASTORE_URI: Final = "thrift://metastore.example.com:9083"

_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(kw_only=True)
class Connections:
    """Makes connections the way a deployment may: as environment variables."""

    monkeypatch: pytest.MonkeyPatch

    def add(self, conn_id: str, conn_type: str, **fields: object) -> None:
        self.monkeypatch.setenv(
            f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": conn_type, **fields})
        )

    def metastore(
        self, uris: str = METASTORE_URI, *, engine: str | None = "spark", **extra: object
    ) -> None:
        """The default metastore connection, without a login, and with Spark as its engine.

        Most tests are about submissions; with None, the engine is what users get by default.
        """
        own = {"uris": uris, **extra} | ({} if engine is None else {"engine": engine})
        self.add("hive_acid_default", "hive_acid_metastore", extra=own)

    def remove(self, conn_id: str) -> None:
        self.monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id.upper()}")


# It runs for most tests, so it loads only what its plan needs.
_FAKE_SPARK_SUBMIT: Final = """#!{python} -S
import json, os, pathlib, sys
sys.path.insert(0, {root!r})
from airflow_hiveacid.jobs.job import JobError, JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.job import JobSpec

here = pathlib.Path({here!r})
plan = json.loads((here / "plan.json").read_text())
arguments = sys.argv[1:]
options = dict(zip(arguments, arguments[1:]))
name = options["--spec"]
shipped = [pathlib.Path(f) for f in options.get("--files", "").split(",") if f]
spec_file = next((f for f in shipped if f.name == name), pathlib.Path(name))
text = spec_file.read_text()
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps({{
        "arguments": arguments,
        "spec": json.loads(text),
        "spec_mode": oct(spec_file.parent.stat().st_mode & 0o777),
        "environment": dict(os.environ),
    }}) + "\\n")
if plan["cluster"]:
    import urllib.request
    tags = next(a for a in arguments if a.startswith("spark.yarn.tags="))
    body = json.dumps({{"tag": tags.rpartition(",")[2].rpartition("=")[2], "spec": text}})
    request = urllib.request.Request(plan["cluster"] + "/ws/v1/cluster/apps", body.encode())
    with urllib.request.urlopen(request) as answer:
        plan["says"] = "Submitted application " + json.load(answer)["id"]
sys.stdout.reconfigure(encoding=plan["encoding"])
print(plan["says"], flush=True)
if plan["hangs"]:
    import subprocess, time
    child = subprocess.Popen(["sleep", "600"])
    (here / "hanging.json").write_text(json.dumps({{"parent": os.getpid(), "child": child.pid}}))
    time.sleep(600)
spec = JobSpec.parse(text)
if plan["error"] is not None:
    result = JobResult(kind=spec.kind, job_key=spec.job_key, status=JobStatus.FAILED,
                       table=spec.job.target, spark_app_id=plan["spark_app_id"],
                       error=JobError(**plan["error"]))
else:
    result = JobResult(kind=spec.kind, job_key=plan["job_key"] or spec.job_key,
                       status=JobStatus(plan["status"]), table=spec.job.target, txn_id=7,
                       write_ids={{spec.job.target: 3}}, rows=RowCounts(inserted=1, updated=2),
                       partitions=("month=1",), files=4, size_bytes=500, seconds=1.5,
                       details=plan["details"], spark_app_id=plan["spark_app_id"])
if plan["answers"]:
    path = pathlib.Path(spec.result_uri.removeprefix("file:"))
    path.parent.mkdir(parents=True, exist_ok=True)
    body = json.loads(result.dump()) | {{"version": plan["version"]}}
    path.write_text(json.dumps(body)[: plan["cut"]])
sys.exit(plan["exit_code"])
"""


@dataclass(kw_only=True)
class FakeSpark:
    """A `spark-submit` that notes how it was called and answers as it is told to."""

    directory: Path
    plan: dict[str, Any] = field(
        default_factory=lambda: {
            "says": "running",
            "encoding": "utf-8",
            "error": None,
            "status": "committed",
            "job_key": None,
            "details": {},
            "spark_app_id": None,
            "answers": True,
            "cut": None,
            "version": CONTRACT_VERSION,
            "hangs": False,
            "exit_code": 0,
            "cluster": None,
        }
    )

    def install(self) -> None:
        self.bin_dir.mkdir(parents=True)
        script = self.bin_dir / "spark-submit"
        script.write_text(
            _FAKE_SPARK_SUBMIT.format(
                python=sys.executable, root=str(_ROOT), here=str(self.directory)
            )
        )
        script.chmod(0o755)
        self.tell()

    def hand_in_to(self, cluster: str) -> None:
        """Give each application to the `ResourceManager` at this address; the test ends it."""
        self.tell(cluster=cluster, answers=False)

    @property
    def bin_dir(self) -> Path:
        return self.directory / "bin"

    def tell(self, **changes: object) -> None:
        self.plan |= changes
        (self.directory / "plan.json").write_text(json.dumps(self.plan))

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.directory / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def call(self) -> dict[str, Any]:
        (only,) = self.calls
        return only

    @property
    def options(self) -> dict[str, str]:
        arguments = self.call["arguments"]
        return dict(pairwise(arguments))


class AssetStore(dict[str, Any]):
    """The asset's state store, which outlives a triggerer."""

    async def aget(self, key: str) -> Any:  # noqa: ANN401
        return self.get(key)

    async def aset(self, key: str, value: object) -> None:
        self[key] = value

    async def adelete(self, key: str) -> None:
        self.pop(key, None)


@dataclass(kw_only=True)
class Warehouse:
    """A database on a real metastore, and tables whose files have a size but no rows.

    Health is measured from names and sizes alone, so nobody looks inside.
    """

    client: MetastoreClient
    uri: str
    db: str

    def table(self, name: str, *, partitioned: bool = False, **more: Any) -> TableInfo:  # noqa: ANN401
        return self.client.create_table(
            NewTable(
                ref=TableRef(self.db, name),
                columns=(Column(name="id", type="bigint"),),
                partition_columns=(Column(name="month", type="int"),) if partitioned else (),
                **more,
            )
        )

    def base(self, table: TableInfo, size: int, partition: str = "") -> None:
        self._write(table, partition, lambda write_id: BaseName(write_id=write_id), size)

    def delta(self, table: TableInfo, size: int, partition: str = "") -> None:
        self._write(table, partition, _delta, size)

    def open_delta(self, table: TableInfo, size: int, partition: str = "") -> TxnId:
        """A delta whose transaction has not ended."""
        txn_id = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn_id, table.ref)
        self._place(table, partition, _delta(write_id), size)
        return txn_id

    def _write(
        self,
        table: TableInfo,
        partition: str,
        name: Callable[[WriteId], BaseName | DeltaName],
        size: int,
    ) -> None:
        txn_id = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn_id, table.ref)
        self._place(table, partition, name(write_id), size)
        self.client.commit_txn(txn_id)

    def _place(
        self, table: TableInfo, partition: str, name: BaseName | DeltaName, size: int
    ) -> None:
        location = table.location
        if partition:
            names = [PartitionName.parse(partition)]
            (found,) = self.client.add_partitions(table, names)
            location = found.location
        directory = Path(location.removeprefix("file:")) / str(name)
        directory.mkdir(parents=True)
        (directory / "bucket_00000").write_bytes(b"x" * size)


def _delta(write_id: WriteId) -> DeltaName:
    return DeltaName(low=write_id, high=write_id, statement_id=StatementId(0))


class TaskLog:
    """A task's log: the lines, in order, and those with the level of a warning or error."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.errors: list[str] = []

    @classmethod
    def of_tasks(cls, monkeypatch: pytest.MonkeyPatch) -> TaskLog:
        """A log into which operators and the Spark provider's hook write from now on."""
        from airflow.providers.apache.spark.hooks.spark_submit import (  # noqa: PLC0415 - reads Airflow's home
            SparkSubmitHook,
        )

        from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator  # noqa: PLC0415 - as above
        from airflow_hiveacid.operators.submission import driver_log, submitter  # noqa: PLC0415 - as above

        made = cls()
        for place in (HiveAcidSparkOperator, SparkSubmitHook, submitter, driver_log):
            monkeypatch.setattr(place, "log", made)
        return made

    def info(self, text: str, *parts: object, **_: object) -> None:
        self.lines += (text % parts if parts else text).splitlines()

    def warning(self, text: str, *parts: object, **_: object) -> None:
        self.warnings.append(text % parts if parts else text)
        self.info(text, *parts)

    def error(self, text: str, *parts: object, **_: object) -> None:
        self.errors.append(text % parts if parts else text)
        self.info(text, *parts)

    def debug(self, *_: object, **__: object) -> None:
        """Airflow shows no such line."""


class StateStore(dict[str, Any]):
    """The task's state store: what Airflow keeps between the tries of one task instance."""

    def set(self, key: str, value: object, *, retention: object = None) -> None:
        del retention  # nothing expires here
        if value is None:
            raise ValueError("Cannot set value as None")
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


def operator_of(text: str) -> tuple[Any, dict[str, Any]]:
    """Return the operator's class and the arguments of a case: a name, and JSON."""
    name, _, arguments = text.strip().partition(" ")
    return getattr(operators, name), json.loads(arguments)


def context_of(task_id: str = "task", *, try_number: int = 1, **more: object) -> dict[str, Any]:
    """What a task sees when it runs, as far as these operators look at it.

    Below Airflow 3.3, it sees no state store.
    """
    from airflow.sdk.execution_time.context import OutletEventAccessors  # noqa: PLC0415

    from tests.support.airflow_minors import IS_3_3  # noqa: PLC0415 - imports Airflow

    if not IS_3_3:
        more.pop("task_state_store", None)
    xcoms: dict[str, object] = {}
    ti = SimpleNamespace(
        dag_id="dag",
        run_id="scheduled__2013-01-02",
        task_id=task_id,
        map_index=-1,
        try_number=try_number,
        max_tries=0,
        task=SimpleNamespace(retries=0),
        stats_tags={},
        xcoms=xcoms,
        xcom_push=xcoms.__setitem__,
    )
    return {
        "ti": ti,
        "dag_run": SimpleNamespace(clear_number=0),
        "outlet_events": OutletEventAccessors(),
        "ds": "2013-01-02",
        **more,
    }


def run_task(operator: BaseOperator, context: dict[str, Any] | None = None) -> Any:  # noqa: ANN401
    """Render the templates and execute, as the task runner does.

    Below Airflow 3.3, Airflow gets AirflowFailException in place of an error of ours that the
    task's policy does not retry. Callers get ours, as Airflow 3.3 does.
    """
    from airflow.sdk.bases.operator import ExecutorSafeguard  # noqa: PLC0415

    from airflow_hiveacid.airflow_names import AirflowFailException, RetryAction  # noqa: PLC0415 - as above
    from tests.support.airflow_minors import IS_3_3  # noqa: PLC0415 - as above

    seen = context or context_of(operator.task_id)
    seen["ti"].task = operator
    operator.render_template_fields(seen)  # type: ignore[arg-type]
    token = ExecutorSafeguard.tracker.set(operator)
    try:
        return operator.execute(seen)  # type: ignore[arg-type]
    except AirflowFailException as failure:
        error = failure.__cause__
        if IS_3_3 or not isinstance(error, Exception) or str(failure) != str(error):
            raise
        if operator.retry_policy.evaluate(error, 1, 3).action is not RetryAction.FAIL:
            raise
        raise error  # noqa: B904 - it is the cause
    finally:
        ExecutorSafeguard.tracker.reset(token)


def killed_when(task: BaseOperator, context: dict[str, Any], ready: Callable[[], object]) -> float:
    """Run a task, and kill it as Airflow does once `ready` returns; the seconds that took."""
    took: list[float] = []

    def kill(*_: object) -> None:
        began = time.monotonic()
        task.on_kill()
        took.append(time.monotonic() - began)

    def send() -> None:
        try:
            ready()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, kill)
    try:
        with beside(send), pytest.raises(JobFailedError, match="the task was killed"):
            run_task(task, context)
    finally:
        signal.signal(signal.SIGTERM, before)
    return took[0]


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread while the block runs; the block's end waits for its end."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def napping(seconds: int) -> str:
    """A query whose task takes so long, and then gives the source's rows.

    What stands over VALUES alone the driver computes while it plans, where it cannot be cancelled.
    """
    nap = f"reflect('java.lang.Thread', 'sleep', {seconds}000L)"
    rows = "(SELECT DISTINCT * FROM source)"
    return f"SELECT id FROM (SELECT id, {nap} AS nap FROM {rows}) WHERE nap = 'null'"
