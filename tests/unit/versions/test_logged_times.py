"""Times of writes that nobody noted, by the log that a metastore may keep."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format.errors import VersionDoubtfulError
from airflow_hiveacid.versions.history import history_of
from tests.unit.versions.conftest import Bench


def visible(bench: Bench, at_s: float) -> list[int]:
    """The versions that a reader as of a moment sees."""
    then = bench.past(timestamp=datetime.fromtimestamp(at_s, UTC)).then
    return [w for w in range(1, 9) if then.is_visible(w)]


@pytest.fixture
def middle_s(bench: Bench) -> float:
    """When somebody wrote, between two writes of ours that are far away."""
    bench.we_write()
    bench.clock.advance(10_000)
    middle_s = bench.client.server.now_s()
    bench.somebody_writes()
    bench.clock.advance(10_000)
    bench.we_write()
    bench.clock.advance(1)
    return middle_s


def test_the_event_log_decides_timestamps_that_commit_notes_leave_ambiguous(
    bench: Bench, middle_s: float
) -> None:
    for moment in (middle_s - 100, middle_s + 100):
        with pytest.raises(VersionDoubtfulError):
            visible(bench, moment)
    bench.client.server.has_event_log = True
    assert visible(bench, middle_s - 100) == [1]
    assert visible(bench, middle_s + 100) == [1, 2]
    with pytest.raises(VersionDoubtfulError, match="version 1, which excludes them, or version 2"):
        visible(bench, middle_s)


def test_the_event_log_is_not_read_if_commit_notes_suffice(
    bench: Bench, middle_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        pytest.fail("the log was read")

    monkeypatch.setattr(type(bench.client), "logged_commits", read)
    assert visible(bench, middle_s + 10_000.5) == [1, 2, 3]


def test_a_history_shows_commit_times_from_the_event_log(bench: Bench, middle_s: float) -> None:
    bench.client.server.has_event_log = True
    committed = history_of(bench.client, bench.table).versions[1].committed
    assert committed.after_s == pytest.approx(middle_s - 60, abs=1)
    assert committed.by_s == pytest.approx(middle_s + 61, abs=1)
