"""What maintenance notes beside a table comes back as it was noted, whatever lies there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import CompactionFailures, FirstSeen
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.storage.stores.json_files import HiddenFiles
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.table_notes import TableNotes

WHOLE = PartitionName()
SEEN = {
    "base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=1700000000.25),
    "delta_0000001_0000004_v0000012": FirstSeen(high_watermark=TxnId(12), at_s=0.0),
}

FAILURES = CompactionFailures(count=2, job_key="dag/run/t/-1", last_s=1700000000.25, why="é")


@pytest.fixture
def notes(tmp_path: Path) -> TableNotes:
    return TableNotes(location=f"file:{tmp_path}/t", table_id="17.3")


def month(value: str | None) -> PartitionName:
    return PartitionName(("month",), (value,))


def test_first_seen_times_are_read_for_their_own_partition_only(
    notes: TableNotes,
) -> None:
    notes.note_first_seen(month("a/b"), SEEN)
    notes.note_first_seen(month(None), {"base_0000007": SEEN["base_0000002"]})
    assert notes.first_seen(month("a/b")) == SEEN
    assert notes.first_seen(month(None)) == {"base_0000007": SEEN["base_0000002"]}
    assert notes.first_seen(month("b")) == {}
    assert notes.first_seen(WHOLE) == {}


def test_new_first_seen_notes_replace_the_old_ones(notes: TableNotes) -> None:
    notes.note_first_seen(WHOLE, SEEN)
    notes.note_first_seen(WHOLE, {"base_0000002": SEEN["base_0000002"]})
    assert notes.first_seen(WHOLE) == {"base_0000002": SEEN["base_0000002"]}
    notes.note_first_seen(WHOLE, {})
    notes.note_first_seen(WHOLE, {})
    assert notes.first_seen(WHOLE) == {}


def test_the_highest_write_id_of_a_compaction_is_read_until_it_is_forgotten(
    notes: TableNotes,
) -> None:
    notes.note_highest_write_id(3, WriteId(17))
    notes.note_highest_write_id(4, WriteId(18))
    assert (notes.highest_write_id(3), notes.highest_write_id(4)) == (17, 18)
    notes.forget_compaction(3)
    notes.forget_compaction(3)
    assert (notes.highest_write_id(3), notes.highest_write_id(4)) == (None, 18)


@pytest.mark.parametrize("more", [[], ["month=b"]], ids=["read", "listed"])
def test_failures_are_read_for_their_own_partitions_until_they_are_forgotten(
    notes: TableNotes, more: list[str]
) -> None:
    assert notes.failures(["", *more]) == {}
    notes.note_failures("", FAILURES)
    notes.note_failures("month=a", replace(FAILURES, count=1))
    assert notes.failures(["", *more]) == {"": FAILURES}
    assert replace(notes, table_id="99.4").failures(["", *more]) == {}
    notes.note_failures("", None)
    notes.note_failures("", None)
    assert notes.failures(["", *more]) == {}
    assert notes.failures(["month=a", *more]) == {"month=a": replace(FAILURES, count=1)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"base_0000002": ',
        '{"base_0000002": 7, "highest_write_id": "x"}',
        '{"base_0000002": {"high_watermark": null, "at_s": 1}}',
        '{"base_0000002": {"high_watermark": 1}}',
        '{"count": 2, "job_key": "k", "why": "", "last_s": "x"}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_an_invalid_note_is_treated_as_missing(
    notes: TableNotes, tmp_path: Path, text: str
) -> None:
    notes.note_first_seen(WHOLE, SEEN)
    notes.note_highest_write_id(3, WriteId(17))
    notes.note_failures("", FAILURES)
    for file in (tmp_path / "t").rglob("*.json"):
        file.write_text(text)
    assert notes.failures([""]) == {}
    assert notes.first_seen(WHOLE) == {}
    assert notes.highest_write_id(3) is None


def test_notes_are_hidden_from_readers_of_the_table(notes: TableNotes, tmp_path: Path) -> None:
    notes.note_first_seen(WHOLE, SEEN)
    notes.note_highest_write_id(3, WriteId(17))
    assert len(list((tmp_path / "t").rglob("*.json"))) == 2
    assert list_table(notes.location).files == ()


def test_notes_of_an_earlier_table_at_the_same_location_are_ignored(notes: TableNotes) -> None:
    notes.note_first_seen(WHOLE, SEEN)
    notes.note_highest_write_id(3, WriteId(17))
    other = replace(notes, table_id="99.4")
    assert (other.first_seen(WHOLE), other.highest_write_id(3)) == ({}, None)
    files = HiddenFiles(notes.location)
    assert other.noted(files) == frozenset()
    assert notes.noted(files) == {notes.note_of(WHOLE)}
