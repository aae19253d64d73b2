"""Parallel work on partitions; a failed partition does not discard the results of others.

The work on each partition has its own connection. If the work succeeds, another partition reuses
the connection. A failure stops only the work on that partition.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from airflow_hiveacid.format.errors import (
    CompactionCancelledError,
    FencedError,
    HiveAcidError,
    MetastoreUnavailableError,
    TaskKilledError,
    typed,
)
from airflow_hiveacid.metastore.port import MetastorePort

_P = TypeVar("_P")
_R = TypeVar("_R")

MOST_AT_ONCE: Final = 8
"""The most pieces that are processed at a time.

Each piece needs a connection, and a metastore's database allows only a few dozen connections.
"""

_MOST_UNANSWERED: Final = 24
"""The number of pieces in a row for which the metastore did not answer, after which all end."""

ENDS_ALL: Final = (CompactionCancelledError, FencedError, TaskKilledError)
"""Errors that concern the whole job. After such an error, no further piece is started."""

log = logging.getLogger("hiveacid")


def each_piece(
    client: MetastorePort,
    pieces: Sequence[_P],
    work: Callable[[MetastorePort, _P], _R],
    *,
    at_once: int,
    name: Callable[[_P], str],
) -> list[_R | HiveAcidError]:
    """Call `work` on every piece; return each piece's result or error, in order.

    After an error of `ENDS_ALL`, no further piece is started. The same applies if the metastore
    does not answer for many pieces in a row, because each of the others would wait for it, too. The
    pieces that were not started get the same error. `name` names a piece in the log.
    """
    # A pool's queue of millions of pieces would take gigabytes, so each thread takes the next one.
    queue = _Left(range(len(pieces)))
    results: dict[int, _R | HiveAcidError] = {}
    connections = _Connections(client)

    def next_ones() -> None:
        with queue.dropped_after_error():
            for number in queue:
                try:
                    with connections.one() as own:
                        results[number] = work(own, pieces[number])
                    queue.note_success()
                except HiveAcidError as error:
                    log.warning("%s failed: %s", name(pieces[number]), error)
                    results[number] = error
                    results.update(dict.fromkeys(queue.ended_by(error), error))
                except Exception as error:  # one piece must not end the others
                    log.exception("%s failed", name(pieces[number]))
                    results[number] = typed(error)

    threads = max(1, min(at_once, MOST_AT_ONCE, len(pieces)))
    try:
        # An error such as the end of the task's time must not wait for the other pieces.
        with ThreadPoolExecutor(threads) as pool, queue.dropped_after_error():
            for thread in [pool.submit(next_ones) for _ in range(threads)]:
                thread.result()
    finally:
        connections.close()
    return [results[number] for number in range(len(pieces))]


def only_piece(
    client: MetastorePort, piece: _P, work: Callable[[MetastorePort, _P], _R]
) -> _R | HiveAcidError:
    """Call `work` on the only piece, in this thread, which the end of a task's time interrupts.

    Return the result or our error; other errors are raised.
    """
    connections = _Connections(client)
    try:
        with connections.one() as own:
            return work(own, piece)
    except HiveAcidError as error:
        return error
    finally:
        connections.close()


class _Left:
    """The numbers of the pieces that are not started yet. Mutable, and shared by threads."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = deque(numbers)
        self._unanswered: list[HiveAcidError] = []

    def __iter__(self) -> Iterator[int]:
        """Yield and remove the numbers; each number is yielded to one thread."""
        with suppress(IndexError):
            while True:
                yield self._numbers.popleft()

    @contextmanager
    def dropped_after_error(self) -> Iterator[None]:
        """Remove all numbers if a block raises an error."""
        try:
            yield
        except BaseException:
            self._numbers.clear()
            raise

    def note_success(self) -> None:
        """Note that a piece succeeded."""
        self._unanswered.clear()

    def ended_by(self, error: HiveAcidError) -> Sequence[int]:
        """Return and remove all numbers if this error of a piece ends the others, too."""
        if isinstance(error, MetastoreUnavailableError):
            self._unanswered.append(error)
        if not isinstance(error, ENDS_ALL) and len(self._unanswered) < _MOST_UNANSWERED:
            return ()
        ended = [*self]
        if ended:
            log.warning("%d more are not started because of this error", len(ended))
        return ended


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
