"""What a seed says of a campaign's faults, and which options of a campaign are refused."""

from __future__ import annotations

import pytest

from tests.proofs.campaign import schedule
from tests.proofs.campaign.__main__ import main

MINUTE = 60.0


def test_the_same_seed_gives_the_same_dooms_and_incidents() -> None:
    assert [schedule.doom(3, "writer-1", life) for life in range(50)] == [
        schedule.doom(3, "writer-1", life) for life in range(50)
    ]
    assert schedule.incidents(3, 10 * MINUTE) == schedule.incidents(3, 10 * MINUTE)
    assert schedule.reader_doom(3, "r", 1) == schedule.reader_doom(3, "r", 1)


def test_different_seeds_seats_and_lives_have_different_dooms() -> None:
    ends = {
        schedule.doom(seed, seat, life) for seed in (1, 2) for seat in "ab" for life in range(9)
    }
    assert len(ends) == 36
    assert schedule.incidents(1, 10 * MINUTE) != schedule.incidents(2, 10 * MINUTE)


def test_a_freeze_lasts_longer_than_the_transaction_timeout() -> None:
    for life in range(500):
        end = schedule.doom(1, "writer-1", life, timeout_s=20.0)
        if end.blow in {schedule.Blow.FREEZE, schedule.Blow.FREEZE_AND_KILL, schedule.Blow.REPLACE}:
            assert end.lasts_s > 20.0


def test_every_kind_of_blow_occurs_and_most_are_kills() -> None:
    blows = [schedule.doom(1, "writer-1", life).blow for life in range(500)]
    assert set(blows) == set(schedule.Blow)
    assert blows.count(schedule.Blow.KILL) > 350


def test_every_server_fault_occurs_within_five_minutes_in_order_of_time() -> None:
    for seed in range(20):
        found = schedule.incidents(seed, 5 * MINUTE)
        assert {incident.fault for incident in found} == set(schedule.ServerFault)
        times = [incident.at_s for incident in found]
        assert times == sorted(times)
        assert times[-1] < 5 * MINUTE


def test_dooms_are_aimed_at_every_step_of_their_kind_of_driver() -> None:
    for habits in (schedule.WRITER, schedule.CLEANER):
        aims = {schedule.doom(1, "seat", life, habits=habits).aim for life in range(500)}
        assert aims == {None, *habits.steps}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--s3", "--versions", "3.1.3"], "tables on S3 need a 4.x metastore here"),
        (["--s3", "--hdfs"], "not allowed with"),
    ],
)
def test_invalid_combinations_of_options_are_refused_before_the_start(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(options)
    assert reason in capsys.readouterr().err
