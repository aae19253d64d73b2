"""Several tables in one answer: the worst first, a line with their totals, and the exit status.

Input is a record for each table, with its `state`. A table whose error is known has a record, too:
it never hides the other tables.

Example:
    >>> totals({"fine": 812, "due": 10, "blocked": 3})
    '3 blocked, 10 due, 812 fine'
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_hiveacid.cli.exit_codes import ExitCode, NoTableMatchesError
from airflow_hiveacid.cli.output import Answer, Column, Record, shown, value_text
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.maintenance.many_tables import TablesRun
from airflow_hiveacid.operators.reporting.findings import Urgency
from airflow_hiveacid.operators.reporting.plan_text import size_text

SKIPPED: Final = "skipped"
"""The state of a table that a job leaves alone, because a setting says so."""

_STATES: Final = (*(urgency.state for urgency in Urgency), SKIPPED)
_TEXTS: Final = {"table", "state", "why", "last_compaction", "largest_unknown"}


def pattern_of(options: argparse.Namespace) -> str | None:
    """Return the pattern of tables in a command's options, or None for one table's name."""
    if not isinstance(options.table, str):
        return None
    if getattr(options, "partition", None) is not None:
        raise ConfigurationError("--partition needs one table, such as demo.orders")
    return options.table


def check_any(pattern: str, *, is_any: bool) -> None:
    """Raise a NoTableMatchesError if no table matches, except if all tables were requested."""
    if not is_any and pattern != "*":
        raise NoTableMatchesError(pattern=pattern)


def with_others(records: Sequence[Record], run: TablesRun) -> list[Record]:
    """Return the records of a run's tables, and of each other table that failed or was skipped."""
    check_any(run.spec.target, is_any=bool(run.tables or run.failed or run.skipped))
    by_table = {record["table"]: record for record in records}
    for place, error in run.failed.items():
        table = place.partition(" ")[0]
        record = by_table.get(table, {"table": table})
        by_table[table] = {**record, "state": "unknown", "why": str(error)}
    for table, why in run.skipped.items():
        by_table.setdefault(table, {"table": table, "state": SKIPPED, "why": why})
    return [*by_table.values()]


def tables_answer(
    records: Sequence[Record], options: argparse.Namespace, *, fine: int
) -> Iterator[str]:
    """Yield the records of tables, the worst state first, and set the exit status.

    `fine` is the number of tables that are fine and have no record.
    """
    states = Counter(str(record["state"]) for record in records) + Counter(fine=fine)
    ranked = sorted(records, key=lambda record: _STATES.index(record["state"]))
    columns = [_column(name) for name in dict.fromkeys(n for record in ranked for n in record)]
    yield from answer(Answer(records=ranked, columns=columns), states, options)


def _column(name: str) -> Column:
    def text(record: Record) -> str:
        value = record.get(name)
        if "bytes" in name:
            return size_text(value)
        return f"{value:,}" if isinstance(value, int | float) else value_text(value)

    is_text = name in _TEXTS
    return Column(head=name.replace("_", " "), text=text, is_number=not is_text, wraps=is_text)


def answer(body: Answer, states: Mapping[str, int], options: argparse.Namespace) -> Iterator[str]:
    """Yield an answer about tables with these states, and set the exit status in the options."""
    needs_person = any(states.get(state) for state in ("blocked", "failed", "unknown"))
    options.status = ExitCode.BLOCKED if needs_person else ExitCode.DUE if states.get("due") else 0
    yield shown(replace(body, foot=totals(states)), options.output)


def totals(states: Mapping[str, int]) -> str:
    """Return the number of tables in each state, the worst state first."""
    counts = ((states.get(state, 0), state) for state in _STATES)
    return ", ".join(f"{number:,} {state}" for number, state in counts if number) or "no table"
