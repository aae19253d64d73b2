"""Keeping a table's past: begun, looked after, and ended; and versions with names.

Takes a metastore and a table; writes notes and the two table parameters by which the server is told
to leave the table's files alone. What follows from notes is `plan.keeping`'s. See docs/adr/0052.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    KeepingRefusedError,
    NotTransactionalError,
    TagTakenError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import (
    VersionSpec,
    floor_of,
    not_held,
    without_aborted,
    write_id_of,
)
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.keeping import (
    READABLE_FOR,
    Keeping,
    OwnCompaction,
    Reset,
    Tag,
    TaggedRoot,
    kept_parameters,
    leaves_alone,
    readable_for,
)
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.past import Past, lost_of, past_of, promises_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.history import CommitNote

_ON_ITS_WAY: Final = frozenset(
    {CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING}
)

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
    snapshot = _snapshot(client, table)
    states = _states(table, roots, snapshot.write_ids(table.ref), snapshot.txns)
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
    notes.forget_keeping()
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
    kept is kept from now on. Partitions that were dropped are noted.

    Raises:
        ConfigurationError: the table parameter says no time.
        StorageError: notes cannot be read or written.
    """
    notes = VersionNotes.of(table)
    for tag in notes.tags():
        if tag.has_expired(now_s):
            _log.info("tag %r has expired table=%s", tag.name, table.ref)
            notes.forget_tag(tag.name)
    if promises_of(client, table).keeping is None:
        if notes.is_kept():
            _log.warning(
                "somebody else has compacted, or may have cleaned: versions before its newest base"
                " cannot be read any more table=%s",
                table.ref,
            )
            notes.forget_keeping()
        if readable_for(table.parameters) is not None or notes.tags():
            try:
                keep(client, table)
            except KeepingRefusedError as error:
                _log.warning("%s", error)
    _note_dropped(client, table, notes)


def note_lost(  # noqa: PLR0913 - who is asked, of which root, and what is known
    client: MetastorePort,
    table: TableInfo,
    info: PartitionInfo,
    state: AcidState,
    now: ValidWriteIdList,
    *,
    commits: Sequence[CommitNote],
    keeping: Keeping | None,
) -> None:
    """Note that what a root is known to have had was removed without a version, if it was.

    Versions that come later never had it, so that they can be read. What was written until now may
    have been removed with it, also if it was after `now` was taken.
    """
    lost = {
        note.write_id
        for note in commits
        if now.is_visible(note.write_id) and lost_of(note, table, info, state)
    }
    kept = None if keeping is None else keeping.roots.get(info.name)
    lost |= {
        write_id_of(text)
        for text in (() if kept is None else kept.witnesses)
        if not_held(state, [text]) is not None
    }
    if not lost:
        return
    notes = VersionNotes.of(table)
    known = [r.write_id for r in notes.resets() if r.partition == info.name]
    if max(lost) <= max(known, default=WriteId(-1)):
        return
    _log.warning(
        "what version %s wrote was removed without a version table=%s partition=%s",
        max(lost),
        table.ref,
        info.name,
    )
    newest = _snapshot(client, table).write_ids(table.ref).high_watermark
    notes.note_reset(Reset(partition=info.name, write_id=max(newest, *lost)))


