"""Which partitions a MERGE can touch, found from its source before anything is locked.

Matched rows are in the partitions that the source's keys and the ON condition leave; new rows go
where the clauses put them. Takes a source whose rows are kept, so that what is merged later is what
was looked at; gives names, or None where all partitions may be touched.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_hiveacid.jobs.specs import MergeWhen
from airflow_hiveacid.spark.events import partition_key
from airflow_hiveacid.spark.reading.access import MOST_NAMED
from airflow_hiveacid.spark.reading.pruning import partitions_meeting, partitions_where
from airflow_hiveacid.spark.statements.clauses import ready

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import PartitionName
    from airflow_hiveacid.spark.statements.merge import MergeProgram


def is_bounded(program: MergeProgram) -> bool:
    """Whether looking at the source can tell: not if rows without a partner are acted on."""
    table = program.table
    names = {c.name for c in table.partition_columns}
    says_something = bool(names & set(program.keys)) or program.condition is not None
    return bool(names) and says_something and not program.of(MergeWhen.NOT_MATCHED_BY_SOURCE)


def partitions_reached(
    program: MergeProgram, partitions: tuple[PartitionName, ...], kept: DataFrame
) -> tuple[PartitionName, ...] | None:
    """The partitions that a bounded MERGE can touch, sorted by name; some may not exist yet."""
    found = partitions_where(
        kept.sparkSession, program.table, partitions, program.condition, program.moment, beside=kept
    )
    left = partitions if found is None else found
    matched = partitions_meeting(program.table, left, kept, program.keys, program.equal)
    new = new_partitions(program, kept)
    if new is None:
        return None
    return tuple(sorted({*new, *matched}, key=str))


def new_partitions(program: MergeProgram, kept: DataFrame) -> frozenset[PartitionName] | None:
    """Where the source's rows would be inserted, whatever they match; None if in too many places.

    What depends on chance cannot be told beforehand.
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
    places = reduce(DataFrame.union, keys).distinct().limit(MOST_NAMED + 1).collect()
    if len(places) > MOST_NAMED:
        return None
    return frozenset(table.partition_name(json.loads(place[0])) for place in places)
