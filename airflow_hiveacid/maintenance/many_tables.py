"""The tables of a maintenance job, its parallel work, and its failed and skipped tables.

A table or partition that cannot be maintained does not stop the others; at the end, one error
reports the failures. The work on each partition has its own connection, which another reuses.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import TablesSpec
from airflow_hiveacid.maintenance.ownership import Neighbours
from airflow_hiveacid.metastore.listed_tables import is_pattern, transactional_tables
from airflow_hiveacid.metastore.port import MetastorePort

log = logging.getLogger("hiveacid")

_P = TypeVar("_P")
_R = TypeVar("_R")

MOST_AT_ONCE: Final = 8
"""The most pieces that are processed at a time.

Each piece needs a connection, and a metastore's database allows only a few dozen connections.
"""

_MOST_UNANSWERED: Final = 24
"""The number of pieces in a row for which the metastore did not answer, after which all end."""

# The snapshot of a table may contain 100,000 transactions, and a table may have 10,000 partitions.
# After each group of tables, only what the job still needs of the group remains in memory.
_TABLES_IN_GROUP: Final = 64

ENDS_ALL: Final = (errors.CompactionCancelledError, errors.FencedError, errors.TaskKilledError)
"""Errors that concern the whole job. After such an error, no further piece is started."""


def each_piece(
    client: MetastorePort,
    pieces: Sequence[_P],
    work: Callable[[MetastorePort, _P], _R],
    *,
    at_once: int,
    name: Callable[[_P], str],
) -> list[_R | errors.HiveAcidError]:
    """Call `work` on every piece; return each piece's result or error, in order.

    After an error of `ENDS_ALL`, or if the metastore does not answer for many pieces in a row, no
    further piece is started, and those that are left get the same error. `name` names a piece in
    the log.
    """
    # A pool's queue of millions of pieces would take gigabytes, so each thread takes the next one.
    queue = _Left(range(len(pieces)))
    results: dict[int, _R | errors.HiveAcidError] = {}
    connections = _Connections(client)

    def next_ones() -> None:
        with queue.dropped_after_error():
            for number in queue:
                try:
                    with connections.one() as own:
                        results[number] = work(own, pieces[number])
                    queue.note_success()
                except errors.HiveAcidError as error:
                    log.warning("%s failed: %s", name(pieces[number]), error)
                    results[number] = error
                    results.update(dict.fromkeys(queue.ended_by(error), error))
                except Exception as error:  # one piece must not end the others
                    log.exception("%s failed", name(pieces[number]))
                    results[number] = errors.typed(error)

    threads = max(1, min(at_once, MOST_AT_ONCE, len(pieces)))
    # An error such as the end of the task's time must not wait for the other pieces.
    with closing(connections), ThreadPoolExecutor(threads) as pool, queue.dropped_after_error():
        for thread in [pool.submit(next_ones) for _ in range(threads)]:
            thread.result()
    return [results[number] for number in range(len(pieces))]


def only_piece(
    client: MetastorePort, piece: _P, work: Callable[[MetastorePort, _P], _R]
) -> _R | errors.HiveAcidError:
    """Call `work` on the only piece, in this thread, which the end of a task's time interrupts.

    Return the result or our error; other errors are raised.
    """
    with closing(_Connections(client)) as connections:
        try:
            with connections.one() as own:
                return work(own, piece)
        except errors.HiveAcidError as error:
            return error


class _Left:
    """The numbers of the pieces that are not started yet. Mutable, and shared by threads."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = deque(numbers)
        self._unanswered: list[errors.HiveAcidError] = []

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

    def ended_by(self, error: errors.HiveAcidError) -> Sequence[int]:
        """Return and remove all numbers if this error of a piece ends the others, too."""
        if isinstance(error, errors.MetastoreUnavailableError):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrPartition:
    """A table, or one partition of it."""

    table: TableInfo
    partition: PartitionInfo | None = None

    @property
    def name(self) -> str:
        """The name of the table and partition in messages."""
        partition = "" if self.partition is None else str(self.partition.name)
        return f"{self.table.ref} {partition}" if partition else str(self.table.ref)

    def is_dropped(self, client: MetastorePort) -> bool:
        """Return whether the table or partition no longer exists; False if that is unknown."""
        try:
            table = client.get_table(self.table.ref)
            if table.table_id != self.table.table_id:
                return True
            if self.partition is None or not self.partition.name.columns:
                return False
            return not client.get_partitions(table, [self.partition.name])
        except errors.TableNotFoundError:
            return True
        except errors.HiveAcidError:
            return False


