"""The course of a table's life: writers take its steps, and every reader reads it after each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import FileFormat, PartitionName
from tests.judges import engine, engine3, line_process
from tests.proofs.matrix import explanations, kinds
from tests.proofs.matrix.life import NotHereError, Rows, Step, Writer, life
from tests.proofs.matrix.readers import NativeReader, NotReadHereError, Reader, as_rows, misplaced
from tests.proofs.matrix.records import Answers, Life, Taken, Wrong
from tests.proofs.matrix.writers import Hive3Writer, HiveWriter, Table
from tests.support.spark_lab import Lab

# Paths differ between runs and machines.
_PATH: Final = re.compile(r"(?:file:)?/\S+")
_BREAKS: Final = (line_process.JudgeError, HiveAcidError, NotHereError, PySparkException)
# The default on a 4.x metastore is ZSTD, which ORC in Hive 3.1 does not support.
_ORC_OF_ALL: Final = {"orc.compress": "ZLIB"}
# A bucket's number, then more digits than any integer has.
_NAME_OF_TRINO: Final = f"000000_{'20240101' * 5}"
_TO_DIRECTORIES: Final = (
    "hive.optimize.union.remove=true",
    "hive.merge.mapfiles=false",
    "hive.mapred.supports.subdirectories=true",
    "mapreduce.input.fileinputformat.input.dir.recursive=true",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The engines: writers are made for a table, readers are shared."""

    lab: Lab
    hive: engine.HiveJudge
    hive_3: engine3.Hive3Engine | None = None
    writers: Mapping[str, Callable[[Table], Writer]]
    readers: Sequence[Reader]


@dataclass(frozen=True, slots=True, kw_only=True)
class _After:
    """A table, and the rows that it must hold now."""

    table: Table
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The preferred writer of a step, the excluded ones, and the table's rows before it."""

    first: str
    blind: set[str]
    before: _After

    def is_as_before(self) -> bool:
        """Return True if the table still holds the same rows."""
        table, rows = self.before.table, self.before.rows
        return NativeReader().rows(table) == as_rows(table.columns, rows.values())


class _HalfDoneError(Exception):
    """An engine failed at a step and left the table changed."""

    def __init__(self, taken: Taken) -> None:
        super().__init__(f"{taken.step} by {taken.done_by}")
        self.taken = taken


def lead(ground: Ground, kind: kinds.Kind, writers: str, say: Callable[[str], None]) -> Life:
    """Run one life; `writers` is one of the ground's, `HIVE_3`, or `ALTERNATING`.

    `say` receives a message for each error, step by step.
    """
    name = f"t_{kinds.KINDS.index(kind)}_{''.join(filter(str.isalnum, writers)).lower()}"
    course = Life(
        kind=kind.name, writer=writers, answers={r.name: Answers() for r in ground.readers}
    )
    where = "its making"
    try:
        table = _made(ground, kind, name)
        known = _known(ground, table, writers)
        rows: Rows = kind.flat_rows
        for number, step in enumerate(life(kind)):
            at = (number + kinds.KINDS.index(kind)) % len(known)
            first = list(known)[at] if writers == kinds.ALTERNATING else writers
            where = f"{step.name} by {first}"
            blind = _blind(course) if step.needs_rows else set()
            asked = _Asked(first=first, blind=blind, before=_After(table=table, rows=rows))
            rows = step.model(rows)
            course.taken.append(_taken(known, asked, step))
            _compare(ground, course, _After(table=table, rows=rows), say)
    except _HalfDoneError as error:
        course.ended = error.taken
        say(f"{kind.name}, {writers}: ended at {course.ended}")
    except _BREAKS as error:
        course.broke_off = f"{where}: {_said(error)}"
        say(f"{kind.name}, {writers}: broke off at {course.broke_off}")
    return course


def _known(ground: Ground, table: Table, writers: str) -> Mapping[str, Writer]:
    known = {name: make(table) for name, make in ground.writers.items()}
    if writers == kinds.HIVE_3 and ground.hive_3 is not None:
        known[kinds.HIVE_3] = Hive3Writer.beside(
            HiveWriter(table=table, engine=ground.hive), ground.hive_3
        )
    return known


def _made(ground: Ground, kind: kinds.Kind, name: str) -> Table:
    table = Table(lab=ground.lab, name=name, kind=kind)
    if kind.flat:
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
    if kind.elsewhere:
        # Hive's ADD PARTITION ... LOCATION loads the files there, and puts the partition into the
        # table; tables with partitions elsewhere are older than that, or were made over Thrift.
        place = PartitionName.parse(kind.elsewhere)
        ground.lab.client.add_partitions(
            ground.lab.info(name), [place], locations={place: table.elsewhere}
        )
    for numbers in kind.loaded:
        files = table.of_files(numbers[0])
        _flat(ground, files)
        rows = [kind.row(n) for n in numbers]
        HiveWriter(table=files, engine=ground.hive).insert(rows)
    return table


def _flat(ground: Ground, table: Table, layout: str = "") -> None:
    """Create an empty Hive table without transactions."""
    columns = ", ".join(f"{c.name} {c.type}" for c in table.kind.columns)
    ground.hive.execute(
        f"create table {table.full_name} ({columns}) {layout} stored as orc"
        " tblproperties ('transactional'='false', 'orc.compress'='ZLIB')"
    )


