"""The tables of a maintenance job, and its failed and skipped tables.

Input is names and patterns of tables; one table is a list of one. A table or partition that cannot
be maintained does not stop the others. At the end, one error reports the failures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from airflow_hiveacid.format.errors import (
    HiveAcidError,
    MetastoreUnavailableError,
    PartitionsFailedError,
    TableNotFoundError,
    typed,
)
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.jobs.specs.maintenance import TablesSpec
from airflow_hiveacid.maintenance.side_by_side import ENDS_ALL, MOST_AT_ONCE, each_piece, only_piece
from airflow_hiveacid.metastore.listed_tables import is_pattern, transactional_tables
from airflow_hiveacid.metastore.port import MetastorePort

_P = TypeVar("_P")
_R = TypeVar("_R")

# The snapshot of a table may contain 100,000 transactions, and a table may have 10,000 partitions.
# After each group of tables, only what the job still needs of the group remains in memory.
_TABLES_IN_GROUP: Final = 64

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrPartition:
    """A table, or one partition of it."""

    table: TableInfo
    partition: PartitionInfo | None = None

    @property
    def name(self) -> str:
        """The name of the table and partition in messages."""
        partition = "" if self.partition is None else self.partition.name
        return f"{self.table.ref} {partition}".rstrip()

    def is_dropped(self, client: MetastorePort) -> bool:
        """Return whether the table or partition no longer exists; False if that is unknown."""
        try:
            table = client.get_table(self.table.ref)
            if table.table_id != self.table.table_id:
                return True
            if self.partition is None or not self.partition.name.columns:
                return False
            return not client.get_partitions(table, [self.partition.name])
        except TableNotFoundError:
            return True
        except HiveAcidError:
            return False


@dataclass(slots=True, kw_only=True)
class TablesRun:
    """The run of one job, in the order of its findings. Mutable.

    `skipped` has the reasons by table, `failed` the errors by table and partition. `tables` and
    `partitions` are the numbers of those in the metastore. `unlisted` is the number of failed
    tables whose partitions are unknown. If `is_of_table`, the run keeps the outcome of each
    partition of the only table, and a dropped table or partition has failed.
    """

    is_of_table: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, HiveAcidError] = field(default_factory=dict)
    tables: int = 0
    partitions: int = 0
    unlisted: int = 0

    def fail(self, name: str, error: HiveAcidError, *, is_dropped: bool = False) -> None:
        """Remember a failure; skip what was dropped. An error of `ENDS_ALL` ends the job.

        Raises:
            CompactionCancelledError: a user has cancelled one of the job's compactions.
            FencedError: a newer copy of the job is running.
            TaskKilledError: Airflow has killed the task.
        """
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
        results: list[_R | HiveAcidError]
        if self.is_of_table and len(pieces) == 1 and self.partitions <= 1:
            results = [only_piece(client, pieces[0], work)]
        else:
            results = each_piece(
                client, pieces, work, at_once=at_once, name=lambda piece: where(piece).name
            )
        succeeded: list[tuple[_P, _R]] = []
        for piece, result in zip(pieces, results, strict=True):
            if isinstance(result, HiveAcidError):
                place = where(piece)
                # A metastore that did not answer would let the job wait again for each piece.
                may_ask = not (self.is_of_table or isinstance(result, MetastoreUnavailableError))
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

    def check(self, spec: TablesSpec, done: Mapping[str, str]) -> None:
        """Raise an error if a table or partition failed.

        `done` has the outcomes of the other tables or partitions as text, by name.

        Raises:
            HiveAcidError: the job's only table or only partition failed.
            PartitionsFailedError: at least one of several failed; the error lists what is done.
        """
        if not self.failed:
            return
        number = self.partitions + self.unlisted
        failed = {name: str(error) for name, error in self.failed.items()}
        if self.is_of_table:
            table = str(TableRef.parse(spec.target))
            if error := self.failed.get(table):
                raise error
            if number == 1:
                raise next(iter(self.failed.values()))
            failed, done = (
                {name.removeprefix(f"{table} "): text for name, text in texts.items()}
                for texts in (failed, done)
            )
        raise PartitionsFailedError(table=spec.target, failed=failed, of=number, done=done)


def matching_tables(
    client: MetastorePort,
    names: Sequence[str],
    check: Callable[[TableInfo], None],
    run: TablesRun,
    *,
    only: Collection[TableRef] | None = None,
) -> Iterator[TableInfo]:
    """Yield the transactional tables with matching names that `check` accepts; skip the others.

    The tables that are named without a wildcard are checked before the first one is yielded. `only`
    limits the other tables, as in `transactional_tables`.
    """
    named_tables = _named_tables(client, names, check)
    if not any(map(is_pattern, names)):
        yield from (table for ref, table in named_tables.items() if only is None or ref in only)
        return
    is_any = False
    for name, table in transactional_tables(client, names, only=only):
        is_any = True
        if isinstance(table, HiveAcidError):
            run.skipped[name] = str(table)
            continue
        try:
            check(table)
        except HiveAcidError as error:  # nothing that a retry or an administrator has to mend
            run.skipped[name] = str(error)
            continue
        except Exception as error:  # one table must not stop the others
            log.exception("%s cannot be checked", name)
            run.fail(name, typed(error))
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
