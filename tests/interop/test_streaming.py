"""Tables that Hive's streaming ingest writes: rows of its aborted transactions are never seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.results import JobStatus
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice
from tests.contract.bench import wait_until

if TYPE_CHECKING:
    from tests.judges.engine import HiveJudge
    from tests.support.spark_lab import Lab


@pytest.mark.judge
def test_rows_of_an_aborted_streaming_transaction_are_never_read(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    lab4.table("t", {"id": "bigint", "name": "string"})
    lab4.insert("t", [(1, "before")], ["id", "name"])
    hive_judge.stream("open", db=lab4.db, table="t", txns=3)
    hive_judge.stream("write", rows=1, commit=True)
    hive_judge.stream("write", rows=2, commit=False)
    hive_judge.stream("write", rows=1, commit=True)
    hive_judge.stream("close")
    # The metastore forgets an aborted transaction that wrote nothing, unless it is the newest.
    empty = lab4.client.open_txn()
    lab4.client.abort_txn(empty)
    lab4.client.abort_txn(lab4.client.open_txn())
    wait_until(lambda: empty not in lab4.client.valid_txns().aborted, timeout_s=60.0)
    ref = lab4.info("t").ref
    assert lab4.client.valid_write_ids([ref], lab4.client.valid_txns())[ref].aborted == (3,)
    rows = [(1, "before"), (200, "streamed 0"), (400, "streamed 0")]
    query = f"select id, name from {ref} order by id"
    for choice in (None, CompactionChoice.MINOR, CompactionChoice.MAJOR):
        if choice is not None:
            assert lab4.compact("t", choice).status is JobStatus.COMMITTED
            lab4.clean("t")
            lab4.insert("t", [(1, "before")], ["id", "name"])
            rows = sorted([*rows, (1, "before")])
        assert lab4.rows("t") == rows
        assert [tuple(row) for row in hive_judge.execute(query)] == rows
