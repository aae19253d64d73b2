from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import LedgerRollError, StorageError
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.storage.stores import job_ledger, json_files
from airflow_hiveacid.storage.stores.filesystem import ASIDE_PREFIX
from airflow_hiveacid.storage.stores.job_ledger import (
    Ledger,
    abandoned,
    committed,
    entry_name,
    parse_entry,
)
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY, Line, packed, table_digest
from tests.support.ledger_entries import ledger_entry

KEY = "dag/run/task/-1"
MAX = 9223372036854775807
TABLE = TableRef("d", "t")
FIRST, SECOND = AttemptId(1, "0" * 12), AttemptId(2, "1" * 12)
PREPARED = ledger_entry(directories=("file:/t/delta_0000005_0000005_0000",))
DONE = replace(PREPARED, is_confirmed=True)


def entry(root: Path, **other: Any) -> LedgerEntry:  # noqa: ANN401
    """An attempt of the job with a directory below a root."""
    return ledger_entry(directories=(f"file:{root}/delta_0000005_0000005_0000",), **other)


def ledger_of(root: Path) -> Ledger:
    return Ledger(location=str(root), table_id="7.1")


def ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"d.t:{text}")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return ledger_of(tmp_path)


TXNS = ValidTxnList(high_watermark=TxnId(20))
COMMITTED, OPEN, ABORTED = ids(f"5:{MAX}::"), ids("5:5:5:"), ids(f"5:{MAX}::5")


def test_a_job_without_an_entry_is_not_committed(tmp_path: Path) -> None:
    assert committed(ledger_of(tmp_path).entries(KEY), COMMITTED, TXNS) == ()


def test_a_confirmed_entry_is_committed_even_without_its_files(ledger: Ledger) -> None:
    ledger.write(DONE)
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (DONE,)
    assert ledger.is_certain(DONE)


GIVEN_LESS = ids(f"4:{MAX}::")


@pytest.mark.parametrize(
    ("write_ids", "txns", "why"),
    [
        (ABORTED, TXNS, "write ID 5 was committed, but the metastore lists it as aborted"),
        (OPEN, TXNS, "write ID 5 was committed, but the metastore lists it as open"),
        (GIVEN_LESS, TXNS, "allocated write IDs of the table only up to 4"),
        (COMMITTED, ValidTxnList(high_watermark=TxnId(8)), "allocated transactions only up to 8"),
        (COMMITTED, replace(TXNS, open=(TxnId(9),)), "transaction 9 .* lists it as open"),
        (COMMITTED, replace(TXNS, aborted=(TxnId(9),)), "transaction 9 .* lists it as aborted"),
    ],
)
def test_a_confirmed_entry_that_the_metastore_contradicts_is_in_doubt(
    ledger: Ledger, write_ids: ValidWriteIdList, txns: ValidTxnList, why: str
) -> None:
    ledger.write(PREPARED)
    ledger.write(DONE)
    (found,) = committed(ledger.entries(KEY), write_ids, txns)
    assert re.search(why, found.doubt)
    assert not ledger.is_certain(found)


