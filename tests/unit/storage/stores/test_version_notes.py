from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import (
    CommitNote,
    Horizon,
    Keeping,
    OwnCompaction,
    Reset,
    Tag,
    TaggedRoot,
    TimeBounds,
)
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

P = PartitionName.parse("p=1/q=a%2Fb")
KEEPING = Keeping(roots={}, last_entry_id=0, since_s=1.5)
HORIZON = Horizon(partition=P, write_id=WriteId(7), high_watermark=TxnId(3), at_s=2.5)
TAG = Tag(name="a", table_id="17.3", write_ids="db.t:2:9::", made_s=1.0)


@pytest.fixture
def notes(tmp_path: Path) -> VersionNotes:
    return VersionNotes(location=f"file:{tmp_path}", table_id="17.3")


def commit(write_id: int, by_s: float = 5.0) -> CommitNote:
    return CommitNote(
        table_id="17.3",
        write_id=WriteId(write_id),
        txn_id=TxnId(write_id + 100),
        job_key="dag/run/task/-1",
        attempt="1-abcdefabcdef",
        kind="insert",
        inserted=3,
        partitions=(str(P),),
        directories=("file:/t/p=1/delta_1_1",),
        opened_s=1.0,
        seen="db.t:3:9223372036854775807::",
        seen_after_s=2.0,
        seen_by_s=3.0,
        committed=TimeBounds(after_s=4.0, by_s=by_s),
    )


def reset(write_id: int, *names: str, partition: PartitionName = P) -> Reset:
    return Reset(
        partition=partition,
        write_id=WriteId(write_id),
        lowest=WriteId(1),
        highest=WriteId(write_id),
        names=frozenset(names),
    )


def note_commits(notes: VersionNotes, numbers: Iterable[int]) -> None:
    for number in numbers:
        notes.note_commit(commit(number))


def hidden(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "_hiveacid").iterdir())


def bundles(tmp_path: Path) -> list[str]:
    return [name for name in hidden(tmp_path) if name.startswith("_commit")]


def at_reads(patch: pytest.MonkeyPatch, numbers: set[int], change: Callable[[], None]) -> None:
    """Another process changes the notes at these reads; before the first, all is listed."""
    read, times = json_files.read_bytes, [0]

    def read_bytes(fs: object, path: str) -> bytes:
        times[0] += 1
        if times[0] in numbers:
            change()
        return read(fs, path)

    patch.setattr(json_files, "read_bytes", read_bytes)


def test_notes_are_read_as_they_were_written(notes: VersionNotes) -> None:
    notes.note_commit(commit(2))
    notes.note_commit(commit(1))
    assert notes.commits() == (commit(1), commit(2))
    keeping = Keeping(
        roots={P: Guarantee(floor=WriteId(4), evidence=frozenset({"base_4", "000000_0"}))},
        last_entry_id=9,
        since_s=1.5,
    )
    own = OwnCompaction(entry_id=8, aborted=(WriteId(2), WriteId(3)))
    notes.note_keeping(keeping)
    notes.note_horizon(HORIZON)
    notes.note_horizon(replace(HORIZON, at_s=9.0))  # once is enough
    notes.note_own_compaction(own)
    found = notes.promises()
    assert (found.keeping, found.horizons, found.own) == (keeping, (HORIZON,), (own,))
    assert not found.has_ended
    notes.end_keeping(12)
    assert notes.promises().has_ended
    lost = reset(6, "delta_3_3", "000000_0")
    notes.note_resets([])
    notes.note_resets([lost, replace(lost, partition=PartitionName())])
    assert notes.resets() == (lost, replace(lost, partition=PartitionName()))
    notes.note_resets([reset(6, "delta_5_5")])
    assert set(notes.resets()) >= {lost, reset(6, "delta_5_5")}
    assert notes.promises().resets == notes.resets()


def test_a_new_guarantee_starts_without_horizons(notes: VersionNotes) -> None:
    notes.note_keeping(KEEPING)
    notes.note_horizon(HORIZON)
    notes.end_keeping(3)
    notes.note_keeping(KEEPING)
    found = notes.promises()
    assert (found.horizons, found.has_ended) == ((), False)


