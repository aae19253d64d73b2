"""Cleaning of a whole table, or of one partition, by several cleaners at a time.

Input is a metastore and a spec. Output is one outcome for each partition, and for each other place
with left-over files. Needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.maintenance.clean import (
    Cleaner,
    CleaningOutcome,
    forget_unreadable,
    left_alone,
)
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.maintenance.side_by_side import each_partition
from airflow_hiveacid.metastore.partitions import partitions_of
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.keeping import NO_CLEANUP
from airflow_hiveacid.plan.statements.dml import check_cleanable
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.locations import scheme_of
from airflow_hiveacid.storage.stores.staging import check_publishable
from airflow_hiveacid.storage.stores.traits import publishes_files
from airflow_hiveacid.versions.keeping import opted_out_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
    from airflow_hiveacid.metastore.port import MetastorePort


def clean_table(
    client: MetastorePort, spec: CleanSpec, on_step: Callable[[str], None]
) -> list[CleaningOutcome]:
    """Clean the partitions of a table, several at a time.

    Raises:
        InputError: the table is missing or of the wrong kind.
        LocationPermissionError: the table's location cannot be written to.
        PartitionsFailedError: at least one of several partitions failed.
    """
    table = _cleanable(client, spec)
    partitions = partitions_of(client, table, spec.partition)
    if not spec.plan_only:
        # First end the queue entries of dead workers. While a compaction seems to run, no guarantee
        # for the table's versions can begin.
        end_dead_entries(client, table.ref)
    table, overview = with_past(client, table, plan_only=spec.plan_only)
    why_not = opted_out_of(table, NO_CLEANUP)
    if why_not is not None:
        return [left_alone(table, f"cleaning is turned off by {why_not}")]

    def cleaner(client: MetastorePort) -> Cleaner:
        return Cleaner(client=client, table=table, spec=spec, on_step=on_step, overview=overview)

    outcomes = each_partition(
        client,
        table,
        partitions,
        lambda c, p: cleaner(c).clean(p),
        at_once=len(partitions),
        describe=lambda outcome: outcome.text,
    )
    if spec.partition is None and not spec.plan_only:
        forget_unreadable(table, outcomes, overview.notes)
    if table.is_partitioned and spec.partition is None:
        outcomes.append(cleaner(client).clean_staging())
    for location in _uploaded_to(table, spec, [p.location for p in partitions]):
        outcomes.append(cleaner(client).clean_uploads(location))
    return outcomes


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
