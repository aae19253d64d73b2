"""The judge of a campaign: every look of every reader must show a serial history of whole changes.

It takes the plans, the answers and the looks. The order of write IDs is the order of the changes
(see `campaign.plans`); a snapshot's list says which of them a reader must see. So one comparison of
rows finds everything lost, doubled, half seen or seen too early.

Example:
    judge(plans, commits, polls, load_rows)  # the violations; there should be none
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from tests.proofs.campaign.plans import PARTITIONS, Plan, Rows, Table
from tests.proofs.campaign.polls import Past, Poll, Row, Seen, digest

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The result of a change: its write ID, and the time of the answer (`time.time`)."""

    number: int
    write_id: int
    told_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that must never occur: the reader, the table and a description."""

    reader: str
    table: str
    at: float
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The changes of both tables."""

    plans: Mapping[int, Plan]
    commits: Mapping[int, Commit]

    def of(self, table: Table) -> list[Commit]:
        """Return the commits of one table in the order of their write IDs."""
        mine = [c for n, c in self.commits.items() if self.plans[n].table is table]
        return sorted(mine, key=lambda commit: commit.write_id)

    def rows_after(self, table: Table, numbers: Sequence[int]) -> list[Row]:
        """Return the rows after some changes, in this order."""
        rows: Rows = {}
        for number in numbers:
            self.plans[number].apply(rows)
        return flat(table, rows)

    def rows_at_the_end(self, table: Table) -> list[Row]:
        """Return the rows after all confirmed changes."""
        return self.rows_after(table, [commit.number for commit in self.of(table)])


def flat(table: Table, rows: Rows) -> list[Row]:
    """Return a model's rows in the form that a reader of the table gets, sorted."""
    if table is Table.PARTED:
        return sorted((i, v, job, i % PARTITIONS) for i, (v, job) in rows.items())
    return sorted((i, v, job) for i, (v, job) in rows.items())


def judge(
    history: History, polls: Sequence[Poll], load: Callable[[str], Sequence[Row]]
) -> list[Violation]:
    """Compare every look with its expected rows; `load` returns the rows of a digest."""
    found = []
    for table in Table:
        commits = history.of(table)
        found += _same_write_ids(table, commits)
        known: dict[tuple[int, ...], tuple[str, list[Row]]] = {}
        for poll in polls:
            seen = poll.tables.get(table.value)
            if seen is not None:
                found += _judge_one(history, table, commits, poll, seen, known, load)
    return sorted(found, key=lambda violation: violation.at)


def _same_write_ids(table: Table, commits: Sequence[Commit]) -> list[Violation]:
    counts = Counter(commit.write_id for commit in commits)
    return [
        Violation(
            reader="answers",
            table=table.value,
            at=0.0,
            detail=f"write ID {write_id} was answered for {count} changes",
        )
        for write_id, count in counts.items()
        if count > 1
    ]


def _judge_one(
    history: History,
    table: Table,
    commits: Sequence[Commit],
    poll: Poll,
    seen: Seen,
    known: dict[tuple[int, ...], tuple[str, list[Row]]],
    load: Callable[[str], Sequence[Row]],
) -> list[Violation]:
    write_ids = ValidWriteIdList.parse(seen.write_ids)
    details = []
    visible = tuple(c.number for c in commits if write_ids.is_visible(WriteId(c.write_id)))
    hidden = [c for c in commits if c.told_at < poll.began_at and c.number not in set(visible)]
    if hidden:
        details.append(f"confirmed before and not visible: {_numbers(hidden)} in {seen.write_ids}")
    if visible not in known:
        rows = history.rows_after(table, visible)
        known[visible] = (digest(rows), rows)
    expected, rows = known[visible]
    if seen.digest != expected:
        details.append(f"{seen.write_ids}: {compare(rows, load(seen.digest))}")
    if seen.past is not None:
        details += _of_the_past(history, table, commits, seen.past, load)
    if seen.again != seen.digest:
        change = compare(load(seen.digest), load(seen.again))
        details.append(f"read twice in one snapshot, with another answer: {change}")
    return [
        Violation(reader=poll.reader, table=table.value, at=poll.began_at, detail=detail)
        for detail in details
    ]


def _of_the_past(
    history: History,
    table: Table,
    commits: Sequence[Commit],
    past: Past,
    load: Callable[[str], Sequence[Row]],
) -> list[str]:
    """Return the errors of a version that was read, and of the changes up to it."""
    there = [c.number for c in commits if c.write_id <= past.version]
    rows = history.rows_after(table, there)
    read = {
        f"as of version {past.version}": past.digest,
        f"as of version {past.since}, with all changes up to {past.version}": past.replayed,
    }
    return [
        f"{name}: {compare(rows, load(found))}"
        for name, found in read.items()
        if found is not None and found != digest(rows)
    ]


def compare(expected: Sequence[Row], found: Sequence[Row]) -> str:
    """Return one line that says what is missing, unexpected and doubled."""
    want, have = Counter(expected), Counter(found)
    ids = Counter(row[0] for row in found)
    doubled = sorted(str(row_id) for row_id, count in ids.items() if count > 1)
    parts = {
        "missing": _rows(want - have),
        "unexpected": _rows(have - want),
        "doubled": ", ".join(doubled[:_SHOWN]),
    }
    return f"{len(expected)} rows expected, {len(found)} found; " + "; ".join(
        f"{name}: {text}" for name, text in parts.items() if text
    )


def _rows(rows: Counter[Row]) -> str:
    if not rows:
        return ""
    jobs = Counter(str(row[2]) for row in rows.elements())
    shown = ", ".join(map(str, sorted(rows.elements())[:_SHOWN]))
    return f"{rows.total()} rows, last written by {dict(jobs)}, such as {shown}"


def _numbers(commits: Sequence[Commit]) -> str:
    return ", ".join(f"change {c.number} (write ID {c.write_id})" for c in commits[:_SHOWN])
