"""The commands `health` and `explain`: which partitions are due, and what prevents the work.

Input is a metastore and a table. `health` yields measurements of partitions. `explain` yields
findings: first problems that block, then work that is due, then information. The commands use the
functions of sensors and cleaning, and change nothing.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, Column, count, field, partition, shown
from airflow_hiveacid.format.errors import NotTransactionalError
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.format.words import several
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient
from airflow_hiveacid.operators.collecting.findings import (
    Finding,
    Urgency,
    capped,
    compaction_findings,
    facts_of,
    lock_findings,
)
from airflow_hiveacid.operators.reporting.plan_text import size_text
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.plan.keeping import NO_CLEANUP
from airflow_hiveacid.versions.keeping import opted_out_of
from airflow_hiveacid.watch.health import compaction_need

_HEALTH_COLUMNS: Final = (
    partition(),
    Column(head="base", text=lambda record: size_text(record["base_bytes"]), is_number=True),
    count("deltas", "delta_count"),
    Column(
        head="size",
        text=lambda record: size_text(record["delta_bytes"] + record["delete_delta_bytes"]),
        is_number=True,
    ),
    Column(head="of base", text=lambda record: _share(record["delta_ratio"]), is_number=True),
    count("obsolete"),
    count("aborted"),
    field("due", "why", wraps=True),
)


def health(options: argparse.Namespace) -> Iterator[str]:
    """Yield the measurements of each partition, and why it is due, or paused after failures."""
    name = None if options.partition is None else str(options.partition)
    with cli_metastore.connected(options) as client:
        need = compaction_need(client, options.table, name, _given_thresholds(options))
    reasons = {entry.health.partition: entry.record()["why"] for entry in need.due}
    reasons |= need.paused
    records = [
        {**measures.record(), "why": reasons.get(measures.partition)} for measures in need.healths
    ]
    answer = Answer(records=records, columns=_HEALTH_COLUMNS, foot=str(need))
    yield shown(answer, options.output)


def explain(options: argparse.Namespace) -> Iterator[str]:
    """Yield the findings about a table."""
    thresholds = _given_thresholds(options)
    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        if table.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=table.ref)
        facts = facts_of(client, table, counts_rows=thresholds.counts_rows)
        findings = [
            *compaction_findings(client, facts, thresholds.policy_for(table)),
            *lock_findings(facts.locks),
            *_cleaning(client, table),
        ]
    records = [
        {
            "about": finding.about,
            "state": finding.urgency.name.lower(),
            "finding": finding.what,
            "remedy": finding.remedy,
        }
        for finding in sorted(capped(findings), key=lambda finding: finding.urgency)
    ]
    columns = (
        field("about"),
        field("state"),
        field("finding", wraps=True),
        field("what to do", "remedy", wraps=True),
    )
    kind = table.kind.value.replace("_", " ")
    head = f"{table.ref}: {kind} table at {table.location}"
    yield shown(Answer(records=records, columns=columns, head=head), options.output)


def _given_thresholds(options: argparse.Namespace) -> GivenThresholds:
    return GivenThresholds(
        delta_count=options.delta_count,
        delta_ratio=options.delta_ratio,
        also_when=options.also_when,
    )


def _share(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f} %"


def _cleaning(client: MetastoreClient, table: TableInfo) -> Iterator[Finding]:
    switched_off = opted_out_of(table, NO_CLEANUP)
    if switched_off is not None:
        yield Finding(
            about="cleaning",
            urgency=Urgency.BLOCKED,
            what=f"cleaning is switched off by {switched_off}",
        )
        return
    spec = CleanSpec.of_table(str(table.ref), plan_only=True)
    outcomes = clean_tables(client, spec, lambda _: None).outcomes
    removed = [path for outcome in outcomes for path in outcome.removed]
    if removed:
        size = size_text(sum(path.size_bytes for path in removed)) or "0 B"
        yield Finding(
            about="cleaning",
            urgency=Urgency.DUE,
            what=f"{several(len(removed), 'path')} ({size}) can be removed now",
            remedy=f"run HiveAcidCleanOperator, or `clean {table.ref}`",
        )
    yield from _kept(outcomes)
    if not removed and not any(outcome.kept for outcome in outcomes):
        yield Finding(about="cleaning", urgency=Urgency.FINE, what="nothing to remove")


def _kept(outcomes: Sequence[CleaningOutcome]) -> Iterator[Finding]:
    waited_for = {r for outcome in outcomes for r in outcome.waited_for}
    paths = Counter(path.why for outcome in outcomes for path in outcome.kept)
    for why, number in paths.items():
        by_reader = [r for r in waited_for if why.startswith(str(r))]
        yield Finding(
            about="cleaning",
            urgency=Urgency.BLOCKED if by_reader else Urgency.WAITING,
            what=f"{several(number, 'path')} kept: {why}",
            remedy=f"wait, or end it with `abort {by_reader[0].txn_id}`" if by_reader else "",
        )
