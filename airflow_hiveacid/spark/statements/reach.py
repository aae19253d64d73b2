"""The partitions that a MERGE can touch, computed from its source before locks are taken.

Matched rows are in partitions that the source's keys and the ON condition allow. The values in
INSERT clauses select the partitions of new rows. The source's rows are kept, so that the statement
later merges the same rows.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_hiveacid.jobs.specs.statements import MergeWhen
from airflow_hiveacid.reading.access import MOST_NAMED
from airflow_hiveacid.spark.reading.events import partition_key
from airflow_hiveacid.spark.reading.files.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.statements.clauses import ready

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionName
    from airflow_hiveacid.spark.statements.merge import MergeProgram


def is_bounded(program: MergeProgram) -> bool:
    """Return True if the source limits the partitions and no unmatched target row can change."""
    table = program.table
    names = {c.name for c in table.partition_columns}
    says_something = bool(names & set(program.keys)) or program.condition is not None
    return bool(names) and says_something and not program.of(MergeWhen.NOT_MATCHED_BY_SOURCE)


def partitions_reached(
    program: MergeProgram, partitions: tuple[PartitionName, ...], kept: DataFrame
) -> tuple[PartitionName, ...] | None:
    """Return the names of the partitions that a bounded MERGE can touch; some may not exist yet."""
    matches = partitions_where(
        kept.sparkSession, program.table, partitions, program.condition, program.moment, beside=kept
    )
    candidates = partitions if matches is None else matches
    matched = partitions_meeting(program.table, candidates, kept, program.keys, program.equal)
    new = new_partitions(program, kept)
    if new is None:
        return None
    return tuple(sorted({*new, *matched}, key=str))


def new_partitions(program: MergeProgram, kept: DataFrame) -> frozenset[PartitionName] | None:
    """Return the partitions into which source rows could be inserted; None if there are too many.

    The result is also None if an expression is not deterministic, because a second evaluation may
    differ.
    """
    table = program.table
    clauses = ready(
        table,
        kept.alias("s"),
        program.of(MergeWhen.NOT_MATCHED),
        program.moment,
        from_text=program.from_text,
    )
    if not all(clause.is_deterministic for clause in clauses):
        return None
    columns = [[c.values[p.name] for p in table.partition_columns] for c in clauses]
    keys = [kept.alias("s").select(partition_key(table, values)) for values in columns]
    if not keys:
        return frozenset()
    rows = reduce(DataFrame.union, keys).distinct().limit(MOST_NAMED + 1).collect()
    if len(rows) > MOST_NAMED:
        return None
    return frozenset(table.partition_name(json.loads(row[0])) for row in rows)
