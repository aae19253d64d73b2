"""MERGE as events.

A `MergeProgram` is built from the schemas alone, to find all errors before a transaction opens.
Only needed columns of the target are read. The source is read once and kept (`localCheckpoint`),
and so are the matched pairs with their clause and new row. If an executor with kept rows is lost,
the job fails, because reading the source again might give other rows.

Two source rows that match one target row are found in `writing/event_files.py`, which writes the
events in the order of their old rows and so meets the second event of a row right after the first.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StringType

from airflow_hiveacid.format.errors import ExpressionError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.format.types import CharType, parse_type
from airflow_hiveacid.jobs.statements import MergeSpec, MergeWhen
from airflow_hiveacid.plan.statements.dml import Clause, quoted, resolve_merge
from airflow_hiveacid.reading.table_view import MOST_NAMED
from airflow_hiveacid.spark.engine.catalyst import Moment, condition, resolved
from airflow_hiveacid.spark.engine.failures import reason_of
from airflow_hiveacid.spark.engine.parsed_sql import DEFAULT_TERMS, TextTerms
from airflow_hiveacid.spark.engine.types import exact_value, spark_type
from airflow_hiveacid.spark.reading import events, pruning
from airflow_hiveacid.spark.reading.target import Target, empty_target
from airflow_hiveacid.spark.statements import update_delete
from airflow_hiveacid.spark.statements.expressions import (
    HelperNames,
    ReadyClause,
    acted_on,
    brought,
    columns_asked,
    key_of_text,
    ready,
    scanned,
)
from airflow_hiveacid.spark.writing.spreading import spread, writers_for
from airflow_hiveacid.writing.event_files import are_few

_log = logging.getLogger(__name__)

_BROADCAST_BYTES: Final = 64 << 20
"""The size limit of broadcasts.

Broadcasts pass through the driver, and their hash tables are larger.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeProgram:
    """A checked MERGE; it can be turned into events for any snapshot of its target.

    `needed` are the target's columns that must be read. `matching` are the source columns in
    conditions and expressions for matched pairs. `inserts_once` is True if a second computation
    could return different new rows. Then the new rows must be computed only once and kept.
    `text_keys` are the keys that are strings in the source; `from_text` is True for VALUES.
    """

    table: TableInfo
    keys: tuple[str, ...]
    condition: str | None
    clauses: tuple[Clause, ...]
    needed: tuple[str, ...]
    matching: tuple[str, ...]
    inserts_once: bool
    from_text: bool
    moment: Moment
    text_keys: frozenset[str]

    def of(self, when: MergeWhen) -> list[tuple[int, Clause]]:
        """Return the clauses for one kind of row, with their numbers, in order."""
        return [(i, c) for i, c in enumerate(self.clauses) if c.when is when]

    def ready(self, rows: DataFrame, when: MergeWhen) -> tuple[ReadyClause, ...]:
        """Return the clauses for one kind of row, with their expressions over these rows."""
        return ready(self.table, rows, self.of(when), self.moment, from_text=self.from_text)

    def equal(self, key: str) -> Column:
        """Return the ON condition for one key, compared in the target column's type."""
        columns = (*self.table.columns, *self.table.partition_columns)
        (column,) = [c for c in columns if c.name == key]
        hive_type = parse_type(column.type)
        target_key, source_key = F.col(f"t.{quoted(key)}"), F.col(f"s.{quoted(key)}")
        if isinstance(hive_type, CharType):
            target_key, source_key = F.rtrim(target_key), F.rtrim(source_key)
        elif key in self.text_keys and not isinstance(spark_type(hive_type), StringType):
            text = f"s.{quoted(key)}"
            exact = exact_value(text, hive_type)
            source_key = key_of_text(self.table, key, column.type, text) if exact is None else exact
        return target_key == source_key

    @property
    def keys_equal(self) -> Column:
        """The ON condition for all keys."""
        return reduce(and_, [self.equal(key) for key in self.keys])


def plan_merge(
    spark: SparkSession,
    table: TableInfo,
    spec: MergeSpec,
    source: DataFrame,
    terms: TextTerms = DEFAULT_TERMS,
) -> MergeProgram:
    """Check a MERGE against the schemas of target and source."""
    clauses = resolve_merge(table, spec, source.columns)
    moment = Moment.now(spark, terms)
    from_text = spec.source.values is not None
    t, s = empty_target(spark, table).alias("t"), source.alias("s")
    sees = {
        MergeWhen.MATCHED: t.crossJoin(s),
        MergeWhen.NOT_MATCHED: s,
        MergeWhen.NOT_MATCHED_BY_SOURCE: t,
    }
    checked = {
        when: ready(
            table,
            frame,
            [(i, c) for i, c in enumerate(clauses) if c.when is when],
            moment,
            from_text=from_text,
        )
        for when, frame in sees.items()
    }
    width = len(table.column_names)
    on = _checked_on(table, spec, t, s, moment)
    # Positions of used columns: the target's, then from `width` on the source's.
    of_pairs = on.union(*[c.uses for c in checked[MergeWhen.MATCHED]])
    of_target = of_pairs.union(*[c.uses for c in checked[MergeWhen.NOT_MATCHED_BY_SOURCE]])
    keys = tuple(k.lower() for k in spec.keys)
    required = {*keys, *columns_asked(table, clauses)}
    program = MergeProgram(
        table=table,
        keys=keys,
        condition=spec.condition,
        clauses=clauses,
        needed=tuple(
            c.name for i, c in enumerate(table.columns) if i in of_target or c.name in required
        ),
        matching=tuple(c for i, c in enumerate(source.columns, width) if i in of_pairs),
        inserts_once=not all(c.is_repeatable for c in checked[MergeWhen.NOT_MATCHED]),
        from_text=from_text,
        moment=moment,
        text_keys=frozenset(
            f.name.lower() for f in source.schema if isinstance(f.dataType, StringType)
        ),
    )
    try:
        t.join(s, program.keys_equal)
    except AnalysisException as error:
        raise ExpressionError(
            table=table.ref, expression=f"ON {', '.join(keys)}", reason=reason_of(error)
        ) from error
    return program