@dataclass(slots=True, kw_only=True)
class TablesRun:
    """The run of one job, in the order of its findings. Mutable.

    `neighbours` lists the metastore's tables at most once. `skipped` has the reasons by table,
    `failed` the errors by table and partition. `unlisted` is the number of failed tables whose
    partitions are unknown. If `is_of_table`, the run keeps the outcome of each partition of the
    only table, and a dropped table or partition has failed.
    """

    spec: TablesSpec
    neighbours: Neighbours = field(default_factory=Neighbours)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, errors.HiveAcidError] = field(default_factory=dict)
    tables: int = 0
    partitions: int = 0
    unlisted: int = 0

    @property
    def is_of_table(self) -> bool:
        """True if the job is of one table (`TablesSpec.is_of_table`)."""
        return self.spec.is_of_table

    def fail(self, name: str, error: errors.HiveAcidError, *, is_dropped: bool = False) -> None:
        """Remember a failure; skip what was dropped. Raise an error of `ENDS_ALL`."""
        if isinstance(error, ENDS_ALL):
            raise error
        if is_dropped:
            self.skipped[name] = "it was dropped or renamed while the job ran"
        else:
            self.failed[name] = error

    def each(
        self,
        client: MetastorePort,
        pieces: Sequence[_P],
        work: Callable[[MetastorePort, _P], _R],
        *,
        where: Callable[[_P], TableOrPartition],
        at_once: int = MOST_AT_ONCE,
    ) -> list[tuple[_P, _R]]:
        """Call `work` on every piece; return the pieces that succeeded, each with its result."""
        results: list[_R | errors.HiveAcidError]
        if self.is_of_table and len(pieces) == 1 and self.partitions <= 1:
            results = [only_piece(client, pieces[0], work)]
        else:
            results = each_piece(
                client, pieces, work, at_once=at_once, name=lambda piece: where(piece).name
            )
        succeeded: list[tuple[_P, _R]] = []
        for piece, result in zip(pieces, results, strict=True):
            if isinstance(result, errors.HiveAcidError):
                place = where(piece)
                # A metastore that did not answer would let the job wait again for each piece.
                may_ask = not (
                    self.is_of_table or isinstance(result, errors.MetastoreUnavailableError)
                )
                self.fail(place.name, result, is_dropped=may_ask and place.is_dropped(client))
            else:
                succeeded.append((piece, result))
        return succeeded

    def each_table(
        self,
        client: MetastorePort,
        tables: Sequence[TableInfo],
        work: Callable[[MetastorePort, TableInfo], _R],
    ) -> list[_R]:
        """Call `work` on every table, which lists its partitions; return the results."""
        failed_before = len(self.failed)
        succeeded = self.each(
            client, tables, work, where=lambda table: TableOrPartition(table=table)
        )
        self.unlisted += len(self.failed) - failed_before
        return [result for _, result in succeeded]

    def check(self, done: Mapping[str, str]) -> None:
        """Raise the only table's or partition's error, or PartitionsFailedError, if any failed.

        `done` has the outcomes of the other tables or partitions as text, by name.
        """
        if not self.failed:
            return
        number = self.partitions + self.unlisted
        failed = {name: str(error) for name, error in self.failed.items()}
        if self.is_of_table:
            table = str(TableRef.parse(self.spec.target))
            if error := self.failed.get(table):
                raise error
            if number == 1:
                raise next(iter(self.failed.values()))
            failed, done = (
                {name.removeprefix(f"{table} "): text for name, text in texts.items()}
                for texts in (failed, done)
            )
        raise errors.PartitionsFailedError(
            table=self.spec.target,
            failed=failed,
            of=number,
            done=done,
            causes=self.failed.values(),
        )

    def status(self, *, is_done: bool) -> JobStatus:
        """Return the status of the job's result, if no table or partition failed."""
        if self.spec.plan_only:
            return JobStatus.PLANNED
        return JobStatus.COMMITTED if is_done else JobStatus.NOTHING_TO_DO

    def details(self) -> dict[str, JsonValue]:
        """Return the part of the result of a job of many tables that all such jobs have."""
        return {
            "tables": self.tables,
            "partitions": self.partitions,
            "skipped": [{"table": table, "why": why} for table, why in self.skipped.items()],
        }


def matching_tables(
    client: MetastorePort,
    check: Callable[[TableInfo], None],
    run: TablesRun,
    *,
    only: Collection[TableRef] | None = None,
) -> Iterator[TableInfo]:
    """Yield the transactional tables with matching names that `check` accepts; skip the others.

    The tables that are named without a wildcard are checked before the first one is yielded. `only`
    limits the other tables, as in `transactional_tables`.
    """
    names = run.spec.tables
    named_tables = _named_tables(client, names, check)
    if not any(map(is_pattern, names)):
        yield from (table for ref, table in named_tables.items() if only is None or ref in only)
        return
    is_any = False
    for name, table in transactional_tables(client, names, only=only):
        is_any = True
        if isinstance(table, errors.HiveAcidError):
            run.skipped[name] = str(table)
            continue
        try:
            check(table)
        except (
            errors.HiveAcidError
        ) as error:  # nothing that a retry or an administrator has to mend
            run.skipped[name] = str(error)
            continue
        except Exception as error:  # one table must not stop the others
            log.exception("%s cannot be checked", name)
            run.fail(name, errors.typed(error))
            run.unlisted += 1
            continue
        yield table
    if not is_any and only is None:
        log.warning("no transactional table matches %s", ", ".join(names))


def _named_tables(
    client: MetastorePort, names: Sequence[str], check: Callable[[TableInfo], None]
) -> dict[TableRef, TableInfo]:
    tables = [client.get_table(TableRef.parse(name)) for name in names if not is_pattern(name)]
    for table in tables:
        check(table)
    return {table.ref: table for table in tables}


def grouped(tables: Iterable[TableInfo]) -> Iterator[Sequence[TableInfo]]:
    """Yield the tables in groups whose snapshots fit into memory."""
    remainder = iter(tables)
    while group := tuple(islice(remainder, _TABLES_IN_GROUP)):
        yield group
