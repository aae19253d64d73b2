"""The commit times that are known from notes, snapshots and the metastore's event log."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import TimeBounds
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.plan.history import Allocation, Knowledge, Sighting, as_of_time

W1, W2, W3 = WriteId(1), WriteId(2), WriteId(3)
NOW = ValidWriteIdList.parse("db.t:3:9223372036854775807::")


def test_the_event_log_decides_moments_more_than_a_minute_from_a_commit() -> None:
    known = Knowledge().with_log({W1: 1000, W2: 2000, W3: 3000})
    found = known.at(2100.0, NOW)
    assert (found.inside, found.outside, found.doubtful) == ({W1, W2}, {W3}, frozenset())
    for moment in (1941.0, 2000.0, 2060.5):
        assert known.at(moment, NOW).doubtful == {W2}
    assert known.at(1939.0, NOW).outside == {W2, W3}
    assert known.at(2061.0, NOW).inside == {W1, W2}


def test_a_commit_note_is_more_exact_than_the_event_log() -> None:
    known = Knowledge(commits={W2: TimeBounds(after_s=1999.5, by_s=2000.5)})
    assert known.with_log({W2: 2000}).of_commit(W2) == TimeBounds(after_s=1999.5, by_s=2000.5)


def test_an_event_log_that_contradicts_a_note_is_ignored_entirely() -> None:
    known = Knowledge(commits={W2: TimeBounds(after_s=5000.0, by_s=5001.0)})
    assert known.with_log({W1: 1000, W2: 2000, W3: 3000}) == known


def test_an_event_log_from_before_the_table_was_created_is_ignored_entirely() -> None:
    """No event shows the new creation: a different server did it, or the log was off."""
    known = Knowledge(born_s=2500.0)
    assert known.with_log({W1: 1000, W2: 2000, W3: 3000}) == known
    assert known.with_log({W1: 2450, W3: 3000}) != known


def test_an_event_log_that_contradicts_an_observed_snapshot_is_ignored_entirely() -> None:
    open_then = ValidWriteIdList.parse("db.t:3:2:2:")
    seen = Knowledge(sightings=(Sighting(write_ids=open_then, after_s=2500.0, by_s=2501.0),))
    assert seen.with_log({W2: 2000, W3: 2000}) == seen
    assert seen.with_log({W2: 2450, W3: 2000}) != seen
    given = Knowledge(allocations=(Allocation(write_id=W2, after_s=2500.0),))
    assert given.with_log({W3: 2000}) == given


@pytest.mark.parametrize(
    ("at_s", "outside", "doubtful"),
    [
        (999.9, {W2}, {W1}),
        (1000.0, set(), {W1, W2}),
        (1009.9, set(), {W1, W2}),
        (1010.0, set(), {W2}),
    ],
)
def test_a_snapshot_decides_no_moment_within_the_time_it_took(
    at_s: float, outside: set[WriteId], doubtful: set[WriteId]
) -> None:
    seen = ValidWriteIdList.parse("db.t:2:2:2:")
    known = Knowledge(sightings=(Sighting(write_ids=seen, after_s=1000.0, by_s=1010.0),))
    now = ValidWriteIdList.parse("db.t:2:9223372036854775807::")
    found = known.at(at_s, now)
    assert (found.outside, {*found.unknown, *found.doubtful}) == (outside, doubtful)


def test_the_skipped_write_ids_of_a_converted_table_are_one_doubt() -> None:
    now = ValidWriteIdList.parse("db.t:10000002:9223372036854775807::")
    known = Knowledge(commits={WriteId(10_000_002): TimeBounds(after_s=2000.0)})
    with pytest.raises(errors.VersionDoubtfulError) as caught:
        as_of_time(now, datetime.fromtimestamp(1000, UTC), known, taken_s=3000.0)
    assert caught.value.doubtful == ("write IDs 1 to 10000001 were committed at unknown times",)
    assert (caught.value.before, caught.value.after) == (0, 10_000_001)


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_moment_is_refused_if_the_write_id_list_ends_below_a_known_commit(
    *, is_noted: bool
) -> None:
    """Hive 4.0.1 lists nothing above an aborted write if it remembers no committed one."""
    first = TimeBounds(after_s=1000.0, by_s=1001.0)
    third = TimeBounds(after_s=2000.0, by_s=2001.0)
    seen = ValidWriteIdList.parse("db.t:4:4:4:2")
    look = Sighting(write_ids=seen, after_s=2500.0, by_s=2501.0)
    if is_noted:
        known = Knowledge(commits={W1: first, W3: third})
    else:
        given = (Allocation(write_id=W3, after_s=1900.0),)
        known = Knowledge(commits={W1: first}, sightings=(look,), allocations=given)
    short = ValidWriteIdList.parse("db.t:2:9223372036854775807::2")
    whole = ValidWriteIdList.parse("db.t:3:9223372036854775807::2")

    def at(now: ValidWriteIdList, moment_s: float) -> ValidWriteIdList:
        when = datetime.fromtimestamp(moment_s, UTC)
        return as_of_time(now, when, known, taken_s=4000.0)

    assert at(whole, 3000.0).is_visible(W3)
    with pytest.raises(errors.VersionDoubtfulError, match="but the metastore's list ends at 2"):
        at(short, 3000.0)
    assert at(short, 1500.0) == at(whole, 1500.0)


@pytest.mark.parametrize(
    ("ahead_s", "error"),
    [
        (0.0, None),
        (0.001, errors.VersionNotYetError),
        (86_400.0, errors.VersionNotYetError),
        (86_400.5, errors.VersionUnknownError),
    ],
)
def test_a_moment_at_most_one_day_ahead_raises_a_retryable_error(
    ahead_s: float, error: type[errors.HiveAcidError] | None
) -> None:
    """A run's interval ends by Airflow's clock, and the metastore's may lag behind."""
    now = ValidWriteIdList.parse("db.t:1:9223372036854775807::")
    known = Knowledge(commits={W1: TimeBounds(after_s=1000.0, by_s=1001.0)})
    when = datetime.fromtimestamp(4000.0 + ahead_s, UTC)
    if error is None:
        assert as_of_time(now, when, known, taken_s=4000.0) == now
    else:
        with pytest.raises(error, match=r"no state at .* yet; by the metastore's clock it is 1970"):
            as_of_time(now, when, known, taken_s=4000.0)


