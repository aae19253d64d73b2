"""The command line, which inspects Hive ACID tables through a metastore or from their files.

    python -m airflow_hiveacid inspect --table db.t --metastore thrift://localhost:9083
    python -m airflow_hiveacid scan --table db.t --authentication kerberos \
        --kerberos-service hive/_HOST@EXAMPLE.COM
    python -m airflow_hiveacid scan --location DIR --write-ids 'db.t:5:9223372036854775807::' \
        --schema 'struct<id:bigint,name:string>' --json
    python -m airflow_hiveacid history db.t
    python -m airflow_hiveacid tag db.t closing-2026-10 --version 1234 --keep-for '90 days'
    python -m airflow_hiveacid restore db.t --version 1234 --plan-only
    python -m airflow_hiveacid convert --table db.t --to full_acid --plan-only
    python -m airflow_hiveacid spark-environment /opt/hiveacid-spark

Input is options. Output is tables for people or JSON for programs. An error is one line on standard
error, which begins with the error's type. The exit status is then 2, as in argparse. Each command
imports its modules only when it runs, so building the parser is fast.

Example:
    >>> parser().parse_args(["inspect", "--table", "db.t"]).table
    'db.t'
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from airflow_hiveacid.cli import convert as cli_convert
from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli import past as cli_past
from airflow_hiveacid.cli import restore as cli_restore
from airflow_hiveacid.cli import view as cli_view
from airflow_hiveacid.cli.spark_environment import NEWEST_TESTED, add_s3a, make, pack
from airflow_hiveacid.format.errors import ConfigurationError, HiveAcidError

Command = Callable[[argparse.Namespace], Iterator[str]]

DEFAULT_LIMIT: Final = 50
_BAD_INPUT: Final = 2
_UNEXPECTED: Final = 1
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(argv)
    return run(options.command, options)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="python -m airflow_hiveacid",
        description=(
            "Inspect Hive ACID tables and their versions, keep or restore versions, convert tables,"
            " and create the environment that Spark needs."
        ),
    )
    add_commands(top.add_subparsers(required=True, metavar="COMMAND"))
    return top


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add all commands to a parser, which sets `options.command` to the function for `run`."""
    scan = commands.add_parser(
        "scan",
        help="print the live rows of a table, a partition or a directory",
        description=(
            "Print live rows, sorted by row identity. With --table, rows are read in a transaction,"
            " as in Hive, so cleaners wait until the command ends."
        ),
    )
    _add_view(scan)
    scan.add_argument(
        "--schema",
        metavar="TYPE",
        help="with --location: the data columns, such as struct<id:bigint,name:string>",
    )
    scan.add_argument(
        "--row-ids",
        action="store_true",
        help='put {"writeid":..,"bucketid":..,"rowid":..} in front of each row',
    )
    scan.add_argument(
        "--limit",
        type=cli_view.limit,
        metavar="N",
        help=f"stop after N rows; 0 for all (default: {DEFAULT_LIMIT}, with --json all)",
    )
    scan.add_argument("--json", action="store_true", help="print one JSON array for each row")
    scan.set_defaults(command=scan_lines)
    inspect = commands.add_parser(
        "inspect",
        help="show how a reader treats every directory of a table, and why",
        description=(
            "Show every directory with its type, IDs, state, rows, bytes and the reason for its"
            " state. With --table, use a snapshot of the metastore without opening a transaction."
        ),
    )
    _add_view(inspect)
    inspect.add_argument("--json", action="store_true", help="print JSON instead of tables")
    inspect.set_defaults(command=inspect_lines)
    cli_convert.add_command(commands)
    cli_past.add_commands(commands)
    cli_restore.add_command(commands)
    spark = commands.add_parser(
        "spark-environment",
        help="create the environment with the spark-submit that Airflow runs",
        description=(
            "Create a virtual environment with PySpark and the libraries that our applications"
            " need. Do not use Airflow's own environment: its Spark provider installs"
            " pyspark-client, which overwrites files of pyspark."
        ),
    )
    spark.add_argument(
        "directory", metavar="DIR", help="the environment's directory; created if missing"
    )
    spark.add_argument(
        "--pyspark",
        metavar="VERSION",
        help=f"your cluster's PySpark, such as 3.5.7; default: {NEWEST_TESTED}, the newest tested",
    )
    spark.add_argument(
        "--python", metavar="PROGRAM", default=sys.executable, help="default: this program"
    )
    spark.add_argument(
        "--archive",
        metavar="FILE",
        help="also pack the environment, without Spark, as a .tar.gz for YARN's --archives",
    )
    spark.add_argument(
        "--s3",
        action="store_true",
        help="support tables on S3: install boto3, and with Maven the S3A jars in DIR/s3a",
    )
    spark.set_defaults(command=spark_environment_lines)


def _add_version(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--version", metavar="N", help="with --table: read the version with this number"
    )
    which.add_argument(
        "--timestamp",
        metavar="TIME",
        help="with --table: read as of this time, e.g. 2026-11-19T02:00Z",
    )
    which.add_argument("--tag", metavar="NAME", help="with --table: read the version with this tag")


_DIRECT_FORMATS: Final = ("orc", "parquet", "avro")
"""The file formats that can be read without SerDe settings."""


