"""The output of every command: its records for programs, or a table of its records for people.

`--output` selects the form: `table`, `json`, `yaml`, `csv` or `plain`; all but `csv` are forms of
Airflow's own commands. A table is as wide as the terminal, or 200 characters without one.

Example:
    >>> answer = Answer(records=[{"table": "db.t", "deltas": 3, "is_due": False}])
    >>> print(shown(answer, "plain"), end="")
    table  deltas  is_due
    db.t   3       no
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.records import time_text
from airflow_hiveacid.format.words import printable

if TYPE_CHECKING:
    from rich.table import Table

Record = Mapping[str, Any]
_WIDE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: its heading, and the function that returns a record's text.

    If the terminal is narrow, only columns with `wraps` become narrower.
    """

    head: str
    text: Callable[[Record], str]
    is_number: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The records that a command returns, and their layout for people.

    Without `columns`, each field of the records is a column. `head` and `foot` are lines above and
    below the table. If `is_text` is true, people see only these lines, without a table.
    """

    records: Sequence[Record]
    columns: Sequence[Column] = ()
    head: str = ""
    foot: str = ""
    is_text: bool = False


def shown(answer: Answer, form: str) -> str:
    """Return an answer as text in one of the forms of `--output`."""
    match form:
        case "json":
            return f"{json.dumps(answer.records, indent=2)}\n"
        case "yaml":
            import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - only this form needs it

            text = str(yaml.safe_dump(list(answer.records), sort_keys=False, allow_unicode=True))
            if printable(text, keep="\n") == text:
                return text
            # YAML's own escapes, which also escape every letter outside ASCII
            return str(yaml.safe_dump(list(answer.records), sort_keys=False))
        case "csv":
            return _csv(answer.records)
        case "plain":
            return plain_table(answer.records, _columns(answer))
        case _:
            lines = [printable(answer.head, keep="\n"), printable(answer.foot, keep="\n")]
            if not answer.is_text and answer.records:
                lines.insert(1, table(answer.records, _columns(answer)).rstrip("\n"))
            return "".join(f"{line}\n" for line in lines if line)


def table(records: Sequence[Record], columns: Sequence[Column]) -> str:
    """Return records as a table that fits into the terminal, without its empty columns."""
    try:
        from rich import box  # noqa: PLC0415 - only tables need it
        from rich.table import Table  # noqa: PLC0415 - as above
    except ModuleNotFoundError:  # Spark's environment has no rich
        return plain_table(records, columns)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    rows = [_cells(columns, record) for record in records]
    filled = [position for position in range(len(columns)) if any(row[position] for row in rows)]
    for column in (columns[position] for position in filled):
        drawn.add_column(
            column.head,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=not column.wraps,
        )
    for row in rows:
        drawn.add_row(*(row[position] for position in filled))
    return _drawn(drawn)


def plain_table(records: Sequence[Record], columns: Sequence[Column]) -> str:
    """Return records as aligned columns of any width; if there are no records, return nothing."""
    if not records:
        return ""
    rows = [[c.head for c in columns], *(_cells(columns, record) for record in records)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _csv(records: Sequence[Record]) -> str:
    """Return records as lines of RFC 4180, below a line with the names of all fields."""
    names, text = _names(records), io.StringIO()
    rows = [[_csv_value(record.get(name)) for name in names] for record in records]
    csv.writer(text).writerows([names, *rows] if names else ())
    return text.getvalue()


def _csv_value(value: object) -> str:
    match value:
        case None:
            return ""
        case list() | tuple():
            return "; ".join(map(_csv_value, value))
        case bool() | dict():
            return _csv_value(json.dumps(value, ensure_ascii=False))
        case _:
            return printable(str(value), keep="\n\r\t")


def _names(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _cells(columns: Sequence[Column], record: Record) -> list[str]:
    return [printable(column.text(record)) for column in columns]


# ---- columns -------------------------------------------------------------------------------------


def field(
    head: str, name: str | None = None, *, is_number: bool = False, wraps: bool = False
) -> Column:
    """Return a column with the field `name` of each record; by default the name is the heading."""
    return Column(
        head=head,
        text=lambda record: value_text(record.get(name or head)),
        is_number=is_number,
        wraps=wraps,
    )


def count(head: str, name: str | None = None) -> Column:
    """Return a column of integers with thousands separators; an unknown number is blank."""

    def text(record: Record) -> str:
        number = record.get(name or head)
        return "" if number is None else f"{number:,}"

    return Column(head=head, text=text, is_number=True)


def partition(name: str = "partition") -> Column:
    """Return a column of partition names, with `(table)` for an unpartitioned table."""
    return Column(head="partition", text=lambda record: record.get(name) or "(table)", wraps=True)


def value_text(value: object) -> str:
    """Return a value as text in a cell."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(value_text, value))
        case _:
            return str(value)


def few(values: Sequence[object], most: int) -> str:
    """Return the first few values as text in a cell, and the number of the others."""
    excess = len(values) - most
    return value_text(list(values[:most])) + (f" and {excess} more" if excess > 0 else "")


def moment(seconds: float | None) -> str | None:
    """Return a time, given in seconds since 1970, in ISO 8601; None if the time is unknown."""
    return None if seconds is None else time_text(seconds)


def _columns(answer: Answer) -> Sequence[Column]:
    if answer.columns:
        return answer.columns
    return [field(name, wraps=True) for name in _names(answer.records)]


def _drawn(drawn: Table) -> str:
    from rich.console import Console  # noqa: PLC0415 - only tables need it

    text = io.StringIO()
    # While a command runs, `sys.stdout` is standard error (`program.run`).
    is_terminal = sys.__stdout__ is not None and sys.__stdout__.isatty()
    console = Console(
        file=text,
        force_terminal=is_terminal,
        width=None if is_terminal else _WIDE,
        markup=False,
        highlight=False,
    )
    console.print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
