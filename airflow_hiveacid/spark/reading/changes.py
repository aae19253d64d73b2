"""What was changed in a table between two versions, as a frame.

A version is a write ID: that of a table is what all committed writes up to it have left. Changes
since one version until another, applied in their order, make the second of the first.

Files say of an update that a row went and that a row came, by one write, and not that one took
the other's place. Keys say so: where one write removes one row and brings one with equal keys,
these are the two images of an update. Without keys, and where keys are not unique, there are
deletes and inserts only; both are the same change.

Example:
    with read_snapshot(endpoint, ["demo.flights"], job_key="feed") as snapshot:
        changes = read_changes(spark, "demo.flights", snapshot, since=12, keys=["id"])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hiveacid.format.changes import ChangeType
from airflow_hiveacid.format.errors import (
    ChangesGoneError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import newest_of
from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.spark.catalyst import Moment
from airflow_hiveacid.spark.checked import condition as checked_condition
from airflow_hiveacid.spark.checked import resolved
from airflow_hiveacid.spark.events import IDENTITY
from airflow_hiveacid.spark.names import free_name
from airflow_hiveacid.spark.pieces import TASK_BYTES
from airflow_hiveacid.spark.reading.access import Touched
from airflow_hiveacid.spark.reading.change_columns import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    CHANGE_VERSION,
    COMMIT_TIME,
    IDENTITY_TYPES,
    ROW_IDENTITY,
    commit_time,
    in_order,
    type_of,
    without_old_values,
)
from airflow_hiveacid.spark.reading.change_scan import IS_BORN, VERSION
from airflow_hiveacid.spark.reading.changed_files import ChangedFiles, Stretch, plain_changes
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.target import empty_target, resolve_target, whole_rows
from airflow_hiveacid.spark.store_settings import give_store_settings
from airflow_hiveacid.spark.store_tokens import give_store_tokens
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.between import between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.reading.changed_files import Changes
    from airflow_hiveacid.spark.reading.tables import ReadSnapshot
    from airflow_hiveacid.spark.reading.target import Target
    from airflow_hiveacid.versions.between import Between, Version


def read_changes(  # noqa: PLR0913 - every one is a choice of its own
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
    pre_images: bool = True,
) -> DataFrame:
    """A frame of what was changed in a table after one version, up to another.

    Args:
        spark: the session.
        name: the table; one of the snapshot's.
        snapshot: what is seen.
        since: the version before the first change: a write ID, 0 is the table before its first
            write; a moment, aware or as an ISO text; `tag NAME`; or a `VersionSpec`.
        until: the version of the last one, inclusive; by default the newest that no open write can
            change.
        keys: columns by which rows are told from each other: they make updates of deletes and
            inserts. By default those of the table's primary key, if it has one; none if empty.
        net: leave out rows that came and went within the range. With keys there is one change of a
            key at most: its first preimage and its last postimage.
        columns: those of the table's columns to give, in this order; all by default.
        where: a condition in Spark SQL over the table's columns. The changes are those of the rows
            for which it holds: one that an update moves out of it is deleted.
        pre_images: whether rows that go are told with the values they had. Without, they have their
            keys, partition and identity, and NULL in all other columns: that takes a small part of
            the time, since old values are spread over a table's files.

    Returns:
        The table's columns, as `read_table` gives them, deleted rows with the values they had; then
        `_change_type` (`delete`, `update_preimage`, `update_postimage`, `insert`), `_version`, the
        write that did it, `_commit_time`, NULL where it is not known, and the identity of the row
        (`ROW_IDENTITY`). In order of version, and within one in that of the types as they stand
        here. Compactions are in no change.

    Raises:
        ChangesGoneError: files that would be needed may be gone.
        VersionNotSettledError: a write up to `until` is still open.
        VersionNotYetError: that time is not over by the metastore's clock.
        VersionRangeError, VersionUnknownError, VersionDoubtfulError: there is no such range, or
            nobody knows which it is.
        ConfigurationError: the snapshot was not taken of this table.
        UnknownColumnError, ExpressionError: a column or the condition is wrong.
        StorageError: what is there cannot be read.
    """
    give_store_settings(spark)
    give_store_tokens(spark)
    table = snapshot.table(name)
    wanted = ChangeQuery(
        table=table,
        writes=writes_between(snapshot, table, since, until),
        keys=keys_of(snapshot, table, keys),
        is_net=net,
        columns=known_columns(table, table.column_names if columns is None else columns),
        where=where,
        pre_images=pre_images,
    )
    return changes_of(spark, snapshot, wanted).rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """Which changes of a table are asked for; names are the table's own."""

    table: TableInfo
    writes: Between
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    is_net: bool = False
    where: str | None = None
    pre_images: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Changes, and what bears witness of the end of their range: `newest_of`, by partition's text.

    Partitions in which nothing was changed, and of which that is known, are not among them.
    """

    rows: DataFrame
    held: Mapping[str, str]


def writes_between(
    snapshot: ReadSnapshot, table: TableInfo, since: Version, until: Version | None
) -> Between:
    """The writes after one version up to another; see `between`."""
    return between(
        snapshot.client, table, snapshot.snapshot, since, until, taken_s=snapshot.taken_s
    )


def changes_of(spark: SparkSession, snapshot: ReadSnapshot, wanted: ChangeQuery) -> Told:
    """The changes that are asked for; see `read_changes`.

    Raises:
        HiveAcidError: see `read_changes`.
    """
    table, client = wanted.table, snapshot.client
    _require_free_names(table)
    moment = Moment.now(spark)
    used = () if wanted.where is None else _used(spark, table, wanted.where, moment)
    names = list(dict.fromkeys((*wanted.columns, *wanted.keys, *used)))
    touched = _touched(spark, client, wanted, moment)
    target = resolve_target(spark, client, table, snapshot.snapshot, touched)
    stretches, still = _stretches(target, wanted)
    place = free_name("place", table.column_names, CHANGE_COLUMNS)
    old = None if wanted.pre_images else frozenset((*wanted.keys, *used))
    found = _found(spark, wanted, stretches, names, place, old)
    places = [info for info, _ in stretches]
    rows = _with_change_columns(target, wanted, places, found.rows, names, place)
    if wanted.where is not None:
        rows = _where(table, rows, names, wanted.where, moment)
    if not wanted.pre_images:
        known = {*wanted.keys, *(column.name for column in table.partition_columns)}
        rows = without_old_values(rows, set(names) - known)
    is_small = found.size_bytes <= TASK_BYTES
    if is_small:
        # What one task reads needs no exchange to find its equals, nor a second run over it to find
        # out where to cut it for a sort.
        rows = rows.coalesce(1)
    rows = rows.withColumn(CHANGE_TYPE, type_of(wanted.keys, is_net=wanted.is_net))
    rows = in_order(rows, is_small=is_small)
    return Told(
        rows=rows.select(*[F.col(quoted(n)) for n in (*wanted.columns, *CHANGE_COLUMNS)]),
        held=still | _held((info, segment.state) for info, segment in stretches),
    )


def _touched(
    spark: SparkSession, client: MetastorePort, wanted: ChangeQuery, moment: Moment
) -> Touched:
    """The partitions whose changes are asked for.

    Raises:
        ChangesGoneError: one of them was dropped.
    """
    if not wanted.table.is_partitioned:
        return Touched()
    seen = client.partition_names(wanted.table)
    lost = wanted.writes.vanished(seen)
    if wanted.where is None:
        wanted.writes.check_vanished(lost)
        return Touched()
    left = partitions_where(spark, wanted.table, (*seen, *lost), wanted.where, moment)
    wanted.writes.check_vanished(lost if left is None else lost.intersection(left))
    return Touched(names=left, seen=seen)


def whole_of(spark: SparkSession, snapshot: ReadSnapshot, wanted: ChangeQuery) -> Told:
    """All rows of a table at the end of a range, each as an insert by the write that made it.

    Columns and order are those of `changes_of`; keys do not matter.

    Raises:
        VersionGoneError: what is left does not hold that version.
        HiveAcidError: see `read_changes`.
    """
    table, client = wanted.table, snapshot.client
    _require_free_names(table)
    moment = Moment.now(spark)
    names = list(wanted.columns)
    if wanted.where is not None:
        names = list(dict.fromkeys((*names, *_used(spark, table, wanted.where, moment))))
    # What is there now is read as it is, also where a partition was dropped that was there before.
    past = None if wanted.writes.ends_now else wanted.writes.last
    target = resolve_target(spark, client, table, snapshot.snapshot, past=past)
    place = free_name("place", table.column_names, CHANGE_COLUMNS)
    rows = target.live_rows(names, place)
    stored = {field.name for field in rows.schema[place].dataType}  # type: ignore[attr-defined] # a struct
    born = F.col(f"{quoted(place)}.{IDENTITY[0]}") if IDENTITY[0] in stored else F.lit(None)
    rows = rows.withColumns({IS_BORN: F.lit(True), VERSION: born.cast("bigint")})
    whole = _with_change_columns(target, wanted, target.partitions, rows, names, place)
    if wanted.where is not None:
        whole = _where(table, whole, names, wanted.where, moment)
    whole = whole.withColumn(CHANGE_TYPE, F.lit(ChangeType.INSERT.value))
    return Told(
        rows=whole.select(*[F.col(quoted(n)) for n in (*wanted.columns, *CHANGE_COLUMNS)]),
        held=_held(zip(target.partitions, target.states, strict=True)),
    )


def _held(states: Iterable[tuple[PartitionInfo, AcidState]]) -> dict[str, str]:
    """What was written last of each root; of several states of one, the last one counts."""
    found = ((str(info.name), newest_of(state)) for info, state in states)
    return {name: newest for name, newest in found if newest is not None}


def _stretches(target: Target, wanted: ChangeQuery) -> tuple[list[Stretch], dict[str, str]]:
    """What of each partition's life is in the range; and what bears witness of all others.

    Of those of which the caller knows that by an earlier range nothing is told.

    Raises:
        ChangesGoneError: it cannot be told of one; says since when it could be of all.
    """
    refused: list[ChangesGoneError] = []

    def of(place: tuple[PartitionInfo, Listing]) -> list[Stretch]:
        try:
            return [(place[0], segment) for segment in wanted.writes.segments(*place)]
        except ChangesGoneError as error:
            refused.append(error)
            return []

    listings = each_in_threads(target.listing, target.partitions)
    places = list(zip(target.partitions, listings, strict=True))
    each = each_in_threads(of, places)
    if refused:
        # Where it is not known of one, it is not of all.
        worst = max(refused, key=lambda error: error.oldest or math.inf)
        raise ChangesGoneError(
            table=target.table.ref,
            since=wanted.writes.part.since.high_watermark,
            oldest=worst.oldest,
            why=worst.why
            if worst.table == str(target.table.ref)
            else f"of {worst.table}, {worst.why}",
        )
    still = {
        str(info.name): wanted.writes.newest(listing)
        for (info, listing), found in zip(places, each, strict=True)
        if not found and str(info.name) not in wanted.writes.held
    }
    return (
        [one for found in each for one in found],
        {name: newest for name, newest in still.items() if newest is not None},
    )


def _found(  # noqa: PLR0913, PLR0917 - what is asked for, and where it is
    spark: SparkSession,
    wanted: ChangeQuery,
    stretches: Sequence[Stretch],
    names: Sequence[str],
    place: str,
    old: frozenset[str] | None,
) -> Changes:
    if wanted.table.kind is TransactionalKind.FULL_ACID:
        files = ChangedFiles(
            spark=spark, table=wanted.table, stretches=stretches, is_net=wanted.is_net, old=old
        )
        return files.changes(names, place)
    return plain_changes(spark, wanted.table, stretches, names, is_net=wanted.is_net, place=place)


def _with_change_columns(  # noqa: PLR0913, PLR0917 - rows, where they are, and what is known of both
    target: Target,
    wanted: ChangeQuery,
    places: Sequence[PartitionInfo],
    rows: DataFrame,
    names: Sequence[str],
    place: str,
) -> DataFrame:
    """Changes as users see them, but for their type: the table's columns, then the others.

    The number of a row's file names one of `places`.
    """
    known = {c.name: c for c in (*target.table.columns, *target.table.partition_columns)}
    values = target.of_partitions(places).values([known[name] for name in names], place)
    here = {field.name for field in rows.schema[place].dataType}  # type: ignore[attr-defined] # a struct
    identity = [
        (F.col(f"{quoted(place)}.{name}") if name in here else F.lit(None)).cast(type_).alias(own)
        for name, type_, own in zip(IDENTITY, IDENTITY_TYPES, ROW_IDENTITY, strict=True)
    ]
    return rows.select(
        *values,
        F.col(IS_BORN),
        F.col(VERSION).alias(CHANGE_VERSION),
        commit_time(wanted.writes.commit_times()).alias(COMMIT_TIME),
        *identity,
    )


def _where(
    table: TableInfo, rows: DataFrame, names: Sequence[str], where: str, moment: Moment
) -> DataFrame:
    beside = [name for name in rows.columns if name not in names]
    every = whole_rows(table, rows, *beside)
    (found,) = resolved(table, every, [where], moment)
    holds = F.coalesce(checked_condition(table, where, found), F.lit(False))
    return every.where(holds).select(*[F.col(quoted(n)) for n in (*names, *beside)])


def _used(spark: SparkSession, table: TableInfo, where: str, moment: Moment) -> list[str]:
    """The columns that a condition asks.

    Raises:
        UnknownColumnError, ExpressionError: it cannot be read, or is no condition.
    """
    (found,) = resolved(table, empty_target(spark, table).alias("t"), [where], moment)
    checked_condition(table, where, found)
    return [table.column_names[i] for i in found.uses]


def keys_of(
    snapshot: ReadSnapshot, table: TableInfo, keys: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that are given, or of the table's primary key, if it has one, where None are.

    Raises:
        UnknownColumnError: the table has no such column.
    """
    return known_columns(table, snapshot.client.primary_key(table.ref) if keys is None else keys)


def known_columns(table: TableInfo, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the table's columns, as it has them.

    Raises:
        UnknownColumnError: it has no such column.
    """
    known = table.column_names
    found = tuple(dict.fromkeys(name.lower() for name in names))
    for name in found:
        if name not in known:
            raise UnknownColumnError(table=table.ref, column=name, known=known)
    return found


def _require_free_names(table: TableInfo) -> None:
    taken = sorted(set(CHANGE_COLUMNS).intersection(table.column_names))
    if taken:
        raise UnsupportedTableError(
            table=table.ref,
            detail=f"its changes cannot be told from its rows: it has a column called {taken[0]}",
        )
