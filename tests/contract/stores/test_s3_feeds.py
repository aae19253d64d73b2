"""A feed of changes where nothing is renamed: files count when the note beside them is there."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.format.errors import FeedOvertakenError
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote, task_file
from airflow_hiveacid.storage.stores.listing import open_uploads
from airflow_hiveacid.storage.stores.locations import open_location
from tests.support.s3_lab import MotoS3


def write(directory: str, *names: str) -> None:
    for name in names:
        fs, path = open_location(task_file(directory, name))
        with fs.open_output_stream(path) as stream:
            pq.write_table(pa.table({"id": [1]}), stream)


def publish(feed: ChangeFeed, directory: str, told: FeedNote) -> str:
    body = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), body)
    return feed.publish(directory, told, dict.fromkeys(told.files, len(body.getvalue())))


def note(since: int, until: int, *files: str) -> FeedNote:
    return FeedNote(
        table="db.t",
        table_id="7",
        since=since,
        until=until,
        is_whole=False,
        job_key="dag/run/task/-1",
        attempt="1-a",
        files=files,
    )


def names(s3: MotoS3) -> list[str]:
    return sorted(key.partition("/feed/")[2] for key in s3.objects())


def test_the_note_of_a_feed_is_written_last_and_files_of_a_dead_attempt_are_removed(
    s3: MotoS3, table: str
) -> None:
    feed = ChangeFeed(table.replace("/t", "/feed"))
    assert feed.last() is None
    write(feed.new_directory(0, "dead"), "part-dead.parquet")
    assert feed.last() is None, "nobody has said that it counts"
    directory = feed.new_directory(0, "a")
    write(directory, "part-a.parquet")
    write(directory, "part-lost.parquet")
    uri = publish(feed, directory, note(0, 3, "part-a.parquet"))
    assert names(s3) == ["changes_0000000/_changes.json", "changes_0000000/a/part-a.parquet"]
    last = feed.last()
    assert last == replace(note(0, 3, "part-a.parquet"), directory="a")
    assert uri == feed.directory_of(last)
    fs, path = open_location(f"{uri}/part-a.parquet")
    assert pq.read_table(path, filesystem=fs).num_rows == 1
    nothing = feed.new_directory(3, "b")
    write(nothing, "part-b.parquet")
    feed.discard(nothing)
    assert len(s3.objects()) == 2
    assert open_uploads(feed.location) == ()


def test_a_range_without_files_is_published(s3: MotoS3, table: str) -> None:
    feed = ChangeFeed(table.replace("/t", "/feed"))
    publish(feed, feed.new_directory(0, "a"), note(0, 3))
    assert names(s3) == ["changes_0000000/_changes.json"]
    assert feed.last() == replace(note(0, 3), directory="a")
    other = feed.new_directory(0, "b")
    write(other, "part-b.parquet")
    with pytest.raises(FeedOvertakenError):
        publish(feed, other, replace(note(0, 4, "part-b.parquet"), attempt="1-b"))
    assert names(s3) == ["changes_0000000/_changes.json"]
    assert open_uploads(feed.location) == ()


def test_a_file_written_after_the_publish_belongs_to_no_range(s3: MotoS3, table: str) -> None:
    feed = ChangeFeed(table.replace("/t", "/feed"))
    directory = feed.new_directory(0, "a")
    write(directory, "part-a.parquet")
    fs, path = open_location(task_file(directory, "part-cut.parquet"))
    cut = fs.open_output_stream(path)
    cut.write(bytes(32 << 20))
    assert len(open_uploads(feed.location)) == 2
    uri = publish(feed, directory, note(0, 3, "part-a.parquet"))
    assert open_uploads(feed.location) == (), "of a task that was cut off, neither"
    with contextlib.suppress(OSError):
        cut.close()
    write(directory, "part-late.parquet")
    fs, root = open_location(uri)
    assert pq.read_table(root, filesystem=fs).num_rows == 1
    counted = [name for name in names(s3) if "/_" not in name]
    assert counted == ["changes_0000000/a/part-a.parquet"]


def test_the_second_of_two_concurrent_feed_writers_raises_and_changes_nothing(
    s3: MotoS3, table: str
) -> None:
    feed = ChangeFeed(table.replace("/t", "/feed"))
    one = feed.new_directory(4, "a")
    write(one, "part-a.parquet")
    other = feed.new_directory(4, "b")
    write(other, "part-b.parquet")
    uri = publish(feed, one, note(4, 6, "part-a.parquet"))
    write(other, "part-b.parquet", "part-late.parquet")
    with pytest.raises(FeedOvertakenError):
        publish(feed, other, replace(note(4, 9, "part-b.parquet"), attempt="1-b"))
    last = feed.last()
    assert last is not None
    assert last.until == 6
    assert names(s3) == ["changes_0000004/_changes.json", "changes_0000004/a/part-a.parquet"]
    fs, root = open_location(uri)
    assert pq.read_table(root, filesystem=fs).num_rows == 1
