"""Changes with so few rows that the driver writes them itself.

For a few thousand events, a shuffle and the start of Python tasks cost more than the write itself.
So the driver collects such events as Arrow batches. The driver passes the batches, in the same
order, to the writers that tasks use (`writers.write_events`). Larger changes are never collected,
because the driver first finds the number and size of the kept rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import collected
from airflow_hiveacid.spark.reading.events import GROUP, IDENTITY
from airflow_hiveacid.spark.writing.files.writers import Written, write_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_hiveacid.spark.writing.files.writers import WritePlan

MOST_EVENTS: Final = 50_000
MOST_BYTES: Final = 16 << 20
"""The limits for writes in the driver: a few tenths of a second of work, in little memory.
"""

_BATCH_ROWS: Final = 16_384
# Old values of updated rows are fetched for a whole batch, even if the rows are wide.
_FETCHING_ROWS: Final = 1_000
# The same order as in `spark.reading.events.grouped`.
_ORDER: Final = (*GROUP, "_file", *IDENTITY)


def are_few(events: int, size_bytes: int) -> bool:
    """Return True if this many events, with this approximate size, can be written in the driver."""
    return events <= MOST_EVENTS and size_bytes <= MOST_BYTES


def write_here(plan: WritePlan, events: DataFrame) -> list[Written]:
    """Write unordered events in this process; return one record per file.

    Raises:
        MergeCardinalityError: two source rows match one target row.
        PySparkException: Spark could not compute the events.
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
