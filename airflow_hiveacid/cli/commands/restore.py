"""The command `restore`, which restores a version of a table or plans the restore.

A plan needs only the metastore and the table's files, from which it reads only row IDs. A restore
writes rows with Spark, so it needs PySpark.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli import view as cli_view
from airflow_hiveacid.cli.local_job import local_job, require_pyspark
from airflow_hiveacid.cli.output import Answer, shown
from airflow_hiveacid.cli.rows import rows_by_write
from airflow_hiveacid.cli.view import TableView
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec
from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient
from airflow_hiveacid.operators.reporting.plan_text import restore_lines
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.statements.dml import check_insertable
from airflow_hiveacid.versions.past import Past
from airflow_hiveacid.versions.restoring import Differing, differing_roots


def restore(options: argparse.Namespace) -> Iterator[str]:
    """Restore a table, or plan the restore; yield the changes by partition."""
    ref, version = options.table, cli_view.version_of(options)
    endpoint = cli_metastore.endpoint_of(options)
    if not options.dry_run:
        require_pyspark("HiveAcidRestoreOperator")
    with cli_metastore.connected(options) as client:
        if options.dry_run:
            partitions = _planned(client, ref, version)
            changes = any(partition.how is not Way.NOTHING for partition in partitions)
            status = "planned" if changes else "nothing_to_do"
            body: dict[str, Any] = {
                "table": str(ref),
                "status": status,
                "restore": [to_json(partition) for partition in partitions],
            }
        else:
            result = _restored(client, endpoint, ref, version)
            body = {
                "table": result.table,
                "status": result.status.value,
                "write_id": result.write_ids.get(result.table),
                **result.details,
            }
    text = outcome_text(body, str(version))
    yield shown(Answer(records=[body], foot=text, is_text=True), options.output)


def outcome_text(body: dict[str, Any], version: str) -> str:
    """Return the result of a restore as readable text.

    Example:
        >>> print(outcome_text({"table": "db.t", "status": "nothing_to_do"}, "version 3"))
        db.t: restore to version 3: nothing to do
    """
    suffix = f" as version {body['write_id']}" if body.get("write_id") else ""
    head = f"{body['table']}: restore to {version}: {body['status'].replace('_', ' ')}{suffix}"
    return "\n".join((head, *restore_lines(body)))


def _planned(
    client: MetastoreClient, ref: TableRef, version: VersionSpec
) -> list[RestoredPartition]:
    table = client.get_table(ref)
    check_insertable(table)
    with cli_view.read_transaction(client, table) as txn:
        past, roots = differing_roots(
            client, table, version, txn.snapshot, taken_s=txn.seen_after_s
        )
        view = cli_view.view_of(client, table, None, txn.snapshot)
        return [_counted(view, past, root) for root in roots]


def _counted(view: TableView, past: Past, root: Differing) -> RestoredPartition:
    """Count the rows of one partition that a restore would add, remove and leave unchanged.

    A deleted row's ID is never written again. So if a row is visible now and its write ID was
    visible at the version, the row was visible at the version.
    """
    (root_view,) = [entry for entry in view.roots if entry.partition == root.info.name]
    rows_now, rows_then = (
        rows_by_write(replace(view, write_ids=write_ids), replace(root_view, state=state))
        for write_ids, state in ((past.now, root.now), (past.then, root.then))
    )
    is_plain = view.kind is TransactionalKind.INSERT_ONLY
    stay = 0
    if not is_plain:
        stay = sum(n for w, n in rows_now.items() if w < 1 or past.then.is_visible(WriteId(w)))
    return RestoredPartition.of(
        come=rows_then.total() - stay,
        go=rows_now.total() - stay,
        stay=stay,
        is_plain=is_plain,
        partition=str(root.info.name),
    )


def _restored(
    client: MetastoreClient, endpoint: MetastoreEndpoint, ref: TableRef, version: VersionSpec
) -> JobResult:
    from airflow_hiveacid.spark.statements import restore as spark_restore  # noqa: PLC0415 - PySpark

    spec = RestoreSpec(target=str(ref), version=version.text())
    # Each call of the command is a separate job.
    key = f"restore/{ref}/{uuid.uuid4().hex}"
    return spark_restore.restore(local_job(client, endpoint, spec, key))
