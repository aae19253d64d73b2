"""Measure a table's health with one snapshot and one listing per partition, without Spark.

Input is an endpoint and a table name. Output is one `TableHealth` per partition, measured with the
write ID list that a compactor would use. All functions of this module block, so a trigger must call
them outside the event loop. The functions list directories. Data files are not opened. Only to
count deleted rows, the footers of delete deltas are read.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial as bind
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    NotEnoughHistoryError,
    NotTransactionalError,
)
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.format.words import first_few
from airflow_hiveacid.maintenance.pauses import pauses
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.limits import TableMeasures
from airflow_hiveacid.plan.thresholds import SMALL_FILE_BYTES, TableHealth, due
from airflow_hiveacid.storage.acid.read.inspect import orc_rows
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads, side_by_side
from airflow_hiveacid.versions.keeping import opted_out_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.state.directories import FileEntry
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.compaction_policy import GivenThresholds
    from airflow_hiveacid.plan.limits import HealthLimits, ReachedLimit
    from airflow_hiveacid.plan.thresholds import DueDirectory

_ATTEMPTS: Final = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one poll: the measurements, and the partitions that need compaction.

    `table_id` distinguishes the table from an earlier table of the same name. `why_not` is the
    setting that switches off automatic compaction of the table, or None. `paused` has the reasons
    of partitions that would be due, but are paused after failed compactions.
    """

    table: str
    table_id: str
    healths: tuple[TableHealth, ...]
    due: tuple[DueDirectory, ...]
    why_not: str | None = None
    paused: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.why_not is not None:
            return f"{self.table}: automatic compaction is off by {self.why_not}"
        paused = [f"{name}: {why}" if name else why for name, why in self.paused.items()]
        return "; ".join(filter(None, (self._summary, first_few(paused))))

    @property
    def _summary(self) -> str:
        if len(self.healths) == 1 and not self.healths[0].partition:
            return f"{self.table}: {_numbers(self.healths[0])}"
        worst = max(self.healths, key=lambda h: h.delta_count, default=None)
        most = "" if worst is None else f"; most deltas in {worst.partition}: {_numbers(worst)}"
        return f"{self.table}: {len(self.due)} of {len(self.healths)} partitions are due{most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLook:
    """The result of one poll: the reached limits, and the highest measured value for each limit."""

    table: str
    due: tuple[ReachedLimit, ...]
    highest: Mapping[str, float]

    def __str__(self) -> str:
        if not self.due:
            values = ", ".join(f"{name}={value:g}" for name, value in self.highest.items())
            return f"{self.table}: no limit is reached; highest values: {values}"
        return f"{self.table}: {first_few([str(one) for one in self.due])}"


def look(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, given: GivenThresholds
) -> Look:
    """Measure a table once and find the partitions that are due for compaction.

    If the table's owner has switched off automatic compaction, no partition is due. A partition
    that is paused after failed compactions is not due. Thresholds that `given` leaves out are the
    table's own.

    Raises:
        HiveAcidError: see `measure`.
    """
    found, healths = _measure(endpoint, table, partition, counts_rows=given.counts_rows)
    why_not = opted_out_of(found, NO_AUTO_COMPACTION)
    policy = given.policy_for(found)
    for complaint in policy.warnings:
        _log.warning("%s", complaint)
    findings = due(healths, policy) if why_not is None else ()
    paused = pauses(found, [one.health.partition for one in findings], now_s=time.time())
    return Look(
        table=table,
        table_id=found.table_id,
        healths=healths,
        due=tuple(one for one in findings if one.health.partition not in paused),
        why_not=why_not,
        paused=paused,
    )


def look_at_limits(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, limits: HealthLimits
) -> HealthLook:
    """Measure a table once and find the limits that it has reached.

    The function counts deleted rows only if there is a limit for deleted rows. The function lists
    open transactions only if there is a limit for the age of transactions.

    Raises:
        HiveAcidError: see `measure`.
        StorageError: the footer of a delete delta cannot be read.
    """
    with connect(endpoint) as client:
        found = _measure_patiently(
            client,
            TableRef.parse(table),
            partition,
            counts_rows=limits.deleted_rows is not None,
            small_file_bytes=limits.small_file_bytes,
        )
        oldest_s = None
        if limits.oldest_transaction_s is not None:
            readers = possible_readers(client, found.table.ref, found.txns)
            oldest_s = max((reader.open_for_s or 0 for reader in readers), default=None)
    measures = TableMeasures(
        healths=found.healths,
        aborted_transactions=len(found.write_ids.aborted),
        oldest_transaction_s=oldest_s,
    )
    return HealthLook(table=table, due=measures.reached(limits), highest=measures.highest(limits))


def measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None = None
) -> tuple[TableHealth, ...]:
    """Measure a table, or one partition of it.

    If a partition is dropped during the call, the result omits the partition. But if the dropped
    partition is the requested `partition`, the function raises an error.

    Args:
        endpoint: the metastore.
        table: `db.table`.
        partition: `month=1`; None means all partitions, in the metastore's order.

    Returns:
        One value per partition. An unpartitioned table has exactly one value; a partitioned table
        without partitions has no value.

    Raises:
        InputError: the table or partition does not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not answer.
        StorageError: the directories cannot be listed.
    """
    return _measure(endpoint, table, partition)[1]


class _Measured(NamedTuple):
    table: TableInfo
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    healths: tuple[TableHealth, ...]


def _measure(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, *, counts_rows: bool = False
) -> tuple[TableInfo, tuple[TableHealth, ...]]:
    with connect(endpoint) as client:
        found = _measure_patiently(
            client, TableRef.parse(table), partition, counts_rows=counts_rows
        )
    return found.table, found.healths


def _measure_patiently(
    client: MetastorePort,
    ref: TableRef,
    partition: str | None,
    *,
    counts_rows: bool,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> _Measured:
    measure_once = bind(_measure_once, counts_rows=counts_rows, small_file_bytes=small_file_bytes)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return measure_once(client, ref, partition)
        except NotEnoughHistoryError:
            # This function opens no transaction, so a cleaner may remove files that are visible in
            # the snapshot. If files are missing, take a newer snapshot, which shows the files that
            # replaced the missing files.
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError(_ATTEMPTS)


def _measure_once(
    client: MetastorePort,
    ref: TableRef,
    partition: str | None,
    *,
    counts_rows: bool,
    small_file_bytes: int,
) -> _Measured:
    table = client.get_table(ref)
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=ref)
    roots = partitions_of(client, table, partition or None)
    txns = client.valid_txns()
    write_ids = client.valid_write_ids([ref], txns)[ref]
    measure_one = bind(
        _health,
        str(ref),
        write_ids=CompactorWriteIdList.of(write_ids),
        txns=txns,
        kind=table.kind,
        small_file_bytes=small_file_bytes,
        now_s=time.time(),
    )
    found = side_by_side(measure_one, roots)
    gone = [root for root, one in zip(roots, found, strict=True) if one is None]
    if gone:
        _check_dropped(client, ref, partition, gone)
    present = [one for one in found if one is not None]
    healths = _with_deleted_rows(present) if counts_rows else (health for health, _ in present)
    return _Measured(table, txns, write_ids, tuple(healths))


def _health(  # noqa: PLR0913 - a snapshot has two lists; a table has a name, a kind and a root
    table: str,
    root: PartitionInfo,
    *,
    write_ids: CompactorWriteIdList,
    txns: ValidTxnList,
    kind: TransactionalKind,
    small_file_bytes: int,
    now_s: float,
) -> tuple[TableHealth, tuple[FileEntry, ...]] | None:
    """Return the health of one root and the files of its delete deltas.

    If the root's directory is missing, return None.
    """
    try:
        listing = list_table(root.location)
    except LocationNotFoundError:
        return None
    state = resolve(listing, write_ids, txns, kind)
    health = TableHealth.of(
        state,
        table=table,
        partition=str(root.name),
        kind=kind,
        small_file_bytes=small_file_bytes,
        now_s=now_s,
    )
    return health, tuple(file for one in state.delete_deltas for file in one.files)


def _with_deleted_rows(
    found: Sequence[tuple[TableHealth, tuple[FileEntry, ...]]],
) -> Iterator[TableHealth]:
    """Return the number of delete events in each root, from the footers of the root's files."""
    footers = []
    for health, files in found:
        fs, root = open_location(health.location)
        footers += [(fs, f"{root}/{file.path}", file.size_bytes) for file in files]
    rows = iter(each_in_threads(lambda one: orc_rows(*one), footers))
    for health, files in found:
        yield replace(health, deleted_rows=sum(islice(rows, len(files))))


def _check_dropped(
    client: MetastorePort, ref: TableRef, partition: str | None, gone: list[PartitionInfo]
) -> None:
    """Raise an error if a missing directory still belongs to a partition in the metastore.

    Raises:
        InputError: the table or the requested partition was dropped.
        LocationNotFoundError: a missing directory still belongs to a partition in the metastore.
    """
    named = {
        root.location for root in partitions_of(client, client.get_table(ref), partition or None)
    }
    for root in gone:
        if root.location in named:
            raise LocationNotFoundError(location=root.location)
        _log.debug("%s %s was dropped while it was listed", ref, root.name)


def _numbers(health: TableHealth) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    return f"{health.delta_count} delta directories, {share}"
