"""The changes of a table between two versions, as a frame.

A version is a write ID: the table at that version contains all committed writes up to that write
ID. The changes between two versions, applied in order to the first version, give the second.

The files do not show which row an update replaced; keys show it: if one write removes one row and
inserts one row with equal keys, the two rows are the images of an update. Without keys, or with
keys that are not unique, the same change appears as a delete and an insert.

Example:
    with read_snapshot(metastore, ["demo.flights"], job_key="feed") as snapshot:
        changes = read_changes(spark, "demo.flights", snapshot, since=12, keys=["id"])
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as F
from pyspark.sql.types import TimestampType

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.change_range import ChangeType
from airflow_hiveacid.format.directories import Listing
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.format.versions import newest_of
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.plan.statements.parameters import where_parameters
from airflow_hiveacid.reading import free_name
from airflow_hiveacid.reading.arrow_scan import IS_BORN, VERSION
from airflow_hiveacid.reading.pieces import TASK_BYTES
from airflow_hiveacid.reading.snapshots import ReadSnapshot
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.engine.catalyst import Moment, condition as checked_condition, resolved
from airflow_hiveacid.spark.engine.parsed_sql import DEFAULT_TERMS, TextTerms
from airflow_hiveacid.spark.engine.session import give_store_settings
from airflow_hiveacid.spark.engine.store_tokens import give_store_tokens
from airflow_hiveacid.spark.reading import changed_files
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.target import Target, columns_used, resolve_target, whole_rows
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.history import Version, WriteRange, between

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
    """Set these columns to NULL in removed rows, as some values were read for other reasons."""
    return rows.withColumns({n: F.when(F.col(IS_BORN), F.col(quoted(n))) for n in sorted(names)})


def in_order(rows: DataFrame, *, is_small: bool) -> DataFrame:
    """Sort changes by version, type and row ID; if `is_small`, they are already in one task."""
    rank = F.lit(None).cast("int")
    for kind, number in _RANK.items():
        rank = F.when(F.col(CHANGE_TYPE) == kind.value, number).otherwise(rank)
    order = [F.col(CHANGE_VERSION), rank, *map(F.col, ROW_IDENTITY)]
    return rows.sortWithinPartitions(*order) if is_small else rows.orderBy(*order)


def read_changes(  # noqa: PLR0913 - each argument is an independent choice
    spark: SparkSession,
    name: str,
    snapshot: ReadSnapshot,
    *,
    since: Version,
    until: Version | None = None,
    keys: Sequence[str] | None = None,
    net: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    parameters: Mapping[str, object] | None = None,
    pre_images: bool = True,
) -> DataFrame:
    """Return a frame of a table's changes after one version and up to a later version.

    Args:
        spark: the session.
        name: a table of the snapshot.
        snapshot: the snapshot under which the table is read.
        since: the version before the first change. The version is a write ID (0 is the table before
            its first write), a time (with a time zone or as an ISO string), `tag NAME`, or a
            `VersionSpec`.
        until: the version of the last change, inclusive. The default is the newest version that no
            open write can change.
        keys: columns that identify a row; a delete and an insert with equal keys become an update.
            The default is the table's primary key, if it has one. An empty sequence means no keys.
        net: if True, omit rows that were both inserted and deleted within the range. With keys,
            each key has at most one change: its first preimage and its last postimage.
        columns: the table's columns to return, in this order; all by default.
        where: a condition in Spark SQL over the table's columns. Only changes of rows that meet the
            condition are returned. If an update makes a row fail the condition, the change is
            returned as a delete.
        parameters: the values of the markers in `where`, as for `read_table`.
        pre_images: whether removed rows contain their old values. If False, removed rows contain
            keys, partition and row ID, and NULL in all other columns. Reading is then much faster,
            since old values are spread over a table's files.

    Returns:
        The table's columns as `read_table` returns them; a deleted row has its old values. Then
        follow `_change_type` (`delete`, `update_preimage`, `update_postimage`, `insert`),
        `_version` (the write that made the change), `_commit_time` (NULL if unknown), and the row
        ID. Changes are ordered by version, then by type in this order. Compactions make no changes.

    Raises:
        ChangesGoneError: needed files may have been removed.
        VersionNotSettledError: a write up to `until` is still open.
        VersionNotYetError: the requested time is in the future by the metastore's clock.
        VersionRangeError, VersionUnknownError, VersionDoubtfulError: there is no such range, or its
            versions cannot be determined.
        ConfigurationError: the snapshot does not include this table.
        UnknownColumnError, ExpressionError: a column does not exist, or the condition is invalid.
        StorageError: the files cannot be read.
    """
    give_store_settings(spark)
    give_store_tokens(spark)
    table = snapshot.table(name)
    query = ChangeQuery(
        table=table,
        writes=writes_between(snapshot, table, since, until),
        keys=keys_of(snapshot, table, keys),
        is_net=net,
        columns=known_columns(table, table.column_names if columns is None else columns),
        where=where,
        terms=TextTerms(parameters=where_parameters(where, parameters)),
        pre_images=pre_images,
    )
    return changes_of(spark, snapshot, query).rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """A request for changes of a table; column names are spelled as in the table."""

    table: TableInfo
    writes: WriteRange
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    is_net: bool = False
    where: str | None = None
    terms: TextTerms = DEFAULT_TERMS
    pre_images: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChanges:
    """Changes, and each partition's newest directory or file at the range's end (`newest_of`).

    `held` maps a partition's name to its newest entry. If a later range does not find this entry,
    files were lost. Unchanged partitions are omitted if the caller already has their entry.
    """

    rows: DataFrame
    held: Mapping[str, str]


def writes_between(
    snapshot: ReadSnapshot, table: TableInfo, since: Version, until: Version | None
) -> WriteRange:
    """Return the writes after one version and up to a later version; see `between`."""
    return between(
        snapshot.client, table, snapshot.snapshot, since, until, taken_s=snapshot.taken_s
    )


def changes_of(spark: SparkSession, snapshot: ReadSnapshot, wanted: ChangeQuery) -> FoundChanges:
    """Return the requested changes; see `read_changes`."""
    table, client = wanted.table, snapshot.client
    _require_free_names(table)
    moment = Moment.now(spark, wanted.terms)
    filter_columns = (
        () if wanted.where is None else columns_used(spark, table, wanted.where, moment)
    )
    names = list(dict.fromkeys((*wanted.columns, *wanted.keys, *filter_columns)))
    touched = _touched(spark, client, wanted, moment)
    target = resolve_target(spark, client, table, snapshot.snapshot, touched)
    stretches, still = _stretches(target, wanted)
    position = free_name("position", table.column_names, CHANGE_COLUMNS)
    old = None if wanted.pre_images else frozenset((*wanted.keys, *filter_columns))
    changes = _found(spark, wanted, stretches, names, position, old)
    partitions = [info for info, _ in stretches]
    rows = _with_change_columns(target, wanted, partitions, changes.rows, names, position)
    if wanted.where is not None:
        rows = _where(table, rows, names, wanted.where, moment)
    if not wanted.pre_images:
        key_names = {*wanted.keys, *(column.name for column in table.partition_columns)}
        rows = without_old_values(rows, set(names) - key_names)
    is_small = changes.size_bytes <= TASK_BYTES
    if is_small:
        # In one task, rows with equal keys need no shuffle, and no extra run samples ranges.
        rows = rows.coalesce(1)
    rows = rows.withColumn(CHANGE_TYPE, type_of(wanted.keys, is_net=wanted.is_net))
    rows = in_order(rows, is_small=is_small)
    return FoundChanges(
        rows=rows.select(*[F.col(quoted(n)) for n in (*wanted.columns, *CHANGE_COLUMNS)]),
        held=still | _held((info, segment.state) for info, segment in stretches),
    )


def _touched(
    spark: SparkSession, client: MetastorePort, query: ChangeQuery, moment: Moment
) -> Touched:
    """Return the partitions to read; refuse a range that needs a partition that was dropped."""
    if not query.table.is_partitioned:
        return Touched()
    names = client.partition_names(query.table)
    lost = query.writes.vanished(names)
    if query.where is None:
        query.writes.check_vanished(lost)
        return Touched()
    matches = partitions_where(spark, query.table, (*names, *lost), query.where, moment)
    query.writes.check_vanished(lost if matches is None else lost.intersection(matches))
    return Touched(names=matches, seen=names)


def whole_of(spark: SparkSession, snapshot: ReadSnapshot, wanted: ChangeQuery) -> FoundChanges:
    """Return all rows at the end of a range as inserts by their writes, as `changes_of` does."""
    table, client = wanted.table, snapshot.client
    _require_free_names(table)
    moment = Moment.now(spark, wanted.terms)
    names = list(wanted.columns)
    if wanted.where is not None:
        names = list(dict.fromkeys((*names, *columns_used(spark, table, wanted.where, moment))))
    # The current version is readable even if a partition was dropped.
    past = None if wanted.writes.ends_now else wanted.writes.last
    target = resolve_target(spark, client, table, snapshot.snapshot, past=past)
    position = free_name("position", table.column_names, CHANGE_COLUMNS)
    rows = target.live_rows(names, position)
    stored = {field.name for field in rows.schema[position].dataType}  # type: ignore[attr-defined] # a struct
    own_write_id = F.col(f"{quoted(position)}.{IDENTITY_COLUMNS[0]}")
    born = own_write_id if IDENTITY_COLUMNS[0] in stored else F.lit(None)
    rows = rows.withColumns({IS_BORN: F.lit(True), VERSION: born.cast("bigint")})
    whole = _with_change_columns(target, wanted, target.partitions, rows, names, position)
    if wanted.where is not None:
        whole = _where(table, whole, names, wanted.where, moment)
    whole = whole.withColumn(CHANGE_TYPE, F.lit(ChangeType.INSERT.value))
    return FoundChanges(
        rows=whole.select(*[F.col(quoted(n)) for n in (*wanted.columns, *CHANGE_COLUMNS)]),
        held=_held(zip(target.partitions, target.states, strict=True)),
    )


def _held(states: Iterable[tuple[PartitionInfo, AcidState]]) -> dict[str, str]:
    pairs = ((str(info.name), newest_of(state)) for info, state in states)
    return {name: newest for name, newest in pairs if newest is not None}


def _stretches(
    target: Target, query: ChangeQuery
) -> tuple[list[changed_files.PartitionSegment], dict[str, str]]:
    """Return each partition's stretches in the range, and unchanged partitions' newest entries.

    Entries that the caller already has are left out. If the changes of a partition cannot be read,
    the `oldest` of the error is the first version after which the changes of all partitions can be
    read.
    """
    refused: list[errors.ChangesGoneError] = []

    def segments_of(root: tuple[PartitionInfo, Listing]) -> list[changed_files.PartitionSegment]:
        try:
            return [(root[0], segment) for segment in query.writes.segments(*root)]
        except errors.ChangesGoneError as error:
            refused.append(error)
            return []

    listings = each_in_threads(target.listing, target.partitions)
    roots = list(zip(target.partitions, listings, strict=True))
    each = each_in_threads(segments_of, roots)
    if refused:
        # The range must be readable in all partitions, so use the latest of their starts.
        worst = max(refused, key=lambda error: error.oldest or math.inf)
        raise errors.ChangesGoneError(
            table=target.table.ref,
            since=query.writes.part.since.high_watermark,
            oldest=worst.oldest,
            why=worst.why
            if worst.table == str(target.table.ref)
            else f"of {worst.table}, {worst.why}",
        )
    still = {
        str(info.name): query.writes.newest(listing)
        for (info, listing), segments in zip(roots, each, strict=True)
        if not segments and str(info.name) not in query.writes.held
    }
    return (
        [segment for segments in each for segment in segments],
        {name: newest for name, newest in still.items() if newest is not None},
    )


def _found(  # noqa: PLR0913, PLR0917 - the request, and the files to read
    spark: SparkSession,
    query: ChangeQuery,
    stretches: Sequence[changed_files.PartitionSegment],
    names: Sequence[str],
    position: str,
    old: frozenset[str] | None,
) -> changed_files.Changes:
    if query.table.kind is TransactionalKind.FULL_ACID:
        files = changed_files.ChangedFiles(
            spark=spark, table=query.table, stretches=stretches, is_net=query.is_net, old=old
        )
        return files.changes(names, position)
    return changed_files.plain_changes(
        spark, query.table, stretches, names, is_net=query.is_net, position=position
    )


def _with_change_columns(  # noqa: PLR0913, PLR0917 - the rows, their partitions, and the request
    target: Target,
    query: ChangeQuery,
    partitions: Sequence[PartitionInfo],
    rows: DataFrame,
    names: Sequence[str],
    position: str,
) -> DataFrame:
    """Return changes with the change columns; file numbers have positions in `partitions`."""
    columns = {c.name: c for c in (*target.table.columns, *target.table.partition_columns)}
    values = target.of_partitions(partitions).values([columns[name] for name in names], position)
    position_fields = {field.name for field in rows.schema[position].dataType}  # type: ignore[attr-defined] # a struct
    identity = [
        (F.col(f"{quoted(position)}.{name}") if name in position_fields else F.lit(None))
        .cast(type_)
        .alias(own)
        for name, type_, own in zip(IDENTITY_COLUMNS, IDENTITY_TYPES, ROW_IDENTITY, strict=True)
    ]
    return rows.select(
        *values,
        F.col(IS_BORN),
        F.col(VERSION).alias(CHANGE_VERSION),
        commit_time(query.writes.commit_times()).alias(COMMIT_TIME),
        *identity,
    )


def _where(
    table: TableInfo, rows: DataFrame, names: Sequence[str], where: str, moment: Moment
) -> DataFrame:
    extra_names = [name for name in rows.columns if name not in names]
    every = whole_rows(table, rows, *extra_names)
    (expression,) = resolved(table, every, [where], moment)
    holds = F.coalesce(checked_condition(table, where, expression), F.lit(False))
    return every.where(holds).select(*[F.col(quoted(n)) for n in (*names, *extra_names)])


def keys_of(
    snapshot: ReadSnapshot, table: TableInfo, keys: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the given keys; for None, the columns of the table's primary key, if it has one."""
    return known_columns(table, snapshot.client.primary_key(table.ref) if keys is None else keys)


def known_columns(table: TableInfo, names: Sequence[str]) -> tuple[str, ...]:
    """Return a table's columns as it spells them, without duplicates; refuse other names."""
    table_columns = table.column_names
    columns = tuple(dict.fromkeys(name.lower() for name in names))
    for name in columns:
        if name not in table_columns:
            raise errors.UnknownColumnError(table=table.ref, column=name, known=table_columns)
    return columns


def _require_free_names(table: TableInfo) -> None:
    conflicts = sorted(set(CHANGE_COLUMNS).intersection(table.column_names))
    if conflicts:
        raise errors.UnsupportedTableError(
            table=table.ref,
            detail=f"its column {conflicts[0]} has the name of a change column; rename it",
        )
