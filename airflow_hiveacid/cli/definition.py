"""All commands as values; the programs `hiveacid` and `airflow hiveacid` are made from them.

Every `airflow` command imports this module, so it imports only the standard library, and a
command's function by its path when it runs.

Example:
    >>> [command.name for command in COMMANDS if command.exactly_one]
    ['keep', 'restore']
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.cli.arguments import (
    DRY_RUN,
    MAYBE_TABLE,
    MAYBE_TABLES,
    OUTPUT,
    PARTITION,
    TABLE,
    TABLES,
    Argument,
    argument,
    at_least,
    by,
    named,
    read_by,
    version_arguments,
)

SUMMARY: Final = "Inspect, explain, compact, clean and restore Hive ACID tables."


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, whose function at the path `function` yields the output.

    A call may have at most one of the arguments in `at_most_one`, and must have exactly one of
    those in `exactly_one`. `calls_metastore` is False without arguments that select a metastore.
    """

    name: str
    help: str
    function: str
    arguments: tuple[Argument, ...]
    description: str = ""
    at_most_one: tuple[str, ...] = ()
    exactly_one: tuple[str, ...] = ()
    calls_metastore: bool = True

    def load(self) -> Callable[[argparse.Namespace], Iterator[str]]:
        """Import and return the function."""
        function: Callable[[argparse.Namespace], Iterator[str]] = named(
            f"airflow_hiveacid.cli.{self.function}"
        )
        return function

    def examples(self, prog: str) -> str:
        """Return calls of this command by the program `prog`, as the end of its help."""
        return "\n".join(("examples:", *(f"  {prog} {call}" for call in EXAMPLES[self.name])))


_VERSION_NAMES: Final = ("version", "timestamp", "tag")
_THRESHOLDS: Final = (
    argument(
        "--delta-count",
        type=read_by("delta_count"),
        metavar="N",
        help=(
            "a partition is due if it has this number of deltas; off: never (default: the number in"
            " the table parameter compactorthreshold.hive.compactor.delta.num.threshold, or 10)"
        ),
    ),
    argument(
        "--delta-ratio",
        type=read_by("delta_ratio"),
        metavar="SHARE",
        help=(
            "a partition is due if its deltas have this share of the base's bytes; off: never"
            " (default: the share in the table parameter"
            " compactorthreshold.hive.compactor.delta.pct.threshold, or 0.1)"
        ),
    ),
    argument(
        "--also-when",
        type=read_by("also_when", "also_when"),
        default={},
        metavar="NAME=N,..",
        help=(
            "a partition is also due if it has this number of aborted_transactions (default: 1000),"
            " deleted_rows or small_files, or if its oldest delta (oldest_delta_s) or its oldest"
            " aborted write (oldest_aborted_s) has this age in seconds; off: never"
        ),
    ),
)
_DIRECT_FORMATS: Final = ("orc", "parquet", "avro")
"""The file formats that this provider reads without knowing a table's SerDe settings."""

_VIEW: Final = (
    MAYBE_TABLE,
    argument(
        "--location",
        metavar="DIR",
        help=(
            "instead of a table: read this directory (path or URI) without a metastore; it must be"
            " the directory of an unpartitioned table or of one partition"
        ),
    ),
    PARTITION,
    *version_arguments("read the version"),
    argument(
        "--write-ids",
        metavar="LIST",
        type=by("airflow_hiveacid.format.snapshot:ValidWriteIdList.parse"),
        help="with --location: the visible writes, in Hive's form db.t:HWM:MINOPEN:OPEN,..:ABORTED",
    ),
    argument(
        "--insert-only",
        choices=_DIRECT_FORMATS,
        metavar="FORMAT",
        help=(
            "with --location: the table is insert-only, and its files have this format:"
            f" {', '.join(_DIRECT_FORMATS)}"
        ),
    ),
    argument(
        "--txns",
        metavar="LIST",
        type=by("airflow_hiveacid.format.snapshot:ValidTxnList.parse"),
        help=(
            "with --location: the visible compactions, in Hive's format HWM:MINOPEN:OPEN:ABORTED"
            " (default: all)"
        ),
    ),
)

