"""The command that restores a version, or plans the restore, like `HiveAcidRestoreOperator`.

A plan needs only the metastore and the files, from which it reads only the row identities. A
restore writes rows with Spark, so it needs PySpark.

Example:
    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add_command(parser.add_subparsers())
    >>> parser.parse_args(["restore", "db.t", "--version", "12", "--plan-only"]).version
    '12'
"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli import view as cli_view
from airflow_hiveacid.cli.spark_environment import require_pyspark
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.operators.plan_text import restore_lines
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.statements import check_insertable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_hiveacid.cli.view import TableView
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient
    from airflow_hiveacid.versions.past import Past
    from airflow_hiveacid.versions.restoring import Differing

_LOCK_TIMEOUT_S: Final = 300.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `restore` to a parser."""
    restore = commands.add_parser(
        "restore",
        help="restore a table to an earlier version, or report what would change",
        description=(
            "Restore every partition of a table to exactly the rows of a version, in one"
            " transaction. Requires PySpark, except with --plan-only."
        ),
    )
    restore.add_argument("table", metavar="DB.TABLE")
    which = restore.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--version", metavar="N", help="the version's number, as listed by `history`"
    )
    which.add_argument(
        "--timestamp", metavar="TIME", help="the state at this time, such as 2026-11-19T02:00Z"
    )
    which.add_argument("--tag", metavar="NAME", help="the version with this tag")
    restore.add_argument(
        "--plan-only",
        action="store_true",
        help="report how many rows of each partition would be added, removed or kept",
    )
    restore.add_argument("--json", action="store_true", help="print JSON instead of a table")
    cli_metastore.add_options(restore)
    restore.set_defaults(command=restore_command)


def restore_command(options: argparse.Namespace) -> Iterator[str]:
    """Restore a table, or plan the restore; yield the changes by partition.

    Raises:
        ConfigurationError: PySpark is missing.
        HiveAcidError: the version cannot be read, or the restore failed and changed nothing.
    """
    version = VersionSpec.of(options.version, options.timestamp, options.tag)
    from airflow_hiveacid.metastore.client.metastore_client import connect  # noqa: PLC0415 - needs Thrift

    ref, endpoint = TableRef.parse(options.table), cli_metastore.endpoint_of(options)
    if not options.plan_only:
        require_pyspark("HiveAcidRestoreOperator")
    with connect(endpoint) as client:
        if options.plan_only:
            found = _planned(client, ref, version)
            changes = any(one.how is not Way.NOTHING for one in found)
            status = "planned" if changes else "nothing_to_do"
            body: dict[str, Any] = {
                "table": str(ref),
                "status": status,
                "restore": [to_json(one) for one in found],
            }
        else:
            result = _restored(client, endpoint, ref, version)
            body = {
                "table": result.table,
                "status": result.status.value,
                "write_id": result.write_ids.get(result.table),
                **result.details,
            }
    if options.json:
        yield f"{json.dumps(body, indent=2)}\n"
    else:
        yield told(body, str(version))


def told(body: dict[str, Any], version: str) -> str:
    """Return the result of a restore as readable text.

    Example:
        >>> print(told({"table": "db.t", "status": "nothing_to_do"}, "version 3"), end="")
        db.t: restore to version 3: nothing to do
    """
    by = f" as version {body['write_id']}" if body.get("write_id") else ""
    head = f"{body['table']}: restore to {version}: {body['status'].replace('_', ' ')}{by}"
    return "".join(f"{line}\n" for line in (head, *restore_lines(body)))


def _planned(
    client: MetastoreClient, ref: TableRef, version: VersionSpec
) -> list[RestoredPartition]:
    from airflow_hiveacid.versions.restoring import differing_roots  # noqa: PLC0415 - needs pyarrow

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

    A row that is visible now was also visible at the version if its write ID is visible at the
    version. The reason is that a deleted row's identity is never written again.
    """
    from airflow_hiveacid.cli.output import rows_by_write  # noqa: PLC0415 - needs pyarrow

    (place,) = [one for one in view.roots if one.partition == root.info.name]
    now = rows_by_write(replace(view, write_ids=past.now), replace(place, state=root.now))
    then = rows_by_write(replace(view, write_ids=past.then), replace(place, state=root.then))
    is_plain = view.kind is TransactionalKind.INSERT_ONLY
    stay = 0
    if not is_plain:
        stay = sum(n for w, n in now.items() if w < 1 or past.then.is_visible(WriteId(w)))
    return RestoredPartition.of(
        come=then.total() - stay,
        go=now.total() - stay,
        stay=stay,
        is_plain=is_plain,
        partition=str(root.info.name),
    )


def _restored(
    client: MetastoreClient, endpoint: MetastoreEndpoint, ref: TableRef, version: VersionSpec
) -> JobResult:
    from airflow_hiveacid.jobs.specs.job import JobSpec  # noqa: PLC0415 - loaded with the rest
    from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec  # noqa: PLC0415 - loaded with the rest
    from airflow_hiveacid.spark.engine.session import open_session  # noqa: PLC0415 - PySpark
    from airflow_hiveacid.spark.statements.restore import restore  # noqa: PLC0415 - as above
    from airflow_hiveacid.spark.writing.context import JobContext  # noqa: PLC0415 - as above

    spec = JobSpec(
        # Each command is a separate job.
        job_key=f"command line/restore/{ref}/{uuid.uuid4().hex}",
        metastore=endpoint,
        job=RestoreSpec(target=str(ref), version=version.text()),
        lock_timeout_s=_LOCK_TIMEOUT_S,
    )
    spark = open_session("hiveacid-restore")
    return restore(JobContext(spark=spark, spec=spec, client=client, on_step=lambda _: None))
