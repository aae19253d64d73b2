"""How the partitions of a table are worked on side by side, none hiding what became of another.

Each has a connection to itself while it is worked on, and the next one takes it over unless
something went wrong on it. A failure ends that partition's work alone; when all are through, it is
raised with what the others came to.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_hiveacid.format.errors import FencedError, HiveAcidError, PartitionsFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

_R = TypeVar("_R")

# Each holds a connection, of which a metastore's database has some dozens.
_MOST_AT_ONCE: Final = 8

log = logging.getLogger("hiveacid")


def each_partition(
    client: MetastorePort,
    table: TableInfo,
    partitions: Sequence[PartitionInfo],
    work: Callable[[MetastorePort, PartitionInfo], _R],
    *,
    at_once: int,
) -> list[_R]:
    """Do something to every partition; answers the results in their order.

    Raises:
        FencedError: a newer copy of the job is at work.
        HiveAcidError: the only partition failed.
        PartitionsFailedError: some of several failed; the others are done.
    """
    connections = _Connections(client)

    def one(partition: PartitionInfo) -> _R | HiveAcidError:
        try:
            with connections.one() as own:
                return work(own, partition)
        except HiveAcidError as error:
            log.warning("partition %s failed: %s", partition.name, error)
            return error

    try:
        with ThreadPoolExecutor(max(1, min(at_once, _MOST_AT_ONCE))) as pool:
            found = list(pool.map(one, partitions))
    finally:
        connections.close()
    failed = {
        str(partition.name): result
        for partition, result in zip(partitions, found, strict=True)
        if isinstance(result, HiveAcidError)
    }
    for error in failed.values():
        if isinstance(error, FencedError) or len(partitions) == 1:
            raise error
    if failed:
        raise PartitionsFailedError(
            table=table.ref, failed={n: str(e) for n, e in failed.items()}, of=len(partitions)
        )
    return [result for result in found if not isinstance(result, HiveAcidError)]


class _Connections:
    """Connections that wait for work. Mutable, and shared by threads."""

    def __init__(self, client: MetastorePort) -> None:
        self._client = client
        self._free: SimpleQueue[MetastorePort] = SimpleQueue()

    @contextmanager
    def one(self) -> Iterator[MetastorePort]:
        """One for the block alone, closed if the block raises."""
        try:
            own = self._free.get_nowait()
        except Empty:
            own = self._client.clone()
        try:
            yield own
        except BaseException:
            own.close()
            raise
        self._free.put(own)

    def close(self) -> None:
        """Close those that wait."""
        while not self._free.empty():
            self._free.get().close()
