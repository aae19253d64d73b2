from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.storage.stores import change_feed
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote, task_file


def note(since: int, until: int, *files: str, job_key: str = "dag/run/task/-1") -> FeedNote:
    return FeedNote(
        table="db.t",
        table_id="7",
        since=since,
        until=until,
        is_whole=False,
        job_key=job_key,
        attempt="1-a",
        files=files,
        rows={"insert": len(files)},
    )


def write(directory: str, *names: str) -> None:
    for name in names:
        Path(task_file(directory, name).removeprefix("file:")).write_text("rows")


def started(feed: ChangeFeed, *names: str) -> str:
    """A directory of the first range, with these files."""
    directory = feed.new_directory(0, "a")
    write(directory, *names)
    return directory


def publish(feed: ChangeFeed, directory: str, told: FeedNote) -> str:
    return feed.publish(directory, told, dict.fromkeys(told.files, 4))


@pytest.fixture
def feed(tmp_path: Path) -> ChangeFeed:
    return ChangeFeed(f"file:{tmp_path}/feed")


def test_a_feed_starts_empty_and_continues_from_its_last_range(
    feed: ChangeFeed, tmp_path: Path
) -> None:
    assert feed.last() is None
    for since, until in ((0, 4), (4, 12), (12, 20_000_000)):
        directory = feed.new_directory(since, "a")
        write(directory, "part-1.parquet")
        uri = publish(feed, directory, note(since, until, "part-1.parquet"))
        assert feed.last() == note(since, until, "part-1.parquet")
        assert sorted(p.name for p in Path(uri.removeprefix("file:")).iterdir()) == [
            "_changes.json",
            "part-1.parquet",
        ]
    directory = feed.new_directory(20_000_000, "a")
    publish(feed, directory, note(20_000_000, 20_000_001))
    last = feed.last()
    assert last is not None
    assert last.until == 20_000_001
    assert sorted(p.name for p in (tmp_path / "feed").iterdir()) == [
        "changes_0000000",
        "changes_0000004",
        "changes_0000012",
        "changes_20000000",
    ]


def test_publishing_a_second_range_from_the_same_version_raises_an_error(
    feed: ChangeFeed, tmp_path: Path
) -> None:
    one, other = feed.new_directory(4, "a"), feed.new_directory(4, "b")
    assert one != other
    write(one, "part-a.parquet")
    write(other, "part-b.parquet")
    publish(feed, one, note(4, 6, "part-a.parquet"))
    with pytest.raises(errors.FeedOvertakenError):
        publish(feed, other, note(4, 9, "part-b.parquet"))
    assert feed.last() == note(4, 6, "part-a.parquet")
    assert [path.name for path in (tmp_path / "feed").iterdir()] == ["changes_0000004"]


def test_an_unpublished_range_is_invisible(feed: ChangeFeed, tmp_path: Path) -> None:
    directory = started(feed, "part-1.parquet")
    assert feed.last() is None
    feed.discard(directory)
    assert list((tmp_path / "feed").iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        errors.TransactionAbortedError(txn_id=1, reason="killed"),
        errors.MetastoreUnavailableError(uris=(), method="heartbeat", reason="cut off"),
    ],
)
def test_an_error_right_before_publishing_leaves_no_files(
    feed: ChangeFeed, tmp_path: Path, error: Exception
) -> None:
    directory = started(feed, "part-1.parquet")

    def guard() -> None:
        assert list((tmp_path / "feed").glob("*/_changes.json"))
        raise error

    with pytest.raises(type(error)):
        feed.publish(directory, note(0, 1, "part-1.parquet"), {"part-1.parquet": 4}, guard=guard)
    assert list((tmp_path / "feed").iterdir()) == []


