"""The health of a table's partitions, measured with one snapshot and one listing per partition.

A partition is measured with the write ID list of a compactor, without a transaction. Files are not
opened, except the footers of delete deltas to count deleted rows. With the last look of a poll,
only partitions that may have changed since are listed again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial as bind
from itertools import islice
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.state.directories import FileEntry
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.maintenance.looks import compactors, news_since
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.looks import LastLook
from airflow_hiveacid.plan.thresholds import SMALL_FILE_BYTES, TableHealth
from airflow_hiveacid.storage.acid.read.inspect import orc_rows
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads, side_by_side

_ATTEMPTS: Final = 3

_Reached = Callable[[TableInfo, tuple[TableHealth, ...]], Collection[str]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """The health of a table's partitions, with the snapshot under which they were measured.

    An unpartitioned table has exactly one value in `healths`. `look` is for the next measurement of
    a whole partitioned table.
    """

    table: TableInfo
    snapshot: Snapshot
    healths: tuple[TableHealth, ...]
    look: LastLook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roots:
    """The partitions to list under a snapshot, and what is known of the others."""

    table: TableInfo
    partition: str | None = None
    snapshot: Snapshot
    roots: tuple[PartitionInfo, ...]
    full_s: float
    known: tuple[TableHealth, ...] = ()


def _every_partition(_: TableInfo, healths: tuple[TableHealth, ...]) -> Collection[str]:
    return {health.partition for health in healths}


def measure(  # noqa: PLR0913 - what to measure, and what need not be measured again
    client: MetastorePort,
    ref: TableRef,
    partition: str | None = None,
    *,
    counts_rows: bool = False,
    small_file_bytes: int = SMALL_FILE_BYTES,
    last: LastLook | None = None,
    reached: _Reached = _every_partition,
) -> MeasuredTable:
    """Measure a table, or one partition of it; the call blocks.

    Without `partition` (`month=1`), measure all partitions, in the metastore's order, and omit one
    that is dropped during the call. With the `last` look of the same condition, list only the
    partitions that may have changed since, and those that `reached` names among the remembered
    healths. So every finding follows from a new listing. The ages in other healths are outdated.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            table = client.get_table(ref)
            if table.kind is TransactionalKind.NONE:
                raise errors.NotTransactionalError(table=ref)
            roots = None if last is None or partition else _changed(client, table, last, reached)
            if roots is None:
                roots = _Roots(
                    table=table,
                    partition=partition,
                    full_s=time.time(),
                    roots=partitions_of(client, table, partition or None),
                    snapshot=snapshot_now(client, [ref]),
                )
            return _measured(client, roots, counts_rows, small_file_bytes)
        except errors.NotEnoughHistoryError:
            # This function opens no transaction, so a cleaner may remove files that are visible in
            # the snapshot. If files are missing, take a newer snapshot, which shows the files that
            # replaced the missing files.
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError(_ATTEMPTS)


def _changed(
    client: MetastorePort, table: TableInfo, last: LastLook, reached: _Reached
) -> _Roots | None:
    """Return the partitions that need a new look; None if all do."""
    news = news_since(client, table, last)
    if news is None:
        return None
    unwritten = news.names.keys() - news.written
    known = tuple(health for health in last.healths if health.partition in unwritten)
    findings = reached(table, known)
    known = tuple(health for health in known if health.partition not in findings)
    roots = news.roots(client, table, news.names.keys() - {h.partition for h in known})
    if roots is None:
        return None
    return _Roots(table=table, snapshot=news.snapshot, roots=roots, full_s=last.full_s, known=known)


def _measured(
    client: MetastorePort,
    part: _Roots,
    counts_rows: bool,  # noqa: FBT001 - `measure` names it
    small_file_bytes: int,
) -> MeasuredTable:
    table, snapshot = part.table, part.snapshot.for_compactor()
    of_root = bind(_health, table, snapshot, small_file_bytes, time.time())
    measured = side_by_side(of_root, part.roots)
    missing = [root for root, health in zip(part.roots, measured, strict=True) if health is None]
    if missing:
        _check_dropped(client, table.ref, part.partition, missing)
    present = [pair for pair in measured if pair is not None]
    new = _with_deleted_rows(present) if counts_rows else (health for health, _ in present)
    healths = tuple(sorted((*new, *part.known), key=lambda health: health.partition))
    look = LastLook(
        table_id=table.table_id,
        location=table.location,
        write_id=compactors(table, snapshot).high_watermark,
        full_s=part.full_s,
        healths=healths,
    )
    is_whole = table.is_partitioned and not part.partition
    return MeasuredTable(
        table=table, snapshot=part.snapshot, healths=healths, look=look if is_whole else None
    )


def _health(
    table: TableInfo, snapshot: Snapshot, small_file_bytes: int, now_s: float, root: PartitionInfo
) -> tuple[TableHealth, tuple[FileEntry, ...]] | None:
    """Return a root's health and the files of its delete deltas; None if it has no directory."""
    try:
        listing = list_table(root.location)
    except errors.LocationNotFoundError:
        return None
    state = resolve(listing, snapshot.write_ids(table.ref), snapshot.txns, table.kind)
    health = TableHealth.of(
        state,
        table=str(table.ref),
        partition=str(root.name),
        kind=table.kind,
        small_file_bytes=small_file_bytes,
        now_s=now_s,
    )
    return health, tuple(file for delta in state.delete_deltas for file in delta.files)


def _with_deleted_rows(
    measured: Sequence[tuple[TableHealth, tuple[FileEntry, ...]]],
) -> Iterator[TableHealth]:
    """Add the number of delete events in each root, from the footers of the root's files."""
    footers = []
    for health, files in measured:
        fs, root = open_location(health.location)
        footers += [(fs, f"{root}/{file.path}", file.size_bytes) for file in files]
    rows = iter(each_in_threads(lambda footer: orc_rows(*footer), footers))
    for health, files in measured:
        yield replace(health, deleted_rows=sum(islice(rows, len(files))))


def _check_dropped(
    client: MetastorePort, ref: TableRef, partition: str | None, missing: list[PartitionInfo]
) -> None:
    """Raise an error if a missing directory still belongs to a partition in the metastore."""
    present = {
        root.location for root in partitions_of(client, client.get_table(ref), partition or None)
    }
    for root in missing:
        if root.location in present:
            raise errors.LocationNotFoundError(location=root.location)
        _log.debug("%s %s was dropped while it was listed", ref, root.name)
