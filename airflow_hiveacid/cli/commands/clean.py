"""The commands `clean`, which works as `HiveAcidCleanOperator`, and `own`.

`own` records that a table owns its directory, after a move or restore of a metastore. The commands
need no Spark, because they only list directories, call the metastore, and write or remove files.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, Column, field, partition, shown
from airflow_hiveacid.format.words import several
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.operators.reporting.plan_text import size_text, unknown_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def clean(options: argparse.Namespace) -> Iterator[str]:
    """Clean a table, or plan the cleaning; yield the paths that are removed, kept or unknown."""
    from airflow_hiveacid.maintenance.clean_table import clean_table  # noqa: PLC0415 - pyarrow

    spec = CleanSpec(
        target=str(options.table),
        partition=None if options.partition is None else str(options.partition),
        unknown_age_s=options.remove_unknown_after,
        plan_only=options.dry_run,
    )
    with cli_metastore.connected(options) as client:
        outcomes = clean_table(client, spec, lambda _: None)
    records: list[dict[str, Any]] = [
        {
            "partition": outcome.partition,
            "action": action,
            "path": one.path,
            "size_bytes": one.size_bytes,
            "why": one.why,
        }
        for outcome in outcomes
        for action, found in (("remove", outcome.removed), ("keep", outcome.kept))
        for one in found
    ]
    unknown = [(outcome, outcome.unknown) for outcome in outcomes if outcome.unknown is not None]
    found_unknown = sum(found.count for _, found in unknown)
    known = len(records)
    records += [
        {
            "partition": outcome.partition,
            "action": "none",
            "path": one.path,
            "size_bytes": one.size_bytes,
            "why": f"unknown: {unknown_text(asdict(one))}",
        }
        for outcome, found in unknown
        for one in found.largest
    ]
    removed = [one for one in records if one["action"] == "remove"]
    size = size_text(sum(one["size_bytes"] for one in removed)) or "0 B"
    would = "would be removed" if options.dry_run else "removed"
    foot = (
        f"{options.table}: {several(len(removed), 'path')} ({size}) {would},"
        f" {known - len(removed)} kept" + (f", {found_unknown:,} unknown" if found_unknown else "")
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
    from airflow_hiveacid.maintenance.ownership import take_ownership  # noqa: PLC0415 - pyarrow

    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        before = take_ownership(client, table)
    earlier = "" if before is None else str(before)
    foot = f"{table.ref} owns {table.location} now"
    if earlier:
        foot += f"; the owner was {earlier}"
    record = {"table": str(table.ref), "location": table.location, "earlier_owner": earlier}
    yield shown(Answer(records=[record], foot=foot, is_text=True), options.output)
