"""The versions of a table, newest first: when, by whom, what, and whether each can still be read.

Of our own commits notes tell it; of others the directories that still have a write ID to
themselves, and bounds of their time. Compactions make no version: the queue lists them by their
transactions (docs/adr/0051). Takes a metastore and a table; gives plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import NotTransactionalError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.plan.history import Between, Knowledge
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.past import present_of
from airflow_hiveacid.versions.readable import Readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.history import CommitNote
    from airflow_hiveacid.plan.keeping import Tag

SOMEBODY: Final = "somebody else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version. What nobody has noted is None, or empty.

    `by` is the job key, which names DAG, run, task and map index, or `SOMEBODY`. `partitions` are
    those in which something of it is noted or found. `is_readable` by its number; one of which
    `tags` has a name may be so by that alone.
    """

    number: int
    committed: Between
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
    """What is known of a table's past.

    `oldest` is the oldest version that can be read of the whole table, 0 if none can; `newest` is
    the newest of all.
    `compactions` are as the queue has them, and only of the server's recent ones.
    """

    table: str
    oldest: int
    newest: int
    is_kept: bool
    versions: tuple[Version, ...]
    tags: tuple[Tag, ...] = ()
    compactions: tuple[CompactionEntry, ...] = ()


@dataclass(slots=True)
class _Found:
    """What directories tell of a write ID. Mutable while they are gone through."""

    operations: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    size_bytes: int = 0


def history_of(client: MetastorePort, table: TableInfo, *, most: int | None = None) -> TableHistory:
    """The versions of a table, newest first.

    Args:
        client: the metastore.
        table: the table.
        most: how many versions; None for all that are committed.

    Raises:
        NotTransactionalError: it has none.
        StorageError: it, or its notes, cannot be read.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    txns = client.valid_txns()
    snapshot = Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids([table.ref], txns))
    roots = client.list_partitions(table)
    listings = each_in_threads(lambda info: list_table(info.location), roots)
    past = present_of(client, table, snapshot)
    readable = Readable(past=past, roots=list(zip(roots, listings, strict=True)), is_whole=True)
    commits = {note.write_id: note for note in past.witnesses.commits}
    known = Knowledge.of(commits.values(), born_s=table.born_s)
    known = known.with_log(client.logged_commits(table.ref))
    now = past.now
    states = [resolve(listing, now, txns, table.kind) for listing in listings]
    found = _found(roots, states)
    tags = VersionNotes.of(table).tags()
    names: dict[int, list[str]] = {}
    for tag in tags:
        names.setdefault(tag.version, []).append(tag.name)
    versions = []
    for number in range(now.high_watermark, 0, -1):
        write_id = WriteId(number)
        if not now.is_visible(write_id):
            continue
        versions.append(
            _version(
                write_id,
                commits.get(write_id),
                found.get(write_id),
                known.of_commit(write_id),
                is_readable=readable.holds(write_id),
                tags=names.get(write_id, ()),
            )
        )
        if most is not None and len(versions) >= most:
            break
    return TableHistory(
        table=str(table.ref),
        oldest=readable.oldest(),
        newest=now.high_watermark,
        is_kept=past.promised.keeping is not None,
        versions=tuple(versions),
        tags=tags,
        compactions=client.show_compactions(table.ref),
    )


def _version(  # noqa: PLR0913 - what each source knows
    write_id: WriteId,
    note: CommitNote | None,
    found: _Found | None,
    committed: Between,
    *,
    is_readable: bool,
    tags: Iterable[str],
) -> Version:
    found = found or _Found()
    if note is None:
        return Version(
            number=write_id,
            committed=committed,
            by=SOMEBODY,
            operation="+".join(sorted(found.operations)),
            is_readable=is_readable,
            partitions=tuple(sorted(found.partitions)),
            size_bytes=found.size_bytes or None,
            tags=tuple(tags),
        )
    return Version(
        number=write_id,
        committed=committed,
        by=note.job_key,
        operation=note.kind,
        is_readable=is_readable,
        txn_id=note.txn_id,
        inserted=note.inserted,
        updated=note.updated,
        deleted=note.deleted,
        partitions=note.partitions,
        size_bytes=note.size_bytes,
        tags=tuple(tags),
    )


def _found(roots: Sequence[PartitionInfo], states: Sequence[AcidState]) -> dict[WriteId, _Found]:
    """What directories of one write ID tell; what a compaction made tells nothing of its own."""
    every: dict[WriteId, _Found] = {}
    for info, state in zip(roots, states, strict=True):
        for directory in (*state.live, *state.obsolete_directories):
            if directory.is_compacted or directory.name.visibility_txn_id is not None:
                continue
            if isinstance(directory.name, DeltaName) and directory.name.low != directory.name.high:
                continue
            one = every.setdefault(directory.high, _Found())
            one.operations.add(_operation(directory))
            one.size_bytes += directory.size_bytes
            if info.name.columns:
                one.partitions.add(str(info.name))
    return every


def _operation(directory: AcidDirectory) -> str:
    if directory.is_base:
        return "overwrite"
    return "delete" if directory.is_delete else "insert"
