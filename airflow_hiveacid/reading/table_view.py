"""A table under one snapshot, for any engine: its partitions, files, states and readers' locks.

The files are listed once, in this process. Scans get plain values (files, write IDs), so that a
retried task reads the same rows.

A reader lists the partitions, locks them, and takes its snapshot. One commit may meanwhile have
written to a new and to a listed partition, so it lists again, and starts over if they have changed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from airflow_hiveacid.format.acid_state import AcidState, flat_state, resolve
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.errors import LocationNotFoundError, UnsupportedTableError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TransactionalKind,
    own_columns,
)
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.reading import KeyRange, file_number
from airflow_hiveacid.reading.arrow_scan import TargetFile
from airflow_hiveacid.storage.acid.read.buckets import BucketFiles, buckets_of
from airflow_hiveacid.storage.plain.files import PlainFile, check_files_readable, plain_files
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.stores.conversion_note import check_in_place, naming_conversion
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import publishes_files, scheme_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.versions.past import Past

MOST_NAMED: Final = 200
"""The maximum number of partitions to lock by name; otherwise the whole table is locked.

The metastore keeps a row for each lock. Hive 4.0.1 checks all partitions of a lock request in one
database query. Derby accepts about 400 partitions in one query.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The partitions that a statement may touch (None if unknown), and those `seen` for it."""

    names: tuple[PartitionName, ...] | None = None
    seen: tuple[PartitionName, ...] = field(default=(), compare=False)

    def partitions(self, client: MetastorePort, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """Return the touched partitions that exist."""
        if self.names is None:
            return client.list_partitions(table)
        partitions = client.get_partitions(table, self.names)
        names = frozenset(self.names)
        if names.intersection(self.seen) <= {p.name for p in partitions}:
            return partitions
        # Some partitions may have been dropped, or be spelled otherwise by a client.
        return tuple(p for p in client.list_partitions(table) if p.name in names)


def touching(
    client: MetastorePort,
    table: TableInfo,
    ask: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...] | None],
) -> Callable[[], Touched]:
    """Return a function that finds touched partitions; it asks again after partitions changed."""
    remembered = functools.lru_cache(maxsize=1)(ask)

    def look() -> Touched:
        all_names = client.partition_names(table)
        return Touched(names=remembered(all_names), seen=all_names)

    return look


def touched_as_of(
    client: MetastorePort,
    table: TableInfo,
    past: Past | None,
    ask: Callable[[tuple[PartitionName, ...]], tuple[PartitionName, ...] | None],
) -> Touched:
    """Return the partitions that a read of a partitioned table, or of its past version, touches.

    `ask` gets the existing partitions, and the vanished ones of the version, and returns those that
    can have a wanted row, or None for all. Raises VersionGoneError if one of these has vanished.
    """
    names = client.partition_names(table)
    lost = () if past is None else past.vanished(names)
    matches = ask((*names, *lost))
    if past is not None and matches is not None:
        lost_matches = {*matches} & {*lost}
        # Pass the unwanted vanished partitions as existing: only wanted ones raise the error.
        past.check_vanished([name for name in (*names, *lost) if name not in lost_matches])
    return Touched(names=matches, seen=names)


def reading(client: MetastorePort, table: TableInfo) -> TableAccess:
    """Return a reader's access to a whole table, with its partitions if there are few."""
    return TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=nameable(client.partition_names(table)) if table.is_partitioned else None,
    )


