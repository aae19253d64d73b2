"""A job that runs again finds out whether its change is committed, and never guesses."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import CommitStateUnknownError, CorruptFileError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.storage.filesystem import list_table
from airflow_hiveacid.storage.job_ledger import HIDDEN_DIRECTORY, Ledger, LedgerEntry, ledger_name
from unit.storage.orc_tables import ids

if TYPE_CHECKING:
    from pathlib import Path

KEY = "dag/run/task/-1"


def entry(root: Path, *directories: str) -> LedgerEntry:
    return LedgerEntry(
        job_key=KEY,
        txn_id=TxnId(70),
        write_id=WriteId(3),
        directories=tuple(f"file:{root}/{name}" for name in directories),
        result='{"rows": "ä\u2028"}',
        recorded_s=100.5,
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Ledger:
    """A ledger whose one job was about to commit write ID 3, with its directory in place."""
    ledger = Ledger(location=f"file:{tmp_path}")
    ledger.write(entry(tmp_path, "delta_3_3_0"))
    (tmp_path / "delta_3_3_0").mkdir()
    return ledger


def test_a_job_that_never_ran_has_to_be_done(tmp_path: Path) -> None:
    assert Ledger(location=str(tmp_path)).done(KEY, ids(9)) is None


def test_a_prepared_change_is_done_if_its_write_is_committed(
    prepared: Ledger, tmp_path: Path
) -> None:
    assert prepared.done(KEY, ids(9)) == entry(tmp_path, "delta_3_3_0")
    assert prepared.done("dag/run/task/0", ids(9)) is None


def test_a_prepared_change_of_an_open_or_aborted_write_has_to_be_done(prepared: Ledger) -> None:
    assert prepared.done(KEY, ids(9, opened="3")) is None
    assert prepared.done(KEY, ids(9, aborted="3")) is None
    assert prepared.done(KEY, ids(2)) is None


def test_a_prepared_change_whose_directories_are_gone_is_not_guessed_at(
    prepared: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "delta_3_3_0").rmdir()
    with pytest.raises(CommitStateUnknownError, match=ledger_name(KEY)):
        prepared.done(KEY, ids(9))


def test_a_confirmed_change_is_done_whatever_became_of_its_directories(
    prepared: Ledger, tmp_path: Path
) -> None:
    confirmed = replace(entry(tmp_path, "delta_3_3_0"), is_confirmed=True)
    prepared.write(confirmed)
    (tmp_path / "delta_3_3_0").rmdir()
    assert prepared.done(KEY, ids(9)) == confirmed


def test_a_change_that_published_nothing_may_be_done_again(tmp_path: Path) -> None:
    ledger = Ledger(location=str(tmp_path))
    ledger.write(entry(tmp_path))
    assert ledger.done(KEY, ids(9)) is None


def test_a_withdrawn_entry_is_gone_and_withdrawing_twice_is_no_error(prepared: Ledger) -> None:
    prepared.withdraw(KEY)
    prepared.withdraw(KEY)
    assert prepared.read(KEY) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "odd": 1}'])
def test_an_unreadable_entry_is_an_error_since_the_work_may_be_done(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / HIDDEN_DIRECTORY).mkdir()
    (tmp_path / HIDDEN_DIRECTORY / ledger_name(KEY)).write_text(text)
    with pytest.raises(CorruptFileError):
        Ledger(location=str(tmp_path)).done(KEY, ids(9))


def test_no_reader_looks_at_the_ledger(prepared: Ledger, tmp_path: Path) -> None:
    listing = list_table(prepared.location)
    assert listing.files == ()
    assert set(listing.directories) == {HIDDEN_DIRECTORY, "delta_3_3_0"}
    assert all(p.name.startswith("_") for p in (tmp_path / HIDDEN_DIRECTORY).iterdir())


def test_entries_are_told_by_age(prepared: Ledger, tmp_path: Path) -> None:
    os.utime(tmp_path / HIDDEN_DIRECTORY / ledger_name(KEY), (1000, 1000))
    assert list(prepared.older_than(1000)) == []
    assert list(prepared.older_than(1001)) == [
        f"file:{tmp_path}/{HIDDEN_DIRECTORY}/{ledger_name(KEY)}"
    ]
    assert list(Ledger(location=f"{tmp_path}/nothing").older_than(1001)) == []
