"""Changes of so few rows that the driver writes them itself.

To sort some thousand events by task, and to start tasks in Python for them, costs more than to
write them. So they come to the driver as Arrow batches, which hands them to the same writers
(`writers.write_events`) in the same order. What is too much for that never comes: rows and bytes
were counted before, of rows that are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.spark.events import GROUP, IDENTITY
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.tasks import collected
from airflow_hiveacid.spark.writing.writers import Written, write_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_hiveacid.spark.writing.writers import WritePlan

MOST_EVENTS: Final = 50_000
MOST_BYTES: Final = 16 << 20
"""What comes to the driver: some tenths of a second's work, and memory that every driver has."""

_BATCH_ROWS: Final = 16_384
# What rows leave alone is fetched with their batch, however wide that is.
_FETCHING_ROWS: Final = 1_000
# That of `spark.events.grouped`.
_ORDER: Final = (*GROUP, "_file", *IDENTITY)


def are_few(events: int, size_bytes: int) -> bool:
    """Whether so many events, of about so many bytes, come to the driver."""
    return events <= MOST_EVENTS and size_bytes <= MOST_BYTES


def write_here(plan: WritePlan, events: DataFrame) -> list[Written]:
    """Write events, in whatever order they come, in this process; what there is of each file.

    Raises:
        MergeCardinalityError: two source rows act on one target row.
        PySparkException: the events could not be made.
        StorageError: reading or writing failed.
    """
    with typed_failures():
        batches = collected(events)
        if not batches:
            return []
        (found,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        order = pc.sort_indices(found, [(name, "ascending", "at_start") for name in _ORDER])
        step = _FETCHING_ROWS if plan.old_files else _BATCH_ROWS
        ordered = (found.take(order[at : at + step]) for at in range(0, len(order), step))
        return Written.all_of(write_events(ordered, plan=plan))
