"""No ledger entry and no note of a commit is lost, however often those who tidy die or meet."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import event, given, settings, strategies as st
from pyarrow import fs as pafs

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import CommitNote, LedgerEntry
from airflow_hiveacid.storage.stores import job_ledger, json_files, version_notes
from airflow_hiveacid.storage.stores.filesystem import delete_file, read_bytes, write_new
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.support.ledger_entries import ledger_entry

TABLE_ID: Final = "7.1"
NOW_S: Final = 1000.0
RETENTION_S: Final = 10_000_000_000.0


class DeathError(Exception):
    """A writer is killed."""


class World:
    """One hidden directory, and the moments at which those who tidy there die or meet another."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root, self.dice = root, dice
        self.ledger = Ledger(location=str(root), table_id=TABLE_ID)
        self.notes = VersionNotes(location=str(root), table_id=TABLE_ID)
        self.confirmed: list[int] = []
        self.deaths = self.meetings = self.depth = 0

    def write(self, number: int, *, is_done: bool) -> None:
        self.ledger.write(entry(number))
        if is_done:
            self.ledger.write(entry(number, is_confirmed=True))
            self.notes.note_commit(note(number))
            self.confirmed.append(number)

    def tidy(self) -> None:
        try:
            files = self.ledger.tidy(NOW_S, RETENTION_S)
            self.notes.bundle_commits(files)
        except DeathError:
            self.deaths += 1

    def before(self, what: str) -> None:
        """What happens before a file is written, read or removed by one who tidies or reads."""
        if what != "read" and self.depth == 0 and self.dice.random() < 0.1:
            raise DeathError
        if self.depth == 0 and self.dice.random() < 0.1:
            self.depth, self.meetings = 1, self.meetings + 1
            self.tidy()
            self.depth = 0

    def check(self) -> None:
        # The last ones are those that move while they are read.
        for number in {*self.confirmed[-3:], self.dice.choice(self.confirmed)}:
            self.check_job(number)
        assert {n.write_id for n in self.notes.commits()} == set(self.confirmed)

    def check_job(self, number: int) -> None:
        found = {e.txn_id for e in self.ledger.entries(f"job {number}") if e.is_confirmed}
        assert found == {number}


def entry(number: int, *, is_confirmed: bool = False) -> LedgerEntry:
    return ledger_entry(
        job_key=f"job {number}",
        table_id=TABLE_ID,
        txn_id=TxnId(number),
        write_id=WriteId(number),
        is_confirmed=is_confirmed,
    )


def note(number: int) -> CommitNote:
    return CommitNote(
        table_id=TABLE_ID,
        write_id=WriteId(number),
        txn_id=TxnId(number),
        job_key=f"job {number}",
        attempt="1-" + "0" * 12,
        kind="insert",
        inserted=1,
        files=1,
        size_bytes=1,
    )


def disturbed(patch: pytest.MonkeyPatch, world: World) -> None:
    def before(what: str, do: Callable[..., object]) -> Callable[..., object]:
        def act(fs: pafs.FileSystem, path: str, *rest: object, **options: object) -> object:
            name = path.rpartition("/")[2]
            if what != "write" or name.startswith(("_rolled_", "_commits_")):
                world.before(what)
            return do(fs, path, *rest, **options)

        return act

    patch.setattr(json_files, "write_new", before("write", write_new))
    patch.setattr(json_files, "delete_file", before("delete", delete_file))
    patch.setattr(json_files, "read_bytes", before("read", read_bytes))
    patch.setattr(job_ledger, "_ROLL_AT", 4)
    patch.setattr(job_ledger, "_MERGE_AT", 2)
    patch.setattr(job_ledger, "_FULL_ROLL", 20)
    patch.setattr(version_notes, "_ENOUGH_TO_BUNDLE", 4)
    patch.setattr(version_notes, "_ENOUGH_TO_MERGE", 3)
    patch.setattr(version_notes, "_SMALL_BUNDLE_BYTES", 5000)


@given(st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 8, deadline=None)
def test_killed_or_concurrent_tidying_loses_no_ledger_entry_and_no_commit_note(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), random.Random(seed))
        disturbed(patch, world)
        for number in range(1, 41):
            world.write(number, is_done=world.dice.random() < 0.9 or number == 1)
            if world.dice.random() < 0.7:
                world.tidy()
            world.check()
        for number in world.confirmed:
            world.check_job(number)
        event(f"deaths: {min(world.deaths, 5)}, meetings: {min(world.meetings, 5)}")


def test_a_thousand_writes_leave_fewer_than_a_hundred_ledger_files_and_notes(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, random.Random(1))
    most = 0
    for number in range(1, 1001):
        world.write(number, is_done=True)
        files = world.ledger.tidy(NOW_S, RETENTION_S)
        world.notes.bundle_commits(files)
        most = max(most, len(files))
    world.check()
    left = list((tmp_path / HIDDEN_DIRECTORY).iterdir())
    # 101 if rolls, or bundles, are not merged; after 10,000 writes there are 203 at most.
    assert len(left) < 100
    assert most < 190
