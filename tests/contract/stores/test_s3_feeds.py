"""A feed of changes where nothing is renamed: files count when the note beside them is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from s3_lab import MotoS3


def write(place: str, name: str) -> None:
    fs, path = open_location(f"{place}/{name}")
    with fs.open_output_stream(path) as stream:
        pq.write_table(pa.table({"id": [1]}), stream)


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


def test_the_note_comes_last_and_what_a_dead_attempt_left_goes(s3: MotoS3, table: str) -> None:
    feed = ChangeFeed(table.replace("/t", "/feed"))
    assert feed.last() is None
    dead = feed.place_for(0, "dead")
    write(dead, "part-dead.parquet")
    assert feed.last() is None, "nobody has said that it counts"
    place = feed.place_for(0, "a")
    assert s3.objects() == []
    write(place, "part-a.parquet")
    write(place, "part-lost.parquet")
    uri = feed.publish(place, note(0, 3, "part-a.parquet"))
    assert [k.rpartition("/")[2] for k in s3.objects()] == ["_changes.json", "part-a.parquet"]
    assert feed.last() == note(0, 3, "part-a.parquet")
    assert uri == feed.uri_of(0)
    fs, path = open_location(f"{uri}/part-a.parquet")
    assert pq.read_table(path, filesystem=fs).num_rows == 1
    nothing = feed.place_for(3, "b")
    write(nothing, "part-b.parquet")
    feed.discard(nothing)
    assert len(s3.objects()) == 2