def nameable(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
    """Return the partitions if each can have its own lock; None to lock the whole table."""
    return names if 0 < len(names) <= MOST_NAMED else None


def is_still_all(client: MetastorePort, access: TableAccess) -> bool:
    """Return whether the table's partitions are still exactly those of `access`."""
    return access.partitions is None or reading(client, access.table) == access


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The files that a transaction has staged in one table, under the table's write ID.

    `files` contains the files of each of `partitions`, under their final names. Some partitions may
    exist only after the commit.
    """

    write_id: WriteId
    partitions: tuple[PartitionInfo, ...]
    files: Mapping[PartitionName, tuple[FileEntry, ...]]


def view_of(  # noqa: PLR0913 - each argument is a part of the view
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    touched: Touched | None = None,
    *,
    staged: Staged | None = None,
    past: Past | None = None,
) -> TableView:
    """Return a table, or some of its partitions, under a snapshot; directories are listed later.

    A table without transactions has no write IDs, so all its files are visible. If the reader's own
    transaction has staged files, the view contains their rows as if the files were committed.
    `past` is the table as of an earlier version.
    """
    touched = touched or Touched()
    partitions = touched.partitions(client, table)
    if past is not None:
        if table.is_partitioned and touched.names is None:
            past.check_vanished([p.name for p in partitions])
        write_ids = past.then
    elif table.kind is TransactionalKind.NONE:
        write_ids = ValidWriteIdList(table=table.ref, high_watermark=WriteId(0))
    else:
        write_ids = snapshot.write_ids(table.ref)
    if staged is not None:
        write_ids = write_ids.with_own(staged.write_id)
        names = {p.name for p in partitions}
        new = [
            p
            for p in staged.partitions
            if p.name not in names and (touched.names is None or p.name in touched.names)
        ]
        partitions = (*partitions, *new)
    return TableView(
        table=table,
        write_ids=write_ids,
        txns=snapshot.txns,
        partitions=partitions,
        is_narrow=touched.names is not None,
        staged=staged,
        past=past,
    )


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dict
class TableView:
    """A table under one snapshot.

    Rows outside `ranges` are not wanted. `is_narrow` is True if `partitions` contains only
    partitions that the statement can touch.

    Members that list directories raise NotEnoughHistoryError, DanglingDeleteError or StorageError,
    and VersionGoneError if files of a `past` version are missing.
    """

    table: TableInfo
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    partitions: tuple[PartitionInfo, ...]
    ranges: Mapping[str, KeyRange] = dataclasses.field(default_factory=dict)
    is_narrow: bool = False
    staged: Staged | None = None
    past: Past | None = None

    @cached_property
    def states(self) -> tuple[AcidState, ...]:
        """The files of each partition under the snapshot."""
        if self.past is not None:
            listings = each_in_threads(self.listing, self.partitions)
            return self.past.states(self.partitions, listings)

        def state_of(info: PartitionInfo) -> AcidState:
            if self.table.kind is TransactionalKind.NONE:
                with naming_conversion(self.table):
                    return flat_state(self.listing(info))
            return resolve(self.listing(info), self.write_ids, self.txns, self.table.kind)

        return tuple(each_in_threads(state_of, self.partitions))

    def listing(self, info: PartitionInfo) -> Listing:
        """List a partition's files, including files staged by the reader's own transaction."""
        own = () if self.staged is None else self.staged.files.get(info.name, ())
        if own and publishes_files(scheme_of(info.location)):
            raise UnsupportedTableError(
                table=self.table.ref,
                detail="a statement reads rows that an earlier statement of its transaction wrote"
                f" to {info.location}, but files on {scheme_of(info.location)}:// cannot be read"
                " before they are published; run the two statements in separate transactions",
            )
        try:
            listing = list_table(info.location)
        except LocationNotFoundError:
            if not own:
                raise
            listing = Listing(location=info.location, files=())  # the commit creates this partition
        check_in_place(self.table, listing)
        return dataclasses.replace(listing, files=(*listing.files, *own))

    @cached_property
    def buckets(self) -> tuple[tuple[BucketFiles, ...], ...]:
        """The files of each partition, bucket by bucket; every delete file has been checked."""
        return buckets_of(self.states, self.write_ids)

    @property
    def elsewhere(self) -> dict[PartitionName, str]:
        """The locations of the partitions that are not at their default location."""
        usual = self.table.default_partition_location
        return {p.name: p.location for p in self.partitions if p.location != usual(p.name)}

    @cached_property
    def files(self) -> tuple[TargetFile, ...]:
        """Every data file, partition by partition, bucket by bucket."""
        entries = [
            (partition, data, bucket.deletes_of(data))
            for partition, buckets in enumerate(self.buckets)
            for bucket in buckets
            for data in bucket.inserts
        ]
        return tuple(
            TargetFile(
                number=file_number(partition, index),
                partition=partition,
                data=data,
                deletes=deletes,
            )
            for index, (partition, data, deletes) in enumerate(entries)
        )

    @cached_property
    def plain_files(self) -> tuple[tuple[int, PlainFile], ...]:
        """Every file of an insert-only or flat table; see `numbered_files`."""
        return numbered_files(self.table, self.partitions, self.states)

    def of_partitions(self, partitions: Iterable[PartitionInfo]) -> Self:
        """Return a view of the given partitions; a partition may occur more than once."""
        return dataclasses.replace(self, partitions=tuple(partitions))

    @property
    def _names(self) -> tuple[PartitionName, ...]:
        return tuple(p.name for p in self.partitions)

    def _named(self, names: Collection[PartitionName]) -> tuple[PartitionInfo, ...]:
        selection = frozenset(names)
        return tuple(p for p in self.partitions if p.name in selection)


def numbered_files(
    table: TableInfo, partitions: Sequence[PartitionInfo], states: Sequence[AcidState]
) -> tuple[tuple[int, PlainFile], ...]:
    """Return every file of an insert-only or flat table with its number, partition by partition."""
    is_flat = table.kind is TransactionalKind.NONE
    files: list[tuple[int, PlainFile]] = []
    for partition, (info, state) in enumerate(zip(partitions, states, strict=True)):
        storage = info.storage or table.storage
        check_files_readable(table.ref, storage, table.parameters, table.columns)
        with naming_conversion(table):
            found = plain_files(
                state,
                storage.format,
                with_originals=table.reads_originals or is_flat,
                text=text_form(table.ref, table.storage, table.parameters, info.storage),
                columns=own_columns(
                    table.ref, table.columns, info.name, info.columns, storage.format
                ),
            )
        for file in found:
            files.append((file_number(partition, len(files)), file))
    return tuple(files)
