"""The campaign's judge: it must find every kind of harm, and nothing where there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from tests.proofs.campaign import polls
from tests.proofs.campaign.errands import litter, proves, stored_rows
from tests.proofs.campaign.oracle import Commit, History, Violation, flat, judge
from tests.proofs.campaign.plans import PARTITIONS, SPAN, Action, Choice, Plan, Table, draw

PLANS = {
    1: Plan(
        number=1,
        table=Table.PARTED,
        action=Action.INSERT,
        fresh=tuple((SPAN + i, i) for i in range(8)),
    ),
    2: Plan(
        number=2,
        table=Table.PARTED,
        action=Action.UPDATE,
        choice=Choice(number=1, divisor=2, remainder=0),
    ),
    3: Plan(
        number=3,
        table=Table.PARTED,
        action=Action.OVERWRITE,
        fresh=((3 * SPAN + 1, 5),),
        partition=1,
    ),
}
COMMITS = {
    number: Commit(number=number, write_id=write_id, told_at=float(write_id))
    for number, write_id in ((1, 2), (2, 3), (3, 5))
}
HISTORY = History(plans=PLANS, commits=COMMITS)


def look(
    rows: list[polls.Row],
    write_ids: str,
    *,
    began_at: float = 0.0,
    again: list[polls.Row] | None = None,
    past: tuple[int, list[polls.Row] | None, list[polls.Row] | None] = (0, None, None),
) -> list[Violation]:
    """Judge one look of one reader; `past` is a version, its rows, and those of a replay."""
    version, then, replayed = past
    shown = (rows, rows if again is None else again, then or [], replayed or [])
    kept = {polls.digest(one): one for one in shown}
    seen = polls.Seen(
        past=polls.Past(
            version=version,
            since=1,
            digest=None if then is None else polls.digest(then),
            replayed=None if replayed is None else polls.digest(replayed),
        ),
        write_ids=f"campaign.parted:{write_ids}",
        digest=polls.digest(rows),
        again=polls.digest(rows if again is None else again),
    )
    poll = polls.Poll(reader="r", began_at=began_at, ended_at=began_at, tables={"parted": seen})
    return judge(HISTORY, [poll], kept.__getitem__)


def after(*numbers: int) -> list[polls.Row]:
    return HISTORY.rows_after(Table.PARTED, numbers)


ALL = "5:9223372036854775807::"


def test_rows_that_match_the_readers_snapshot_are_not_a_violation() -> None:
    assert look(after(), "1:9223372036854775807::") == []
    assert look(after(1), "2:9223372036854775807::") == []
    assert look(after(1, 2), "4:9223372036854775807::4") == []
    assert look(after(1, 3), "5:3:3:") == []
    assert look(after(1, 2, 3), ALL, began_at=9.0) == []


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (after(1, 2, 3)[1:], "missing: 1 rows"),
        ([*after(1, 2, 3), after(1, 2, 3)[-1]], "doubled: 3001"),
        (after(1, 2), "unexpected: 2 rows"),
        (after(1, 3), "last written by {'2': 4}"),
        (after(1, 2, 2, 3), "last written by {'2': 4}"),
        ([r for r in after(1, 2, 3) if r[3] != 3], "missing: 2 rows"),
    ],
    ids=["lost", "doubled", "one change lost", "an older state", "applied twice", "half"],
)
def test_lost_doubled_unexpected_or_outdated_rows_are_a_violation(
    rows: list[polls.Row], told: str
) -> None:
    (violation,) = look(rows, ALL)
    assert told in violation.detail


def test_rows_of_an_open_write_are_a_violation() -> None:
    (violation,) = look(after(1, 2, 3), "5:5:5:")
    assert "unexpected" in violation.detail


def test_a_confirmed_change_that_a_later_snapshot_hides_is_a_violation() -> None:
    (violation,) = look(after(1, 2), "5:5:5:", began_at=9.0)
    assert "confirmed before and not visible: change 3 (write ID 5)" in violation.detail


def test_a_change_confirmed_after_the_reader_began_may_be_hidden() -> None:
    assert look(after(1, 2), "5:5:5:", began_at=4.0) == []


def test_two_different_results_in_one_snapshot_are_a_violation() -> None:
    (violation,) = look(after(1), "2:9223372036854775807::", again=after(1)[1:])
    assert "read twice" in violation.detail


def test_a_version_contains_all_changes_up_to_it_when_read_or_replayed() -> None:
    now = after(1, 2, 3)
    for version, numbers in {1: (), 2: (1,), 3: (1, 2), 4: (1, 2), 5: (1, 2, 3)}.items():
        then = after(*numbers)
        assert look(now, ALL, past=(version, then, then)) == []
        assert look(now, ALL, past=(version, None, None)) == []


def test_wrong_rows_of_a_version_are_a_violation_when_read_or_replayed() -> None:
    now = after(1, 2, 3)
    (violation,) = look(now, ALL, past=(3, after(1), after(1, 2)))
    assert violation.detail.startswith("as of version 3: ")
    (violation,) = look(now, ALL, past=(3, after(1, 2), after(1, 2)[1:]))
    assert violation.detail.startswith("as of version 1, with all changes up to 3: ")
    assert "missing: 1 rows" in violation.detail
    (violation,) = look(now, ALL, past=(2, None, [("not there", 1, 2, "1"), *after(1)]))
    assert "unexpected" in violation.detail


def test_two_changes_with_the_same_write_id_are_a_violation() -> None:
    doubled = {**COMMITS, 3: Commit(number=3, write_id=3, told_at=3.0)}
    (violation,) = judge(History(plans=PLANS, commits=doubled), [], {}.__getitem__)
    assert "write ID 3 was answered for 2 changes" in violation.detail


def test_drawn_changes_only_touch_rows_of_earlier_changes_to_the_same_table() -> None:
    drawn: list[Plan] = []
    for number in range(1, 400):
        plan = draw(Random(f"7/{number}"), number=number, confirmed=drawn)
        assert all(row_id // SPAN == number for row_id, _ in plan.fresh)
        earlier = {p.number for p in drawn if p.table is plan.table}
        assert {row_id // SPAN for row_id, _ in plan.known} <= earlier
        if plan.choice:
            assert plan.choice.number in earlier
        if plan.action is Action.OVERWRITE and plan.partition is not None:
            assert {row_id % PARTITIONS for row_id, _ in plan.fresh} == {plan.partition}
        drawn.append(plan)
    # A table with buckets cannot be rebalanced.
    possible = {(t, a) for t in Table for a in Action} - {(Table.BUCKETED, Action.REBALANCE)}
    assert {(p.table, p.action) for p in drawn} == possible
    assert drawn[-1] == draw(Random("7/399"), number=399, confirmed=drawn[:-1])


def test_polls_and_rows_are_read_back_unchanged_and_cut_lines_are_ignored(tmp_path: Path) -> None:
    rows = flat(Table.PARTED, {5: (1, "1"), 4: (2, "1")})
    assert rows == [(4, 2, "1", 0), (5, 1, "1", 1)]
    name = polls.keep(tmp_path, rows)
    assert polls.keep(tmp_path, rows) == name
    assert polls.load(tmp_path, name) == rows
    seen = polls.Seen(write_ids="t:1:1::", digest=name, again=name)
    late = polls.Poll(reader="b", began_at=2.0, ended_at=3.0, tables={"parted": seen})
    early = polls.Poll(reader="a", began_at=1.0, ended_at=3.0, tables={}, error=("E", "text"))
    file = tmp_path / "polls.jsonl"
    # The last line is one that its reader was killed over.
    file.write_text(late.line() + early.line() + late.line()[:-9])
    assert polls.read_polls([file]) == [early, late]


def turned_away(
    location: str, base: str, *, began_at: float, kind: str | None = None
) -> polls.Poll:
    error = NotEnoughHistoryError(location=location, high_watermark=9, oldest_base=base)
    return polls.Poll(
        reader="spark-reader-1",
        began_at=began_at,
        ended_at=began_at + 2.0,
        tables={},
        error=(kind or type(error).__name__, str(error)),
    )


def answer(folder: Path, at: float, table: str, partition: str, *outputs: str) -> Path:
    file = folder / f"answer-{at}.json"
    done = {"partition": partition, "outputs": outputs}
    file.write_text(
        json.dumps({"table": table, "details": {"compactions": [done]}}), encoding="utf-8"
    )
    os.utime(file, (at, at))
    return file


FIRST = "base_0000004"
BUCKETED = "file:/disk/campaign.db/bucketed"


@pytest.mark.parametrize(
    ("poll", "is_foreseen"),
    [
        (turned_away(BUCKETED, FIRST, began_at=99.0), True),
        (turned_away(BUCKETED, FIRST, began_at=101.0), False),  # its snapshot knows the base
        (turned_away(BUCKETED, "base_0000007", began_at=99.0), False),  # the first one is gone
        (turned_away(BUCKETED, "base_0000002", began_at=99.0), True),  # its writer was killed
        (turned_away(BUCKETED, FIRST, began_at=99.0, kind="StorageError"), False),
        (turned_away("file:/disk/campaign.db/parted/p=1", FIRST, began_at=101.0), True),
        (polls.Poll(reader="r", began_at=1.0, ended_at=2.0, tables={}), False),
    ],
)
def test_only_the_first_base_of_a_table_excuses_a_not_enough_history_error(
    tmp_path: Path, poll: polls.Poll, is_foreseen: bool
) -> None:
    answers = [
        answer(tmp_path, 100.0, "campaign.bucketed", "", FIRST),
        answer(tmp_path, 200.0, "campaign.bucketed", "", "base_0000007"),
        answer(tmp_path, 50.0, "campaign.parted", "p=0", FIRST),
        answer(tmp_path, 51.0, "campaign.parted", "p=1", "delta_0000001_0000004"),
    ]
    assert polls.was_turned_away_by_first_base(poll, polls.read_bases(answers)) is is_foreseen


def test_answers_of_writers_and_failed_jobs_contain_no_bases(tmp_path: Path) -> None:
    file = tmp_path / "answer-1.json"
    file.write_text(json.dumps({"table": "campaign.parted", "details": {}}), encoding="utf-8")
    assert polls.read_bases([file]) == []


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).mkdir(parents=True)


def test_one_directory_per_partition_and_the_ledger_are_not_litter(tmp_path: Path) -> None:
    make(tmp_path, "bucketed/base_0000009", "bucketed/_ledger")
    make(tmp_path, "parted/p=0/base_0000003", "parted/p=1/delta_0000001_0000001_0000")
    make(tmp_path, "parted/p=2")
    assert litter(str(tmp_path)) == []


def test_older_directories_and_temporary_directories_are_litter(tmp_path: Path) -> None:
    make(tmp_path, "bucketed/base_0000009", "bucketed/base_0000010", "bucketed/_tmp_7-1-a")
    make(tmp_path, "parted/_tmp_8-1-b", "parted/p=0/base_0000003", "parted/p=0/_tmp_9-1-c")
    make(tmp_path, "parted/p=0/delta_0000004_0000004_0000")
    assert sorted(litter(str(tmp_path))) == [
        "_tmp_8-1-b",
        "bucketed/_tmp_7-1-a",
        "bucketed/base_0000009",
        "p=0/_tmp_9-1-c",
        "p=0/base_0000003",
    ]


def test_the_proofs_look_for_earlier_versions_of_rows_and_count_the_kept_ones() -> None:
    row = "concat_ws('|', id, v, job)"
    assert stored_rows([(1, 5, "a", 1), (2, 6, "b", 2)]) == {
        f"{row} NOT IN ('1|5|a', '2|6|b')": 0,
        f"{row} IN ('1|5|a', '2|6|b')": 2,
    }
    assert stored_rows([]) == {"true": 0}


@pytest.mark.parametrize(
    ("proved", "rows", "stored", "expected"),
    [
        (True, 0, 0, True),
        (False, 0, 0, False),  # a file could not be read
        (False, 1, 0, False),
        (False, 2, 2, True),
        (False, 1, 2, False),
        (False, 3, 2, False),
        (True, 2, 2, False),
    ],
)
def test_a_proof_must_find_exactly_the_stored_rows(
    proved: bool, rows: int, stored: int, expected: bool
) -> None:
    result = JobResult(
        kind="prove_erasure",
        job_key="campaign/tidy-up/9",
        status=JobStatus.NOTHING_TO_DO,
        table="db.bucketed",
        details={"erasure": {"proved": proved, "rows": rows}},
    )
    assert proves(result, stored) is expected
