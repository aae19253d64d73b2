"""Keeping a table's past: begun, looked after, and ended.

Takes a metastore and a table; writes notes and the two table parameters by which the server is told
to leave the table's files alone. What follows from notes is `plan.keeping`'s. See docs/adr/0052.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    KeepingRefusedError,
    NotTransactionalError,
)
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import floor_of
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.keeping import (
    READABLE_FOR,
    Keeping,
    OwnCompaction,
    kept_parameters,
    leaves_alone,
    readable_for,
)
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.losses import note_dropped, note_lost, snapshot_of, witnesses_of
from airflow_hiveacid.versions.past import promises_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

_ON_ITS_WAY: Final = frozenset(
    {CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING}
)

_LONGEST_MOVE_S: Final = 3600.0
"""Nobody takes longer to have a tag take the place of another."""

_log = logging.getLogger(__name__)


def keep(client: MetastorePort, table: TableInfo) -> Keeping:
    """Have nothing removed from a table's past from now on but by our own cleaner.

    A table that is kept already stays as it is.

    Raises:
        NotTransactionalError: the table has no past.
        KeepingRefusedError: a compaction is on its way, whose cleaner may be at work.
        StorageError: the table or its notes cannot be read or written.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    notes = VersionNotes.of(table)
    if not leaves_alone(table.parameters, client.generation):
        client.set_table_parameters(table.ref, kept_parameters(client.generation))
    table = client.get_table(table.ref)
    known = promises_of(client, table).keeping
    if known is not None:
        return known
    # The server's own workers look at the parameters when they begin. What they have begun shows in
    # the queue until it is over, what begins later has a higher number than any of now.
    before = _queue(client, table)
    roots = client.list_partitions(table)
    snapshot = snapshot_of(client, table)
    states = _states(table, roots, snapshot)
    if _queue(client, table) != before:
        raise KeepingRefusedError(table=table.ref, waiting="a compaction has just been queued")
    keeping = Keeping(
        table_id=table.table_id,
        roots={
            info.name: floor_of(state, table.kind)
            for info, state in zip(roots, states, strict=True)
        },
        last_entry_id=max(before, default=-1),
        since_s=server_now(client) or 0.0,
    )
    # By the same look at the files: what goes after it is missed by the new promise.
    _note_what_is_missed(client, table, list(zip(roots, states, strict=True)), snapshot)
    notes.note_keeping(keeping)
    _log.info("kept from now on table=%s", table.ref)
    return keeping


def keep_no_more(client: MetastorePort, table: TableInfo) -> None:
    """Let everything be removed again that nobody needs now; the server may compact and clean.

    Raises:
        ConfigurationError: a tag still asks for keeping; nothing was changed.
    """
    notes = VersionNotes.of(table)
    tags = notes.tags()
    if tags:
        raise ConfigurationError(
            f"table {table.ref} stays kept for tag {tags[0].name!r}; remove that first"
            f" (`tag {table.ref} {tags[0].name} --remove`)"
        )
    # First what asks for it, for which a cleaner would keep it again.
    client.set_table_parameters(table.ref, {READABLE_FOR: None})
    _forget_keeping(client, table, notes)
    client.set_table_parameters(table.ref, dict.fromkeys(kept_parameters(client.generation), None))


def note_as_ours(client: MetastorePort, table: TableInfo, own: OwnCompaction) -> None:
    """Say that an entry of the queue is ours, if the table is kept.

    The queue forgets an old entry for each new one. So a promise that somebody else's has broken
    ends for good before ours may push that out of sight.

    Raises:
        StorageError: notes cannot be read or written.
    """
    notes = VersionNotes.of(table)
    if not notes.is_kept():
        return
    table = client.get_table(table.ref)
    # Twice: between notes and queue, another of ours may have been noted and got ready.
    if all(promises_of(client, table).keeping is None for _ in range(2)):
        notes.end_keeping(own.entry_id)
    notes.note_own_compaction(own)


def look_after(client: MetastorePort, table: TableInfo, now_s: float) -> None:
    """What a run of the cleaner does for a table as a whole, before it removes anything.

    Tags that have expired go. A promise that somebody has broken ends, and a table that is to be
    kept is kept from now on. Partitions that were dropped are noted, and notes put together.

    Raises:
        ConfigurationError: the table parameter says no time.
        StorageError: notes cannot be read or written.
    """
    notes = VersionNotes.of(table)
    newest = {tag.name: tag for tag in notes.tags()}
    for tag in notes.noted_tags():
        # One whose place another has taken is there still if whoever did so died meanwhile.
        in_its_place = newest.get(tag.name, tag).made_s
        if tag.has_expired(now_s) or tag.made_s < in_its_place < now_s - _LONGEST_MOVE_S:
            _log.info("tag %r has expired or was moved table=%s", tag.name, table.ref)
            notes.forget_this_tag(tag)
    if promises_of(client, table).keeping is None:
        if notes.is_kept():
            _log.warning(
                "somebody else has compacted, or may have cleaned: versions before its newest base"
                " cannot be read any more table=%s",
                table.ref,
            )
        if readable_for(table.parameters) is not None or notes.tags():
            try:
                keep(client, table)
            except KeepingRefusedError as error:
                _log.warning("%s", error)
        if notes.is_kept() and promises_of(client, client.get_table(table.ref)).keeping is None:
            _forget_keeping(client, table, notes)
    note_dropped(client, table)
    notes.tidy_own_compactions()
    notes.tidy_resets()


def _forget_keeping(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    """Promise nothing any more; what the promise bore witness of, and is gone, is noted first."""
    if notes.is_kept():
        roots = client.list_partitions(table)
        snapshot = snapshot_of(client, table)
        states = _states(table, roots, snapshot)
        _note_what_is_missed(client, table, list(zip(roots, states, strict=True)), snapshot)
    notes.forget_keeping()


def _note_what_is_missed(
    client: MetastorePort,
    table: TableInfo,
    roots: Sequence[tuple[PartitionInfo, AcidState]],
    snapshot: Snapshot,
) -> None:
    """Note all that is known to have been removed without a version.

    Args:
        client: the metastore.
        table: the table.
        roots: all of them, and what is read there now.
        snapshot: what is committed now.
    """
    note_dropped(client, table)
    note_lost(client, witnesses_of(table), roots, snapshot.write_ids(table.ref))


def _states(
    table: TableInfo, roots: Sequence[PartitionInfo], snapshot: Snapshot
) -> list[AcidState]:
    write_ids = snapshot.write_ids(table.ref)
    return each_in_threads(
        lambda info: resolve(list_table(info.location), write_ids, snapshot.txns, table.kind), roots
    )


def _queue(client: MetastorePort, table: TableInfo) -> list[int]:
    """The IDs of all compactions that the metastore knows of, none of which is under way.

    Raises:
        KeepingRefusedError: one is.
    """
    entries = client.show_compactions(table.ref)
    for entry in entries:
        if entry.state in _ON_ITS_WAY:
            raise KeepingRefusedError(
                table=table.ref,
                waiting=f"compaction {entry.entry_id} of {entry.partition or 'the table'} is"
                f" {entry.state.value}",
            )
    return sorted(entry.entry_id for entry in entries if entry.entry_id is not None)