def _checked_on(
    table: TableInfo, spec: MergeSpec, t: DataFrame, s: DataFrame, moment: Moment
) -> frozenset[int]:
    """Check the ON condition; return the positions of the columns that it uses."""
    if not spec.condition:
        return frozenset()
    (on,) = resolved(table, t.crossJoin(s), [spec.condition], moment)
    condition(table, spec.condition, on)
    if not on.is_deterministic or on.has_subquery:
        raise ExpressionError(
            table=table.ref,
            expression=spec.condition,
            reason="ON decides which rows match, so it must be deterministic and contain no"
            " subquery; move this part into the WHEN clauses",
        )
    return on.uses


def merge_events(program: MergeProgram, target: Target, source: DataFrame) -> events.Events:
    """Return the events of a MERGE; the writer refuses two of one row, which are adjacent."""
    table, names = program.table, HelperNames.beside(program.table.column_names, source.columns)
    numbered = program.moment.fixed_in(source).withColumn(
        names.source_row, F.monotonically_increasing_id()
    )
    source_rows = numbered.localCheckpoint()
    reads_all = bool(program.of(MergeWhen.NOT_MATCHED_BY_SOURCE))
    ranges, aggregates = pruning.key_ranges(
        source_rows,
        program.keys,
        table.columns,
        _size_columns(program, source_rows, names.source_row),
    )
    sizes = _Sizes(*(size or 0 for size in aggregates))
    if reads_all and not sizes.rows:
        _log.warning(
            "the source of MERGE into %s has no rows: WHEN NOT MATCHED BY SOURCE applies to every"
            " row of the table",
            table.ref,
        )
    reach = target
    if not reads_all:
        visible = source_rows.drop(names.source_row)
        reach = target.where(program.condition, program.moment, visible).within(
            source_rows, program.keys, program.equal, ranges
        )
    join = _Join.of(program, names, source_rows, reach, sizes)
    clauses = program.clauses
    # A pair to which no clause applies stays: its source row is matched, so it is not a new row.
    pairs = update_delete.kept_changes(clauses, join.acted_on_pairs())
    changed = [pairs]
    if reads_all:
        missing = join.acted_on_missing().where(F.col("_clause").isNotNull())
        changed.append(update_delete.kept_changes(clauses, missing))
    parts = [part for group in changed for part in update_delete.row_changes(table, clauses, group)]
    updated = frozenset[int]().union(*[group.files for group in changed])
    if not program.of(MergeWhen.NOT_MATCHED):
        return update_delete.as_events(
            parts, reach, clauses, updated, is_few=update_delete.all_are_few(changed)
        )
    new = _new_rows(program, names, source_rows, pairs.rows, sizes.rows)
    is_few = are_few(sizes.rows, 0) and update_delete.all_are_few(changed)
    if is_few:
        # The new rows must also be counted, and keeping them avoids a second computation.
        added = update_delete.kept_changes(clauses, new)
        new, is_few = added.rows, update_delete.all_are_few([*changed, added])
    elif program.inserts_once:
        new = new.localCheckpoint()
    routed = spread(
        table, events.with_no_old_row(new), writers_for(sizes.rows), F.col(names.source_row)
    )
    return update_delete.as_events(
        [*parts, events.insert_events(routed)], reach, clauses, updated, is_few=is_few
    )