def make_tag(  # noqa: PLR0913 - a name, what it is for, for how long and by whom
    client: MetastorePort,
    table: TableInfo,
    name: str,
    version: VersionSpec,
    *,
    expires_s: float | None = None,
    made_by: str = "",
) -> Tag:
    """Give a version a name, and keep its files until the tag expires or is removed.

    The same tag for the same version again only moves its end.

    Args:
        client: the metastore; nobody else uses it meanwhile.
        table: the table.
        name: of the tag.
        version: which; the present is the newest version that is settled.
        expires_s: seconds since 1970, by the metastore's clock; None is never.
        made_by: for people.

    Raises:
        ConfigurationError: the name is none.
        TagTakenError: it stands for another version.
        KeepingRefusedError: the table cannot be kept now.
        VersionGoneError: not all of the version is there.
        HiveAcidError: the version is not known (`past_of`).
    """
    VersionSpec.of(tag=name)
    keep(client, table)
    table = client.get_table(table.ref)
    notes = VersionNotes.of(table)
    snapshot = _snapshot(client, table)
    past = _past(client, table, version, snapshot)
    now_s = server_now(client) or 0.0
    older = notes.tag(name)
    if older is not None and not older.has_expired(now_s):
        if older.write_ids != past.then.text():
            high = past.now.parse(older.write_ids).high_watermark
            raise TagTakenError(table=table.ref, tag=name, stands_for=f"version {high}")
        moved = replace(older, expires_s=expires_s, made_s=max(now_s, older.made_s + 0.001))
        notes.note_tag(moved)
        return moved
    roots = client.list_partitions(table)
    tag = _tag(past, name, roots, made_s=now_s, expires_s=expires_s, made_by=made_by)
    notes.note_tag(tag)
    try:
        # Whoever cleans writes down first which versions end, then looks for tags: if he has not
        # seen ours, we see what he has written. But only of what is replaced for us as for him.
        snapshot = _snapshot(client, table)
        now = without_aborted(snapshot.write_ids(table.ref), past.now.aborted)
        later = replace(past, now=now, txns=snapshot.txns)
        _tag(later, name, roots, made_s=now_s, expires_s=expires_s, made_by=made_by)
    except BaseException:
        notes.forget_tag(name)
        raise
    return tag


def _tag(  # noqa: PLR0913 - as `make_tag`
    past: Past,
    name: str,
    roots: Sequence[PartitionInfo],
    *,
    made_s: float,
    expires_s: float | None,
    made_by: str,
) -> Tag:
    """The tag of a version whose files are all there now."""
    fresh = replace(past)  # what was promised is asked for anew
    if past.table.is_partitioned:
        fresh.check_vanished([info.name for info in roots])
    listings = each_in_threads(lambda info: list_table(info.location), roots)
    states = fresh.states(roots, listings)
    return Tag(
        name=name,
        table_id=past.table.table_id,
        write_ids=past.then.text(),
        made_s=made_s,
        made_by=made_by,
        expires_s=expires_s,
        roots=tuple(
            TaggedRoot(
                partition=info.name,
                location=info.location,
                names=frozenset(d.text for d in state.live)
                | frozenset(f.path for f in state.originals),
            )
            for info, state in zip(roots, states, strict=True)
            if state.live or state.originals
        ),
    )


def _past(
    client: MetastorePort, table: TableInfo, version: VersionSpec, snapshot: Snapshot
) -> Past:
    """The version, or, for the present, the newest one that cannot change any more."""
    if version.is_now:
        newest = snapshot.write_ids(table.ref)
        lowest = newest.min_open_write_id
        high = newest.high_watermark if lowest is None else lowest - 1
        version = VersionSpec.of(version=high)
    taken_s = server_now(client)
    if version.timestamp is not None:
        snapshot = _snapshot(client, table)  # not older than the moment that was told
    return past_of(client, table, version, snapshot, taken_s=lambda: taken_s)


def _note_dropped(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    if not table.is_partitioned:
        return
    commits = notes.commits()
    promises = notes.promises()
    if not commits and promises.keeping is None:
        return
    # Before the snapshot: a version that is written after it may still have had what is missed.
    existing = client.partition_names(table)
    snapshot = _snapshot(client, table)
    now = snapshot.write_ids(table.ref)
    past = Past(
        client=client,
        table=table,
        version=VersionSpec(),
        now=now,
        then=now,
        txns=snapshot.txns,
        commits=commits,
        resets=notes.resets(),
        keeping=promises.keeping,
        horizons=promises.horizons,
    )
    known = {reset.partition for reset in past.resets if reset.write_id == now.high_watermark}
    for name in past.vanished(existing):
        if name not in known:
            notes.note_reset(Reset(partition=name, write_id=now.high_watermark))


def _snapshot(client: MetastorePort, table: TableInfo) -> Snapshot:
    txns = client.valid_txns()
    return Snapshot(txn_id=None, txns=txns, tables=client.valid_write_ids([table.ref], txns))


def _states(
    table: TableInfo,
    roots: Sequence[PartitionInfo],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> list[AcidState]:
    return each_in_threads(
        lambda info: resolve(list_table(info.location), write_ids, txns, table.kind), roots
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
