"""Cleaning of many tables in one job: the partitions of all tables side by side.

Input is a metastore and a spec. Output is the run with the totals of each table. A table or
partition that cannot be cleaned does not stop the others. Needs no Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.maintenance.clean_table import TableCleaning
from airflow_hiveacid.maintenance.many_tables import (
    TableOrPartition,
    TablesRun,
    grouped,
    matching_tables,
)
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.plan.statements.dml import check_cleanable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.table import TableInfo, TableRef
    from airflow_hiveacid.jobs.specs.maintenance import CleanTablesSpec
    from airflow_hiveacid.maintenance.clean import CleaningOutcome
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.cleaning import UnknownPath

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedTable:
    """The totals of one table with something to remove or keep, or with unknown files.

    `partitions` is the number of partitions from which something was (or would be) removed.
    `removed` and `kept` are numbers of directories, with their sizes in bytes. `why_kept` is the
    reason for the largest kept directory, or empty. `unknown` and `unknown_bytes` are the number
    and size of the files and directories that no metadata knows, and `largest_unknown` is the path
    of the largest one, or empty.
    """

    table: str
    partitions: int
    removed: int
    removed_bytes: int
    kept: int
    kept_bytes: int
    why_kept: str
    unknown: int = 0
    unknown_bytes: int = 0
    largest_unknown: str = ""

    @classmethod
    def of(
        cls,
        table: TableInfo,
        of_partitions: Sequence[CleaningOutcome],
        of_others: Sequence[CleaningOutcome],
    ) -> CleanedTable:
        """Return the totals of the outcomes for a table's partitions and other places."""
        outcomes = (*of_partitions, *of_others)
        removed = [one for outcome in outcomes for one in outcome.removed]
        kept = [one for outcome in outcomes for one in outcome.kept]
        unknown = [(o.partition, o.unknown) for o in outcomes if o.unknown is not None]
        largest = [(one, partition) for partition, found in unknown for one in found.largest[:1]]
        return cls(
            table=str(table.ref),
            partitions=sum(1 for outcome in of_partitions if outcome.removed),
            removed=len(removed),
            removed_bytes=sum(one.size_bytes for one in removed),
            kept=len(kept),
            kept_bytes=sum(one.size_bytes for one in kept),
            why_kept=max(kept, key=lambda one: one.size_bytes).why if kept else "",
            unknown=sum(found.count for _, found in unknown),
            unknown_bytes=sum(found.size_bytes for _, found in unknown),
            largest_unknown=_path_of(*max(largest, key=lambda one: one[0].size_bytes))
            if largest
            else "",
        )

    @property
    def text(self) -> str:
        """Describe the totals."""
        unknown = f", found {self.unknown} unknown" if self.unknown else ""
        why = f" ({self.why_kept})" if self.kept else ""
        size = f"{self.removed_bytes} bytes"
        return f"removed {self.removed} ({size}), kept {self.kept}{why}{unknown}"


def _path_of(unknown: UnknownPath, partition: str) -> str:
    return f"{partition}/{unknown.path}" if partition else unknown.path


@dataclass(slots=True, kw_only=True)
class TablesCleaning(TablesRun):
    """The cleaning of one job, with the totals of tables that had something to clean. Mutable."""

    cleaned: list[CleanedTable] = field(default_factory=list)

    @property
    def done(self) -> dict[str, str]:
        """What was removed from each table, by the table's name."""
        return {one.table: one.text for one in self.cleaned if one.removed}


def clean_tables(
    client: MetastorePort, spec: CleanTablesSpec, on_step: Callable[[str], None]
) -> TablesCleaning:
    """Clean all transactional tables with matching names.

    Raises:
        InputError: a table that the spec names without a wildcard is missing or of the wrong kind.
        FencedError: a newer copy of the job is running.
        TaskKilledError: Airflow has killed the task.
        PartitionsFailedError: a table or partition failed. The others are done.
    """
    run = TablesCleaning()
    neighbours = Neighbours()
    for group in grouped(matching_tables(client, spec.tables, check_cleanable, run)):
        _clean(client, spec, group, run, on_step, neighbours)
    run.check(spec.target, run.done)
    return run


def _clean(  # noqa: PLR0913, PLR0917 - a group, and what all groups share
    client: MetastorePort,
    spec: CleanTablesSpec,
    tables: Sequence[TableInfo],
    run: TablesCleaning,
    on_step: Callable[[str], None],
    neighbours: Neighbours,
) -> None:
    """Clean a group of tables; keep only the totals of each table."""

    def begun(own: MetastorePort, table: TableInfo) -> TableCleaning:
        return TableCleaning.of(own, spec.of_table(str(table.ref)), on_step, neighbours)

    cleanings: list[TableCleaning] = []
    for cleaning in run.each_table(client, tables, begun):
        if cleaning.why_not is None:
            cleanings.append(cleaning)
        else:
            run.skipped[str(cleaning.table.ref)] = cleaning.why_not
    pieces = [(cleaning, one) for cleaning in cleanings for one in cleaning.partitions]
    run.tables += len(cleanings)
    run.partitions += len(pieces)
    of_partitions: dict[TableRef, list[CleaningOutcome]] = {c.table.ref: [] for c in cleanings}
    for (cleaning, _), outcome in run.each(
        client,
        pieces,
        lambda own, piece: piece[0].clean(own, piece[1]),
        where=lambda piece: TableOrPartition(table=piece[0].table, partition=piece[1]),
    ):
        of_partitions[cleaning.table.ref].append(outcome)
    # The rest of a table with a failed partition is left to a retry, as in `clean_table`.
    whole = [c for c in cleanings if len(of_partitions[c.table.ref]) == len(c.partitions)]
    of_others = {
        cleaning.table.ref: outcomes
        for cleaning, outcomes in run.each(
            client,
            whole,
            lambda own, cleaning: cleaning.finish(own, of_partitions[cleaning.table.ref]),
            where=lambda cleaning: TableOrPartition(table=cleaning.table),
        )
    }
    for cleaning in cleanings:
        ref = cleaning.table.ref
        found = CleanedTable.of(cleaning.table, of_partitions[ref], of_others.get(ref, ()))
        if found.removed or found.kept or found.unknown:
            log.info("%s: %s", found.table, found.text)
            run.cleaned.append(found)
