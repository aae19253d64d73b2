"""The bytes of each kind of note: what tables have on disk stays readable, to us and to others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format import records
from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import (
    CommitNote,
    CompactionFailures,
    FirstSeen,
    LedgerEntry,
    Move,
    Owner,
    TimeBounds,
)
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.storage.stores import version_notes
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.s3.bucket import Part
from airflow_hiveacid.storage.stores.s3.handler import StagedUpload
from airflow_hiveacid.storage.stores.table_notes import TableNotes, note_owner, noted_owner
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.support.cases import changes_of

TEXTS: Final = dict(changes_of(Path(__file__).with_suffix(".txt")))
TABLE_ID = "17.3"
P = PartitionName.parse("p=1/q=a%2Fb")

ENTRY = LedgerEntry(
    job_key="dag/run/task/-1",
    generation=2,
    attempt=AttemptId(1, "abcdefabcdef"),
    statement={"kind": "1a", "é": "2b"},
    table_id=TABLE_ID,
    txn_id=TxnId(9),
    write_id=WriteId(5),
    directories=("file:/t/delta_0000005_0000005_0000",),
    result='{"rows": 1}',
    recorded_s=1.5,
    retention_s=9.0,
)
COMMIT = CommitNote(
    table_id=TABLE_ID,
    write_id=WriteId(5),
    txn_id=TxnId(9),
    job_key="j",
    attempt="1-abcdefabcdef",
    kind="insert",
    inserted=3,
    partitions=(str(P),),
    files=1,
    size_bytes=70,
    directories=("p=1/delta_0000005_0000005_0000",),
    opened_s=1.0,
    seen="db.t:3:9223372036854775807::",
    seen_after_s=2.0,
    seen_by_s=3.0,
    committed=TimeBounds(after_s=4.0),
)
KEEPING = records.Keeping(
    roots={P: Guarantee(floor=WriteId(2), evidence=frozenset({"b", "a"}))},
    last_entry_id=-1,
    since_s=9.5,
)
HORIZON = records.Horizon(partition=P, write_id=WriteId(4), high_watermark=TxnId(9), at_s=3.5)
OWN = records.OwnCompaction(entry_id=7, aborted=(WriteId(2), WriteId(3)))
RESET = records.Reset(
    partition=P,
    write_id=WriteId(4),
    lowest=WriteId(1),
    highest=WriteId(3),
    names=frozenset({"base_2", "base_1"}),
)
TAG = records.Tag(
    name="monthly",
    table_id=TABLE_ID,
    write_ids="db.t:27:5:5,7,9:3,4",
    made_s=3.5,
    made_by="a",
    roots=(records.TaggedRoot(partition=P, location="file:/t/p", names=frozenset({"y", "x"})),),
    is_sure=False,
)
CONVERSION = ConversionNote(
    attempt="1-abcdefabcdef",
    table_id=TABLE_ID,
    to="flat",
    undo={"transactional": "true", "x": None},
    moves=(Move(location="file:/t", source="base_5/a", target="000000_0"),),
    emptied=(Move(location="file:/t", source="base_5", target="_emptied"),),
    write_id=WriteId(3),
)
FEED = FeedNote(
    table="db.t",
    table_id=TABLE_ID,
    since=3,
    until=7,
    is_whole=False,
    job_key="j",
    attempt="1-abcdefabcdef",
    files=("part-0.parquet",),
    rows={"insert": 2},
    size_bytes=10,
    births={"p=1": 5},
    where="a > 1",
    asked={"keys": "1a"},
    held={"p=1": "6"},
    keys=("id",),
)
UPLOAD = StagedUpload(
    key="t/delta_5_5/bucket_00000",
    upload_id="u",
    parts=(Part(1, "e1"), Part(2, "e2")),
    size_bytes=70,
    attempt="abcdefabcdef",
)


SEEN = {"base_5": FirstSeen(high_watermark=TxnId(9), at_s=1.5)}
FAILURES = CompactionFailures(count=2, job_key="j", last_s=1.5, why="w")
OWNER = Owner(metastore="m", table=TableRef("db", "t"), table_id=TABLE_ID)
OTHER_COMMIT = replace(COMMIT, write_id=WriteId(6))
OTHER_OWN = records.OwnCompaction(entry_id=6)


class _Bucket:
    """A bucket with one object."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_whole(self, _key: str) -> bytes:
        return self._content


def table(root: Path) -> TableNotes:
    return TableNotes(location=str(root), table_id=TABLE_ID)


def past(root: Path) -> VersionNotes:
    return VersionNotes(location=str(root), table_id=TABLE_ID)


def ledger(root: Path) -> Ledger:
    return Ledger(location=str(root), table_id=TABLE_ID)


