"""Overwrites with old rows, whose values the writers fetch from the old files.

The values do not pass through Spark, so timestamps stay exact to the nanosecond.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.reading import free_name
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.reading.events import Events, grouped
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.statements.expressions import row_struct
from airflow_hiveacid.spark.statements.update_delete import least_bytes
from airflow_hiveacid.spark.writing.work import CheckedStatement, MakeFiles, written_files
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.writing.event_files import WritePlan, are_few
from airflow_hiveacid.writing.publish import StagedFile

# Neighbouring rows of an old file go to one task, which decodes their stripe once.
_TOGETHER: Final = 500_000
_EVENT_BYTES: Final = least_bytes(len(IDENTITY_COLUMNS) + 3)


def overwriting(
    spec: Job,
    table: TableInfo,
    stage: MakeFiles,
    touched: Callable[[], Touched],
    details: Callable[[], Mapping[str, JsonValue]],
) -> CheckedStatement:
    """Return an overwrite by files of `stage`; a partition without new files keeps its old ones."""
    return CheckedStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        make_files=stage,
        partitions=touched,
        empties=lambda _names: (),
        details=details,
    )


def identities(target: Target, *, for_changes: bool = False) -> DataFrame:
    """Return every live row's partition, bucket, file and row ID; see `Target.scan`."""
    position = free_name("position", target.table.column_names)
    rows = target.scan((), position=position, for_changes=for_changes)
    return rows.select(*target.position_columns(position))


def without_values(table: TableInfo) -> Column:
    """Return the `row` of an event before its values are fetched: one column with NULL."""
    return row_struct(table.columns[:1], {})


def neighbours() -> Column:
    """Return a number that neighbouring rows of an old file share."""
    return F.floor(F.col(IDENTITY_COLUMNS[2]) / F.lit(_TOGETHER))


def written_from(
    plan: WritePlan, events: DataFrame, old: Target, count: int | None
) -> tuple[StagedFile, ...]:
    """Write events; the writers fetch the rows from the files of a target.

    Insert events have a row ID, and no values. `count` is None if the number of events is unknown,
    or too large for the driver.
    """
    old_events = Events(
        frame=lambda: grouped(events),
        given=(frozenset(),),
        old_files={file.number: file.data for file in old.files},
        few=events if count is not None and are_few(count, count * _EVENT_BYTES) else None,
    )
    # The writers count an insert event with an old row as an update. But these rows are inserts.
    return tuple(dataclasses.replace(file, updated=0) for file in written_files(plan, old_events))
