from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import CommitStateUnknownError, CorruptFileError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.job_ledger import (
    HIDDEN_DIRECTORY,
    Ledger,
    LedgerEntry,
    ledger_name,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY = "dag/run/task/-1"
MAX = 9223372036854775807


def entry(root: Path, *, confirmed: bool = False, directories: tuple[str, ...] = ()) -> LedgerEntry:
    return LedgerEntry(
        job_key=KEY,
        txn_id=TxnId(9),
        write_id=WriteId(5),
        directories=directories or (f"file:{root}/delta_0000005_0000005_0000",),
        result="{}",
        recorded_s=1.0,
        is_confirmed=confirmed,
    )


def ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"d.t:{text}")


COMMITTED, OPEN, ABORTED = ids(f"5:{MAX}::"), ids("5:5:5:"), ids(f"5:{MAX}::5")


def test_a_job_without_an_entry_is_to_be_done(tmp_path: Path) -> None:
    assert Ledger(location=str(tmp_path)).done(KEY, COMMITTED) is None


@pytest.mark.promise("A7")
def test_a_confirmed_entry_says_that_the_job_is_done_whatever_became_of_its_files(
    tmp_path: Path,
) -> None:
    ledger = Ledger(location=str(tmp_path))
    ledger.write(entry(tmp_path, confirmed=True))
    for write_ids in (COMMITTED, ABORTED):
        found = ledger.done(KEY, write_ids)
        assert found == entry(tmp_path, confirmed=True)


def test_a_prepared_entry_counts_if_its_write_id_is_visible_and_a_directory_is_there(
    tmp_path: Path,
) -> None:
    ledger = Ledger(location=str(tmp_path))
    ledger.write(entry(tmp_path))
    (tmp_path / "delta_0000005_0000005_0000").mkdir()
    assert ledger.done(KEY, COMMITTED) == entry(tmp_path)
    assert ledger.done(KEY, OPEN) is None
    assert ledger.done(KEY, ABORTED) is None


def test_a_prepared_entry_whose_directories_are_gone_is_not_guessed_about(tmp_path: Path) -> None:
    ledger = Ledger(location=str(tmp_path))
    ledger.write(entry(tmp_path))
    with pytest.raises(CommitStateUnknownError, match="compacted after a commit, or cleaned"):
        ledger.done(KEY, COMMITTED)


def test_an_unreadable_entry_is_never_passed_over(tmp_path: Path) -> None:
    hidden = tmp_path / HIDDEN_DIRECTORY
    hidden.mkdir()
    (hidden / ledger_name(KEY)).write_text("{")
    with pytest.raises(CorruptFileError, match="not a ledger entry"):
        Ledger(location=str(tmp_path)).done(KEY, COMMITTED)


def test_withdrawing_forgets_and_old_entries_are_found_by_age(tmp_path: Path) -> None:
    ledger = Ledger(location=str(tmp_path))
    ledger.write(entry(tmp_path))
    assert len(list(ledger.older_than(1e12))) == 1
    assert list(ledger.older_than(0.0)) == []
    ledger.withdraw(KEY)
    ledger.withdraw(KEY)
    assert ledger.read(KEY) is None
