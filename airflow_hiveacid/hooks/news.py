"""Whether a table has data of a later version than one that is known; no Spark.

Takes an endpoint, a name and a version. Blocking: a trigger calls it off the event loop. Where the
metastore knows of no later write that has ended, nothing is listed. Else names of directories
decide, since not every write that committed has changed anything; compactions make no new data.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.changes import ChangeRange, is_news, settled, up_to
from airflow_hiveacid.format.errors import (
    LocationNotFoundError,
    NotTransactionalError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.hooks.health import places_of
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.storage.stores.listing import list_table

if TYPE_CHECKING:
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

_LISTINGS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """Partitions (blank for a table without any) with data of after `since`, up to `version`."""

    since: int
    version: int
    partitions: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """It as plain values."""
        return {
            "since": self.since,
            "version": self.version,
            "partitions": list(self.partitions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One look: the newest version that no open write can change, and where there is new data."""

    table: str
    since: int
    version: int
    partitions: tuple[str, ...]

    @property
    def due(self) -> tuple[NewData, ...]:
        """The new data, if there is any."""
        if not self.partitions:
            return ()
        return (NewData(since=self.since, version=self.version, partitions=self.partitions),)

    def __str__(self) -> str:
        what = f"new data in {len(self.partitions)} place(s)" if self.partitions else "no new data"
        return f"{self.table}: {what} since version {self.since}; it is at version {self.version}"


def look_for_news(
    endpoint: MetastoreEndpoint, table: str, partition: str | None, since: int
) -> News:
    """Look once: the one predicate of the sensor and its trigger.

    Raises:
        InputError: table or partition do not exist, or the table is not transactional.
        MetastoreUnavailableError: the metastore does not answer.
        StorageError: the directories cannot be listed.
    """
    ref = TableRef.parse(table)
    with connect(endpoint) as client:
        info = client.get_table(ref)
        if info.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=ref)
        txns = client.valid_txns()
        now = client.valid_write_ids([ref], txns)[ref]
        newest = settled(now)
        places = places_of(client, info, partition) if newest > since else ()
    part = ChangeRange(since=up_to(now, WriteId(since)), until=up_to(now, newest))
    find = bind(_has_news, now=now, part=part, txns=txns, kind=info.kind)
    with ThreadPoolExecutor(_LISTINGS_AT_ONCE, "hiveacid-listing") as pool:
        found = list(pool.map(find, places))
    names = tuple(str(p.name) for p, is_new in zip(places, found, strict=True) if is_new)
    return News(table=table, since=since, version=max(newest, since), partitions=names)


def _has_news(
    place: PartitionInfo,
    *,
    now: ValidWriteIdList,
    part: ChangeRange,
    txns: ValidTxnList,
    kind: TransactionalKind,
) -> bool:
    try:
        listing = list_table(place.location)
    except LocationNotFoundError:
        return False  # dropped while we looked, or not there yet: the next look will know
    return is_news(resolve(listing, now, txns, kind), part)