def test_a_reader_finds_the_new_horizon_while_it_replaces_the_old_one(
    notes: VersionNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.note_keeping(KEEPING)
    later = replace(HORIZON, write_id=WriteId(9))
    notes.note_horizon(HORIZON)

    def change() -> None:
        notes.note_horizon(later)
        notes.forget_horizons_below(later)

    at_reads(monkeypatch, {1}, change)
    assert notes.promises().horizons == (later,)


def test_a_tag_replaces_the_earlier_tag_with_the_same_name(
    notes: VersionNotes, tmp_path: Path
) -> None:
    root = TaggedRoot(partition=P, location="file:/t/p", names=frozenset({"base_1", "delta_2_2"}))
    tag = replace(TAG, name="a/b ä", roots=(root,))
    notes.note_tag(tag)
    later = replace(tag, made_s=2.0, expires_s=7.0, made_by="me")
    notes.note_tag(later)
    assert notes.tags() == (later,)
    assert notes.tag("a/b ä") == later
    assert notes.tag("a") is None
    assert set(notes.noted_tags()) == {tag, later}  # until it is sure that the later one stays
    notes.forget_tags_before(later)
    assert len(hidden(tmp_path)) == 1
    notes.forget_this_tag(tag)
    assert notes.tags() == (later,)
    notes.forget_tag("a/b ä")
    assert notes.tags() == ()


def test_a_reader_finds_the_new_tag_while_it_replaces_the_old_one(
    notes: VersionNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = replace(TAG, made_s=2.0)
    notes.note_tag(TAG)

    def change() -> None:
        notes.note_tag(later)
        notes.forget_tags_before(later)

    at_reads(monkeypatch, {1}, change)
    assert notes.tags() == (later,)


def test_many_commit_notes_are_bundled_and_old_ones_are_removed(
    notes: VersionNotes, tmp_path: Path
) -> None:
    for number in range(1, 50):
        notes.note_commit(commit(number, by_s=float(number)))
    notes.tidy_commits({str(P): WriteId(10)}, 5.0)
    assert len(hidden(tmp_path)) == 49  # too few to be worth it
    notes.note_commit(commit(50))
    notes.tidy_commits({str(P): WriteId(10)}, 5.0)
    assert len(bundles(tmp_path)) == len(hidden(tmp_path)) - 1 == 1
    (gone,) = notes.resets()  # what nobody bears witness of any more
    assert (gone.partition, gone.lowest, gone.write_id) == (P, 0, 9)
    assert [n.write_id for n in notes.commits()] == list(range(5, 51))
    note_commits(notes, range(51, 101))
    notes.tidy_commits({str(P): WriteId(1)}, 0.0)
    assert len(bundles(tmp_path)) == len(hidden(tmp_path)) - 1 == 1
    assert notes.resets() == (gone,)
    assert [n.write_id for n in notes.commits()] == list(range(5, 101))


def test_a_commit_note_is_kept_while_one_of_its_partitions_needs_it(
    notes: VersionNotes,
) -> None:
    other = PartitionName.parse("p=2")
    for number in range(1, 51):
        one = commit(number, by_s=1.0)
        both = (str(P), str(other))
        notes.note_commit(replace(one, partitions=both) if number == 2 else one)
    oldest = {str(P): WriteId(60), str(other): WriteId(1)}
    notes.tidy_commits(oldest, 5.0)
    assert [n.write_id for n in notes.commits()] == [2]
    note_commits(notes, range(51, 101))
    del oldest[str(other)]
    notes.tidy_commits(oldest, 5.0)
    assert notes.commits()[0].write_id == 2  # nobody knows since when it is not there
    notes.note_resets([reset(40, "delta_2_2", partition=other)])
    note_commits(notes, range(101, 151))
    notes.tidy_commits(oldest, 5.0)
    assert notes.commits()[0].write_id == 51


def test_commit_notes_of_the_oldest_versions_and_without_a_time_are_kept(
    notes: VersionNotes,
) -> None:
    other, older = PartitionName.parse("p=2"), PartitionName.parse("p=3")
    for number in range(1, 51):
        partition = {1: other, 2: older}.get(number, P)
        note = replace(commit(number, by_s=1.0), partitions=(str(partition),))
        notes.note_commit(replace(note, committed=TimeBounds()) if number == 3 else note)
    notes.note_resets([reset(1, "delta_1_1", partition=other), reset(40, "x", partition=other)])
    notes.note_resets([reset(30, "delta_2_2", partition=older)])
    notes.tidy_commits({str(P): WriteId(40)}, 5.0)
    assert [n.write_id for n in notes.commits()] == [1, 3, *range(40, 51)]


def test_a_reader_finds_all_commit_notes_while_they_are_bundled(
    notes: VersionNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_commits(notes, range(1, 61))
    at_reads(monkeypatch, {30}, lambda: notes.tidy_commits({str(P): WriteId(1)}, 0.0))
    assert [n.write_id for n in notes.commits()] == list(range(1, 61))


def test_a_process_that_dies_while_it_bundles_commit_notes_loses_none(
    notes: VersionNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_commits(notes, range(1, 61))

    def dying(*_: object) -> None:
        raise KeyboardInterrupt

    for method in ("_note", "_delete"):
        with monkeypatch.context() as patch:
            patch.setattr(VersionNotes, method, dying)
            with pytest.raises(KeyboardInterrupt):
                notes.bundle_commits(notes._list())
        assert [n.write_id for n in notes.commits()] == list(range(1, 61))


def test_a_reader_finds_all_compaction_and_loss_notes_while_they_are_bundled(
    notes: VersionNotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more of each is there every day, and every reader of a version reads them all."""
    notes.note_keeping(KEEPING)
    for number in range(1, 61):
        aborted = tuple(map(WriteId, range(max(1, number - 9), number)))
        notes.note_own_compaction(OwnCompaction(entry_id=number, aborted=aborted))
        notes.note_resets([reset(number, f"delta_{number}_{number}")])
    before, found = notes.promises(), notes.resets()

    def change() -> None:
        notes.tidy_own_compactions()
        notes.tidy_resets()

    with monkeypatch.context() as patch:
        at_reads(patch, {30, 200}, change)
        seen = notes.promises()
    assert len(hidden(tmp_path)) == 3
    for after in (seen, notes.promises()):
        assert after.aborted == before.aborted
        assert {one.entry_id for one in after.own} == set(range(1, 61))
        assert set(after.resets) == set(found)
    assert set(notes.resets()) == set(found)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "": []}']
)
def test_a_damaged_commit_note_is_ignored_and_a_damaged_tag_raises_an_error(
    notes: VersionNotes, tmp_path: Path, text: str
) -> None:
    notes.note_commit(commit(1))
    notes.note_commit(commit(2))
    notes.note_tag(TAG)
    (tmp_path / "_hiveacid" / hidden(tmp_path)[0]).write_text(text)
    assert notes.commits() == (commit(2),)
    (tmp_path / "_hiveacid" / hidden(tmp_path)[2]).write_text(text)
    with pytest.raises(CorruptFileError):
        notes.tags()


@pytest.mark.parametrize("deletions", [1, 2, 3])
def test_a_guarantee_is_not_read_after_an_interrupted_removal_of_its_notes(
    notes: VersionNotes, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    """A promise without its horizons would claim versions whose files are cleaned away."""
    notes.note_keeping(KEEPING)
    for write_id in (2, 3):
        notes.note_horizon(replace(HORIZON, write_id=WriteId(write_id)))
    left = iter(range(deletions))
    delete = VersionNotes._delete

    def dying(self: VersionNotes, name: str) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        delete(self, name)

    monkeypatch.setattr(VersionNotes, "_delete", dying)
    with contextlib.suppress(KeyboardInterrupt):
        notes.forget_keeping()
    promises = notes.promises()
    assert promises is None or promises.keeping is None