class _Sizes(NamedTuple):
    """The number of a source's rows, and the approximate sizes of its joined columns and keys."""

    rows: int
    used_bytes: int
    key_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Join:
    """The join of target and source; the flags show what is small enough to broadcast."""

    program: MergeProgram
    names: HelperNames
    t: DataFrame
    positions: list[Column]
    s: DataFrame
    on: Column
    is_small: bool
    keys_are_small: bool

    @classmethod
    def of(
        cls,
        program: MergeProgram,
        names: HelperNames,
        kept: DataFrame,
        reach: Target,
        sizes: _Sizes,
    ) -> _Join:
        s, t = kept.alias("s"), scanned(reach, program.needed, names, program.clauses)
        on = program.keys_equal
        if program.condition:
            pairs = t.crossJoin(s).drop(*names.all)
            (on_expression,) = resolved(program.table, pairs, [program.condition], program.moment)
            on = on & condition(program.table, program.condition, on_expression)
        return cls(
            program=program,
            names=names,
            t=t,
            positions=reach.position_columns(names.position),
            s=s,
            on=on,
            is_small=sizes.used_bytes <= _BROADCAST_BYTES,
            keys_are_small=sizes.key_bytes <= _BROADCAST_BYTES,
        )

    def acted_on_pairs(self) -> DataFrame:
        """Return all pairs that meet the ON condition, each with its clause's number, or NULL."""
        t, s = self.t, self.s
        if self.is_small:
            s = F.broadcast(s)
        elif self.keys_are_small:
            # Shuffle the whole source, but only target rows with keys that occur in the source.
            t = t.join(F.broadcast(self._keys()), self.program.keys_equal, "left_semi")
        pairs = t.join(s, self.on, "inner")
        return self._acted_on(pairs, MergeWhen.MATCHED)

    def acted_on_missing(self) -> DataFrame:
        """Return all unmatched target rows, each with its clause's number, or NULL."""
        s = F.broadcast(self.s) if self.is_small else self.s
        if self.program.condition is None:
            s = F.broadcast(self._keys()) if self.keys_are_small else self._keys()
        missing = self.t.join(s, self.on, "left_anti")
        return self._acted_on(missing, MergeWhen.NOT_MATCHED_BY_SOURCE)

    def _keys(self) -> DataFrame:
        return self.s.select(*[F.col(f"s.{quoted(key)}") for key in self.program.keys])

    def _acted_on(self, rows: DataFrame, when: MergeWhen) -> DataFrame:
        program = self.program
        clauses = program.ready(rows.drop(*self.names.all), when)
        columns = brought(program.table, program.clauses)
        return acted_on(
            program.table, rows, clauses, self.names, columns=columns, positions=self.positions
        )


def _new_rows(
    program: MergeProgram, names: HelperNames, kept: DataFrame, matched: DataFrame, count: int
) -> DataFrame:
    hit = matched.select(names.source_row).distinct()
    if count * update_delete.least_bytes(1) <= _BROADCAST_BYTES:
        hit = F.broadcast(hit)
    alone = kept.join(hit, names.source_row, "left_anti").alias("s")
    clauses = program.ready(alone.drop(*names.all), MergeWhen.NOT_MATCHED)
    rows = acted_on(program.table, alone, clauses, names, columns=program.table.columns)
    return rows.where(F.col("_clause").isNotNull())


def _size_columns(program: MergeProgram, kept: DataFrame, source_row: str) -> list[Column]:
    """Return the aggregates over a source for `_Sizes`; columns may be of any type."""
    types = {f.name: f.dataType for f in kept.schema}
    keys = [c for c in types if c.lower() in program.keys]
    columns = dict.fromkeys([*keys, *program.matching, source_row])
    return [
        F.count(F.lit(1)),
        F.sum(update_delete.bytes_of({quoted(c): types[c] for c in columns})),
        F.sum(update_delete.bytes_of({quoted(c): types[c] for c in keys})),
    ]


# ---- partitions that a MERGE can touch, before locks are taken -----------------------------------


def is_bounded(program: MergeProgram) -> bool:
    """Return True if the source limits the partitions and no unmatched target row can change."""
    table = program.table
    names = {c.name for c in table.partition_columns}
    says_something = bool(names & set(program.keys)) or program.condition is not None
    return bool(names) and says_something and not program.of(MergeWhen.NOT_MATCHED_BY_SOURCE)


def partitions_reached(
    program: MergeProgram, partitions: tuple[PartitionName, ...], kept: DataFrame
) -> tuple[PartitionName, ...] | None:
    """Return the names of the partitions that a bounded MERGE can touch; some may not exist yet.

    Matched rows are in partitions that the source's keys and the ON condition allow. The values in
    INSERT clauses select the partitions of new rows.
    """
    matches = pruning.partitions_where(
        kept.sparkSession, program.table, partitions, program.condition, program.moment, beside=kept
    )
    candidates = partitions if matches is None else matches
    matched = pruning.partitions_meeting(
        program.table, candidates, kept, program.keys, program.equal
    )
    new = _new_partitions(program, kept)
    if new is None:
        return None
    return tuple(sorted({*new, *matched}, key=str))


def _new_partitions(program: MergeProgram, kept: DataFrame) -> frozenset[PartitionName] | None:
    """Return the partitions of inserted rows; None if too many, or not deterministic."""
    table = program.table
    clauses = program.ready(kept.alias("s"), MergeWhen.NOT_MATCHED)
    if not all(clause.is_deterministic for clause in clauses):
        return None
    columns = [[c.values[p.name] for p in table.partition_columns] for c in clauses]
    keys = [kept.alias("s").select(events.partition_key(table, values)) for values in columns]
    if not keys:
        return frozenset()
    rows = reduce(DataFrame.union, keys).distinct().limit(MOST_NAMED + 1).collect()
    if len(rows) > MOST_NAMED:
        return None
    return frozenset(table.partition_name(json.loads(row[0])) for row in rows)
