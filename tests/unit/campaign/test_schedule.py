"""What a seed says of a campaign's faults."""

from __future__ import annotations

from tests.proofs.campaign.schedule import (
    CLEANER,
    WRITER,
    Blow,
    ServerFault,
    doom,
    incidents,
    reader_doom,
)

MINUTE = 60.0


def test_the_same_seed_tells_the_same() -> None:
    assert [doom(3, "writer-1", life) for life in range(50)] == [
        doom(3, "writer-1", life) for life in range(50)
    ]
    assert incidents(3, 10 * MINUTE) == incidents(3, 10 * MINUTE)
    assert reader_doom(3, "r", 1) == reader_doom(3, "r", 1)


def test_other_seeds_seats_and_lives_end_in_other_ways() -> None:
    ends = {doom(seed, seat, life) for seed in (1, 2) for seat in "ab" for life in range(9)}
    assert len(ends) == 36
    assert incidents(1, 10 * MINUTE) != incidents(2, 10 * MINUTE)


def test_whoever_is_frozen_is_so_beyond_the_time_out_of_transactions() -> None:
    for life in range(500):
        end = doom(1, "writer-1", life, timeout_s=20.0)
        if end.blow in {Blow.FREEZE, Blow.FREEZE_AND_KILL, Blow.REPLACE}:
            assert end.lasts_s > 20.0


def test_every_blow_is_dealt_and_most_are_kills() -> None:
    blows = [doom(1, "writer-1", life).blow for life in range(500)]
    assert set(blows) == set(Blow)
    assert blows.count(Blow.KILL) > 350


def test_every_server_fault_happens_in_five_minutes_and_none_before_another() -> None:
    for seed in range(20):
        found = incidents(seed, 5 * MINUTE)
        assert {incident.fault for incident in found} == set(ServerFault)
        times = [incident.at_s for incident in found]
        assert times == sorted(times)
        assert times[-1] < 5 * MINUTE


def test_ends_are_aimed_at_every_step_of_the_driver_they_are_for() -> None:
    for habits in (WRITER, CLEANER):
        aims = {doom(1, "seat", life, habits=habits).aim for life in range(500)}
        assert aims == {None, *habits.steps}
