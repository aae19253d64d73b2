"""The commands `health` and `explain`: what is due, and what prevents the work.

`health` yields measurements of partitions or tables. `explain` yields findings: first problems that
block, then work that is due, then information. Of several tables, a cause is listed once, with all
tables that it affects. Nothing is changed.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field as dataclass_field
from typing import Any, Final, TypeVar

from airflow_hiveacid.cli import metastore as cli_metastore, output
from airflow_hiveacid.cli.many_tables import answer, check_any, pattern_of, tables_answer
from airflow_hiveacid.format.errors import HiveAcidError, NotTransactionalError, TableNotFoundError
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.format.words import counted, first_few, joined, several, without_ages
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import TablesCleaning, clean_matching, clean_tables
from airflow_hiveacid.maintenance.many_tables import MOST_AT_ONCE, each_piece
from airflow_hiveacid.metastore.listed_tables import transactional_tables
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.operators.reporting.document import TableRow
from airflow_hiveacid.operators.reporting.findings import Finding, LocksNow, Urgency, capped
from airflow_hiveacid.operators.reporting.plan_text import size_text
from airflow_hiveacid.operators.reporting.survey import MeasuredTable
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.plan.keeping import NO_CLEANUP
from airflow_hiveacid.versions.keeping import opted_out_of
from airflow_hiveacid.watch.health import compaction_need

_R = TypeVar("_R")

_HEALTH_COLUMNS: Final = (
    output.partition(),
    output.Column(head="base", text=lambda record: size_text(record["base_bytes"]), is_number=True),
    output.count("deltas", "delta_count"),
    output.Column(
        head="size",
        text=lambda record: size_text(record["delta_bytes"] + record["delete_delta_bytes"]),
        is_number=True,
    ),
    output.Column(
        head="of base", text=lambda record: _share(record["delta_ratio"]), is_number=True
    ),
    output.count("obsolete"),
    output.count("aborted"),
    output.field("due", "why", wraps=True),
)


def health(options: argparse.Namespace) -> Iterator[str]:
    """Yield the measurements of each partition, and why it is due, or paused after failures.

    Of a pattern, yield those of each table that is not fine, or with `--all` of each table.
    """
    if (pattern := pattern_of(options)) is not None:
        measured = _measured(options, pattern, lambda one: one.row)
        rows = [
            TableRow(table=name, state="unknown", why=str(row))
            if isinstance(row, HiveAcidError)
            else row
            for name, row in measured.items()
        ]
        rows.sort(key=lambda row: (-row.due, -row.deltas, row.table))
        records = [_row_record(row) for row in rows if options.all or row.state != "fine"]
        yield from tables_answer(records, options, fine=len(rows) - len(records))
        return
    name = None if options.partition is None else str(options.partition)
    with cli_metastore.connected(options) as client:
        need = compaction_need(client, options.table, name, _given_thresholds(options))
    reasons = {entry.health.partition: entry.record()["why"] for entry in need.due}
    reasons |= need.paused
    records = [
        {**measures.record(), "why": reasons.get(measures.partition)} for measures in need.healths
    ]
    yield output.shown(
        output.Answer(records=records, columns=_HEALTH_COLUMNS, foot=str(need)), options.output
    )


def _row_record(row: TableRow) -> output.Record:
    record = asdict(row)
    why, last_s = record.pop("why"), record.pop("last_compaction_s")
    return {**record, "last_compaction": output.moment(last_s or None), "why": why}


def explain(options: argparse.Namespace) -> Iterator[str]:
    """Yield the findings about a table, or about the tables of a pattern."""
    if (pattern := pattern_of(options)) is not None:
        yield from _explain_tables(options, pattern)
        return
    thresholds = _given_thresholds(options)
    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        if table.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=table.ref)
        measured = MeasuredTable.of(client, table, thresholds, LocksNow.of(client))
        findings = [*measured.findings, *_cleaning(client, table)]
    records = [
        {
            "about": finding.about,
            "state": finding.urgency.state,
            "finding": finding.what,
            "remedy": finding.remedy,
        }
        for finding in sorted(capped(findings), key=lambda finding: finding.urgency)
    ]
    columns = (
        output.field("about"),
        output.field("state"),
        output.field("finding", wraps=True),
        output.field("what to do", "remedy", wraps=True),
    )
    kind = table.kind.value.replace("_", " ")
    head = f"{table.ref}: {kind} table at {table.location}"
    yield output.shown(output.Answer(records=records, columns=columns, head=head), options.output)


def _given_thresholds(options: argparse.Namespace) -> GivenThresholds:
    return GivenThresholds(
        delta_count=options.delta_count,
        delta_ratio=options.delta_ratio,
        also_when=options.also_when,
    )


def _share(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f} %"


def _measured(
    options: argparse.Namespace, pattern: str, result_of: Callable[[MeasuredTable], _R]
) -> dict[str, _R | HiveAcidError]:
    """Measure the tables in parallel; return results or errors by name, without dropped tables."""
    given = _given_thresholds(options)
    with cli_metastore.connected(options) as client:
        listed = dict(transactional_tables(client, [pattern]))
        check_any(pattern, is_any=bool(listed))
        tables = {name: table for name, table in listed.items() if isinstance(table, TableInfo)}
        locks = LocksNow.of(client)
        measured = each_piece(
            client,
            [*tables.values()],
            lambda own, table: result_of(MeasuredTable.of(own, table, given, locks)),
            at_once=MOST_AT_ONCE,
            name=lambda table: str(table.ref),
        )
    results: dict[str, Any] = {**listed, **dict(zip(tables, measured, strict=True))}
    return {
        name: result
        for name, result in results.items()
        if not isinstance(result, TableNotFoundError)
    }


def _explain_tables(options: argparse.Namespace, pattern: str) -> Iterator[str]:
    findings: dict[str, list[Finding]] = {}
    for name, one in _measured(options, pattern, lambda one: one.findings).items():
        findings[name] = [_failure(one)] if isinstance(one, HiveAcidError) else [*one]
    cleaning = _CleaningFindings(spec=CleanSpec(tables=(pattern,), plan_only=True))
    with cli_metastore.connected(options) as client:
        clean_matching(client, cleaning, lambda _: None)
    for name, of_table in cleaning.findings.items():
        findings.setdefault(name, []).extend(of_table)
    for place, error in cleaning.failed.items():
        findings.setdefault(place.partition(" ")[0], []).append(_failure(error))
    columns = (
        output.field("state"),
        output.Column(head="tables", text=lambda record: first_few(record["tables"]), wraps=True),
        output.field("about"),
        output.field("finding", wraps=True),
        output.field("what to do", "remedy", wraps=True),
    )
    states = Counter(
        min(finding.urgency for finding in of_table).state for of_table in findings.values()
    )
    yield from answer(output.Answer(records=_by_cause(findings), columns=columns), states, options)


def _failure(error: HiveAcidError) -> Finding:
    return Finding(about="table", urgency=Urgency.UNKNOWN, what=str(error))


def _by_cause(findings: Mapping[str, Sequence[Finding]]) -> list[output.Record]:
    """Return a record for each cause and remedy, if not fine: the worst, then the most frequent."""
    groups: dict[tuple[Urgency, str, str, str], list[tuple[str, Finding]]] = defaultdict(list)
    for table, of_table in findings.items():
        for finding in of_table:
            if finding.urgency is not Urgency.FINE:
                # Ages differ, because tables are measured one after the other.
                cause = without_ages(_general(finding.cause or finding.what, table))
                remedy = _general(finding.remedy, table)
                groups[finding.urgency, finding.about, cause, remedy].append((table, finding))
    records: list[output.Record] = []
    for (urgency, about, *_), group in sorted(
        groups.items(), key=lambda item: (item[0][0], -len(item[1]))
    ):
        (table, finding), *others = group
        tables = list(dict.fromkeys(name for name, _ in group))
        cause = joined([one.cause or one.what for _, one in group])
        # A single finding has its own numbers; several have only their cause in common.
        texts = (cause if others else finding.what, finding.remedy)
        what, remedy = (_general(text, table) if len(tables) > 1 else text for text in texts)
        state = urgency.state
        records.append(
            {"state": state, "tables": tables, "about": about, "finding": what, "remedy": remedy}
        )
    return records


def _general(text: str, table: str) -> str:
    return text.replace(table, "TABLE")


@dataclass(slots=True, kw_only=True)
class _CleaningFindings(TablesCleaning):
    """A planned cleaning of many tables, with the findings about each table. Mutable."""

    findings: dict[str, list[Finding]] = dataclass_field(default_factory=dict)

    def leave_alone(self, table: TableInfo, why: str) -> None:
        """Skip a table for which cleaning is switched off."""
        TablesCleaning.leave_alone(self, table, why)  # a class with slots has no super() here
        self.findings[str(table.ref)] = [*_cleaning_off(table)]

    def add(
        self,
        table: TableInfo,
        of_partitions: Sequence[CleaningOutcome],
        of_others: Sequence[CleaningOutcome],
    ) -> None:
        """Add the outcomes of a table's partitions and other places."""
        TablesCleaning.add(self, table, of_partitions, of_others)
        self.findings[str(table.ref)] = [*_of_cleaning(table, (*of_partitions, *of_others))]