def test_an_entry_with_the_content_of_a_different_job_or_table_is_damaged(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(DONE)
    file = tmp_path / HIDDEN_DIRECTORY / entry_name(DONE)
    for wrong in ({"job_key": "another/run/task/-1"}, {"table_id": "8.2"}):
        file.write_text(json.dumps({**json.loads(file.read_text()), **wrong}))
        (found,) = committed(ledger.entries(KEY), COMMITTED, TXNS)
        assert (found.job_key, found.is_legible) == (KEY, False)
        assert not ledger.is_certain(found)


def test_a_prepared_entry_is_committed_if_its_write_id_is_visible(ledger: Ledger) -> None:
    ledger.write(PREPARED)
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (PREPARED,)
    assert committed(ledger.entries(KEY), OPEN, TXNS) == ()
    assert committed(ledger.entries(KEY), ABORTED, TXNS) == ()


def test_a_prepared_entry_is_certain_only_while_one_of_its_directories_exists(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(entry(tmp_path))
    assert not ledger.is_certain(entry(tmp_path))
    (tmp_path / "delta_0000005_0000005_0000").mkdir()
    assert ledger.is_certain(entry(tmp_path))
    # Of two, one may have been compacted away: the other tells as well.
    both = (*entry(tmp_path).directories, f"file:{tmp_path}/delete_delta_0000005_0000005_0000")
    assert ledger.is_certain(replace(entry(tmp_path), directories=both))
    assert ledger.is_certain(replace(entry(tmp_path), directories=both[::-1]))


@pytest.mark.parametrize(
    ("write_ids", "txns", "directory", "is_confirmed"),
    [
        (COMMITTED, TXNS, "delta_0000005_0000005_0000", True),
        (COMMITTED, TXNS, "delta_0000006_0000006_0000", False),
        (ABORTED, TXNS, "delta_0000005_0000005_0000", False),
        (OPEN, TXNS, "delta_0000005_0000005_0000", False),
        (COMMITTED, replace(TXNS, open=(TxnId(9),)), "delta_0000005_0000005_0000", False),
        (COMMITTED, replace(TXNS, aborted=(TxnId(9),)), "delta_0000005_0000005_0000", False),
    ],
)
def test_a_prepared_entry_is_confirmed_only_if_it_is_committed_and_its_directory_is_given(
    ledger: Ledger,
    tmp_path: Path,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    directory: str,
    *,
    is_confirmed: bool,
) -> None:
    ledger.write(entry(tmp_path))
    ledger.confirm_committed(
        ledger.unconfirmed(txns), {f"file:{tmp_path}/{directory}"}, write_ids, txns
    )
    confirmed = [e for e in ledger.entries(KEY) if e.is_confirmed]
    assert confirmed == ([entry(tmp_path, is_confirmed=True)] if is_confirmed else [])


def test_confirmed_damaged_and_foreign_entries_are_not_reported_as_unconfirmed(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(PREPARED)
    ledger.write(DONE)
    ledger.write(replace(PREPARED, job_key="another", table_id="8.2"))
    damaged = replace(PREPARED, job_key="a third")
    ledger.write(damaged)
    (tmp_path / HIDDEN_DIRECTORY / entry_name(damaged)).write_text("{")
    assert ledger.unconfirmed(TXNS) == ()


def test_a_prepared_entry_without_directories_is_not_committed(ledger: Ledger) -> None:
    ledger.write(replace(PREPARED, directories=()))
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == ()


def test_a_confirmed_entry_takes_precedence_over_its_prepared_entry(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(PREPARED)
    ledger.write(DONE)
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (DONE,)
    assert len(list((tmp_path / HIDDEN_DIRECTORY).iterdir())) == 2


def test_an_attempt_neither_replaces_nor_withdraws_the_entry_of_a_later_attempt(
    ledger: Ledger,
) -> None:
    done = replace(DONE, attempt=SECOND, txn_id=TxnId(10))
    ledger.write(done)
    zombie = PREPARED
    ledger.write(zombie)
    ledger.withdraw(zombie)
    assert ledger.entries(KEY) == (done,)


def tear(root: Path, torn: LedgerEntry) -> None:
    file = root / HIDDEN_DIRECTORY / entry_name(torn)
    file.write_text(file.read_text()[:40])


def test_a_truncated_confirmation_is_completed_from_its_prepared_entry(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.write(PREPARED)
    ledger.write(DONE)
    tear(tmp_path, DONE)
    (found,) = committed(ledger.entries(KEY), COMMITTED, TXNS)
    assert found == DONE
    assert ledger.is_certain(found)
    assert "only its name can be read" in caplog.text


def test_a_truncated_confirmation_that_the_metastore_contradicts_is_in_doubt(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(PREPARED)
    ledger.write(DONE)
    tear(tmp_path, DONE)
    (found,) = committed(ledger.entries(KEY), ABORTED, TXNS)
    assert "write ID 5 was committed" in found.doubt
    assert not ledger.is_certain(found)


def test_a_truncated_confirmation_does_not_affect_the_entry_of_a_different_attempt(
    ledger: Ledger, tmp_path: Path
) -> None:
    other = replace(PREPARED, attempt=SECOND, txn_id=TxnId(10), write_id=WriteId(6))
    ledger.write(other)
    ledger.write(DONE)
    tear(tmp_path, DONE)
    both = {e.txn_id: e for e in committed(ledger.entries(KEY), ids(f"6:{MAX}::"), TXNS)}
    assert both[TxnId(10)] == other
    assert (both[TxnId(9)].attempt, both[TxnId(9)].is_legible) == (FIRST, False)


def test_a_truncated_confirmation_alone_shows_only_that_the_job_was_committed(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(DONE)
    tear(tmp_path, DONE)
    (found,) = committed(ledger.entries(KEY), ABORTED, TXNS)
    assert (found.generation, found.attempt, found.txn_id) == (0, FIRST, 9)
    assert not found.is_legible
    assert not ledger.is_certain(found)


@pytest.mark.parametrize(
    ("txns", "count"), [(TXNS, 1), (replace(TXNS, open=(9,)), 0), (replace(TXNS, aborted=(9,)), 0)]
)
def test_a_truncated_prepared_entry_counts_unless_its_transaction_is_open_or_aborted(
    ledger: Ledger, tmp_path: Path, txns: ValidTxnList, count: int
) -> None:
    ledger.write(PREPARED)
    tear(tmp_path, PREPARED)
    assert len(committed(ledger.entries(KEY), COMMITTED, txns)) == count


def test_a_truncated_prepared_entry_of_an_aborted_transaction_can_be_withdrawn(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(PREPARED)
    tear(tmp_path, PREPARED)
    txns = replace(TXNS, aborted=(TxnId(9),))
    snapshot = Snapshot(txn_id=None, txns=txns, tables={TABLE: COMMITTED})
    (dead,) = abandoned(ledger.entries(KEY), TABLE, snapshot)
    ledger.withdraw(dead)
    assert ledger.entries(KEY) == ()


def test_only_the_name_of_an_entry_of_an_unknown_version_is_used(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(DONE)
    file = next((tmp_path / HIDDEN_DIRECTORY).iterdir())
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    assert [e.is_legible for e in ledger.entries(KEY)] == [False]


def test_every_release_reads_the_entries_of_the_first_one() -> None:
    """Streams keep them for ten years. A new field needs a value for entries that lack it."""
    first = {
        "job_key": "stream/clicks",
        "generation": 4,
        "attempt": "0-0123456789ab",
        "statement": {"kind": "516290ae809d70f7"},
        "table_id": "1790001000.1",
        "txn_id": 2,
        "write_id": 2,
        "directories": [],
        "result": '{"details": {"batch": {"number": 4, "offsets": 8}}}',
        "recorded_s": 1790001000.5,
        "retention_s": 315360000.0,
        "is_confirmed": True,
        "version": 2,
    }
    assert parse_entry(json.dumps(first).encode(), "path").generation == 4


def test_a_recreated_table_ignores_the_ledger_of_its_predecessor(tmp_path: Path) -> None:
    ledger_of(tmp_path).write(DONE)
    assert (
        committed(Ledger(location=str(tmp_path), table_id="8.2").entries(KEY), COMMITTED, TXNS)
        == ()
    )


def test_a_failed_write_leaves_no_partial_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "airflow_hiveacid.storage.stores.filesystem.move", lambda *_: (_ for _ in ()).throw(OSError)
    )
    with pytest.raises(OSError):  # noqa: PT011 - the one that was planted
        ledger_of(tmp_path).write(PREPARED)
    assert list((tmp_path / HIDDEN_DIRECTORY).iterdir()) == []


def test_only_entries_of_aborted_transactions_are_abandoned(ledger: Ledger) -> None:
    ledger.write(PREPARED)

    def snapshot(
        write_ids: ValidWriteIdList, aborted: tuple[TxnId, ...], opened: tuple[TxnId, ...] = ()
    ) -> Snapshot:
        txns = ValidTxnList(high_watermark=TxnId(12), open=opened, aborted=aborted)
        return Snapshot(txn_id=None, txns=txns, tables={TABLE: write_ids})

    gone = (TxnId(9),)
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(ABORTED, gone)) == (PREPARED,)
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(COMMITTED, gone)) == ()
    # An attempt that still runs may commit what it has published.
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(OPEN, (), opened=gone)) == ()
    # A running transaction has the write ID that the entry claims, so its files must stay.
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(OPEN, gone, opened=(TxnId(8),))) == ()
    # Write IDs that began anew: the number means somebody else's work.
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(ABORTED, ())) == ()


def test_pruning_removes_old_entries_and_nothing_else(ledger: Ledger, tmp_path: Path) -> None:
    old, young = PREPARED, DONE
    ledger.write(old)
    ledger.write(young)
    hidden = tmp_path / HIDDEN_DIRECTORY
    note = hidden / "_compaction_7.json"
    note.write_text("{}")
    for file in (note, hidden / entry_name(old)):
        os.utime(file, (100, 100))
    assert ledger.prune(1200.0, 1000.0) == 1
    assert {f.name for f in hidden.iterdir()} == {note.name, entry_name(young)}


def test_pruning_respects_the_longer_retention_of_a_different_job(
    ledger: Ledger, tmp_path: Path
) -> None:
    patient = replace(DONE, retention_s=10_000.0)
    ledger.write(patient)
    os.utime(tmp_path / HIDDEN_DIRECTORY / entry_name(patient), (100, 100))
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert ledger.prune(now_s=1200.0, retention_s=60.0) == 0
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (patient,)
    assert ledger.prune(now_s=12_000.0, retention_s=60.0) == 1


def test_pruning_by_a_clock_that_is_a_month_ahead_removes_nothing(ledger: Ledger) -> None:
    ledger.write(done := DONE)
    assert ledger.prune(now_s=time.time() + 31 * 86_400, retention_s=30 * 86_400) == 0
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (done,)


def test_an_entry_written_by_a_slow_clock_is_kept_for_its_full_retention(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.write(DONE)  # recorded in 1970, by its own account
    hidden = tmp_path / HIDDEN_DIRECTORY
    os.utime(hidden / entry_name(DONE), (5000, 5000))
    (hidden / "_written_now").touch()
    assert ledger.prune(now_s=5090.0, retention_s=60.0) == 0
    assert ledger.prune(now_s=5200.0, retention_s=60.0) == 1


def test_an_entry_that_cannot_be_read_raises_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger_of(tmp_path).write(DONE)

    def fail(*_: object) -> bytes:
        raise StorageError("the disk does not answer")

    monkeypatch.setattr(json_files, "read_bytes", fail)
    with pytest.raises(StorageError, match="does not answer"):
        committed(ledger_of(tmp_path).entries(KEY), COMMITTED, TXNS)


def test_incomplete_files_of_a_killed_writer_are_pruned(tmp_path: Path) -> None:
    half = tmp_path / HIDDEN_DIRECTORY / f"{ASIDE_PREFIX}00"
    half.parent.mkdir()
    half.write_text("{")
    os.utime(half, (100, 100))
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert ledger_of(tmp_path).prune(now_s=1050.0, retention_s=1000.0) == 0
    assert ledger_of(tmp_path).prune(now_s=1200.0, retention_s=1000.0) == 1
    assert not half.exists()


def test_each_job_prunes_only_a_limited_number_of_old_entries(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ledger, "_MOST_PRUNED", 3)
    for number in range(7):
        ledger.write(replace(PREPARED, txn_id=TxnId(number), retention_s=0.0))
    for file in (tmp_path / HIDDEN_DIRECTORY).iterdir():
        os.utime(file, (1.0, 1.0))
    ledger.write(replace(PREPARED, txn_id=TxnId(99)))
    assert [ledger.prune(time.time(), 10.0) for _ in range(4)] == [3, 3, 1, 0]
    assert [found.txn_id for found in ledger.entries(KEY)] == [99]


@pytest.mark.parametrize(
    ("txns", "count"), [(TXNS, 1), (replace(TXNS, open=(9,)), 0), (replace(TXNS, aborted=(9,)), 0)]
)
def test_an_entry_with_a_write_id_above_the_list_counts_if_its_transaction_is_committed(
    ledger: Ledger, txns: ValidTxnList, count: int
) -> None:
    """4.0.1 may end its list below what a transaction committed that had begun earlier."""
    ledger.write(PREPARED)
    assert len(committed(ledger.entries(KEY), ids(f"4:{MAX}::"), txns)) == count


# ---- many entries in one file --------------------------------------------------------------------


def rolled(root: Path, monkeypatch: pytest.MonkeyPatch, *, retention_s: float = 100.0) -> Ledger:
    """Two confirmed entries in a roll, and one more attempt that is only prepared."""
    monkeypatch.setattr(job_ledger, "_ROLL_AT", 2)
    ledger = ledger_of(root)
    for number, key in enumerate((KEY, "another")):
        done = replace(
            entry(root, is_confirmed=True),
            job_key=key,
            txn_id=TxnId(9 + number),
            write_id=WriteId(5 + number),
            retention_s=retention_s,
        )
        ledger.write(replace(done, is_confirmed=False))
        ledger.write(done)
    ledger.write(replace(entry(root, attempt=SECOND), txn_id=TxnId(20)))
    ledger.tidy(time.time(), 0.0)
    return ledger


def test_rolled_entries_are_found_and_their_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = rolled(tmp_path, monkeypatch)
    names = sorted(p.name for p in (tmp_path / HIDDEN_DIRECTORY).iterdir())
    assert [name.startswith("_rolled_") for name in names].count(True) == 1
    assert [name.endswith(".prepared.json") for name in names].count(True) == 1
    assert len(names) == 2
    found = ledger.entries(KEY)
    assert [(e.txn_id, e.is_confirmed) for e in found] == [(20, False), (9, True)]
    assert [e.txn_id for e in ledger.entries("another")] == [10]
    assert ledger.entries("a third") == ()
    of_txn, of_write = (
        ledger.entry_of(txn_id=10, write_id=None),
        ledger.entry_of(txn_id=None, write_id=6),
    )
    assert of_txn == of_write
    assert of_txn is not None
    assert of_txn.job_key == "another"
    assert Ledger(location=str(tmp_path), table_id="8.1").entries(KEY) == ()


def test_a_file_that_is_only_named_like_a_roll_is_a_damaged_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = rolled(tmp_path, monkeypatch)
    foreign = tmp_path / HIDDEN_DIRECTORY / f"_rolled_{table_digest(ledger.table_id)}.5"
    foreign.write_bytes(b"x")
    ledger.tidy(time.time(), 0.0)  # it does not count as one of the small rolls
    with pytest.raises(LedgerRollError, match=foreign.name):
        ledger.entries(KEY)


def test_a_damaged_roll_raises_an_error_that_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = rolled(tmp_path, monkeypatch)
    (roll,) = (tmp_path / HIDDEN_DIRECTORY).glob("_rolled_*")
    roll.write_bytes(roll.read_bytes()[:-9])
    with pytest.raises(LedgerRollError) as caught:
        ledger.entries(KEY)
    assert str(caught.value).startswith(f"{roll} is damaged: not a roll of ledger entries: ")
    assert "move the file out of its directory" in str(caught.value)
    roll.rename(tmp_path / "moved_away")
    assert [e.txn_id for e in ledger.entries(KEY)] == [20]
    (tmp_path / "moved_away").rename(roll)
    roll.write_bytes(packed([]))  # whole, and without an entry
    assert [e.txn_id for e in ledger.entries(KEY)] == [20]


@pytest.mark.parametrize("damage", ["torn", "of another job", "of another version"])
def test_an_intact_entry_in_a_roll_takes_precedence_over_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A job that died while it rolled up has left it, and a disk has damaged it since."""
    ledger = rolled(tmp_path, monkeypatch)
    whole = entry(tmp_path, is_confirmed=True)
    file = tmp_path / HIDDEN_DIRECTORY / entry_name(whole)
    ledger.write(whole)
    text = json.loads(file.read_text())
    changed = {"of another job": {"job_key": "x"}, "of another version": {"version": 99}}
    file.write_text("{" if damage == "torn" else json.dumps({**text, **changed[damage]}))
    assert [e for e in ledger.entries(KEY) if e.is_confirmed] == [whole]


@pytest.mark.parametrize("text", [b"{", b'{"version": 99}'])
def test_the_name_of_a_damaged_entry_in_a_roll_is_used(tmp_path: Path, text: bytes) -> None:
    ledger, whole = ledger_of(tmp_path), DONE
    done = replace(whole, txn_id=TxnId(10))
    ledger.write(done)
    file = tmp_path / HIDDEN_DIRECTORY / entry_name(done)
    lines = [
        Line(name=entry_name(whole), modified_s=5.0, text=text),
        Line(name=file.name, modified_s=5.0, text=text),
        Line(name=f"{file.name}.strange", modified_s=5.0, text=text),
    ]
    write_roll(tmp_path, "1.2.00", *lines)
    found = {e.txn_id: e for e in ledger.entries(KEY)}
    assert (found[TxnId(9)].is_legible, found[TxnId(9)].recorded_s) == (False, 5.0)
    assert found.keys() == {9, 10}
    assert found[TxnId(10)] == done
    assert ledger.entry_of(txn_id=9, write_id=None) is None
    assert ledger.entry_of(txn_id=10, write_id=None) == done


def test_a_damaged_entry_is_still_found_after_a_roll(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ledger, "_ROLL_AT", 1)
    ledger.write(DONE)
    (file,) = (tmp_path / HIDDEN_DIRECTORY).iterdir()
    file.write_text("torn")
    ledger.tidy(time.time(), 100.0)
    assert [e.is_legible for e in ledger.entries(KEY)] == [False]


def test_expired_entries_are_removed_from_a_roll_and_others_are_kept(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ledger, "_ROLL_AT", 1)
    monkeypatch.setattr(job_ledger, "_MERGE_AT", 2)
    monkeypatch.setattr(job_ledger, "_LOOKED_AT_AGAIN_S", -1.0)
    directory = tmp_path / HIDDEN_DIRECTORY
    for txn_id, retention_s in ((9, 10.0), (10, 1e12)):
        ledger.write(replace(DONE, txn_id=TxnId(txn_id), retention_s=retention_s))
        for file in directory.glob("*.done.json"):
            os.utime(file, (1.0, 1.0))
        # Its own file is older than anything may be that is kept for 10 s; so is its retention.
        ledger.roll_up(2.0, 0.0, json_files.list_files(*json_files.open_location(str(directory))))
    assert {e.txn_id for e in ledger.entries(KEY)} == {9, 10}
    later = json_files.list_files(*json_files.open_location(str(directory)))
    ledger.roll_up(time.time(), 0.0, later)
    assert {e.txn_id for e in ledger.entries(KEY)} == {10}


def roll_of(root: Path, *ages: tuple[int, float, float]) -> None:
    """A roll with entries of transactions: when each was recorded, and how long it is kept."""
    lines = []
    for txn_id, recorded_s, retention_s in ages:
        one = replace(
            entry(root, is_confirmed=True),
            txn_id=TxnId(txn_id),
            recorded_s=recorded_s,
            retention_s=retention_s,
        )
        ledger_of(root).write(one)
        file = root / HIDDEN_DIRECTORY / entry_name(one)
        lines.append(Line(name=file.name, modified_s=recorded_s, text=file.read_bytes()))
        file.unlink()
    write_roll(root, f"1.{len(lines)}.{ages[0][0]}{lines[0].name[-20:]}", *lines)


def write_roll(root: Path, name: str, *lines: Line) -> Path:
    roll = root / HIDDEN_DIRECTORY / f"_rolled_{table_digest('7.1')}.{name}.lines"
    roll.parent.mkdir(exist_ok=True)
    roll.write_bytes(packed(lines))
    return roll


def settle(root: Path, now_s: float, retention_s: float = 0.0, *, newest_s: float) -> set[int]:
    """Merge the rolls of a directory whose newest file is that old; give what is still known."""
    files = json_files.list_files(*json_files.open_location(str(root / HIDDEN_DIRECTORY)))
    aged = [replace(file, modified_s=newest_s if n else 1.0) for n, file in enumerate(files)]
    ledger_of(root).roll_up(now_s, retention_s, aged)
    return {e.txn_id for e in ledger_of(root).entries(KEY)}


YEAR_S = 365 * 86400.0


def test_a_roll_is_removed_only_after_all_its_entries_have_expired(tmp_path: Path) -> None:
    roll_of(tmp_path, (9, 1.0, 10.0), (10, 1.0, 2 * YEAR_S))
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert settle(tmp_path, YEAR_S, newest_s=YEAR_S) == {9, 10}
    assert settle(tmp_path, 3 * YEAR_S, newest_s=3 * YEAR_S) == set()


def test_a_clock_that_is_ahead_removes_no_entry_from_a_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_of(tmp_path, (9, 1.0, 10.0))
    roll_of(tmp_path, (10, 1.0, 10.0))
    assert settle(tmp_path, YEAR_S, newest_s=5.0) == {9, 10}
    monkeypatch.setattr(job_ledger, "_MERGE_AT", 2)
    assert settle(tmp_path, YEAR_S, newest_s=5.0) == {9, 10}
    (merged,) = (tmp_path / HIDDEN_DIRECTORY).glob("_rolled_*")
    assert merged.name.split(".")[2] == "2"


def test_the_name_of_a_roll_sorts_after_the_names_of_the_files_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that lists by name, page by page, shows either the roll or what it replaced."""
    monkeypatch.setattr(job_ledger, "_MERGE_AT", 2)
    monkeypatch.setattr(job_ledger, "_ROLL_AT", 1)
    hidden = tmp_path / HIDDEN_DIRECTORY
    for txn_id in range(9, 24):
        ledger_of(tmp_path).write(replace(DONE, txn_id=TxnId(txn_id)))
        before = {file.name for file in hidden.iterdir()}
        settle(tmp_path, 1.0, newest_s=1.0)
        now = {file.name for file in hidden.iterdir()}
        assert min(now - before) > max(before - now)
    assert {e.txn_id for e in ledger_of(tmp_path).entries(KEY)} == set(range(9, 24))


@pytest.mark.parametrize(
    ("now_s", "retention_s", "is_known"),
    [(111.0, 0.0, True), (112.0, 0.0, False), (112.0, 50.0, True), (152.0, 50.0, False)],
)
def test_a_rolled_entry_is_kept_from_its_file_time_for_the_longer_retention(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    now_s: float,
    retention_s: float,
    *,
    is_known: bool,
) -> None:
    """By its own account it was recorded in 1970; its file was written at 101 s, and kept 10 s."""
    monkeypatch.setattr(job_ledger, "_MERGE_AT", 1)
    ledger, old = ledger_of(tmp_path), replace(DONE, retention_s=10.0)
    ledger.write(old)
    (file,) = (tmp_path / HIDDEN_DIRECTORY).iterdir()
    line = Line(name=file.name, modified_s=101.0, text=file.read_bytes())
    file.unlink()
    write_roll(tmp_path, "1.1.00", line)
    (file.parent / "_written_now").touch()
    found = settle(tmp_path, now_s, retention_s, newest_s=now_s)
    assert found == ({9} if is_known else set())


def test_an_unreadable_entry_in_a_roll_never_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ledger, "_MERGE_AT", 1)
    line = Line(name=entry_name(DONE), modified_s=1.0, text=b"{")
    roll = write_roll(tmp_path, "1.1.00", line)
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert settle(tmp_path, YEAR_S, newest_s=YEAR_S) == {9}
    assert not roll.exists(), "it was merged"
