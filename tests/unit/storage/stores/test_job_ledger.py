from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.plan.reruns import LedgerEntry
from airflow_hiveacid.storage.stores import job_ledger
from airflow_hiveacid.storage.stores.filesystem import ASIDE_PREFIX
from airflow_hiveacid.storage.stores.job_ledger import (
    HIDDEN_DIRECTORY,
    Ledger,
    abandoned,
    committed,
    entry_name,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY = "dag/run/task/-1"
MAX = 9223372036854775807
TABLE = TableRef("d", "t")
FIRST, SECOND = AttemptId(1, "0" * 12), AttemptId(2, "1" * 12)


def entry(root: Path, *, attempt: AttemptId = FIRST, confirmed: bool = False) -> LedgerEntry:
    return LedgerEntry(
        job_key=KEY,
        generation=0,
        attempt=attempt,
        statement={"kind": "1a"},
        table_id="7.1",
        txn_id=TxnId(9),
        write_id=WriteId(5),
        directories=(f"file:{root}/delta_0000005_0000005_0000",),
        result="{}",
        recorded_s=1.0,
        retention_s=100.0,
        is_confirmed=confirmed,
    )


def ledger_of(root: Path) -> Ledger:
    return Ledger(location=str(root), table_id="7.1")


def ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"d.t:{text}")


TXNS = ValidTxnList(high_watermark=TxnId(20))
COMMITTED, OPEN, ABORTED = ids(f"5:{MAX}::"), ids("5:5:5:"), ids(f"5:{MAX}::5")


def test_a_job_without_an_entry_is_to_be_done(tmp_path: Path) -> None:
    assert committed(ledger_of(tmp_path).entries(KEY), COMMITTED, TXNS) == ()


def test_a_confirmed_entry_is_committed_whatever_became_of_its_files(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    done = entry(tmp_path, confirmed=True)
    ledger.write(done)
    for write_ids in (COMMITTED, ABORTED):
        assert committed(ledger.entries(KEY), write_ids, TXNS) == (done,)
    assert ledger.is_certain(done)


def test_a_prepared_entry_counts_if_its_write_id_is_visible(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (entry(tmp_path),)
    assert committed(ledger.entries(KEY), OPEN, TXNS) == ()
    assert committed(ledger.entries(KEY), ABORTED, TXNS) == ()


def test_it_is_certain_only_while_a_directory_is_there(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    assert not ledger.is_certain(entry(tmp_path))
    (tmp_path / "delta_0000005_0000005_0000").mkdir()
    assert ledger.is_certain(entry(tmp_path))
    # Of two, one may have been compacted away: the other tells as well.
    both = (*entry(tmp_path).directories, f"file:{tmp_path}/delete_delta_0000005_0000005_0000")
    assert ledger.is_certain(replace(entry(tmp_path), directories=both))
    assert ledger.is_certain(replace(entry(tmp_path), directories=both[::-1]))


def test_a_prepared_entry_that_published_nothing_does_not_count(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(replace(entry(tmp_path), directories=()))
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == ()


def test_a_confirmed_entry_takes_the_place_of_its_prepared_one(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    ledger.write(entry(tmp_path, confirmed=True))
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (entry(tmp_path, confirmed=True),)
    assert len(list((tmp_path / HIDDEN_DIRECTORY).iterdir())) == 2


def test_one_attempt_neither_replaces_nor_withdraws_what_another_wrote(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    done = replace(entry(tmp_path, attempt=SECOND, confirmed=True), txn_id=TxnId(10))
    ledger.write(done)
    zombie = entry(tmp_path)
    ledger.write(zombie)
    ledger.withdraw(zombie)
    assert ledger.entries(KEY) == (done,)


def tear(root: Path, torn: LedgerEntry) -> None:
    file = root / HIDDEN_DIRECTORY / entry_name(torn)
    file.write_text(file.read_text()[:40])


def test_of_a_torn_confirmation_the_name_is_believed_and_the_rest_is_the_prepared_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    ledger.write(entry(tmp_path, confirmed=True))
    tear(tmp_path, entry(tmp_path, confirmed=True))
    (found,) = committed(ledger.entries(KEY), ABORTED, TXNS)
    assert found == entry(tmp_path, confirmed=True)
    assert ledger.is_certain(found)
    assert "only its name can be read" in caplog.text


def test_a_torn_confirmation_alone_says_that_the_job_was_done_and_not_how(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path, confirmed=True))
    tear(tmp_path, entry(tmp_path, confirmed=True))
    (found,) = committed(ledger.entries(KEY), ABORTED, TXNS)
    assert (found.generation, found.attempt, found.txn_id) == (0, FIRST, 9)
    assert not found.is_legible
    assert not ledger.is_certain(found)


@pytest.mark.parametrize(
    ("txns", "count"), [(TXNS, 1), (replace(TXNS, open=(9,)), 0), (replace(TXNS, aborted=(9,)), 0)]
)
def test_a_torn_prepared_entry_counts_if_its_transaction_may_be_committed(
    tmp_path: Path, txns: ValidTxnList, count: int
) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    tear(tmp_path, entry(tmp_path))
    assert len(committed(ledger.entries(KEY), COMMITTED, txns)) == count


def test_a_torn_prepared_entry_of_an_aborted_transaction_can_be_withdrawn(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))
    tear(tmp_path, entry(tmp_path))
    txns = replace(TXNS, aborted=(TxnId(9),))
    snapshot = Snapshot(txn_id=None, txns=txns, tables={TABLE: COMMITTED})
    (dead,) = abandoned(ledger.entries(KEY), TABLE, snapshot)
    ledger.withdraw(dead)
    assert ledger.entries(KEY) == ()


def test_of_an_entry_of_another_version_only_the_name_counts(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path, confirmed=True))
    file = next((tmp_path / HIDDEN_DIRECTORY).iterdir())
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    assert [e.is_legible for e in ledger.entries(KEY)] == [False]


def test_a_table_made_again_remembers_nothing_of_the_one_before_it(tmp_path: Path) -> None:
    ledger_of(tmp_path).write(entry(tmp_path, confirmed=True))
    assert (
        committed(Ledger(location=str(tmp_path), table_id="8.2").entries(KEY), COMMITTED, TXNS)
        == ()
    )


def test_files_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "airflow_hiveacid.storage.stores.filesystem.move", lambda *_: (_ for _ in ()).throw(OSError)
    )
    with pytest.raises(OSError):  # noqa: PT011 - the one that was planted
        ledger_of(tmp_path).write(entry(tmp_path))
    assert list((tmp_path / HIDDEN_DIRECTORY).iterdir()) == []


def test_only_entries_of_aborted_transactions_are_abandoned(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path))

    def snapshot(write_ids: ValidWriteIdList, aborted: tuple[TxnId, ...]) -> Snapshot:
        txns = ValidTxnList(high_watermark=TxnId(12), open=(), aborted=aborted)
        return Snapshot(txn_id=None, txns=txns, tables={TABLE: write_ids})

    gone = (TxnId(9),)
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(ABORTED, gone)) == (entry(tmp_path),)
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(COMMITTED, gone)) == ()
    # Write IDs that began anew: the number means somebody else's work.
    assert abandoned(ledger.entries(KEY), TABLE, snapshot(ABORTED, ())) == ()