def promises(root: Path) -> records.Promises:
    """The notes about a guarantee, which are not read without that of the guarantee itself."""
    contents = {file: file.read_bytes() for file in (root / "_hiveacid").iterdir()}
    past(root).note_keeping(KEEPING)
    for file, content in contents.items():
        file.write_bytes(content)
    return past(root).promises()


def merge_own_compactions(root: Path) -> None:
    past(root).note_own_compaction(OTHER_OWN)
    past(root).note_own_compaction(OWN)
    past(root).tidy_own_compactions()


def bundle_commits(root: Path) -> None:
    past(root).note_commit(COMMIT)
    past(root).note_commit(OTHER_COMMIT)
    past(root).tidy_commits({"": WriteId(0)}, 0.0)


KINDS: Final[dict[str, tuple[Callable[[Path], object], Callable[[Path], object], object]]] = {
    "ledger entry": (
        lambda root: ledger(root).write(ENTRY),
        lambda root: ledger(root).entries(ENTRY.job_key),
        (ENTRY,),
    ),
    "commit": (
        lambda root: past(root).note_commit(COMMIT),
        lambda root: past(root).commits(),
        (COMMIT,),
    ),
    "bundle of commits": (
        bundle_commits,
        lambda root: past(root).commits(),
        (COMMIT, OTHER_COMMIT),
    ),
    "guarantee": (
        lambda root: past(root).note_keeping(KEEPING),
        lambda root: past(root).promises().keeping,
        KEEPING,
    ),
    "horizon": (
        lambda root: past(root).note_horizon(HORIZON),
        lambda root: promises(root).horizons,
        (HORIZON,),
    ),
    "own compaction": (
        lambda root: past(root).note_own_compaction(OWN),
        lambda root: promises(root).own,
        (OWN,),
    ),
    "merged own compactions": (
        merge_own_compactions,
        lambda root: promises(root).own,
        (OTHER_OWN, OWN),
    ),
    "removals": (
        lambda root: past(root).note_resets([RESET]),
        lambda root: past(root).resets(),
        (RESET,),
    ),
    "end of a guarantee": (
        lambda root: past(root).end_keeping(12),
        lambda root: past(root).has_ended(),
        True,
    ),
    "tag": (
        lambda root: past(root).note_tag(TAG),
        lambda root: past(root).tags(),
        (TAG,),
    ),
    "replacements": (
        lambda root: table(root).note_first_seen(P, SEEN),
        lambda root: table(root).first_seen(P),
        SEEN,
    ),
    "compaction": (
        lambda root: table(root).note_highest_write_id(4, WriteId(9)),
        lambda root: table(root).highest_write_id(4),
        9,
    ),
    "failures": (
        lambda root: table(root).note_failures("p=1", FAILURES),
        lambda root: table(root).failures(["p=1"])["p=1"],
        FAILURES,
    ),
    "owner": (
        lambda root: note_owner(str(root), OWNER),
        lambda root: noted_owner(str(root)),
        OWNER,
    ),
    "conversion": (
        lambda root: CONVERSION.write(str(root)),
        lambda root: ConversionNote.read(str(root)),
        CONVERSION,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_note_has_these_bytes_and_is_read_from_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_notes, "_ENOUGH_TO_BUNDLE", 2)
    write, read, value = KINDS[kind]
    write(tmp_path)
    (file,) = (tmp_path / "_hiveacid").iterdir()
    assert file.read_text() == TEXTS[kind]
    assert read(tmp_path) == value


def test_a_note_of_a_later_release_says_which_release_reads_it(tmp_path: Path) -> None:
    KINDS["owner"][0](tmp_path)
    (file,) = (tmp_path / "_hiveacid").iterdir()
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    why = "its version is 2, and this release reads 1; if a later release wrote it, use that"
    with pytest.raises(CorruptFileError, match=why):
        noted_owner(str(tmp_path))


def test_the_note_of_a_feed_has_these_bytes_and_is_read_from_them(tmp_path: Path) -> None:
    feed = ChangeFeed(f"file:{tmp_path}")
    directory = feed.new_directory(3, "a")
    tmp_path.joinpath(directory.removeprefix("file:"), "part-0.parquet").write_text("x")
    feed.publish(directory, FEED, {"part-0.parquet": 1})
    assert (tmp_path / "changes_0000003" / "_changes.json").read_text() == TEXTS["feed"]
    assert feed.last() == FEED


def test_the_note_of_an_upload_has_these_bytes_and_is_read_from_them() -> None:
    text = str(TEXTS["upload"]).encode()
    assert UPLOAD.dump() == text
    assert StagedUpload.read(_Bucket(text), "key") == UPLOAD
