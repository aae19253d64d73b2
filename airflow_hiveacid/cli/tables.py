"""The command `tables`, which lists the transactional tables of a metastore with their settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.exit_codes import DatabaseNotFoundError
from airflow_hiveacid.cli.output import Answer, Record, field, shown
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.format.words import several
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.listed_tables import listed_tables
from airflow_hiveacid.plan.keeping import (
    NO_AUTO_COMPACTION,
    NO_CLEANUP,
    READABLE_FOR,
    opted_out,
    set_by_us,
)


def tables(options: argparse.Namespace) -> Iterator[str]:
    """Yield the transactional tables of all databases, or of one database.

    If the metastore does not let us read a table, or if Hive does not allow the table's name, only
    the name is shown, below the list.
    """
    records: list[Record] = []
    skipped: list[str] = []
    with cli_metastore.connected(options) as client:
        for db in _databases(client, options.database):
            for name, table in listed_tables(client, db):
                if isinstance(table, HiveAcidError):
                    skipped.append(f"{name} ({table})")
                elif options.all or table.kind is not TransactionalKind.NONE:
                    records.append(_record(table))
    columns = (
        field("table", wraps=True),
        field("kind"),
        field("format"),
        field("partitioned by", "partition_columns", wraps=True),
        field("readable for", "readable_for"),
        field("set to keep versions", "set_to_keep_versions", wraps=True),
        field("switched off", "switched_off", wraps=True),
    )
    foot = several(len(records), "table" if options.all else "transactional table")
    if skipped:
        foot += f"; {several(len(skipped), 'table')} could not be read: {'; '.join(skipped)}"
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def _databases(client: MetastoreClient, wanted: str | None) -> Sequence[str]:
    names = client.list_databases()
    if wanted is None:
        return names
    if wanted.lower() not in names:
        raise DatabaseNotFoundError(database=wanted, databases=names)
    return [wanted.lower()]


def _record(table: TableInfo) -> Record:
    switches = (opted_out(table.parameters, name) for name in (NO_AUTO_COMPACTION, NO_CLEANUP))
    return {
        "table": str(table.ref),
        "kind": "flat" if table.kind is TransactionalKind.NONE else table.kind.value,
        "format": str(table.storage),
        "partition_columns": [column.name for column in table.partition_columns],
        "buckets": table.num_buckets,
        "readable_for": table.parameters.get(READABLE_FOR),
        "set_to_keep_versions": sorted(set_by_us(table.parameters)),
        "switched_off": [name for name in switches if name],
        "location": table.location,
    }
