"""What becomes of a job's Spark work when its transaction is gone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_hiveacid.format.errors import CompactionCancelledError, TransactionAbortedError
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.transactions.compaction_work import cancel_compactions
from tests.support.fault_cases import COLUMNS
from tests.support.spark_lab import Lab

# 50 ms a row: many minutes, if nobody stops it.
SLOW = (
    "SELECT id, name FROM source LATERAL VIEW explode(sequence(1, 20000)) numbers AS n"
    " WHERE n > 0 AND reflect('java.lang.Thread', 'sleep', 50L) = 'null'"
)


def test_a_heartbeat_that_finds_the_transaction_aborted_cancels_the_spark_job(lab4: Lab) -> None:
    table = lab4.table("t", COLUMNS)
    steps: list[str] = []

    def abort() -> None:
        with lab4.client.clone() as other:
            for lock in other.show_locks(table.ref):
                assert lock.txn_id is not None
                other.abort_txn(lock.txn_id)

    def on_step(step: str) -> None:
        steps.append(step)
        if step == "snapshot":
            threading.Timer(2.0, abort).start()

    source = SourceSpec(values=((1, "a"),), columns=("id", "name"), query=SLOW)
    with pytest.raises(TransactionAbortedError):
        lab4.run(
            InsertSpec(target=f"{lab4.db}.t", source=source),
            on_step=on_step,
            heartbeat_s=0.5,
            allow_unsafe_expressions=True,
        )
    assert "staged" not in steps
    assert lab4.spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert lab4.rows("t") == []
    # The next job's work is not taken for the old one's.
    lab4.insert("t", [(2, "b")], ["id", "name"])
    assert lab4.rows("t") == [(2, "b")]


@pytest.mark.promise("C21")
def test_a_heartbeat_that_finds_the_compaction_cancelled_cancels_the_spark_job(lab4: Lab) -> None:
    table = lab4.table("t", COLUMNS)
    for number in range(3):
        lab4.insert("t", [(number, "a")], ["id", "name"])
    context = lab4.spark.sparkContext
    steps: list[str] = []

    def occupy_all_cores() -> None:
        context.setJobGroup("slow", "so that the compaction waits", interruptOnCancel=True)
        lab4.spark.range(0, 2, 1, 2).selectExpr(
            "reflect('java.lang.Thread', 'sleep', 60000L)"
        ).collect()

    def cancel() -> int:
        with lab4.client.clone() as other:
            give_up_s = time.monotonic() + 30
            while len(context.statusTracker().getActiveJobsIds()) < 2:
                assert time.monotonic() < give_up_s
                time.sleep(0.1)
            return len(cancel_compactions(other, table.ref))

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(occupy_all_cores)
        while not context.statusTracker().getActiveJobsIds():
            assert not slow.done(), slow.exception()
            time.sleep(0.1)
        began_s, cancelled = time.monotonic(), pool.submit(cancel)
        with pytest.raises(CompactionCancelledError, match=r"refused \(cancelled by"):
            lab4.compact("t", CompactionChoice.MAJOR, heartbeat_s=0.5, on_step=steps.append)
        assert time.monotonic() - began_s < 30
        assert cancelled.result() == 1
        assert "staged" not in steps
        assert len(context.statusTracker().getActiveJobsIds()) == 1  # only the slow one
        context.cancelJobGroup("slow")
        assert slow.exception(60) is not None
    assert lab4.client.show_locks(table.ref) == ()
    assert lab4.rows("t") == [(0, "a"), (1, "a"), (2, "a")]
    lab4.compact("t", CompactionChoice.MAJOR)
    assert lab4.rows("t") == [(0, "a"), (1, "a"), (2, "a")]