_LOOK: Final = (
    Command(
        name="tables",
        help="list the transactional tables",
        function="tables:tables",
        arguments=(
            argument(
                "database", metavar="DATABASE", nargs="?", help="only the tables of this database"
            ),
            argument("--all", action="store_true", help="also list tables without transactions"),
            OUTPUT,
        ),
    ),
    Command(
        name="health",
        help="list the tables that need compaction, or the deltas of a table's partitions",
        function="explain:health",
        description=(
            "List the tables that are blocked or due, the worst first, and exit with 7 or 6. Of one"
            " table, show deltas, sizes and leftovers of each partition."
        ),
        arguments=(
            MAYBE_TABLES,
            argument("--all", action="store_true", help="also list the tables that are fine"),
            PARTITION,
            *_THRESHOLDS,
            OUTPUT,
        ),
    ),
    Command(
        name="explain",
        help="say why a table is not compacted or cleaned",
        function="explain:explain",
        description=(
            "Say whether a table needs compaction or cleaning, and what prevents them. The command"
            " checks the table's settings, the compaction queue, open transactions and locks. The"
            " most urgent finding comes first. A cause that affects several tables is listed once."
        ),
        arguments=(TABLES, *_THRESHOLDS, OUTPUT),
    ),
    Command(
        name="transactions",
        help="list the open transactions: user, host, age, job and locked tables",
        function="transactions:transactions",
        arguments=(
            argument("--all", action="store_true", help="also list aborted transactions"),
            OUTPUT,
        ),
    ),
    Command(
        name="locks",
        help="list the locks on a table, its database and its compactions, or all locks",
        function="transactions:locks",
        arguments=(MAYBE_TABLE, OUTPUT),
    ),
    Command(
        name="abort",
        help="abort transactions, and release their locks",
        function="transactions:abort",
        description=(
            "Abort transactions. The jobs and queries of these transactions fail, and none of their"
            " changes becomes visible."
        ),
        arguments=(
            argument(
                "txn_id",
                metavar="ID",
                nargs="+",
                type=at_least(1),
                help="as listed by `transactions`",
            ),
            OUTPUT,
        ),
    ),
    Command(
        name="cancel",
        help="cancel the compactions of a table that wait or run",
        function="transactions:cancel",
        description=(
            "Cancel the waiting and running compactions of a table, of this provider and of Hive."
            " No row changes. Requires a metastore of Hive 4."
        ),
        arguments=(TABLE, PARTITION, OUTPUT),
    ),
    Command(
        name="inspect",
        help="show how a reader treats every directory of a table, and why",
        function="files:inspect_directories",
        description=(
            "Show every directory with its type, IDs, state, rows, bytes and the reason for its"
            " state. A table is inspected under a snapshot of the metastore, without a transaction."
        ),
        arguments=(*_VIEW, OUTPUT),
        at_most_one=_VERSION_NAMES,
    ),
    Command(
        name="scan",
        help="print the live rows of a table, a partition or a directory",
        function="files:scan",
        description=(
            "Print live rows, sorted by row identity. The rows of a table are read in a"
            " transaction, as in Hive, so cleaners wait until the command ends."
        ),
        arguments=(
            *_VIEW,
            argument(
                "--schema",
                metavar="TYPE",
                type=by("airflow_hiveacid.cli.view:schema_columns"),
                help="with --location: the data columns, such as struct<id:bigint,name:string>",
            ),
            argument(
                "--row-ids",
                action="store_true",
                help="begin each row with its write ID, bucket property and row number",
            ),
            argument(
                "--limit",
                type=at_least(0),
                metavar="N",
                help="stop after N rows; 0 prints all rows (default: 50 with -o table, else 0)",
            ),
            OUTPUT,
        ),
        at_most_one=_VERSION_NAMES,
    ),
)

