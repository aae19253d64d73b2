"""The commands for a table's past versions: `history`, `tag` and `keep`; they read no rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from airflow_hiveacid.cli import metastore as cli_metastore, output, view as cli_view
from airflow_hiveacid.cli.arguments import option_name
from airflow_hiveacid.format.errors import ConfigurationError, NotTransactionalError
from airflow_hiveacid.format.records import Tag
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.format.words import several
from airflow_hiveacid.maintenance.ownership import check_note
from airflow_hiveacid.metastore import process_user
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.history import TableHistory, VersionEntry, history_of
from airflow_hiveacid.versions.keeping import keep_no_more, keep_readable, make_tag, time_from_now
from airflow_hiveacid.versions.past import existing_tag

_MOST_NAMED: Final = 3
# The number of characters of an ISO 8601 time to the minute, and to the second.
_MINUTES: Final = 16
_SECONDS: Final = 19


def history(options: argparse.Namespace) -> Iterator[str]:
    """Yield the versions of a table, newest first."""
    with _table(options) as (client, table):
        table_history = history_of(client, table, most=options.limit or None)
    yield output.shown(history_answer(table_history), options.output)


def history_answer(found: TableHistory) -> output.Answer:
    """Return a table's versions as records, with a summary line."""
    columns = (
        output.Column(head="version", text=_version, is_number=True),
        output.Column(head="committed", text=_committed, wraps=True),
        output.field("by", wraps=True),
        output.field("operation"),
        output.Column(head="rows", text=_rows, wraps=True),
        output.Column(head="partitions", text=_partitions, wraps=True),
        output.count("bytes", "size_bytes"),
        output.Column(head="readable", text=_readable),
    )
    return output.Answer(
        records=[_version_record(version) for version in found.versions],
        columns=columns,
        foot=f"{found.table}: {'; '.join(_summary(found))}",
    )


def _version_record(one: VersionEntry) -> output.Record:
    return {
        **asdict(one),
        "committed": str(one.committed),
        "committed_after": output.moment(one.committed.after_s),
        "committed_by": output.moment(one.committed.by_s),
        "partitions": list(one.partitions),
        "tags": list(one.tags),
    }


def _version(record: output.Record) -> str:
    return " ".join((str(record["number"]), *record["tags"]))


def _committed(record: output.Record) -> str:
    """Return a commit's time to the second if its bounds share a minute, else its known bound."""
    lower_bound, upper_bound = record["committed_after"], record["committed_by"]
    if upper_bound is None:
        return "unknown" if lower_bound is None else f"after {_to_second(lower_bound)}"
    is_exact = lower_bound is not None and lower_bound[:_MINUTES] == upper_bound[:_MINUTES]
    return _to_second(upper_bound) if is_exact else f"by {_to_second(upper_bound)}"


def _to_second(moment_text: str) -> str:
    return moment_text[:_SECONDS].replace("T", " ")


def _rows(record: output.Record) -> str:
    """Return the numbers of inserted (+), updated (~) and deleted (-) rows as text."""
    signs = (("+", "inserted"), ("~", "updated"), ("-", "deleted"))
    return " ".join(f"{sign}{record[name]:,}" for sign, name in signs if record[name])


def _readable(record: output.Record) -> str:
    return "yes" if record["is_readable"] else "by tag" if record["tags"] else "no"


def _summary(found: TableHistory) -> Iterator[str]:
    open_ = found.open_write_id
    if not found.newest:
        yield "no version yet"
    elif found.oldest:
        yield f"the oldest readable version is {found.oldest}, the newest {found.newest}"
    else:
        # Without an open write ID, cleaning is no cause, because the newest version has its files.
        why = ", because a partition was dropped" if open_ is None else ""
        if open_ is not None and open_ > 1:  # the open write ID does not prevent `open_ - 1`
            why = ", because files were cleaned or a partition was dropped"
        yield f"no version can be read by its number{why}; the newest is {found.newest}"
    if open_ is not None:
        yield f"versions from {open_} on are readable once the open write ID {open_} has ended"
    if found.is_kept:
        yield "earlier versions are kept"
    pending = [entry for entry in found.compactions if entry.is_pending]
    if pending:
        states = ", ".join(sorted({entry.state.value for entry in pending}))
        yield f"{several(len(pending), 'unfinished compaction')} in the queue ({states})"


def tag(options: argparse.Namespace) -> Iterator[str]:
    """Make or remove a tag, or list all tags of a table."""
    _check_tag(options)
    with _table(options) as (client, table):
        notes = VersionNotes.of(table)
        if options.name is None:
            tags = [_tag_record(table, entry) for entry in notes.tags()]
            words = "" if tags else f"{table.ref}: no tags"
            yield output.shown(output.Answer(records=tags, foot=words), options.output)
            return
        check_note(client, table)
        if options.remove:
            existing_tag(notes, table, options.name)
            notes.forget_tag(options.name)
            words = f"{table.ref}: tag {options.name!r} was removed"
            yield output.shown(
                _done(words, table=str(table.ref), removed=options.name), options.output
            )
            return
        expires_s = None
        if options.keep_for is not None:
            expires_s = time_from_now(client, options.keep_for)
        new_tag = make_tag(
            client,
            table,
            options.name,
            options.version or options.timestamp or cli_view.PRESENT,
            expires_s=expires_s,
            made_by=process_user(),
            may_retry=False,
        )
        yield output.shown(output.Answer(records=[_tag_record(table, new_tag)]), options.output)


def keep(options: argparse.Namespace) -> Iterator[str]:
    """Keep a table's past versions, or stop keeping them."""
    with _table(options) as (client, table):
        check_note(client, table)
        if options.off:
            keep_no_more(client, table)
            words = f"{table.ref}: earlier versions are no longer kept"
        else:
            keep_readable(client, table.ref, options.readable_for)
            words = f"{table.ref}: replaced rows stay readable for {options.readable_for}"
    answer = _done(words, table=str(table.ref), readable_for=options.readable_for)
    yield output.shown(answer, options.output)


def _done(words: str, **record: Any) -> output.Answer:  # noqa: ANN401 - JSON values
    return output.Answer(records=[record], foot=words, is_text=True)


def _partitions(record: output.Record) -> str:
    return output.few(record["partitions"], _MOST_NAMED)


def _check_tag(options: argparse.Namespace) -> None:
    if options.name is None:
        for name in ("version", "timestamp", "keep_for", "remove"):
            if getattr(options, name) is not None:
                raise ConfigurationError(
                    f"{option_name(name)} needs the NAME of a tag, after the table"
                )
    if options.remove and options.keep_for is not None:
        raise ConfigurationError("--keep-for cannot be used with --remove")


@contextmanager
def _table(options: argparse.Namespace) -> Iterator[tuple[MetastoreClient, TableInfo]]:
    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        if table.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=table.ref)
        yield client, table


def _tag_record(table: TableInfo, tag: Tag) -> output.Record:
    return {
        "table": str(table.ref),
        "tag": tag.name,
        "version": tag.version,
        "made": output.moment(tag.made_s),
        "made_by": tag.made_by,
        "expires": output.moment(tag.expires_s),
    }
