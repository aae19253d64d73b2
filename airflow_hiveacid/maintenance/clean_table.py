"""Cleaning of a whole table, or of one partition, by several cleaners at a time.

Input is a metastore and a spec. Output is one outcome for each partition, and for each other place
with left-over files. Needs no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import TableChangedError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.maintenance.clean import (
    Cleaner,
    CleaningOutcome,
    forget_unreadable,
    left_alone,
    turned_off,
)
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.maintenance.ownership import check_owner
from airflow_hiveacid.maintenance.side_by_side import each_partition
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.statements.dml import check_cleanable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.staging import check_publishable
from airflow_hiveacid.storage.stores.traits import publishes_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
    from airflow_hiveacid.maintenance.overview import Overview
    from airflow_hiveacid.metastore.port import MetastorePort


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCleaning:
    """The cleaning of one table: first of its partitions, in any order, then of the other places.

    `why_not` is the reason if cleaning is turned off for the table. Otherwise `why_not` is None.
    """

    table: TableInfo
    spec: CleanSpec
    partitions: Sequence[PartitionInfo]
    overview: Overview
    why_not: str | None
    on_step: Callable[[str], None]
    neighbours: Neighbours

    @classmethod
    def of(
        cls,
        client: MetastorePort,
        spec: CleanSpec,
        on_step: Callable[[str], None],
        neighbours: Neighbours | None = None,
    ) -> TableCleaning:
        """Prepare the cleaning of a table.

        Raises:
            InputError: the table is missing or of the wrong kind.
            LocationPermissionError: the table's location cannot be written to.
            TableChangedError: the table was dropped and created again meanwhile.
        """
        on_step("table")
        found = _cleanable(client, spec)
        partitions = partitions_of(client, found, spec.partition)
        if not spec.plan_only:
            # First end the queue entries of dead workers. While a compaction seems to run, no
            # guarantee for the table's versions can begin.
            end_dead_entries(client, found.ref)
        table, overview = with_past(client, found, plan_only=spec.plan_only)
        if table.table_id != found.table_id:
            # The partitions belong to the dropped table. Write IDs of the new table do not tell
            # which of their directories are obsolete.
            raise TableChangedError(table=table.ref, what="table_id")
        neighbours = Neighbours() if neighbours is None else neighbours
        why_not = turned_off(table)
        if why_not is None:
            check_owner(client, table, neighbours, plan_only=spec.plan_only)
        return cls(
            table=table,
            spec=spec,
            partitions=partitions,
            overview=overview,
            why_not=why_not,
            on_step=on_step,
            neighbours=neighbours,
        )

    def clean(self, client: MetastorePort, partition: PartitionInfo) -> CleaningOutcome:
        """Clean one partition.

        Raises:
            HiveAcidError: as in `Cleaner.clean`.
        """
        self.on_step("partition")
        return self._cleaner(client).clean(partition)

    def finish(
        self, client: MetastorePort, outcomes: Sequence[CleaningOutcome]
    ) -> list[CleaningOutcome]:
        """Clean the table's other places; return one outcome for each.

        Args:
            client: the metastore.
            outcomes: the outcomes of all partitions.

        Raises:
            StorageError: a place cannot be listed or cleaned.
        """
        is_whole = self.spec.partition is None
        if is_whole and not self.spec.plan_only:
            forget_unreadable(self.table, outcomes, self.overview.notes)
        cleaner = self._cleaner(client)
        locations = _uploaded_to(self.table, self.spec, [p.location for p in self.partitions])
        between = is_whole and self.table.is_partitioned
        return [
            *([cleaner.clean_staging()] if between else ()),
            *([cleaner.clean_unknown(self.partitions)] if between else ()),
            *map(cleaner.clean_uploads, locations),
        ]

    def _cleaner(self, client: MetastorePort) -> Cleaner:
        return Cleaner(
            client=client,
            table=self.table,
            spec=self.spec,
            on_step=self.on_step,
            overview=self.overview,
            neighbours=self.neighbours,
        )


def clean_table(
    client: MetastorePort, spec: CleanSpec, on_step: Callable[[str], None]
) -> list[CleaningOutcome]:
    """Clean the partitions of a table, several at a time.

    Raises:
        InputError: the table is missing or of the wrong kind.
        LocationPermissionError: the table's location cannot be written to.
        PartitionsFailedError: at least one of several partitions failed.
    """
    cleaning = TableCleaning.of(client, spec, on_step)
    if cleaning.why_not is not None:
        return [left_alone(cleaning.table, cleaning.why_not)]
    outcomes = each_partition(
        client,
        cleaning.table,
        cleaning.partitions,
        cleaning.clean,
        at_once=len(cleaning.partitions),
        describe=lambda outcome: outcome.text,
    )
    return [*outcomes, *cleaning.finish(client, outcomes)]


def _cleanable(client: MetastorePort, spec: CleanSpec) -> TableInfo:
    table = client.get_table(TableRef.parse(spec.target))
    check_cleanable(table)
    if not spec.plan_only:
        check_publishable(table.ref, table.location)
        check_writable(table.location)
    return table


def _uploaded_to(table: TableInfo, spec: CleanSpec, locations: Sequence[str]) -> list[str]:
    """Return the sorted locations where dead workers may have left incomplete uploads."""
    roots = set(locations)
    if spec.partition is None:
        within = f"{table.location.rstrip('/')}/"
        roots = {table.location, *(p for p in roots if not p.startswith(within))}
    return [location for location in sorted(roots) if publishes_files(scheme_of(location))]