def _converted(ground: Ground, table: Table) -> None:
    """Create a Hive table that gets its first rows without transactions and is then converted."""
    kind = table.kind
    buckets = f"clustered by ({', '.join(kind.bucketed_by)}) into {kind.buckets} buckets"
    _flat(ground, table, buckets if kind.buckets else "")
    rows = list(kind.flat_rows.values())
    writer = HiveWriter(table=table, engine=ground.hive)
    if kind.flat is kinds.Flat.UNION:
        _by_union(ground, table, rows[::2])
    else:
        writer.insert(rows[::2])
    writer.insert(rows[1::2])
    if kind.flat is kinds.Flat.COPIES:
        (copy,) = ground.lab.root(table.name).glob("*_copy_1")
        copy.rename(copy.with_name(_NAME_OF_TRINO))
    ground.hive.execute(
        f"alter table {table.full_name} set tblproperties"
        " ('EXTERNAL'='FALSE', 'transactional'='true')"
    )


def _by_union(ground: Ground, table: Table, rows: Sequence[kinds.Row]) -> None:
    source = replace(table, name=f"{table.name}_source")
    _flat(ground, source)
    HiveWriter(table=source, engine=ground.hive).insert(rows)
    branches = (
        f"select distinct * from {source.full_name} where id % 4 {c}" for c in ("< 2", "> 1")
    )
    for setting in _TO_DIRECTORIES:
        ground.hive.execute(f"set {setting}")
    ground.hive.execute(
        f"insert into {table.full_name} select * from ({' union all '.join(branches)}) u"
    )
    ground.hive.execute("set hive.optimize.union.remove=false")
    if not list(ground.lab.root(table.name).glob("HIVE_UNION_SUBDIR_*/0*")):
        raise line_process.JudgeError("Hive made no directories of a UNION ALL")


def _blind(course: Life) -> set[str]:
    """Return the engines with a wrong last answer, since they would write what they see."""
    last = course.taken[-1].step if course.taken else None
    return {
        kinds.OURS if reader == kinds.NATIVE else reader
        for reader, answers in course.answers.items()
        if any(seen.step == last for seen in answers.wrong)
    }


def _taken(writers: Mapping[str, Writer], asked: _Asked, step: Step) -> Taken:
    """Take a step with its preferred writer, otherwise with the first other writer that can.

    Raises:
        NotHereError: No writer can.
        _HalfDoneError: A writer failed and changed the table.
    """
    first, reasons = asked.first, list[str]()
    failures: dict[str, str] = {}
    # No other writer knows the metastore of Hive 3.1.3.
    others: tuple[str, ...] = () if first == kinds.HIVE_3 else (kinds.OURS, kinds.HIVE_4)
    for name in dict.fromkeys((first, *others)):
        if name in asked.blind:
            failures[name] = explanations.BLIND
            continue
        try:
            step.act(writers[name])
        except NotHereError as error:
            reasons.append(f"{name}: {error}")
            continue
        except line_process.JudgeError as error:
            failures[name] = _said(error)
            taken = Taken(step=step.name, asked=first, done_by=name, failures=failures)
            if not asked.is_as_before():
                raise _HalfDoneError(taken) from error
            continue
        follower = writers[name]
        if isinstance(follower, Hive3Writer):
            follower.follow()
        return Taken(step=step.name, asked=first, done_by=name, failures=failures)
    raise NotHereError("; ".join((*reasons, *failures.values())))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {_PATH.sub('(a path)', str(error))[:300]}"


def _compare(ground: Ground, course: Life, after: _After, say: Callable[[str], None]) -> None:
    identities = {}
    for reader in ground.readers:
        answers = course.answers[reader.name]
        try:
            seen = _wrong(reader, after, course.taken[-1].step)
        except NotReadHereError as error:
            answers.unread.setdefault(str(error), []).append(course.taken[-1].step)
            continue
        if seen is None:
            answers.right += 1
            if (told := reader.identities(after.table)) is not None:
                identities[reader.name] = told
            continue
        _note(course, reader.name, seen, say)
    if count := misplaced(after.table):
        text = f"{count} rows lie in another bucket than their hash says"
        course.misplaced.append(Wrong(step=course.taken[-1].step, text=text))
    first = next(iter(identities.values()), {})
    for name, told in identities.items():
        if told != first:
            differs = sorted(set(told.items()) ^ set(first.items()))[:4]
            seen = Wrong(step=course.taken[-1].step, text=f"other identities: {differs}")
            course.answers[name].right -= 1
            _note(course, name, seen, say)


def _note(course: Life, reader: str, seen: Wrong, say: Callable[[str], None]) -> None:
    course.answers[reader].wrong.append(seen)
    if explanations.explanation(reader, course, seen) is None:
        place = f"{course.kind}, {course.writer}, {seen.step} by {course.taken[-1].done_by}"
        say(f"{place}: {reader}: {seen.text}")


def _wrong(reader: Reader, after: _After, step: str) -> Wrong | None:
    """Return the error in a reader's answer; None if it is right."""
    expected = as_rows(after.table.columns, after.rows.values())
    try:
        found = reader.rows(after.table)
    except (line_process.JudgeError, HiveAcidError) as error:
        return Wrong(step=step, text=_said(error))
    if found != expected:
        lost, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        counts = f"{len(found)} of {len(expected)} rows"
        text = f"{counts}; it lacks {list(lost)[:2]}, it has {list(more)[:2]}"
        return Wrong(step=step, text=text, lacks=bool(lost), has_more=bool(more))
    return None
