"""The columns that describe a change, in addition to the table's columns: type, version and so on.

The input is frames of inserted and removed rows (`feed.scan`); the output is the columns that users
see. Must not depend on files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.state.change_range import ChangeType
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.reading.change_scan import IS_BORN, VERSION

CHANGE_TYPE: Final = "_change_type"
CHANGE_VERSION: Final = "_version"
COMMIT_TIME: Final = "_commit_time"
ROW_IDENTITY: Final = ("_row_write_id", "_row_bucket", "_row_id")
"""A row's identity: its original write ID, bucket property and row ID. NULL if the row has none."""

CHANGE_COLUMNS: Final = (CHANGE_TYPE, CHANGE_VERSION, COMMIT_TIME, *ROW_IDENTITY)
"""The columns that follow the table's columns when changes are read."""

IDENTITY_TYPES: Final = ("bigint", "int", "bigint")
_RANK: Final = {kind: rank for rank, kind in enumerate(ChangeType)}


def commit_time(known: Mapping[WriteId, float]) -> Column:
    """Return the commit time of each change; NULL if no note has the exact second."""
    if not known:
        return F.lit(None).cast(TimestampType())
    times = F.from_json(
        F.lit(json.dumps({str(w): s for w, s in known.items()})), "map<string,double>"
    )
    return F.timestamp_seconds(times[F.col(VERSION).cast("string")])


def type_of(keys: Sequence[str], *, is_net: bool) -> Column:
    """Return a column with the type of each change: insert, delete, or an image of an update."""
    is_born = F.col(IS_BORN)
    plain = F.when(is_born, ChangeType.INSERT.value).otherwise(ChangeType.DELETE.value)
    if not keys:
        return plain
    # In a net range, a key has one change, even if several writes changed its row.
    group = [*([] if is_net else [CHANGE_VERSION]), *map(quoted, keys)]
    alike = Window.partitionBy(*group)
    came = F.count(F.when(is_born, 1)).over(alike)
    went = F.count(F.when(~is_born, 1)).over(alike)
    image = F.when(is_born, ChangeType.UPDATE_POSTIMAGE.value).otherwise(
        ChangeType.UPDATE_PREIMAGE.value
    )
    return F.when((came == 1) & (went == 1), image).otherwise(plain)


def without_old_values(rows: DataFrame, names: Collection[str]) -> DataFrame:
    """Set these columns to NULL in removed rows.

    Some of these values were read anyway. Either the file with these values also has inserted rows,
    or a condition needs the values.
    """
    return rows.withColumns({n: F.when(F.col(IS_BORN), F.col(quoted(n))) for n in sorted(names)})


def in_order(rows: DataFrame, *, is_small: bool) -> DataFrame:
    """Sort changes by version, type and row ID; if `is_small`, they are already in one task."""
    rank = F.lit(None).cast("int")
    for kind, number in _RANK.items():
        rank = F.when(F.col(CHANGE_TYPE) == kind.value, number).otherwise(rank)
    order = [F.col(CHANGE_VERSION), rank, *map(F.col, ROW_IDENTITY)]
    return rows.sortWithinPartitions(*order) if is_small else rows.orderBy(*order)