@pytest.mark.parametrize("step", ["move", "write_new", "rename_directory"])
def test_files_of_lost_tasks_are_never_part_of_a_range(
    feed: ChangeFeed, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = started(feed, "part-1.parquet", "part-lost.parquet")
    take = getattr(change_feed, step)

    def late(*arguments: object) -> None:
        write(directory, "part-late.parquet")
        take(*arguments)

    monkeypatch.setattr(change_feed, step, late)
    uri = publish(feed, directory, note(0, 1, "part-1.parquet"))
    there = {path.name for path in Path(uri.removeprefix("file:")).iterdir()}
    assert there == {"_changes.json", "part-1.parquet"}
    assert [path.name for path in (tmp_path / "feed").iterdir()] == ["changes_0000000"]


def test_a_range_with_a_missing_file_is_not_published(feed: ChangeFeed) -> None:
    directory = started(feed, "part-1.parquet")
    with pytest.raises(errors.StorageError):
        publish(feed, directory, note(0, 1, "part-1.parquet", "part-2.parquet"))
    assert feed.last() is None


def test_a_failed_cleanup_does_not_undo_a_published_range(
    feed: ChangeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = started(feed, "part-1.parquet", "part-lost.parquet")

    def refuse(*_: object) -> None:
        raise errors.StorageError("no")

    monkeypatch.setattr(change_feed, "delete_directory", refuse)
    publish(feed, directory, note(0, 1, "part-1.parquet"))
    assert feed.last() == note(0, 1, "part-1.parquet")


def test_old_staged_files_are_removed_and_recent_ones_are_kept(
    feed: ChangeFeed, tmp_path: Path
) -> None:
    dead, living = feed.new_directory(0, "dead"), feed.new_directory(0, "living")
    long_ago = time.time() - 2 * 86400
    os.utime(dead.removeprefix("file:"), (long_ago, long_ago))
    other = tmp_path / "feed" / "_tmp_hiveacid_other"
    other.mkdir()
    os.utime(other, (long_ago, long_ago))
    feed.new_directory(0, "next")
    assert not Path(dead.removeprefix("file:")).exists()
    assert Path(living.removeprefix("file:")).exists()
    assert other.exists()


def test_a_range_that_its_consumer_removed_is_not_required(feed: ChangeFeed) -> None:
    for since in (0, 1):
        publish(feed, feed.new_directory(since, "a"), note(since, since + 1))
    first = Path(feed.uri_of(0).removeprefix("file:"))
    (first / "_changes.json").unlink()
    first.rmdir()
    assert feed.last() == note(1, 2)


def test_a_job_finds_the_range_that_it_has_written(feed: ChangeFeed) -> None:
    for since in (0, 1, 2):
        publish(
            feed, feed.new_directory(since, "a"), note(since, since + 1, job_key=f"run {since}")
        )
    assert feed.written_by("run 1") == note(1, 2, job_key="run 1")
    assert feed.written_by("run 9") is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"version": 1, "table": 1}', '{"version": 2}', "{" * 5000]
)
def test_an_invalid_note_raises_an_error_instead_of_restarting_the_feed(
    feed: ChangeFeed, text: str
) -> None:
    uri = publish(feed, feed.new_directory(0, "a"), note(0, 1))
    Path(uri.removeprefix("file:"), "_changes.json").write_text(text)
    with pytest.raises(errors.FeedError):
        feed.last()


class _WithoutAges(pafs.LocalFileSystem):
    """A store that does not report the times of directories, as object stores."""

    def get_file_info(self, chosen: object) -> object:
        found = super().get_file_info(chosen)
        return [pafs.FileInfo(one.path, type=one.type, mtime=None) for one in found]


@pytest.mark.parametrize(
    ("store", "is_kept"), [(_WithoutAges, True), (pafs.LocalFileSystem, False)]
)
def test_an_unfinished_range_is_removed_only_if_the_store_tells_that_it_is_old(
    feed: ChangeFeed, tmp_path: Path, store: type[pafs.FileSystem], *, is_kept: bool
) -> None:
    """Without an age, another process may still write it."""
    directory = Path(feed.new_directory(0, "a").removeprefix("file:"))
    os.utime(directory, (0, 0))
    feed._remove_orphans(store(), str(tmp_path / "feed"))
    assert directory.exists() is is_kept
