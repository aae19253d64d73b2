"""Which range of a feed a try finds to be its own; feeds are tried whole in tests/spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.spark.statements.changes import _own
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote

if TYPE_CHECKING:
    from pathlib import Path


def note(since: int, job_key: str) -> FeedNote:
    return FeedNote(
        table="db.t",
        table_id="7",
        since=since,
        until=since + 1,
        is_whole=False,
        job_key=job_key,
        attempt="1-00c0ffee0123",
    )


def job(job_key: str, try_number: int, generation: int = 0) -> Any:  # noqa: ANN401 - a stand-in
    attempt = f"{try_number}-0123456789ab"
    spec = SimpleNamespace(job_key=job_key, attempt=attempt, generation=generation)
    return SimpleNamespace(spec=spec)


@pytest.mark.parametrize(("try_number", "generation"), [(2, 0), (1, 1)])
def test_a_retry_finds_its_range_though_another_run_went_on(
    tmp_path: Path, try_number: int, generation: int
) -> None:
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    for since, run in enumerate(("one", "two")):
        feed.publish(feed.place_for(since, "a"), note(since, run))
    assert _own(feed, job("one", try_number, generation)) == note(0, "one")
    assert _own(feed, job("two", try_number, generation)) == note(1, "two")
    assert _own(feed, job("three", try_number, generation)) is None
