from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.fencing import abort_job, copies_of
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from tests.contract.bench import Bench, access

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = conflicts.DataOperation
KEY = "flights/scheduled__2013-01-01/merge/-1"
TRY_1 = AttemptId(1, "0" * 12)


def job(
    bench: Bench,
    table: TableInfo,
    operation: conflicts.DataOperation = INSERT,
    *,
    key: str = KEY,
    part: str = "",
    attempt: AttemptId | None = None,
    first_txn_id: ids.TxnId | None = None,
) -> AbstractContextManager[MetastoreTransaction]:
    return bench.begin(
        bench.client(),
        key,
        part=part,
        attempt=attempt or AttemptId.new(),
        writes=[access(table, operation)],
        handover=Handover(bench.client(), first_txn_id) if first_txn_id else None,
    )


@pytest.mark.parametrize("operation", [INSERT, OVERWRITE])
def test_a_newer_copy_of_a_job_aborts_the_older_copy_even_if_it_must_wait_for_its_lock(
    bench: Bench, client: MetastorePort, operation: conflicts.DataOperation
) -> None:
    table = bench.table()

    def older() -> None:
        with job(bench, table, operation) as old:
            with job(bench, table, operation) as new:
                assert new.txn_id > old.txn_id
                assert {lock.txn_id for lock in client.show_locks(table.ref)} == {new.txn_id}
                with pytest.raises(errors.FencedError) as caught:
                    old.register_partitions(table.ref, [], {INSERT})
                assert caught.value.newer_txn_id == new.txn_id
            assert client.valid_txns().is_visible(new.txn_id)

    with pytest.raises(Exception, match="is aborted"):
        older()
    assert client.show_locks(table.ref) == ()
    write_ids = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    assert (write_ids.aborted, write_ids.is_visible(write_ids.high_watermark)) == ((1,), True)