def _add_view(command: argparse.ArgumentParser) -> None:
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", metavar="DB.TABLE", help="a table of the metastore")
    what.add_argument(
        "--location",
        metavar="DIR",
        help=(
            "path or URI of a directory to read without a metastore: that of an unpartitioned table"
            " or of one partition"
        ),
    )
    cli_metastore.add_options(command)
    _add_version(command)
    command.add_argument(
        "--partition",
        metavar="NAME",
        help="with --table: only this partition, such as month=1/day=2",
    )
    command.add_argument(
        "--write-ids",
        metavar="LIST",
        help="with --location: the visible writes, in Hive's form db.t:HWM:MINOPEN:OPEN,..:ABORTED",
    )
    command.add_argument(
        "--insert-only",
        nargs="?",
        const="orc",
        choices=_DIRECT_FORMATS,
        metavar="FORMAT",
        help=(
            "with --location: the table is insert-only, and its files contain plain rows;"
            f" {', '.join(_DIRECT_FORMATS)} (default: orc)"
        ),
    )
    command.add_argument(
        "--txns",
        metavar="LIST",
        help=(
            "with --location: the visible compactions, in Hive's format HWM:MINOPEN:OPEN:ABORTED"
            " (default: all)"
        ),
    )


def run(command: Command, options: argparse.Namespace) -> int:
    """Print a command's output as it is produced; return the exit status, also after an error."""
    # Thrift's own log would repeat the message that we print.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    try:
        for text in command(options):
            sys.stdout.write(text)
            sys.stdout.flush()
    except HiveAcidError as error:
        return _fail(f"{type(error).__name__}: {error}", _BAD_INPUT)
    except BrokenPipeError:
        # The process that reads our output has closed the pipe. The interpreter flushes standard
        # output once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the edge of the process: show users no traceback
        return _fail(f"unexpected {type(error).__name__}: {error}", _UNEXPECTED)
    return 0


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return status


# ---- commands ------------------------------------------------------------------------------------


def scan_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the visible rows in batches, as a table or as lines of JSON.

    Raises:
        HiveAcidError: an option is invalid, or the files cannot be read.
    """
    from airflow_hiveacid.cli import output as cli_output  # noqa: PLC0415 - needs pyarrow

    _check(options, needed=("write_ids", "schema"))
    default = 0 if options.json else DEFAULT_LIMIT
    limit = default if options.limit is None else options.limit
    with cli_view.looking(options, holds_files=True) as view:
        rows = cli_output.json_rows(view, with_identity=options.row_ids, limit=limit)
        if options.json:
            for lines in rows:
                yield "".join(f"{line}\n" for line in lines)
        else:
            found = [json.loads(line) for lines in rows for line in lines]
            yield cli_output.rows_table(view, found, with_identity=options.row_ids, limit=limit)


def inspect_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the type and state of every directory, as tables or as JSON.

    Raises:
        HiveAcidError: an option is invalid, or the files cannot be read.
    """
    from airflow_hiveacid.cli import output as cli_output  # noqa: PLC0415 - needs rich
    from airflow_hiveacid.storage.acid.read.inspect import inspect  # noqa: PLC0415 - needs pyarrow
    from airflow_hiveacid.storage.plain.rows import rows_of  # noqa: PLC0415 - as above

    _check(options, needed=("write_ids",))
    with cli_view.looking(options, holds_files=False) as view:
        if not options.json:
            yield f"{view.title}: write IDs {view.write_ids.text()}\n"
        bodies = []
        for root in view.roots:
            entries = inspect(
                root.location,
                view.write_ids,
                view.txns,
                kind=view.kind,
                with_originals=view.with_originals,
                rows_of=rows_of(root.storage.format),
                state=root.state,
            )
            if options.json:
                body = {"location": root.location, "entries": [asdict(e) for e in entries]}
                bodies.append({"partition": str(root.partition), **body})
            else:
                yield cli_output.entries_table(root, entries)
        if options.json:
            whole = {"table": options.table, "write_ids": view.write_ids.text()}
            yield f"{json.dumps({**whole, 'roots': bodies}, indent=2)}\n"


def spark_environment_lines(options: argparse.Namespace) -> Iterator[str]:
    """Create the Spark environment, and yield the settings with which Airflow uses it.

    Raises:
        ConfigurationError: the environment cannot be created.
    """
    made = make(
        options.directory, python=options.python, pyspark=options.pyspark, with_s3=options.s3
    )
    yield from made
    if options.s3:
        yield from add_s3a(options.directory)
    if options.archive is not None:
        yield from pack(options.directory, options.archive)


# ---- options -------------------------------------------------------------------------------------

_ONLY_WITH_TABLE: Final = (*cli_metastore.NAMES, "partition", "version", "timestamp", "tag")
_ONLY_WITH_LOCATION: Final = ("write_ids", "txns", "schema", "insert_only")


def _check(options: argparse.Namespace, needed: Sequence[str]) -> None:
    """Refuse mutually exclusive options; otherwise, one would be silently ignored."""
    by_table = options.table is not None
    other, strange = (
        ("--table", _ONLY_WITH_LOCATION) if by_table else ("--location", _ONLY_WITH_TABLE)
    )
    for name in strange:
        if getattr(options, name, None) is not None:
            raise ConfigurationError(
                f"{cli_metastore.option_name(name)} cannot be used with {other}"
            )
    for name in () if by_table else needed:
        if getattr(options, name) is None:
            option = cli_metastore.option_name(name)
            raise ConfigurationError(
                f"{other} needs {option}, which --table reads from the metastore"
            )
