"""Batches of several pieces of work, read by several threads, in the order of the pieces.

Threads read ahead of the caller up to a number of bytes, so memory stays bounded even if the caller
is slow. The threads end with the caller's last batch, or when the caller drops the iterator.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

_P = TypeVar("_P")

READ_AHEAD_BYTES: Final = 256 << 20
"""The bytes that may wait for the caller; each thread holds one more batch."""


def read_in_order(
    pieces: Sequence[_P],
    read: Callable[[_P], Iterator[pa.RecordBatch]],
    *,
    threads: int,
    most_bytes: int = READ_AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of every piece, in order, and then its error; `threads` read ahead."""
    if threads <= 1 or len(pieces) <= 1:
        for piece in pieces:
            yield from read(piece)
        return
    ahead = _Ahead(len(pieces), most_bytes)

    def work() -> None:
        for number in ahead.numbers():
            ahead.fill(number, read(pieces[number]))

    # A daemon does not keep the process from ending if the caller keeps an unfinished iterator.
    for number in range(min(threads, len(pieces))):
        threading.Thread(target=work, name=f"reader-{number}", daemon=True).start()
    try:
        for number in range(len(pieces)):
            yield from ahead.batches(number)
    finally:
        ahead.stop()


class _Ahead:
    """The batches that threads have read ahead. Mutable, and shared by threads."""

    def __init__(self, pieces: int, most_bytes: int) -> None:
        self._changed = threading.Condition()
        self._queues: list[deque[pa.RecordBatch]] = [deque() for _ in range(pieces)]
        self._ends: dict[int, BaseException | None] = {}
        self._most_bytes = most_bytes
        self._bytes = self._taken = self._first = 0
        self._is_stopped = False

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the pieces; each number is yielded to one thread."""
        while True:
            with self._changed:
                number, self._taken = self._taken, self._taken + 1
            if number >= len(self._queues) or self._is_stopped:
                return
            yield number

    def fill(self, number: int, batches: Iterator[pa.RecordBatch]) -> None:
        """Read the batches of a piece as long as they are wanted; note its end, or its error."""
        error: BaseException | None = None
        try:
            all(self._put(number, batch) for batch in batches)
        except BaseException as failure:  # noqa: BLE001 - raised in the caller's thread
            error = failure
        with self._changed:
            self._ends[number] = error
            self._changed.notify_all()

    def _put(self, number: int, batch: pa.RecordBatch) -> bool:
        """Add a batch, as soon as there is room; return False if no more batches are wanted."""
        with self._changed:
            # The piece that the caller waits for always has room, even if later pieces take all.
            self._changed.wait_for(
                lambda: (
                    self._is_stopped
                    or self._bytes < self._most_bytes
                    or (number == self._first and not self._queues[number])
                )
            )
            self._queues[number].append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()
            return not self._is_stopped

    def batches(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the next piece of the caller."""
        queue = self._queues[number]
        while True:
            with self._changed:
                self._first = number
                self._changed.notify_all()
                self._changed.wait_for(lambda: queue or number in self._ends)
                if not queue:
                    break
                batch = queue.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch
        error = self._ends[number]
        if error is not None:
            raise error

    def stop(self) -> None:
        """Let every thread end at its next batch."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