def test_an_older_copy_that_locks_after_the_newer_copy_is_fenced(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    # It opened its transaction, then slept while the newer copy was started.
    sleeper = client.open_txn()
    with job(bench, table) as new:
        with (
            pytest.raises(errors.FencedError) as caught,
            job(bench, table, first_txn_id=sleeper),
        ):
            pytest.fail("the body must not run")
        assert caught.value.newer_txn_id == new.txn_id
        new.ensure_alive()
    client.abort_txn(sleeper)


def test_an_older_copy_that_resumes_after_the_newer_copy_committed_sees_its_write(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    sleeper = client.open_txn()
    with job(bench, table) as new:
        pass
    with job(bench, table, first_txn_id=sleeper) as woken:
        seen = woken.snapshot.write_ids(table.ref)
        assert seen.is_visible(new.write_ids[table.ref])
        woken.abandon()
    client.abort_txn(sleeper)


def test_jobs_with_different_job_keys_do_not_fence_each_other(bench: Bench) -> None:
    table = bench.table()
    with job(bench, table) as one, job(bench, table, key=KEY + "0") as other:
        one.ensure_alive()
        other.ensure_alive()


def test_long_job_keys_that_differ_only_at_their_end_do_not_fence_each_other(bench: Bench) -> None:
    table = bench.table()
    long = "d" * 300
    with job(bench, table, key=long + "1") as one, job(bench, table, key=long + "2") as other:
        one.ensure_alive()
        other.ensure_alive()


@pytest.mark.parametrize("key", ["d" * 300, "täglich/日次/ü"])
def test_a_job_key_of_any_length_and_script_identifies_a_copy(bench: Bench, key: str) -> None:
    table = bench.table()
    with job(bench, table, key=key) as old:
        with job(bench, table, key=key):
            pass
        with pytest.raises(Exception, match="aborted"):
            old.register_partitions(table.ref, [], {INSERT})
        old.abandon()


def test_another_client_can_abort_a_job_by_its_job_key(bench: Bench, client: MetastorePort) -> None:
    table = bench.table()

    def victim() -> None:
        with job(bench, table, OVERWRITE, attempt=TRY_1) as txn:
            assert abort_job(client, KEY, TRY_1, [table.ref]) == (txn.txn_id,)
            assert client.show_locks(table.ref) == ()

    with pytest.raises(Exception, match="is aborted"):
        victim()
    assert abort_job(client, KEY, TRY_1, [table.ref]) == ()


def test_a_job_whose_tables_are_unknown_is_aborted_on_all_of_them(
    bench: Bench, client: MetastorePort
) -> None:
    tables = bench.table("a"), bench.table("b")

    with (
        pytest.raises(Exception, match="is aborted"),
        job(bench, tables[0], OVERWRITE, attempt=TRY_1) as first,
        job(bench, tables[1], OVERWRITE, attempt=TRY_1) as second,
    ):
        assert abort_job(client, KEY, TRY_1, []) == (first.txn_id, second.txn_id)
    assert abort_job(client, KEY, TRY_1, []) == ()


def test_a_job_of_an_unnamed_installation_is_not_a_copy_of_a_job_of_a_named_one(
    bench: Bench,
) -> None:
    table = bench.table()
    with job(bench, table, attempt=AttemptId(3, "3" * 12)) as other:
        with job(bench, table, key=f"{KEY}@blue", attempt=TRY_1) as named:
            other.ensure_alive()
            named.ensure_alive()
        with job(bench, table, key=f"{KEY}@blue", attempt=AttemptId.new(9)):
            other.confirm_alive()


@pytest.mark.parametrize("other", [AttemptId(2, "1" * 12), AttemptId(1, "f" * 12)])
def test_a_late_kill_aborts_neither_a_later_try_nor_a_new_try_with_the_same_number(
    bench: Bench, client: MetastorePort, other: AttemptId
) -> None:
    table = bench.table()
    with job(bench, table, attempt=other) as healthy:
        assert abort_job(client, KEY, TRY_1, [table.ref]) == ()
        healthy.confirm_alive()


def test_a_kill_also_aborts_earlier_tries(bench: Bench, client: MetastorePort) -> None:
    table = bench.table()
    with job(bench, table, attempt=TRY_1) as lost:
        later = AttemptId(2, "1" * 12)
        assert abort_job(client, KEY, later, [table.ref]) == (lost.txn_id,)
        lost.abandon()


def test_a_kill_aborts_only_transactions_on_the_given_tables(
    bench: Bench, client: MetastorePort
) -> None:
    table, other = bench.table(), bench.table("other")
    with job(bench, table, attempt=TRY_1) as txn:
        assert abort_job(client, KEY, TRY_1, [other.ref]) == ()
        txn.confirm_alive()


def test_a_driver_of_an_earlier_try_is_fenced_even_if_it_started_last(bench: Bench) -> None:
    table = bench.table()
    with job(bench, table, attempt=AttemptId(2, "1" * 12)) as newer:
        with pytest.raises(errors.FencedError), job(bench, table, attempt=TRY_1):
            pytest.fail("the body must not run")
        newer.confirm_alive()


def test_parts_of_a_job_run_concurrently_and_are_killed_together(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    with (
        job(bench, table, part="p=1", attempt=TRY_1) as one,
        job(bench, table, part="p=2", attempt=TRY_1) as two,
    ):
        one.ensure_alive()
        with job(bench, table, part="p=1", attempt=TRY_1) as again:
            assert abort_job(client, KEY, TRY_1, [table.ref]) == (two.txn_id, again.txn_id)
            again.abandon()
        one.abandon()
        two.abandon()


def test_a_newer_copy_of_a_reading_job_aborts_the_older_copy(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()

    with (
        pytest.raises(Exception, match="is aborted"),
        bench.begin(client, KEY, reads=[access(table, SELECT)]),
        bench.begin(bench.client(), KEY, reads=[access(table, SELECT)]),
    ):
        pass


def test_a_job_key_with_a_quote_is_no_part_of_the_servers_sql(
    bench: Bench, client: MetastorePort
) -> None:
    key = "bob's \\ day/été\n--"
    table = bench.table()
    with job(bench, table, OVERWRITE, key=key) as mine:
        (lock,) = [lock for lock in client.show_locks(table.ref) if lock.txn_id == mine.txn_id]
        assert copies_of(key, [lock])
