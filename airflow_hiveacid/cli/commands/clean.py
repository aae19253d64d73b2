"""The commands `clean`, which works as `HiveAcidCleanOperator`, and `own`.

`own` records that a table owns its directory, after a move or restore of a metastore. The commands
need no Spark, because they only list directories, call the metastore, and write or remove files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, Column, field, partition, shown
from airflow_hiveacid.format.words import several
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.ownership import take_ownership
from airflow_hiveacid.operators.reporting.plan_text import size_text, unknown_text


def clean(options: argparse.Namespace) -> Iterator[str]:
    """Clean a table, or plan the cleaning; yield the paths that are removed, kept or unknown."""
    spec = CleanSpec.of_table(
        str(options.table),
        partition=None if options.partition is None else str(options.partition),
        unknown_age_s=options.remove_unknown_after,
        plan_only=options.dry_run,
    )
    with cli_metastore.connected(options) as client:
        outcomes = clean_tables(client, spec, lambda _: None).outcomes
    records: list[dict[str, Any]] = [
        {
            "partition": outcome.partition,
            "action": action,
            "path": path.path,
            "size_bytes": path.size_bytes,
            "why": path.why,
        }
        for outcome in outcomes
        for action, paths in (("remove", outcome.removed), ("keep", outcome.kept))
        for path in paths
    ]
    unknown = [(outcome, outcome.unknown) for outcome in outcomes if outcome.unknown is not None]
    unknown_count = sum(unknown_paths.count for _, unknown_paths in unknown)
    known_count = len(records)
    records += [
        {
            "partition": outcome.partition,
            "action": "none",
            "path": path.path,
            "size_bytes": path.size_bytes,
            "why": f"unknown: {unknown_text(asdict(path))}",
        }
        for outcome, unknown_paths in unknown
        for path in unknown_paths.largest
    ]
    removed = [record for record in records if record["action"] == "remove"]
    size = size_text(sum(record["size_bytes"] for record in removed)) or "0 B"
    would = "would be removed" if options.dry_run else "removed"
    foot = (
        f"{options.table}: {several(len(removed), 'path')} ({size}) {would},"
        f" {known_count - len(removed)} kept"
        + (f", {unknown_count:,} unknown" if unknown_count else "")
    )
    columns = (
        partition(),
        field("action"),
        field("path"),
        Column(head="size", text=lambda one: size_text(one["size_bytes"]), is_number=True),
        field("why", wraps=True),
    )
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def own(options: argparse.Namespace) -> Iterator[str]:
    """Record that this metastore's table owns its directory; yield the earlier owner, if any."""
    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        earlier_owner = take_ownership(client, table)
    earlier = "" if earlier_owner is None else str(earlier_owner)
    foot = f"{table.ref} owns {table.location} now"
    if earlier:
        foot += f"; the owner was {earlier}"
    record = {"table": str(table.ref), "location": table.location, "earlier_owner": earlier}
    yield shown(Answer(records=[record], foot=foot, is_text=True), options.output)
