"""The versions of a table, newest first, with time, author, operation and readability.

Notes describe this provider's commits. Directories with a single write ID show those of other
clients, whose times are known only within bounds. A compaction creates no version, but the queue
lists it with its transaction (docs/decisions/versions.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from airflow_hiveacid.format.errors import NotTransactionalError
from airflow_hiveacid.format.ids import CONVERTED_WRITE_ID, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.records.commits import CommitNote, TimeBounds
from airflow_hiveacid.format.records.keeping import Tag
from airflow_hiveacid.format.state.acid_state import AcidState, resolve
from airflow_hiveacid.format.state.directories import AcidDirectory
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.plan.history import Knowledge
from airflow_hiveacid.storage.stores.notes.conversion_note import list_in_place
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.versions.past import Readable, present_of

ANOTHER_CLIENT: Final = "another client"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEntry:
    """One version of a table. Unknown values are None or empty.

    `by` is `ANOTHER_CLIENT`, or the job key with the DAG, run, task and map index. `partitions` are
    those that the version's note or directories name. If `is_readable` is false, it cannot be read
    by its number, but perhaps by one of its `tags`.
    """

    number: int
    committed: TimeBounds
    by: str
    operation: str
    is_readable: bool
    txn_id: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    partitions: tuple[str, ...] = ()
    size_bytes: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistory:
    """The known versions of a table, and its recent compactions.

    `oldest` is the oldest version that is readable in all partitions; 0 if none is. `compactions`
    come from the compaction queue, so old ones are missing. `open_write_id` is the lowest open one:
    no later version is readable by its number before that write ends.
    """

    table: str
    oldest: int
    newest: int
    is_kept: bool
    versions: tuple[VersionEntry, ...]
    tags: tuple[Tag, ...] = ()
    compactions: tuple[CompactionEntry, ...] = ()
    open_write_id: int | None = None


@dataclass(slots=True)
class _Found:
    """Facts about a write. Mutable: its directories are added one at a time."""

    operations: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    size_bytes: int = 0


def history_of(client: MetastorePort, table: TableInfo, *, most: int | None = None) -> TableHistory:
    """Return the versions of a transactional table, newest first, at most `most`.

    In a table that Hive has converted, the oldest version is `CONVERTED_WRITE_ID`.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    snapshot = snapshot_now(client, [table.ref])
    roots = client.list_partitions(table)
    listings = list_in_place(table, roots)
    past = present_of(client, table, snapshot)
    readable = Readable(past=past, roots=list(zip(roots, listings, strict=True)), is_whole=True)
    commits = {note.write_id: note for note in past.loss_detector.commits}
    knowledge = Knowledge.of(commits.values(), born_s=table.born_s)
    knowledge = knowledge.with_log(client.logged_commits(table.ref))
    write_ids = past.now
    states = [resolve(listing, write_ids, snapshot.txns, table.kind) for listing in listings]
    facts = _found(roots, states)
    tags = VersionNotes.of(table).tags()
    names: dict[int, list[str]] = {}
    for tag in tags:
        names.setdefault(tag.version, []).append(tag.name)
    traces = chain(commits, facts, names, write_ids.open, write_ids.aborted)
    is_converted = min(traces, default=write_ids.high_watermark) >= CONVERTED_WRITE_ID
    before_first = CONVERTED_WRITE_ID - 1 if is_converted else 0
    versions = []
    for number in range(write_ids.high_watermark, before_first, -1):
        write_id = WriteId(number)
        if not write_ids.is_visible(write_id):
            continue
        note, written = commits.get(write_id), facts.get(write_id, _Found())
        entry = _version(write_id, note, written, knowledge.of_commit(write_id))
        own_tags = tuple(names.get(write_id, ()))
        versions.append(replace(entry, is_readable=readable.holds(write_id), tags=own_tags))
        if most is not None and len(versions) >= most:
            break
    return TableHistory(
        table=str(table.ref),
        oldest=readable.oldest(),
        newest=write_ids.high_watermark,
        is_kept=past.promised.keeping is not None,
        versions=tuple(versions),
        tags=tags,
        compactions=client.show_compactions(table.ref),
        open_write_id=write_ids.min_open_write_id,
    )


def _version(
    write_id: WriteId, note: CommitNote | None, facts: _Found, committed: TimeBounds
) -> VersionEntry:
    entry = VersionEntry(
        number=write_id,
        committed=committed,
        by=ANOTHER_CLIENT,
        operation="+".join(sorted(facts.operations)),
        is_readable=False,
        partitions=tuple(sorted(facts.partitions)),
        size_bytes=facts.size_bytes or None,
    )
    if note is None:
        return entry
    return replace(
        entry,
        by=note.job_key,
        operation=note.kind,
        txn_id=note.txn_id,
        inserted=note.inserted,
        updated=note.updated,
        deleted=note.deleted,
        partitions=note.partitions,
        size_bytes=note.size_bytes,
    )


def _found(roots: Sequence[PartitionInfo], states: Sequence[AcidState]) -> dict[WriteId, _Found]:
    every: dict[WriteId, _Found] = {}
    for info, state in zip(roots, states, strict=True):
        for directory in (*state.live, *state.obsolete_directories):
            if directory.is_compacted or directory.name.visibility_txn_id is not None:
                continue
            if isinstance(directory.name, DeltaName) and directory.name.low != directory.name.high:
                continue
            facts = every.setdefault(directory.high, _Found())
            facts.operations.add(_operation(directory))
            facts.size_bytes += directory.size_bytes
            if info.name.columns:
                facts.partitions.add(str(info.name))
    return every


def _operation(directory: AcidDirectory) -> str:
    if directory.is_base:
        return "overwrite"
    return "delete" if directory.is_delete else "insert"