_COMPACT: Final = (
    PARTITION,
    argument(
        "--choice",
        choices=("auto", "minor", "major"),
        default="auto",
        help="auto (default): the thresholds decide; minor: join deltas; major: write a base",
    ),
    *_THRESHOLDS,
    OUTPUT,
)
_MAINTAIN: Final = (
    Command(
        name="plan",
        help="report what a compaction would compact, how and why",
        function="maintain:plan",
        arguments=(TABLES, *_COMPACT),
    ),
    Command(
        name="compact",
        help="compact the partitions of a table that are due, or all with --choice",
        function="maintain:compact",
        description=(
            "Compact the partitions that need it, as HiveAcidCompactOperator does. Requires"
            " PySpark if the partitions that are due are large."
        ),
        arguments=(TABLE, *_COMPACT),
    ),
    Command(
        name="clean",
        help="remove files that no reader needs; with --dry-run, only list them",
        function="maintain:clean",
        description=(
            "Remove obsolete directories, directories of aborted writes, and files of crashed"
            " writers, as HiveAcidCleanOperator does. The command keeps files that an open"
            " transaction may read, and lists the largest files and directories that no metadata"
            " of the table knows. With --dry-run, it also lists all tables of a pattern."
        ),
        arguments=(
            TABLES,
            PARTITION,
            argument(
                "--remove-unknown-after",
                metavar="TIME",
                type=read_by("unknown_age"),
                help="also remove unknown files of this age, such as '30 days'; at least '1 day'",
            ),
            DRY_RUN,
            OUTPUT,
        ),
    ),
    Command(
        name="own",
        help="record that a table owns its directory, after a move or restore of a metastore",
        function="maintain:own",
        description=(
            "Record that the table of this metastore owns its directory, so that maintenance works"
            " on it, and not the table of another metastore or of an earlier name. Use this only if"
            " no other table uses the directory any more. Files that another metastore has written"
            " meanwhile are still refused."
        ),
        arguments=(TABLE, OUTPUT),
    ),
    Command(
        name="convert",
        help="convert a flat table to a transactional table, or the reverse",
        function="maintain:convert",
        description=(
            "Convert a flat table to full ACID or insert-only, or the reverse, under an exclusive"
            " lock, and compare the rows. Requires PySpark, except with --dry-run."
        ),
        arguments=(
            TABLE,
            argument("--to", required=True, choices=("full_acid", "insert_only", "flat")),
            DRY_RUN,
            OUTPUT,
        ),
    ),
)

_PAST: Final = (
    Command(
        name="history",
        help="list a table's versions: time, author, operation, and whether each can be read",
        function="past:history",
        arguments=(
            TABLE,
            argument(
                "--limit",
                type=at_least(0),
                default=50,
                metavar="N",
                help="list only the newest N; 0 for all (default: 50)",
            ),
            OUTPUT,
        ),
    ),
    Command(
        name="tag",
        help="name a version, and keep its files while the tag exists; without a name, list tags",
        function="past:tag",
        description=(
            "Name a version. The metastore itself does not compact or clean a tagged table, so use"
            " this provider to compact and clean it."
        ),
        arguments=(
            TABLE,
            argument("name", metavar="NAME", nargs="?", help="the tag's name"),
            *version_arguments("name the version")[:2],
            argument(
                "--keep-for",
                metavar="TIME",
                type=read_by("duration_s"),
                help="such as '90 days' or '10 years' (default: no limit)",
            ),
            argument("--remove", action="store_true", default=None, help="remove the tag"),
            OUTPUT,
        ),
        at_most_one=("version", "timestamp", "remove"),
    ),
    Command(
        name="keep",
        help="keep a table's earlier versions readable, or stop keeping them",
        function="past:keep",
        description=(
            "Set the table parameter hiveacid.readable.for and keep versions from now on; with"
            " --off, allow their removal."
        ),
        arguments=(
            TABLE,
            argument(
                "--readable-for",
                metavar="TIME",
                type=read_by("duration_text"),
                help="such as '7 days'",
            ),
            argument("--off", action="store_true", default=None, help="stop keeping versions"),
            OUTPUT,
        ),
        exactly_one=("readable_for", "off"),
    ),
    Command(
        name="restore",
        help="restore a table to an earlier version, or report what would change",
        function="maintain:restore",
        description=(
            "Restore every partition of a table to exactly the rows of a version, in one"
            " transaction. Requires PySpark if the partitions that have changed are large."
        ),
        arguments=(TABLE, *version_arguments("restore the version"), DRY_RUN, OUTPUT),
        exactly_one=_VERSION_NAMES,
    ),
)

