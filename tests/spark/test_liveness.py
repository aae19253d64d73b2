"""What becomes of a job's Spark work when its transaction is gone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import TransactionAbortedError
from airflow_hiveacid.jobs.specs.statements import InsertSpec, SourceSpec
from tests.support.fault_cases import COLUMNS

if TYPE_CHECKING:
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
