"""The commands `scan` and `inspect`, which look at one directory without a metastore.

    python -m airflow_hiveacid scan --location DIR --write-ids 'db.t:5:9223372036854775807::' \
        --schema 'struct<id:bigint,name:string>' --row-ids
    python -m airflow_hiveacid inspect --location DIR --write-ids 'db.t:5:9223372036854775807::'

Each command is a plain function from its options to lines of text; `add_commands` puts both under
any parser of argparse. Results go to standard output; errors go to standard error, as one line that
names the error's type, and end with 2, as argparse's own do. Imports what a command needs when it
runs: a parser costs nothing.

Example:
    >>> parser().parse_args(["inspect", "--location", "/t", "--write-ids", "db.t:1::"]).location
    '/t'
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import HiveAcidError, InvalidNameError
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import HiveType, PrimitiveType, StructType, parse_type

if TYPE_CHECKING:
    from airflow_hiveacid.storage.inspect import InspectedEntry

Command = Callable[[argparse.Namespace], Iterator[str]]

_BAD_INPUT: Final = 2
_UNEXPECTED: Final = 1
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
_WIDE: Final = 200
_IDENTITY: Final = StructType(
    (
        ("writeid", PrimitiveType("bigint")),
        ("bucketid", PrimitiveType("int")),
        ("rowid", PrimitiveType("bigint")),
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    options = parser().parse_args(argv)
    return run(options.command, options)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="python -m airflow_hiveacid",
        description="Look at Hive ACID tables without a metastore.",
    )
    add_commands(top.add_subparsers(required=True, metavar="COMMAND"))
    return top


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `scan` and `inspect` to a parser; `options.command` is then the function to `run`."""
    scan = commands.add_parser(
        "scan",
        help="print the live rows of one table or partition directory",
        description="Print the live rows of one directory as JSON arrays, sorted by row identity.",
    )
    _add_snapshot(scan)
    scan.add_argument(
        "--schema",
        required=True,
        metavar="TYPE",
        help="the data columns, as struct<id:bigint,name:string>",
    )
    scan.add_argument(
        "--row-ids",
        action="store_true",
        help='put {"writeid":..,"bucketid":..,"rowid":..} in front of each row',
    )
    scan.set_defaults(command=scan_lines)
    inspect = commands.add_parser(
        "inspect",
        help="show what every directory is to a reader",
        description="Show every directory with its type, IDs, state, rows, bytes, and why.",
    )
    _add_snapshot(inspect)
    inspect.add_argument("--json", action="store_true", help="print JSON instead of a table")
    inspect.set_defaults(command=inspect_lines)


def _add_snapshot(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--location",
        required=True,
        metavar="DIR",
        help="directory of an unpartitioned table or of one partition; a path or a URI",
    )
    command.add_argument(
        "--write-ids",
        required=True,
        metavar="LIST",
        help="which writes count, as Hive's text db.t:HWM:MINOPEN:OPEN,..:ABORTED,..",
    )
    command.add_argument(
        "--txns",
        metavar="LIST",
        help="which compactions count, as Hive's text HWM:MINOPEN:OPEN:ABORTED; default: all",
    )


def run(command: Command, options: argparse.Namespace) -> int:
    """Print what a command gives, line by line; every error ends in an exit status."""
    try:
        for text in command(options):
            sys.stdout.write(text)
        sys.stdout.flush()
    except HiveAcidError as error:
        return _fail(f"{type(error).__name__}: {error}", _BAD_INPUT)
    except BrokenPipeError:
        # Whoever read us has seen enough. The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the edge of the process: no traceback for a user
        return _fail(f"unexpected {type(error).__name__}: {error}", _UNEXPECTED)
    return 0


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return status


# ---- scan ----------------------------------------------------------------------------------------


def scan_lines(options: argparse.Namespace) -> Iterator[str]:
    """The live rows of `--location`, as lines of JSON; a batch of lines at a time.

    Raises:
        HiveAcidError: an option is wrong, or what is there cannot be read.
    """
    from airflow_hiveacid.storage.json_rows import json_lines  # noqa: PLC0415 - needs pyarrow
    from airflow_hiveacid.storage.orc_timestamps import TimestampForm  # noqa: PLC0415
    from airflow_hiveacid.storage.scan import scan  # noqa: PLC0415

    fields = schema_fields(options.schema)
    types: list[HiveType] = [field for _, field in fields]
    batches = scan(
        absolute(options.location),
        [Column(name=name, type=str(field)) for name, field in fields],
        *_snapshot(options),
        with_identity=options.row_ids,
        timestamps=TimestampForm.PAIR,
    )
    for batch in batches:
        lines = json_lines(batch, [_IDENTITY, *types] if options.row_ids else types)
        yield "".join(f"{line}\n" for line in lines)


def schema_fields(text: str) -> tuple[tuple[str, HiveType], ...]:
    """The columns of a `struct<...>` text.

    Raises:
        InvalidNameError: it is no struct type.
    """
    parsed = parse_type(text)
    if not isinstance(parsed, StructType):
        raise InvalidNameError(name=text, what="schema (expected struct<name:type,...>)")
    return parsed.fields


# ---- inspect -------------------------------------------------------------------------------------


def inspect_lines(options: argparse.Namespace) -> Iterator[str]:
    """What every directory of `--location` is, as a table or as JSON.

    Raises:
        HiveAcidError: an option is wrong, or what is there cannot be read.
    """
    from airflow_hiveacid.storage.inspect import inspect  # noqa: PLC0415 - needs pyarrow

    entries = inspect(absolute(options.location), *_snapshot(options))
    if options.json:
        body = {"location": options.location, "entries": [asdict(entry) for entry in entries]}
        yield f"{json.dumps(body, indent=2)}\n"
    else:
        yield _table(entries)


def _table(entries: Sequence[InspectedEntry]) -> str:
    from rich.console import Console  # noqa: PLC0415 - only people need it
    from rich.table import Table  # noqa: PLC0415

    table = Table("directory", "type", "write IDs", "state", "files", "rows", "bytes", "why")
    for column in table.columns[4:7]:
        column.justify = "right"
    for entry in entries:
        table.add_row(
            entry.name,
            entry.type,
            _range(entry),
            entry.state,
            str(entry.files),
            "?" if entry.rows is None else str(entry.rows),
            str(entry.size_bytes),
            entry.why,
        )
    text = io.StringIO()
    terminal = sys.stdout.isatty()
    console = Console(
        file=text, force_terminal=terminal, width=None if terminal else _WIDE, markup=False
    )
    console.print(table)
    return text.getvalue()


def _range(entry: InspectedEntry) -> str:
    low, high = entry.least_write_id, entry.greatest_write_id
    text = "" if high is None else f"..{high}" if low is None else f"{low}..{high}"
    statement = "" if entry.statement_id is None else f" statement {entry.statement_id}"
    return f"{text}{statement}"


# ---- options -------------------------------------------------------------------------------------


def _snapshot(options: argparse.Namespace) -> tuple[ValidWriteIdList, ValidTxnList | None]:
    txns = None if options.txns is None else ValidTxnList.parse(options.txns)
    return ValidWriteIdList.parse(options.write_ids), txns


def absolute(location: str) -> str:
    """A location as it stands, or a relative path made absolute."""
    is_relative = not location.startswith("/") and ":" not in location.partition("/")[0]
    return os.path.abspath(location) if is_relative else location  # noqa: PTH100 - a text stays one
