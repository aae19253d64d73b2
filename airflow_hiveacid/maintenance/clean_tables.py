"""The cleaning job: the partitions of all its tables side by side, then their other places.

A table or partition that cannot be cleaned does not stop the others. Needs no Spark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.errors import TableChangedError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.format.words import counted
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance import many_tables
from airflow_hiveacid.maintenance.clean import Cleaner, CleaningOutcome, switched_off
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.maintenance.ownership import Neighbours, check_note, check_owner
from airflow_hiveacid.metastore.listed_tables import partitions_of
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.cleaning import Removal, UnknownPath
from airflow_hiveacid.plan.statements.dml import check_cleanable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.locations import publishes_files, scheme_of
from airflow_hiveacid.storage.stores.staging import check_publishable
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

_COMMITS_REMEMBERED_S: Final = 30 * 86400.0

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleaning:
    """The cleaning of one table: first of its partitions, in any order, then of the other places.

    `why_not` is the reason if cleaning is switched off for the table, else None.
    """

    cleaner: Cleaner
    partitions: Sequence[PartitionInfo]
    why_not: str | None

    @classmethod
    def of(
        cls,
        client: MetastorePort,
        ref: TableRef,
        spec: CleanSpec,
        on_step: Callable[[str], None],
        neighbours: Neighbours,
    ) -> TableCleaning:
        """Prepare the cleaning of a table; it must not be created again meanwhile."""
        on_step("table")
        first = client.get_table(ref)
        check_cleanable(first)
        if not spec.plan_only:
            check_publishable(ref, first.location)
            check_writable(first.location)
        partitions = partitions_of(client, first, spec.partition)
        # Ask before `with_past`, which changes notes in the directory, even if cleaning is off.
        if switched_off(first) is None:
            check_owner(client, first, neighbours, plan_only=spec.plan_only)
        else:
            check_note(client, first)
        if not spec.plan_only:
            # First end the queue entries of dead workers. While a compaction seems to run, no
            # guarantee for the table's versions can begin.
            end_dead_entries(client, ref)
        table, overview = with_past(client, first, plan_only=spec.plan_only)
        if table.table_id != first.table_id:
            # The partitions belong to the dropped table. Write IDs of the new table do not tell
            # which of their directories are obsolete.
            raise TableChangedError(table=ref, what="table_id")
        cleaner = Cleaner(
            client=client,
            table=table,
            spec=spec,
            on_step=on_step,
            overview=overview,
            neighbours=neighbours,
        )
        return cls(cleaner=cleaner, partitions=partitions, why_not=switched_off(table))

    @property
    def table(self) -> TableInfo:
        """The table."""
        return self.cleaner.table

    def clean(self, client: MetastorePort, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition, over the connection of its thread."""
        self.cleaner.on_step("partition")
        return replace(self.cleaner, client=client).clean(partition)

    def finish(
        self, client: MetastorePort, outcomes: Sequence[CleaningOutcome]
    ) -> list[CleaningOutcome]:
        """Clean the table's other places after its partitions; return one outcome for each."""
        cleaner = replace(self.cleaner, client=client)
        is_whole = cleaner.spec.partition is None
        if is_whole and not cleaner.spec.plan_only:
            forget_unreadable(self.table, outcomes, cleaner.overview.notes)
        locations = _uploaded_to(self.table, cleaner.spec, [p.location for p in self.partitions])
        has_outside = is_whole and self.table.is_partitioned
        return [
            *([cleaner.clean_staging()] if has_outside else ()),
            *([cleaner.clean_unknown(self.partitions)] if has_outside else ()),
            *map(cleaner.clean_uploads, locations),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedTable:
    """The totals of one table with something to remove or keep, or with unknown files.

    `partitions` counts those from which something was (or would be) removed. `removed` and `kept`
    are numbers of directories. `why_kept` is the reason for the largest kept directory. `unknown`
    files and directories are those that no metadata knows; `largest_unknown` is the path of the
    largest.
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
        removed = [removal for outcome in outcomes for removal in outcome.removed]
        kept_removals = [removal for outcome in outcomes for removal in outcome.kept]
        by_size = sorted(kept_removals, key=lambda removal: -removal.size_bytes)
        unknown = [(o.partition, o.unknown) for o in outcomes if o.unknown is not None]
        largest = [(path, partition) for partition, paths in unknown for path in paths.largest[:1]]
        return cls(
            table=str(table.ref),
            partitions=sum(1 for outcome in of_partitions if outcome.removed),
            removed=len(removed),
            removed_bytes=sum(removal.size_bytes for removal in removed),
            kept=len(kept_removals),
            kept_bytes=sum(removal.size_bytes for removal in kept_removals),
            why_kept=next(iter(counted(removal.why for removal in by_size)), ""),
            unknown=sum(paths.count for _, paths in unknown),
            unknown_bytes=sum(paths.size_bytes for _, paths in unknown),
            largest_unknown=_path_of(*max(largest, key=lambda pair: pair[0].size_bytes))
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
class TablesCleaning(many_tables.TablesRun):
    """The cleaning of one job, with the totals of tables that had something to clean. Mutable.

    `outcomes` are those of the partitions and other places, if the job is of one table.
    """

    spec: CleanSpec
    cleaned: list[CleanedTable] = field(default_factory=list)
    outcomes: list[CleaningOutcome] = field(default_factory=list)

    @property
    def done(self) -> dict[str, str]:
        """What was removed from each table, by the table's name; of one table, by partition."""
        if self.is_of_table:
            return {outcome.partition: outcome.text for outcome in self.outcomes}
        return {table.table: table.text for table in self.cleaned if table.removed}

    def leave_alone(self, table: TableInfo, why: str) -> None:
        """Skip a table for which cleaning is switched off."""
        self.skipped[str(table.ref)] = why
        if self.is_of_table:
            kept = Removal(path=table.location, why=why, size_bytes=0)
            self.outcomes.append(CleaningOutcome(partition="", removed=(), kept=(kept,)))

    def add(
        self,
        table: TableInfo,
        of_partitions: Sequence[CleaningOutcome],
        of_others: Sequence[CleaningOutcome],
    ) -> None:
        """Add the outcomes of a cleaned table's partitions and other places."""
        totals = CleanedTable.of(table, of_partitions, of_others)
        if totals.removed or totals.kept or totals.unknown:
            log.info("%s: %s", totals.table, totals.text)
            self.cleaned.append(totals)
        if self.is_of_table:
            self.outcomes += (*of_partitions, *of_others)

    def result(self, job: JobSpec) -> JobResult:
        """Return the result of the cleaning, or of its plan.

        Of many tables, those with the largest removed and kept directories come first.
        """
        removed = sum(table.removed for table in self.cleaned)
        details: dict[str, JsonValue]
        if self.is_of_table:
            details = {"cleanings": [to_json(outcome) for outcome in self.outcomes]}
        else:
            largest_first = sorted(
                self.cleaned,
                key=lambda table: (table.removed_bytes + table.kept_bytes, table.unknown_bytes),
                reverse=True,
            )
            details = {
                "cleanings": [to_json(table) for table in largest_first],
                "cleaned_partitions": sum(table.partitions for table in self.cleaned),
                "kept": sum(table.kept for table in self.cleaned),
                "kept_bytes": sum(table.kept_bytes for table in self.cleaned),
                "unknown": sum(table.unknown for table in self.cleaned),
                "unknown_bytes": sum(table.unknown_bytes for table in self.cleaned),
                **self.details(),
            }
        return JobResult(
            kind=job.kind,
            job_key=job.job_key,
            status=self.status(is_done=bool(removed)),
            table=self.spec.target,
            partitions=tuple(o.partition for o in self.outcomes if o.partition and o.removed),
            files=removed,
            size_bytes=sum(table.removed_bytes for table in self.cleaned),
            details=details,
        )


def clean_tables(
    client: MetastorePort, spec: CleanSpec, on_step: Callable[[str], None]
) -> TablesCleaning:
    """Clean all transactional tables with matching names, or one partition of the only table.

    Raise InputError if a table named without a wildcard is missing or of the wrong kind, and
    PartitionsFailedError if some of the tables or partitions failed. The others are done.
    """
    run = TablesCleaning(spec=spec)
    clean_matching(client, run, on_step)
    run.check(run.done)
    return run


def clean_matching(
    client: MetastorePort, run: TablesCleaning, on_step: Callable[[str], None]
) -> None:
    """Clean as `clean_tables` does, but leave failed tables and partitions in `run.failed`."""
    for group in many_tables.grouped(many_tables.matching_tables(client, check_cleanable, run)):
        _clean(client, group, run, on_step)


def _clean(
    client: MetastorePort,
    tables: Sequence[TableInfo],
    run: TablesCleaning,
    on_step: Callable[[str], None],
) -> None:
    def begun(own: MetastorePort, table: TableInfo) -> TableCleaning:
        return TableCleaning.of(own, table.ref, run.spec, on_step, run.neighbours)

    cleanings: list[TableCleaning] = []
    for cleaning in run.each_table(client, tables, begun):
        if cleaning.why_not is None:
            cleanings.append(cleaning)
        else:
            run.leave_alone(cleaning.table, cleaning.why_not)
    pieces = [(cleaning, partition) for cleaning in cleanings for partition in cleaning.partitions]
    run.tables += len(cleanings)
    run.partitions += len(pieces)
    of_partitions: dict[TableRef, list[CleaningOutcome]] = {c.table.ref: [] for c in cleanings}
    for (cleaning, _), outcome in run.each(
        client,
        pieces,
        lambda own, piece: piece[0].clean(own, piece[1]),
        where=lambda piece: many_tables.TableOrPartition(table=piece[0].table, partition=piece[1]),
    ):
        of_partitions[cleaning.table.ref].append(outcome)
    # The rest of a table with a failed partition is left to a retry.
    whole = [c for c in cleanings if len(of_partitions[c.table.ref]) == len(c.partitions)]
    of_others = {
        cleaning.table.ref: outcomes
        for cleaning, outcomes in run.each(
            client,
            whole,
            lambda own, cleaning: cleaning.finish(own, of_partitions[cleaning.table.ref]),
            where=lambda cleaning: many_tables.TableOrPartition(table=cleaning.table),
        )
    }
    for cleaning in cleanings:
        ref = cleaning.table.ref
        run.add(cleaning.table, of_partitions[ref], of_others.get(ref, ()))


def _uploaded_to(table: TableInfo, spec: CleanSpec, locations: Sequence[str]) -> list[str]:
    """Return the sorted locations where dead workers may have left incomplete uploads."""
    roots = set(locations)
    if spec.partition is None:
        within = f"{table.location.rstrip('/')}/"
        roots = {table.location, *(p for p in roots if not p.startswith(within))}
    return [location for location in sorted(roots) if publishes_files(scheme_of(location))]


def forget_unreadable(
    table: TableInfo, outcomes: Iterable[CleaningOutcome], notes: VersionNotes | None = None
) -> None:
    """Remove month-old notes of commits whose versions are no longer readable; bundle the others.

    `outcomes` are those of all partitions of the table. If `notes` is None, they are read again.
    """
    oldest = {o.partition: WriteId(o.oldest) for o in outcomes if o.oldest is not None}
    if oldest:
        before_s = time.time() - _COMMITS_REMEMBERED_S
        notes = VersionNotes.of(table).listed_once() if notes is None else notes
        notes.tidy_commits(oldest, before_s)