def _cleaning(client: MetastorePort, table: TableInfo) -> Iterator[Finding]:
    if switched_off := [*_cleaning_off(table)]:
        yield from switched_off
        return
    spec = CleanSpec.of_table(str(table.ref), plan_only=True)
    yield from _of_cleaning(table, clean_tables(client, spec, lambda _: None).outcomes)


def _cleaning_off(table: TableInfo) -> Iterator[Finding]:
    switched_off = opted_out_of(table, NO_CLEANUP)
    if switched_off is not None:
        yield Finding(
            about="cleaning",
            urgency=Urgency.BLOCKED,
            what=f"cleaning is switched off by {switched_off}",
        )


def _of_cleaning(table: TableInfo, outcomes: Sequence[CleaningOutcome]) -> Iterator[Finding]:
    removed = [path for outcome in outcomes for path in outcome.removed]
    if removed:
        size = size_text(sum(path.size_bytes for path in removed)) or "0 B"
        yield Finding(
            about="cleaning",
            urgency=Urgency.DUE,
            what=f"{several(len(removed), 'path')} ({size}) can be removed now",
            remedy=f"run HiveAcidCleanOperator, or `clean {table.ref}`",
            cause="paths can be removed now; `clean --dry-run` lists them",
        )
    yield from _kept(outcomes)
    if not removed and not any(outcome.kept for outcome in outcomes):
        yield Finding(about="cleaning", urgency=Urgency.FINE, what="nothing to remove")


def _kept(outcomes: Sequence[CleaningOutcome]) -> Iterator[Finding]:
    waited_for = {r for outcome in outcomes for r in outcome.waited_for}
    paths = counted(path.why for outcome in outcomes for path in outcome.kept)
    for why, number in paths.items():
        # If a path waits for a reader, the reason begins with that reader's text.
        by_reader = [r for r in waited_for if why.startswith(str(r))]
        yield Finding(
            about="cleaning",
            urgency=Urgency.BLOCKED if by_reader else Urgency.WAITING,
            what=f"{several(number, 'path')} kept: {why}",
            remedy=f"wait, or end it with `abort {by_reader[0].txn_id}`" if by_reader else "",
            cause=f"paths are kept: {why}",
        )
