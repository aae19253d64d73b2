"""A compaction gives way: an overwrite, a truncate and a drop do not wait for it, nor what follows.

The compaction is stopped with its result staged. What happens then waits for no lock at all
(`lock_timeout_s=0`), so it would fail where the compaction were in its way.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from airflow_hiveacid.format import conflicts
from airflow_hiveacid.format.errors import HiveAcidError, LockNotAcquiredError, TableChangedError
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.statements import InsertMode, InsertSpec, SourceSpec, TruncateSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import TxnType
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.sql.script import read_script
from tests.support.spark_lab import Lab, Row
from tests.support.steps import at
from tests.support.terms import job_terms

COLUMNS = {"id": "bigint"}
NAMES = ["id", "p"]
AT_ONCE = 0.0


def made(lab: Lab) -> None:
    lab.table("t", COLUMNS, partition={"p": "int"})
    for i in (1, 2, 3):
        lab.insert("t", [(i, 1), (10 * i, 2)], NAMES)


def define(lab: Lab, text: str) -> None:
    """Carry out statements on definitions, without waiting for a lock."""
    for statement in read_script(text, lab.db):
        assert isinstance(statement.job, MetastoreStatement)
        run_statement(lab.client, statement.job, job_terms(None, lock_timeout_s=AT_ONCE))


def overwrite(lab: Lab) -> None:
    job = InsertSpec(
        target=f"{lab.db}.t",
        source=SourceSpec(values=((7,),), columns=("id",)),
        mode=InsertMode.OVERWRITE,
        partition={"p": "1"},
    )
    assert lab.run(job, lock_timeout_s=AT_ONCE).status is JobStatus.COMMITTED


def truncate(lab: Lab) -> None:
    job = TruncateSpec(target=f"{lab.db}.t", partition={"p": "1"})
    assert lab.run(job, lock_timeout_s=AT_ONCE).status is JobStatus.COMMITTED


def truncate_in_place(lab: Lab) -> None:
    """What TRUNCATE of Hive 3.1 does: under an exclusive lock files go, without a write ID."""
    table = lab.info("t")
    txn_id = lab.client.open_txn()
    component = LockComponent(
        table=table.ref,
        lock_type=conflicts.LockType.EXCLUSIVE,
        operation=conflicts.DataOperation.UPDATE,
        partition=table.partition_name(["1"]),
        is_transactional=False,
    )
    request = LockRequest(txn_id=txn_id, components=(component,), agent_info="hive")
    assert lab.client.lock(request).state is conflicts.LockState.ACQUIRED
    root = lab.root("t") / "p=1"
    shutil.rmtree(root)
    root.mkdir()
    lab.client.commit_txn(txn_id)


def drop(lab: Lab) -> None:
    define(lab, "ALTER TABLE t DROP PARTITION (p=1)")


def drop_and_make_again(lab: Lab) -> None:
    drop(lab)
    lab.insert("t", [(8, 1)], NAMES, lock_timeout_s=AT_ONCE)


def seen(lab: Lab) -> list[Row]:
    """What a reader sees that waits for no lock."""
    name = f"{lab.db}.t"
    with read_snapshot(
        lab.endpoint, [name], job_key=f"{lab.db}/reader", lock_timeout_s=AT_ONCE
    ) as snapshot:
        return sorted(tuple(row) for row in read_table(lab.spark, name, snapshot).collect())


OTHERS = [(10, 2), (20, 2), (30, 2)]


@pytest.mark.promise("C8")
@pytest.mark.parametrize(
    ("choice", "act", "rows"),
    [
        (CompactionChoice.MINOR, overwrite, [(7, 1)]),
        (CompactionChoice.MAJOR, truncate, []),
        (CompactionChoice.MINOR, truncate_in_place, []),
        (CompactionChoice.MAJOR, drop, []),
        (CompactionChoice.MAJOR, drop_and_make_again, [(8, 1)]),
    ],
)
@pytest.mark.long_cases("3.1.3-*.MAJOR-*", "3.1.3-*.MINOR-truncate*", "4.0.1-*.MAJOR-truncate-*")
def test_neither_an_exclusive_statement_nor_a_later_reader_waits_for_a_compaction(
    lab: Lab, act: Callable[[Lab], None], rows: list[Row], choice: CompactionChoice
) -> None:
    made(lab)
    met: list[list[Row]] = []

    def meet(step: str) -> None:
        if step == "staged":
            met.append(seen(lab))
            act(lab)
            met.append(seen(lab))

    result: JobResult | HiveAcidError
    try:
        result = lab.compact("t", choice, "p=1", on_step=meet)
    except HiveAcidError as error:
        result = error
    if act is drop:
        assert isinstance(result, TableChangedError), result
    else:
        assert not isinstance(result, HiveAcidError), result
        assert result.status is JobStatus.NOTHING_TO_DO
    now = sorted([*rows, *OTHERS])
    assert met == [sorted([(1, 1), (2, 1), (3, 1), *OTHERS]), now]
    assert lab.rows("t") == now
    partition = lab.root("t") / "p=1"
    left = [path.name for path in partition.iterdir()] if partition.exists() else []
    made_by_it = ("_tmp", "delta_0000001_0000003", "base_0000003")
    assert not [name for name in left if name.startswith(made_by_it)]
    assert lab.client.show_locks(lab.info("t").ref) == ()
    if lab.client.generation is conflicts.MetastoreGeneration.V4:
        states = {e.state for e in lab.client.show_compactions(lab.info("t").ref)}
        assert states <= {CompactionState.REFUSED, CompactionState.FAILED}
    # And nothing stands in the way of the next one.
    lab.insert("t", [(100, 1)], NAMES)
    lab.insert("t", [(101, 1)], NAMES)
    again = lab.compact("t", CompactionChoice.MAJOR, "p=1")
    assert again.status is JobStatus.COMMITTED
    lab.clean("t")
    assert lab.rows("t") == sorted([*now, (100, 1), (101, 1)])


@pytest.mark.promise("C8")
@pytest.mark.long_cases("3.1.3")
def test_an_alter_or_drop_of_a_table_does_not_wait_for_a_compaction(lab: Lab) -> None:
    made(lab)
    alter = at("staged", lambda: define(lab, "ALTER TABLE t ADD COLUMNS (more int)"))
    with pytest.raises(TableChangedError, match="columns"):
        lab.compact("t", CompactionChoice.MAJOR, "p=1", on_step=alter)
    assert lab.directories("t", "p=1") == [f"delta_000000{i}_000000{i}_0000" for i in (1, 2, 3)]

    def make_again(step: str) -> None:
        if step == "staged":
            define(lab, "DROP TABLE t")
            lab.table("t", COLUMNS, partition={"p": "int"})
            for i in (4, 5, 6):
                lab.insert("t", [(i, 1)], NAMES)

    # Its directories have the names of those before, and its rows are others.
    with pytest.raises(HiveAcidError):
        lab.compact("t", CompactionChoice.MAJOR, "p=1", on_step=make_again)
    assert lab.rows("t") == [(4, 1), (5, 1), (6, 1)]
    assert lab.directories("t", "p=1") == [f"delta_000000{i}_000000{i}_0000" for i in (1, 2, 3)]


@pytest.mark.long_cases("3.1.3")
def test_a_compaction_that_cannot_publish_withdraws_its_lock_and_can_be_retried(lab: Lab) -> None:
    made(lab)
    table = lab.info("t")
    txn_id = lab.client.open_txn(TxnType.DEFAULT)

    def hold(step: str) -> None:
        if step == "staged":
            component = LockComponent(
                table=table.ref, lock_type=conflicts.LockType.EXCLUSIVE, operation=None
            )
            request = LockRequest(txn_id=txn_id, components=(component,), agent_info="altering")
            assert lab.client.lock(request).state is conflicts.LockState.ACQUIRED

    with pytest.raises(LockNotAcquiredError, match="altering"):
        lab.compact("t", CompactionChoice.MAJOR, "p=1", on_step=hold, lock_timeout_s=1.0)
    assert {lock.txn_id for lock in lab.client.show_locks(table.ref)} == {txn_id}
    lab.client.abort_txn(txn_id)
    result = lab.compact("t", CompactionChoice.MAJOR, "p=1")
    assert result.status is JobStatus.COMMITTED
    assert lab.rows("t") == sorted([(1, 1), (2, 1), (3, 1), *OTHERS])
