"""Files that a compaction replaced, while real readers of other engines still need them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from tests.judges.engine import HiveJudge
from tests.judges.line_process import JudgeError
from tests.judges.trino import TrinoJudge
from tests.support.spark_lab import Lab

CHOICES = [CompactionChoice.MINOR, CompactionChoice.MAJOR]
_PATIENCE_S = 120.0


def filled(lab: Lab) -> set[str]:
    """Make a table of three deltas; return their names."""
    lab.table("t", {"id": "bigint"})
    for value in (1, 2, 3):
        lab.insert("t", [(value,)], ["id"])
    return set(lab.directories("t"))


def reader_of(lab: Lab) -> TxnId:
    """Wait for the transaction of a query that holds its lock on the table."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        for lock in lab.client.show_locks(lab.info("t").ref):
            if lock.txn_id is not None:
                return lock.txn_id
        assert time.monotonic() < give_up_s
        time.sleep(0.2)


def check_kept(lab: Lab, inputs: set[str], reader: TxnId, choice: CompactionChoice) -> None:
    lab.compact("t", choice)
    result: Any = lab.clean("t").details["cleanings"]
    assert inputs < set(lab.directories("t"))
    reasons = {kept["why"] for outcome in result for kept in outcome["kept"]}
    assert reasons
    assert all(why.startswith(f"transaction {reader}") and "lock on" in why for why in reasons)


def check_removed(lab: Lab, inputs: set[str]) -> None:
    lab.clean("t")
    assert not inputs & set(lab.directories("t"))
    assert lab.rows("t") == [(1,), (2,), (3,)]


@pytest.mark.promise("L8")
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.value)
def test_replaced_files_stay_until_a_query_of_hive_ends(
    lab4: Lab, hive_judge: HiveJudge, choice: CompactionChoice
) -> None:
    inputs = filled(lab4)
    hive_judge.begin("reader", f"select id from {lab4.db}.t where id > 0")
    check_kept(lab4, inputs, reader_of(lab4), choice)
    hive_judge.end("reader", commit=True)
    check_removed(lab4, inputs)


@pytest.mark.judge
@pytest.mark.long
@pytest.mark.promise("L8")
def test_replaced_files_stay_until_a_query_of_trino_ends(
    lab4: Lab, hive_metastore: LocalMetastore
) -> None:
    inputs = filled(lab4)
    with TrinoJudge(hive_metastore.uri) as trino:
        # The query never ends by itself.
        many = " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) AS u{n} (x{n})" for n in range(6))

        def read() -> None:
            with contextlib.suppress(JudgeError, ValueError, OSError):  # the judge is closed
                trino.execute(f"SELECT count(*) FROM {lab4.db}.t CROSS JOIN {many} WHERE id > x0")

        query = threading.Thread(target=read, daemon=True)
        query.start()
        reader = reader_of(lab4)
        for choice in CHOICES:
            check_kept(lab4, inputs, reader, choice)
    query.join(_PATIENCE_S)
    lab4.client.abort_txn(reader)
    check_removed(lab4, inputs)