def test_the_bounds_of_a_commit_are_the_narrowest_that_the_notes_prove() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        looks = []
        for _ in range(dice.randrange(6)):
            high, after_s = dice.randrange(1, 9), dice.uniform(0.0, 100.0)
            opened = [w for w in range(1, high + 1) if dice.random() < 0.3]
            ids = ValidWriteIdList(
                table=None, high_watermark=WriteId(high), open=tuple(map(WriteId, opened))
            )
            looks.append(Sighting(write_ids=ids, after_s=after_s, by_s=after_s + dice.random()))
        given = tuple(
            Allocation(write_id=WriteId(dice.randrange(1, 9)), after_s=dice.uniform(0.0, 100.0))
            for _ in range(dice.randrange(4))
        )
        known = Knowledge(sightings=tuple(looks), allocations=given)
        for number in range(1, 10):
            w = WriteId(number)
            after = [s.after_s for s in looks if w in s.write_ids.open]
            after += [g.after_s for g in given if g.write_id <= w]
            by = [s.by_s for s in looks if s.write_ids.is_visible(w)]
            told = TimeBounds(after_s=max(after, default=None), by_s=min(by, default=None))
            assert known.of_commit(w) == told, (seed, number)


def test_bounds_of_many_commits_do_not_check_every_snapshot_for_every_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A history of ten thousand versions took five minutes."""
    looks = tuple(
        Sighting(
            write_ids=ValidWriteIdList.parse(f"db.t:{w}:{w}:{w}:"), after_s=float(w), by_s=w + 0.5
        )
        for w in range(1, 201)
    )
    known, asked = Knowledge(sightings=looks), []
    is_visible = ValidWriteIdList.is_visible

    def counted(ids: ValidWriteIdList, write_id: WriteId) -> bool:
        asked.append(write_id)
        return is_visible(ids, write_id)

    monkeypatch.setattr(ValidWriteIdList, "is_visible", counted)
    for w in range(1, 200):
        assert known.of_commit(WriteId(w)) == TimeBounds(after_s=float(w), by_s=w + 1.5)
    assert len(asked) <= 3 * 200
