from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format.errors import FencedError, RerunRefusedError, StatementChangedError
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.plan.reruns import Batch, Run, earlier_run

TABLE = TableInfo(ref=TableRef("d", "t"), location="file:/t", columns=())
ATTEMPT = AttemptId(1, "0" * 12)
RUN = Run(generation=1, statement={"where": "1a", "kind": "2b"})
NOW = TxnId(50)


def entry(generation: int, *, txn_id: int = 9, where: str = "1a") -> LedgerEntry:
    return LedgerEntry(
        job_key="k",
        generation=generation,
        attempt=ATTEMPT,
        statement={"where": where, "kind": "2b"},
        table_id="7.1",
        txn_id=TxnId(txn_id),
        write_id=WriteId(5),
        directories=("file:/t/delta_5_5",),
        result="{}",
        recorded_s=float(txn_id),
        retention_s=100.0,
        is_confirmed=True,
    )


def test_a_damaged_ledger_note_is_not_reported_as_a_changed_statement() -> None:
    damaged = replace(entry(1), statement={}, is_legible=False)
    assert earlier_run(RUN, [damaged], TABLE, NOW) == damaged


def test_a_job_without_a_ledger_entry_runs() -> None:
    assert earlier_run(RUN, [], TABLE, NOW) is None


@pytest.mark.parametrize("on_rerun", OnRerun)
def test_a_retry_never_applies_its_change_twice(on_rerun: OnRerun) -> None:
    run = replace(RUN, on_rerun=on_rerun)
    assert earlier_run(run, [entry(0, txn_id=3), entry(1)], TABLE, NOW) == entry(1)


def test_a_cleared_task_applies_its_change_again_by_default() -> None:
    assert earlier_run(RUN, [entry(0)], TABLE, NOW) is None


def test_a_cleared_task_may_skip_a_change_that_was_applied() -> None:
    run = replace(RUN, on_rerun=OnRerun.SKIP)
    last = entry(0, txn_id=12)
    assert earlier_run(run, [entry(0), last], TABLE, NOW) == last


def test_a_cleared_task_may_fail_if_its_change_was_applied() -> None:
    run = replace(RUN, on_rerun=OnRerun.FAIL)
    with pytest.raises(RerunRefusedError, match=r"transaction 9 at 1970-01-01 00:00:09 UTC"):
        earlier_run(run, [entry(0)], TABLE, NOW)


def test_a_retry_with_a_changed_statement_fails_and_names_the_difference() -> None:
    with pytest.raises(StatementChangedError, match="with a different where") as caught:
        earlier_run(RUN, [entry(1, where="3c")], TABLE, NOW)
    assert caught.value.differing == ("where",)


def test_a_newer_generation_counts_even_if_an_older_one_was_recorded_later() -> None:
    with pytest.raises(FencedError):
        earlier_run(RUN, [entry(2, txn_id=20), entry(1, txn_id=21)], TABLE, NOW)


def test_a_part_that_only_one_statement_has_is_reported_as_a_difference() -> None:
    shorter = replace(RUN, statement={"kind": "2b"})
    with pytest.raises(StatementChangedError) as caught:
        earlier_run(shorter, [entry(1)], TABLE, NOW)
    assert caught.value.differing == ("where",)


def test_a_cleared_task_may_apply_a_changed_statement() -> None:
    assert earlier_run(RUN, [entry(0, where="3c")], TABLE, NOW) is None


def test_an_older_copy_is_fenced_after_a_later_generation() -> None:
    with pytest.raises(FencedError):
        earlier_run(RUN, [entry(2, txn_id=20)], TABLE, NOW)


@pytest.mark.parametrize("on_rerun", OnRerun)
def test_a_doubtful_entry_is_returned_before_any_other_check_raises(on_rerun: OnRerun) -> None:
    run = replace(RUN, on_rerun=on_rerun)
    for generation in (1, 2):
        doubtful = replace(entry(generation, where="3c"), doubt="the metastore says no")
        assert earlier_run(run, [doubtful], TABLE, NOW) == doubtful


def test_a_task_that_runs_again_when_cleared_ignores_older_doubtful_entries() -> None:
    doubtful = replace(entry(0), doubt="the metastore says no")
    assert earlier_run(RUN, [doubtful], TABLE, NOW) is None
    assert earlier_run(replace(RUN, on_rerun=OnRerun.FAIL), [doubtful], TABLE, NOW) == doubtful


def test_a_proven_entry_counts_before_a_doubtful_entry() -> None:
    doubtful = replace(entry(1, txn_id=20), doubt="the metastore says no")
    assert earlier_run(RUN, [entry(1), doubtful], TABLE, NOW) == entry(1)


def test_a_confirmed_entry_counts_before_a_later_unconfirmed_entry() -> None:
    noted = replace(entry(1, txn_id=20), is_confirmed=False)
    assert earlier_run(RUN, [entry(1), noted], TABLE, NOW) == entry(1)


def test_a_cleared_task_fails_instead_of_skipping_a_changed_statement() -> None:
    run = replace(RUN, on_rerun=OnRerun.SKIP)
    with pytest.raises(StatementChangedError, match="with a different where"):
        earlier_run(run, [entry(0, where="3c")], TABLE, NOW)


BATCH = replace(RUN, batch=Batch(previous_txn_id=TxnId(3)))


def test_a_batch_is_needed_if_it_follows_the_batch_that_its_copy_knows() -> None:
    start_of_another_copy = replace(entry(0, txn_id=4), directories=())
    assert earlier_run(BATCH, [entry(0, txn_id=3), start_of_another_copy], TABLE, NOW) is None
    assert earlier_run(BATCH, [entry(0, txn_id=3), entry(1)], TABLE, NOW) == entry(1)


@pytest.mark.parametrize(
    "other", [entry(0, txn_id=4), entry(1, where="3c"), entry(2)], ids=["before", "same", "newer"]
)
def test_a_batch_ends_if_another_copy_has_committed_rows(other: LedgerEntry) -> None:
    with pytest.raises(FencedError) as error:
        earlier_run(BATCH, [entry(0, txn_id=3), other], TABLE, NOW)
    assert error.value.newer_txn_id == other.txn_id


def test_a_checkpoint_fixes_what_a_batch_contains() -> None:
    batch = replace(RUN, batch=Batch(previous_txn_id=None))
    assert earlier_run(batch, [entry(0, txn_id=4)], TABLE, NOW) is None


def test_a_batch_ends_if_the_numbers_began_again_in_a_table_that_was_made_again() -> None:
    batch = replace(BATCH, generation=7)
    assert earlier_run(batch, [entry(2, txn_id=2)], TABLE, NOW) is None
    started = replace(entry(0, txn_id=8), directories=())
    for other in (started, entry(2, txn_id=9)):
        with pytest.raises(FencedError):
            earlier_run(batch, [other], TABLE, NOW)


@pytest.mark.parametrize("previous", [TxnId(3), None])
def test_a_batch_does_not_follow_a_batch_that_the_metastore_does_not_know(
    previous: TxnId | None,
) -> None:
    doubtful = replace(entry(0, txn_id=3), doubt="the metastore was restored")
    batch = replace(RUN, batch=Batch(previous_txn_id=previous))
    assert earlier_run(batch, [doubtful], TABLE, NOW) == doubtful
    assert earlier_run(RUN, [doubtful], TABLE, NOW) is None
