"""Parallel work on partitions; a failed partition does not discard the results of others.

The work on each partition has its own connection. If the work succeeds, another partition reuses
the connection. A failure stops only the work on that partition. `each_partition` processes all
partitions of one table. Then one error reports the failures, with the results of the other
partitions. `each_piece` processes pieces of any kind, and returns the failures.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_hiveacid.format.errors import (
    FencedError,
    HiveAcidError,
    PartitionsFailedError,
    TaskKilledError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

_P = TypeVar("_P")
_R = TypeVar("_R")

# Only a few partitions are processed at a time. Each partition needs a connection, and a
# metastore's database allows only a few dozen connections.
_MOST_AT_ONCE: Final = 8

ENDS_ALL: Final = (FencedError, TaskKilledError)
"""Errors that concern the whole job. After such an error, no further piece is started."""

log = logging.getLogger("hiveacid")


def each_partition(  # noqa: PLR0913 -- the work, its partitions, and how to report it
    client: MetastorePort,
    table: TableInfo,
    partitions: Sequence[PartitionInfo],
    work: Callable[[MetastorePort, PartitionInfo], _R],
    *,
    at_once: int,
    describe: Callable[[_R], str],
) -> list[_R]:
    """Call `work` on every partition and return the results in order.

    `describe` describes a result in words, for the error that lists the failed partitions.

    Raises:
        FencedError: a newer copy of the job is running.
        TaskKilledError: Airflow has killed the task.
        HiveAcidError: the only partition failed.
        PartitionsFailedError: at least one of several partitions failed. The other partitions are
            done.
    """
    found = each_piece(
        client, partitions, work, at_once=at_once, name=lambda one: f"partition {one.name}"
    )
    failed = {
        str(partition.name): result
        for partition, result in zip(partitions, found, strict=True)
        if isinstance(result, HiveAcidError)
    }
    for error in failed.values():
        if isinstance(error, ENDS_ALL) or len(partitions) == 1:
            raise error
    if failed:
        raise PartitionsFailedError(
            table=table.ref,
            failed={n: str(e) for n, e in failed.items()},
            of=len(partitions),
            done={
                str(partition.name): describe(result)
                for partition, result in zip(partitions, found, strict=True)
                if not isinstance(result, HiveAcidError)
            },
        )
    return [result for result in found if not isinstance(result, HiveAcidError)]


def each_piece(
    client: MetastorePort,
    pieces: Sequence[_P],
    work: Callable[[MetastorePort, _P], _R],
    *,
    at_once: int,
    name: Callable[[_P], str],
) -> list[_R | HiveAcidError]:
    """Call `work` on every piece; return each piece's result or error, in order.

    After an error of `ENDS_ALL`, no further piece is started. The pieces that were not started get
    the same error. `name` names a piece in the log.
    """
    connections = _Connections(client)
    ended: list[HiveAcidError] = []

    def one(piece: _P) -> _R | HiveAcidError:
        if ended:
            return ended[0]
        try:
            with connections.one() as own:
                return work(own, piece)
        except HiveAcidError as error:
            log.warning("%s failed: %s", name(piece), error)
            if isinstance(error, ENDS_ALL):
                ended.append(error)
            return error

    try:
        with ThreadPoolExecutor(max(1, min(at_once, _MOST_AT_ONCE))) as pool:
            return list(pool.map(one, pieces))
    finally:
        connections.close()


class _Connections:
    """Idle connections to the metastore. Mutable, and shared by threads."""

    def __init__(self, client: MetastorePort) -> None:
        self._client = client
        self._free: SimpleQueue[MetastorePort] = SimpleQueue()

    @contextmanager
    def one(self) -> Iterator[MetastorePort]:
        """Yield a connection for a block; close the connection if the block raises an error."""
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
        """Close the idle connections."""
        while not self._free.empty():
            self._free.get().close()
