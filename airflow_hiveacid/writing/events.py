"""Events: the rows that bring row changes to the writers.

A delete event contains the row ID of an old row, an insert event a new row. An update is both: its
insert event omits columns that the statement does not change, and contains the old row's ID, so
that the writer fetches them from the old row, exact to the nanosecond.

Columns of events:

| column | meaning |
| --- | --- |
| `_partition` | JSON array of the partition values as strings; `[]` in an unpartitioned table |
| `_kind` | 0 delete event, 1 insert event |
| `_bucket` | number of the bucket file to which the event is written |
| `_file`, `_clause` | for updates: number of the old row's file, and clause of the new row |
| `originalTransaction`, `bucket`, `rowId` | row ID of the old row; NULL without an old row |
| `row` | the new row, or only the columns that a clause sets; NULL in a delete event |
"""

from __future__ import annotations

import json
import re
from typing import Final

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMNS

DELETE_KIND: Final = 0
INSERT_KIND: Final = 1
GROUP: Final = ("_partition", "_kind", "_bucket")
EVENT_ORDER: Final = (*GROUP, "_file", *IDENTITY_COLUMNS)
"""The order in which a writer takes events, all of one group together.

Delete events are ordered by row ID. Insert events of updates are ordered by file and old row, so
that each old stripe is read once.
"""
EVENT_COLUMNS: Final = (*GROUP, "_file", "_clause", *IDENTITY_COLUMNS, "row")

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


def partition_text(name: PartitionName) -> str:
    """Return the `_partition` value of a partition, as Spark's `to_json` writes it."""
    text = json.dumps(list(name.values), separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(_as_spark_writes_it, text)


def _as_spark_writes_it(escape: re.Match[str]) -> str:
    """Return a JSON escape in upper case, as Spark writes it, so that a partition has one key."""
    return escape[0] if escape[1] is None else f"\\u{escape[1].upper()}"