_INSTALL: Final = (
    Command(
        name="check",
        help="check the metastore and its settings, Java, spark-submit and the result directory",
        function="check:check",
        description=(
            "Check, step by step, what operators need on this machine. The exit status is 0 if all"
            " steps passed, else that of the first failed step."
        ),
        arguments=(
            argument(
                "--spark-bin-dir",
                metavar="DIR",
                help="the directory of spark-submit (default: Airflow's option, else PATH)",
            ),
            argument(
                "--result-dir",
                metavar="URI",
                help="a directory that drivers and workers share (default: the connection's)",
            ),
            argument(
                "--job-in",
                metavar="DATABASE",
                help=(
                    "also insert one row with Spark on this machine into a new table of this"
                    " database, and drop the table"
                ),
            ),
            OUTPUT,
        ),
    ),
    Command(
        name="spark-environment",
        help="create the environment with the spark-submit that Airflow runs",
        function="spark_environment:spark_environment",
        description=(
            "Create a virtual environment with PySpark, the libraries that our applications need,"
            " and this provider's code without Airflow. Do not use Airflow's own environment: its"
            " Spark provider installs pyspark-client, which overwrites files of pyspark."
        ),
        arguments=(
            argument(
                "directory", metavar="DIR", help="the environment's directory; created if missing"
            ),
            argument(
                "--pyspark",
                metavar="VERSION",
                help="your cluster's PySpark, such as 3.5.7 (default: the newest tested)",
            ),
            argument("--python", metavar="PROGRAM", help="default: this program"),
            argument(
                "--archive",
                metavar="FILE",
                help=(
                    "also pack the environment, without Spark, as a .tar.gz for YARN's --archives"
                ),
            ),
            argument(
                "--s3",
                action="store_true",
                help="support tables on S3: install boto3, and with Maven the S3A jars in DIR/s3a",
            ),
        ),
        calls_metastore=False,
    ),
)

COMMANDS: Final = (*_LOOK, *_MAINTAIN, *_PAST, *_INSTALL)
EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "tables": ("tables", "tables sales --all -o csv"),
    "health": ("health 'sales.*'", "health sales.orders --partition day=2026-11-19"),
    "explain": ("explain sales.orders", "explain 'sales.*' --delta-count 20"),
    "transactions": ("transactions", "transactions --all -o json"),
    "locks": ("locks", "locks sales.orders -o json"),
    "abort": ("abort 4711", "abort 4711 4712 -o json"),
    "cancel": ("cancel sales.orders", "cancel sales.orders --partition day=2026-11-19"),
    "inspect": ("inspect sales.orders", "inspect sales.orders --timestamp '2 hours ago'"),
    "scan": ("scan sales.orders --limit 5", "scan sales.orders --version 12 -o csv"),
    "plan": ("plan sales.orders", "plan 'sales.*' --delta-ratio 0.2"),
    "compact": ("compact sales.orders", "compact sales.orders --choice major"),
    "clean": (
        "clean sales.orders --dry-run",
        "clean sales.orders --remove-unknown-after '30 days'",
    ),
    "own": ("own sales.orders", "own sales.orders -o json"),
    "convert": ("convert sales.raw --to full_acid --dry-run", "convert sales.raw --to insert_only"),
    "history": ("history sales.orders", "history sales.orders --limit 0 -o csv"),
    "tag": ("tag sales.orders closing --keep-for '10 years'", "tag sales.orders closing --remove"),
    "keep": ("keep sales.orders --readable-for '7 days'", "keep sales.orders --off"),
    "restore": ("restore sales.t --timestamp today --dry-run", "restore sales.t --version 12"),
    "check": ("check", "check --job-in sales"),
    "spark-environment": ("spark-environment /opt/spark", "spark-environment /opt/spark --s3"),
}
"""Two calls of each command, without the program's name, for its help."""
