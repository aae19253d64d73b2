"""The commands for a table's past versions: `history`, `tag` and `keep`.

Input is parsed options. Output is tables for people or JSON for programs. The commands need only a
metastore and the table's files, and read no rows.

Example:
    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add_commands(parser.add_subparsers())
    >>> parser.parse_args(["history", "db.t", "--limit", "5"]).limit
    5
"""

from __future__ import annotations

import getpass
import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli import view as cli_view
from airflow_hiveacid.format.errors import ConfigurationError, NotTransactionalError
from airflow_hiveacid.format.records.commits import time_text
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.plan.keeping import READABLE_FOR, duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_hiveacid.format.records.keeping import Tag
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient

_NEWEST: Final = 50


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `history`, `tag` and `keep` to a parser."""
    history = commands.add_parser(
        "history",
        help="list a table's versions: time, author, operation, and whether each can be read",
    )
    history.add_argument("table", metavar="DB.TABLE")
    history.add_argument(
        "--limit",
        type=cli_view.limit,
        default=_NEWEST,
        metavar="N",
        help=f"list only the newest N; 0 for all (default: {_NEWEST})",
    )
    history.add_argument("--json", action="store_true", help="print JSON instead of tables")
    history.set_defaults(command=history_lines)
    cli_metastore.add_options(history)

    tag = commands.add_parser(
        "tag",
        help="name a version, and keep its files while the tag exists; without a name, list tags",
        description=(
            "The metastore no longer compacts or cleans a tagged table; use our operators to"
            " compact and clean it."
        ),
    )
    tag.add_argument("table", metavar="DB.TABLE")
    tag.add_argument("name", metavar="NAME", nargs="?")
    which = tag.add_mutually_exclusive_group()
    which.add_argument("--version", metavar="N", help="the version's number (default: the newest)")
    which.add_argument("--timestamp", metavar="TIME", help="the state at this time")
    which.add_argument("--remove", action="store_true", help="remove the tag")
    tag.add_argument(
        "--keep-for", metavar="TIME", help="such as '90 days' or '10 years' (default: no limit)"
    )
    tag.set_defaults(command=tag_lines)
    cli_metastore.add_options(tag)

    keep = commands.add_parser(
        "keep",
        help="keep a table's earlier versions readable, or stop keeping them",
        description=(
            f"Set {READABLE_FOR} and keep versions from now on; with --off, allow their removal."
        ),
    )
    keep.add_argument("table", metavar="DB.TABLE")
    how = keep.add_mutually_exclusive_group(required=True)
    how.add_argument("--readable-for", metavar="TIME", help="such as '7 days'")
    how.add_argument("--off", action="store_true")
    keep.set_defaults(command=keep_lines)
    cli_metastore.add_options(keep)


def history_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the versions of a table, as a table or as JSON.

    Raises:
        HiveAcidError: an option is invalid, or the table cannot be read.
    """
    from airflow_hiveacid.cli import output as cli_output  # noqa: PLC0415 - needs rich
    from airflow_hiveacid.versions.history import history_of  # noqa: PLC0415 - needs pyarrow

    with _table(options) as (client, table):
        found = history_of(client, table, most=options.limit or None)
    if not options.json:
        yield cli_output.history_table(found)
        return
    body = {
        "table": found.table,
        "oldest_readable": found.oldest,
        "newest": found.newest,
        "is_kept": found.is_kept,
        "versions": [asdict(version) for version in found.versions],
        "tags": [_told(tag) for tag in found.tags],
        "compactions": [
            {
                "entry_id": one.entry_id,
                "partition": None if one.partition is None else str(one.partition),
                "type": one.compaction_type.value,
                "state": one.state.value,
                "txn_id": one.txn_id,
                "up_to": one.highest_write_id,
                "ended_s": one.ended_s,
            }
            for one in found.compactions
        ],
    }
    yield f"{json.dumps(body, indent=2)}\n"


def tag_lines(options: argparse.Namespace) -> Iterator[str]:
    """Make or remove a tag, or list all tags of a table.

    Raises:
        HiveAcidError: the tag cannot be made or removed, or the tags cannot be read.
    """
    from airflow_hiveacid.storage.stores.notes.version_notes import (  # noqa: PLC0415 - needs pyarrow
        VersionNotes,
    )
    from airflow_hiveacid.versions.past import existing_tag  # noqa: PLC0415 - as above
    from airflow_hiveacid.versions.tags import make_tag, time_from_now  # noqa: PLC0415 - as above

    _check_tag(options)
    with _table(options) as (client, table):
        notes = VersionNotes.of(table)
        if options.name is None:
            for tag in notes.tags():
                yield f"{json.dumps(_told(tag))}\n"
            return
        if options.remove:
            existing_tag(notes, table, options.name)
            notes.forget_tag(options.name)
            yield f"{table.ref}: tag {options.name!r} was removed\n"
            return
        expires_s = None
        if options.keep_for is not None:
            expires_s = time_from_now(client, duration(options.keep_for, "--keep-for"))
        tag = make_tag(
            client,
            table,
            options.name,
            VersionSpec.of(options.version, options.timestamp),
            expires_s=expires_s,
            made_by=getpass.getuser(),
            may_retry=False,
        )
        yield f"{json.dumps(_told(tag))}\n"


def keep_lines(options: argparse.Namespace) -> Iterator[str]:
    """Keep a table's past versions, or stop keeping them.

    Raises:
        HiveAcidError: past versions cannot be kept now, or a tag or setting still requires them.
    """
    from airflow_hiveacid.versions.keeping import (  # noqa: PLC0415 - needs pyarrow
        keep_no_more,
        keep_readable,
    )

    with _table(options) as (client, table):
        if options.off:
            keep_no_more(client, table)
            yield f"{table.ref}: earlier versions are no longer kept\n"
            return
        duration(options.readable_for, "--readable-for")
        keep_readable(client, table.ref, options.readable_for)
        yield f"{table.ref}: replaced rows stay readable for {options.readable_for}\n"


def _check_tag(options: argparse.Namespace) -> None:
    """Refuse mutually exclusive options; otherwise, one would be silently ignored."""
    if options.name is None:
        for name in ("version", "timestamp", "keep_for", "remove"):
            if getattr(options, name):
                option = cli_metastore.option_name(name)
                raise ConfigurationError(f"{option} needs the NAME of a tag, after the table")
    if options.remove and options.keep_for is not None:
        raise ConfigurationError("--keep-for cannot be used with --remove")


@contextmanager
def _table(options: argparse.Namespace) -> Iterator[tuple[MetastoreClient, TableInfo]]:
    """Connect to the metastore, and yield the client and the table.

    Raises:
        NotTransactionalError: the table has no versions.
        HiveAcidError: the table does not exist, or the metastore does not answer.
    """
    from airflow_hiveacid.metastore.client.metastore_client import connect  # noqa: PLC0415 - needs Thrift

    with connect(cli_metastore.endpoint_of(options)) as client:
        table = client.get_table(TableRef.parse(options.table))
        if table.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=table.ref)
        yield client, table


def _told(tag: Tag) -> dict[str, object]:
    return {
        "tag": tag.name,
        "version": tag.version,
        "made": time_text(tag.made_s),
        "made_by": tag.made_by,
        "expires": None if tag.expires_s is None else time_text(tag.expires_s),
    }