def test_pruning_removes_old_entries_and_nothing_else(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    old, young = entry(tmp_path), entry(tmp_path, confirmed=True)
    ledger.write(old)
    ledger.write(young)
    hidden = tmp_path / HIDDEN_DIRECTORY
    note = hidden / "_compaction_7.json"
    note.write_text("{}")
    for file in (note, hidden / entry_name(old)):
        os.utime(file, (100, 100))
    assert ledger.prune(1200.0, 1000.0) == 1
    assert {f.name for f in hidden.iterdir()} == {note.name, entry_name(young)}


def test_a_job_that_forgets_soon_does_not_make_another_one_forget(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    patient = replace(entry(tmp_path, confirmed=True), retention_s=10_000.0)
    ledger.write(patient)
    os.utime(tmp_path / HIDDEN_DIRECTORY / entry_name(patient), (100, 100))
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert ledger.prune(now_s=1200.0, retention_s=60.0) == 0
    assert committed(ledger.entries(KEY), ABORTED, TXNS) == (patient,)
    assert ledger.prune(now_s=12_000.0, retention_s=60.0) == 1


def test_a_clock_that_is_a_month_ahead_makes_nobody_forget(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(done := entry(tmp_path, confirmed=True))
    assert ledger.prune(now_s=time.time() + 31 * 86_400, retention_s=30 * 86_400) == 0
    assert committed(ledger.entries(KEY), COMMITTED, TXNS) == (done,)


def test_an_entry_of_a_clock_that_is_behind_is_kept_for_as_long_as_others(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.write(entry(tmp_path, confirmed=True))  # recorded in 1970, by its own account
    hidden = tmp_path / HIDDEN_DIRECTORY
    os.utime(hidden / entry_name(entry(tmp_path, confirmed=True)), (5000, 5000))
    (hidden / "_written_now").touch()
    assert ledger.prune(now_s=5090.0, retention_s=60.0) == 0
    assert ledger.prune(now_s=5200.0, retention_s=60.0) == 1


def test_an_entry_that_cannot_be_read_now_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger_of(tmp_path).write(entry(tmp_path, confirmed=True))

    def fail(*_: object) -> bytes:
        raise StorageError("the disk does not answer")

    monkeypatch.setattr(job_ledger, "read_bytes", fail)
    with pytest.raises(StorageError, match="does not answer"):
        committed(ledger_of(tmp_path).entries(KEY), COMMITTED, TXNS)


def test_what_a_killed_writer_has_left_half_written_is_pruned(tmp_path: Path) -> None:
    half = tmp_path / HIDDEN_DIRECTORY / f"{ASIDE_PREFIX}00"
    half.parent.mkdir()
    half.write_text("{")
    os.utime(half, (100, 100))
    (tmp_path / HIDDEN_DIRECTORY / "_written_now").touch()
    assert ledger_of(tmp_path).prune(now_s=1050.0, retention_s=1000.0) == 0
    assert ledger_of(tmp_path).prune(now_s=1200.0, retention_s=1000.0) == 1
    assert not half.exists()


def test_of_very_many_old_entries_each_job_prunes_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ledger, "_MOST_PRUNED", 3)
    ledger = ledger_of(tmp_path)
    for number in range(7):
        ledger.write(replace(entry(tmp_path), txn_id=TxnId(number), retention_s=0.0))
    for file in (tmp_path / HIDDEN_DIRECTORY).iterdir():
        os.utime(file, (1.0, 1.0))
    ledger.write(replace(entry(tmp_path), txn_id=TxnId(99)))
    assert [ledger.prune(time.time(), 10.0) for _ in range(4)] == [3, 3, 1, 0]
    assert [found.txn_id for found in ledger.entries(KEY)] == [99]
