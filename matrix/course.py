"""Lets writers lead the life of a table, and asks every reader for it after each step."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import FileFormat
from judges.line_process import JudgeError
from matrix.explanations import explanation, failure
from matrix.kinds import KINDS, Kind
from matrix.life import NotHereError, Rows, life
from matrix.readers import NATIVE, NotReadHereError, as_rows, misplaced
from matrix.writers import HIVE_3, HIVE_4, OURS, Hive3Writer, HiveWriter, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from judges.engine import HiveJudge
    from judges.engine3 import Hive3Engine
    from matrix.life import Step, Writer
    from matrix.readers import Reader
    from spark_lab import Lab

ALTERNATING: Final = "in turns"
# Of this run alone, and of this machine.
_PATH: Final = re.compile(r"(?:file:)?/\S+")
_BREAKS: Final = (JudgeError, HiveAcidError, NotHereError, PySparkException)
# The default on a 4.x metastore is ZSTD, which the ORC in Hive 3.1 does not know.
_ORC_OF_ALL: Final = {"orc.compress": "ZLIB"}


@dataclass(slots=True, kw_only=True)
class Cell:
    """What one reader said of one life of one kind; `wrong` are the steps where it was not right.

    Each comes with what was seen, and with its explanation if it has one.
    """

    read: int = 0
    unread: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[tuple[str, str, str | None]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Nothing is left unexplained."""
        return all(why is not None for _, _, why in self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step, who should have taken it, and who did; `failures` are known ones of others."""

    step: Step
    asked: str
    done_by: str
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A wrong answer: in words, and whether rows are missing, and whether there are others."""

    text: str
    lacks: bool = False
    has_more: bool = False


@dataclass(slots=True, kw_only=True)
class Course:
    """One life: whose, of which kind, and what became of it."""

    kind: Kind
    writers: str
    cells: dict[str, Cell]
    taken: list[Taken] = field(default_factory=list)
    broke_off: str | None = None

    @property
    def steps(self) -> int:
        """How many there were."""
        return len(self.taken)

    @property
    def is_good(self) -> bool:
        """Nothing is left unexplained."""
        return self.broke_off is None and all(cell.is_good for cell in self.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What there is to write and to read with: engines make writers of a table."""

    lab: Lab
    hive: HiveJudge
    hive_3: Hive3Engine | None = None
    writers: Mapping[str, Callable[[Table], Writer]]
    readers: Sequence[Reader]


@dataclass(frozen=True, slots=True, kw_only=True)
class _After:
    """A table, and the rows that it has to hold now."""

    table: Table
    rows: Rows


def lead(ground: Ground, kind: Kind, writers: str, say: Callable[[str], None]) -> Course:
    """Lead one life.

    Args:
        ground: The engines.
        kind: Of the table.
        writers: One of the ground's, `HIVE_3`, or `ALTERNATING`.
        say: Hears what is not right, step by step.

    Raises:
        NotHereError: Hive 3.1.3 cannot lead such a life.
    """
    table = _made(
        ground, kind, f"t_{KINDS.index(kind)}_{''.join(filter(str.isalnum, writers)).lower()}"
    )
    known = {name: make(table) for name, make in ground.writers.items()}
    if writers == HIVE_3 and ground.hive_3 is not None:
        known[HIVE_3] = Hive3Writer.beside(
            HiveWriter(table=table, engine=ground.hive), ground.hive_3
        )
    course = Course(kind=kind, writers=writers, cells={r.name: Cell() for r in ground.readers})
    rows: Rows = kind.flat_rows
    for number, step in enumerate(life(kind)):
        at = (number + KINDS.index(kind)) % len(known)
        first = list(known)[at] if writers == ALTERNATING else writers
        rows = step.model(rows)
        try:
            course.taken.append(_taken(kind, known, first, step))
            _compare(ground, course, _After(table=table, rows=rows), say)
        except _BREAKS as error:
            said = _PATH.sub("(a path)", str(error))[:300]
            course.broke_off = f"{step.name} by {first}: {type(error).__name__}: {said}"
            say(f"{kind.name}, {writers}: broke off at {course.broke_off}")
            break
    return course


def _made(ground: Ground, kind: Kind, name: str) -> Table:
    table = Table(lab=ground.lab, name=name, kind=kind)
    if kind.was_flat:
        _converted(ground, table)
        return table
    if kind.format is FileFormat.TEXT:
        columns = ", ".join(f"{c.name} {c.type}" for c in kind.columns)
        ground.hive.execute(
            f"create table {table.full_name} ({columns}) stored as textfile tblproperties"
            " ('transactional'='true', 'transactional_properties'='insert_only')"
        )
        return table
    ground.lab.table(
        name,
        {c.name: c.type for c in kind.columns},
        partition={c.name: c.type for c in kind.partition_columns} or None,
        buckets=(",".join(kind.bucketed_by), kind.buckets) if kind.buckets else None,
        bucketing_version=kind.bucketing_version,
        kind=kind.kind,
        format_=kind.format,
        parameters=_ORC_OF_ALL if kind.format is FileFormat.ORC else {},
    )
    return table


def _converted(ground: Ground, table: Table) -> None:
    """A table of Hive's that was none of transactions while it got its first rows."""
    columns = ", ".join(f"{c.name} {c.type}" for c in table.kind.columns)
    ground.hive.execute(
        f"create table {table.full_name} ({columns}) stored as orc"
        " tblproperties ('transactional'='false', 'orc.compress'='ZLIB')"
    )
    rows = list(table.kind.flat_rows.values())
    writer = HiveWriter(table=table, engine=ground.hive)
    for half in (rows[::2], rows[1::2]):
        writer.insert(half)
    ground.hive.execute(
        f"alter table {table.full_name} set tblproperties"
        " ('EXTERNAL'='FALSE', 'transactional'='true')"
    )


def _taken(kind: Kind, writers: Mapping[str, Writer], first: str, step: Step) -> Taken:
    """A step by who should take it, else by the first of the others who can."""
    reasons: list[str] = []
    failures: list[str] = []
    # Nobody else knows the metastore of Hive 3.1.3.
    others: tuple[str, ...] = () if first == HIVE_3 else (OURS, HIVE_4)
    for name in dict.fromkeys((first, *others)):
        try:
            step.act(writers[name])
        except NotHereError as error:
            reasons.append(f"{name}: {error}")
            continue
        except JudgeError as error:
            known = failure(name, kind, error)
            if known is None:
                raise
            failures.append(known)
            continue
        follower = writers[name]
        if isinstance(follower, Hive3Writer):
            follower.follow()
        return Taken(step=step, asked=first, done_by=name, failures=tuple(failures))
    raise NotHereError("; ".join(reasons + failures))


def _compare(ground: Ground, course: Course, after: _After, say: Callable[[str], None]) -> None:
    identities = {}
    for reader in ground.readers:
        cell = course.cells[reader.name]
        try:
            seen = _wrong(reader, after)
        except NotReadHereError as error:
            cell.unread.setdefault(str(error), []).append(course.taken[-1].step.name)
            continue
        if seen is None:
            cell.read += 1
            if (told := reader.identities(after.table)) is not None:
                identities[reader.name] = told
            continue
        _note(course, reader.name, seen, say)
    first = next(iter(identities.values()), {})
    for name, told in identities.items():
        if told != first:
            differs = sorted(set(told.items()) ^ set(first.items()))[:4]
            _note(course, name, Seen(text=f"other identities: {differs}"), say)


def _note(course: Course, reader: str, seen: Seen, say: Callable[[str], None]) -> None:
    last = course.taken[-1]
    why = explanation(reader, course, seen)
    course.cells[reader].wrong.append((last.step.name, seen.text, why))
    if why is None:
        place = f"{course.kind.name}, {course.writers}, {last.step.name} by {last.done_by}"
        say(f"{place}: {reader}: {seen.text}")


def _wrong(reader: Reader, after: _After) -> Seen | None:
    """What is wrong with a reader's answer; None if nothing is."""
    expected = as_rows(after.table.columns, after.rows.values())
    try:
        found = reader.rows(after.table)
    except (JudgeError, HiveAcidError) as error:
        return Seen(text=f"{type(error).__name__}: {str(error)[:300]}")
    if found != expected:
        lost, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        counts = f"{len(found)} of {len(expected)} rows"
        text = f"{counts}; it lacks {list(lost)[:2]}, it has {list(more)[:2]}"
        return Seen(text=text, lacks=bool(lost), has_more=bool(more))
    if reader.name == NATIVE and (count := misplaced(after.table)):
        return Seen(text=f"{count} rows lie in another bucket than their hash says")
    return None
