"""The guarantee that a table's versions are kept: its start, upkeep and end; and tags of versions.

Writes notes, and sets two table parameters that stop the server from compacting and cleaning the
table (docs/decisions/versions.md).

A tag is a note that protects the files from this provider's cleaners.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    KeepingRefusedError,
    NotTransactionalError,
    TableError,
    TagTakenError,
)
from airflow_hiveacid.format.records import Keeping, OwnCompaction, Tag, TaggedRoot, time_text
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList, settled
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec, floor_of, without_aborted
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.metastore.transactions.compaction_work import end_dead_entries
from airflow_hiveacid.plan.keeping import (
    KEPT,
    READABLE_FOR,
    duration,
    leaves_alone,
    opted_out,
    parameters_to_keep,
    readable_for,
    set_by_us,
)
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.losses import loss_detector_of, note_dropped, note_lost
from airflow_hiveacid.versions.past import Past, past_of, promises_of

_LONGEST_MOVE_S: Final = 3600.0
"""The maximum time that a client may take to replace a tag."""

_Roots = list[tuple[PartitionInfo, AcidState]]

_log = logging.getLogger(__name__)


def keep(client: MetastorePort, table: TableInfo) -> Keeping:
    """Keep a table's versions from now on: only this provider's cleaner may remove files.

    Raises KeepingRefusedError while a compaction is in progress: its cleaning may remove files.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    _set_missing(client, table)
    table = client.get_table(table.ref)
    try:
        return _kept(client, table)
    except KeepingRefusedError:
        _unset_unneeded(client, client.get_table(table.ref), VersionNotes.of(table))
        raise


def _kept(client: MetastorePort, table: TableInfo) -> Keeping:
    """Return the guarantee of a table that the server leaves alone; write its note if needed."""
    old_keeping = promises_of(client, table).keeping
    if old_keeping is not None:
        return old_keeping
    # The server's workers read the parameters when they begin a compaction. The queue lists each
    # compaction until it ends. Later ones have higher IDs.
    end_dead_entries(client, table.ref)
    entry_ids = _queue(client, table)
    roots, write_ids = _roots_now(client, table)
    if _queue(client, table) != entry_ids:
        raise KeepingRefusedError(table=table.ref, waiting="a compaction has just been queued")
    keeping = Keeping(
        roots={info.name: floor_of(state, table.kind) for info, state in roots},
        last_entry_id=max(entry_ids, default=-1),
        since_s=server_now(client) or 0.0,
    )
    # The guarantee is based on this listing. So earlier losses are looked up in the same listing.
    # If files are removed later, the guarantee reveals the loss.
    _note_what_is_missed(client, table, roots, write_ids)
    notes = VersionNotes.of(table)
    notes.note_keeping(keeping)
    # A cleaner removes the parameters, then reads the notes (`_unset`): one of the two sees the
    # other.
    if not leaves_alone(client.get_table(table.ref).parameters, client.generation):
        notes.forget_keeping()
        why = "another client has just removed the parameters that stop compactions"
        raise KeepingRefusedError(table=table.ref, waiting=why)
    _log.info("keeping versions from now on table=%s", table.ref)
    return keeping


def keep_readable(client: MetastorePort, ref: TableRef, time: str) -> None:
    """Keep the table's versions, and set how long replaced data stays readable (`7 days`)."""
    duration(time, READABLE_FOR)
    client.set_table_parameters(ref, {READABLE_FOR: time})
    keep(client, client.get_table(ref))


def keep_no_more(client: MetastorePort, table: TableInfo) -> None:
    """End the guarantee for a table; the server may compact and clean the table again.

    Raises TableError if a tag still needs the kept files; then nothing was changed.
    """
    notes = VersionNotes.of(table)
    tags = notes.tags()
    if tags:
        raise TableError(
            table=table.ref,
            detail=(
                f"must be kept for tag {tags[0].name!r}; remove the tag first"
                f" (`tag {table.ref} {tags[0].name} --remove`)"
            ),
        )
    # Remove this parameter first. A cleaner that finds the parameter would start to keep the table
    # again.
    client.set_table_parameters(table.ref, {READABLE_FOR: None})
    _forget_keeping(client, table, notes)
    _unset(client, table, notes)


def note_as_ours(
    client: MetastorePort, table: TableInfo, own: OwnCompaction, notes: VersionNotes
) -> None:
    """If the table is kept, write a note that this provider owns a queue entry.

    Each new entry in the queue displaces an old one, which may be the only proof that a compaction
    of another client has broken the guarantee. So a broken guarantee is ended first, after the
    notes were listed again. `own` is the entry with the earlier aborted write IDs.
    """
    if not notes.is_kept():
        return
    if not notes.has_ended() and _is_broken(client, client.get_table(table.ref), notes):
        notes.end_keeping(own.entry_id)
    notes.note_own_compaction(own)


def _is_broken(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> bool:
    # Check twice. Between the listing of the notes and of the queue, another compaction of this
    # provider may write its note and finish.
    return all(promises_of(client, table, notes).keeping is None for _ in range(2))


def opted_out_of(table: TableInfo, name: str) -> str | None:
    """Return a reason to skip a table if its owner set this parameter; None otherwise.

    `name` is `NO_CLEANUP` or `NO_AUTO_COMPACTION`; `set_by_us` shows whether this provider set it.
    """
    key = opted_out(table.parameters, name)
    if key is None:
        return None
    return (
        f"table parameter {key}={table.parameters[key]}; set it to false or unset it to change that"
    )


def look_after(
    client: MetastorePort, table: TableInfo, now_s: float, notes: VersionNotes | None = None
) -> None:
    """Maintain the guarantees and notes of a table before the cleaner removes files.

    Remove expired tags, and end a guarantee that another client has broken; if a parameter or tag
    requires one, keep the table again. Remove our parameters if a process died before or after its
    guarantee. Write notes of dropped partitions, and combine many notes into a few files. `now_s`
    is by the metastore's clock.
    """
    notes = VersionNotes.of(table) if notes is None else notes
    newest = {tag.name: tag for tag in notes.tags()}
    for tag in notes.noted_tags():
        # A process may die after it replaced a tag, and before it removed the old tag's note. Then
        # the old note remains.
        newest_s = newest.get(tag.name, tag).made_s
        if tag.has_expired(now_s) or tag.made_s < newest_s < now_s - _LONGEST_MOVE_S:
            _log.info("tag %r has expired or was moved table=%s", tag.name, table.ref)
            notes.forget_this_tag(tag)
    if promises_of(client, table, notes).keeping is None:
        if notes.is_kept():
            _log.warning(
                "another client has compacted the table, or may have cleaned it: versions before"
                " the newest base are no longer readable table=%s",
                table.ref,
            )
        if readable_for(table.parameters) is not None or notes.tags():
            try:
                keep(client, table)
            except KeepingRefusedError as error:
                _log.warning("%s", error)
            notes.refresh()
        if notes.is_kept() and promises_of(client, client.get_table(table.ref)).keeping is None:
            _forget_keeping(client, table, notes)
            notes.refresh()
        _unset_unneeded(client, table, notes)
    note_dropped(client, table, notes)
    notes.tidy_own_compactions()
    notes.tidy_resets()


def _set_missing(client: MetastorePort, table: TableInfo) -> None:
    """Set the missing parameters and, in the same call, the list that shows that they are ours."""
    if parameters := parameters_to_keep(table.parameters, client.generation):
        client.set_table_parameters(table.ref, parameters)


def _unset_unneeded(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    """Remove the parameters that this provider has set if nothing requires a guarantee."""
    is_needed = READABLE_FOR in table.parameters or notes.is_kept() or bool(notes.tags())
    if KEPT in table.parameters and not is_needed:
        _log.info("the server may compact and clean again table=%s", table.ref)
        _unset(client, table, notes)


def _unset(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    """Remove the parameters that this provider has set, unless a guarantee begins meanwhile.

    Those of the table's owner stay.
    """
    ours = set_by_us(client.get_table(table.ref).parameters)
    if ours or KEPT in table.parameters:
        client.set_table_parameters(table.ref, dict.fromkeys((*ours, KEPT)))
        if notes.is_kept():
            _set_missing(client, client.get_table(table.ref))


def _forget_keeping(client: MetastorePort, table: TableInfo, notes: VersionNotes) -> None:
    """Write notes of the losses that only the guarantees show, then end all guarantees."""
    if notes.is_kept():
        _note_what_is_missed(client, table, *_roots_now(client, table))
    notes.forget_keeping()


def _note_what_is_missed(
    client: MetastorePort, table: TableInfo, roots: _Roots, write_ids: ValidWriteIdList
) -> None:
    """Write notes of all files that are known to have been removed without a write ID."""
    note_dropped(client, table)
    note_lost(client, loss_detector_of(table), roots, write_ids)


def _roots_now(client: MetastorePort, table: TableInfo) -> tuple[_Roots, ValidWriteIdList]:
    infos = client.list_partitions(table)
    snapshot = snapshot_now(client, [table.ref])
    write_ids = snapshot.write_ids(table.ref)
    listings = list_in_place(table, infos)
    states = [resolve(listing, write_ids, snapshot.txns, table.kind) for listing in listings]
    return list(zip(infos, states, strict=True)), write_ids


def _queue(client: MetastorePort, table: TableInfo) -> list[int]:
    """Return the sorted IDs of all listed compactions; raise an error if one may publish a result.

    A committed compaction on 4.x is no obstacle: its cleaning removes only replaced files, and the
    guarantee is based on a later listing. It may wait as long as a table's parameter says.
    """
    entries = client.show_compactions(table.ref)
    if any(entry.is_pending for entry in entries):
        for status in unfinished(client, table.ref):
            entry = status.entry
            if entry.state is not CompactionState.READY_FOR_CLEANING or not entry.is_committed:
                raise KeepingRefusedError(table=table.ref, waiting=str(status))
        entries = client.show_compactions(table.ref)
    return sorted(entry.entry_id for entry in entries if entry.entry_id is not None)


_NEXT_S: Final = 0.002
"""The minimum difference between the times of two tag notes. Notes store times in milliseconds."""


def make_tag(  # noqa: PLR0913 - a name, its version, its expiry and its maker
    client: MetastorePort,
    table: TableInfo,
    name: str,
    version: VersionSpec,
    *,
    expires_s: float | None = None,
    made_by: str = "",
    may_retry: bool = True,
    moves: bool = False,
) -> Tag:
    """Name a version, and keep its files until the tag expires or is removed.

    If the tag already names this version, only its expiry changes. If the same maker requests a tag
    of the current state again, the tag keeps the version of the first request. But if a kill ended
    the first request before its second check (`Tag.is_sure`), this function makes the tag anew.

    No other thread may use `client` at the same time. The current state as `version` means the
    newest version that no open write can change. `expires_s` is in seconds since 1970, by the
    metastore's clock. `made_by` describes the maker for users, the same in a retry; without
    `may_retry`, an equal one means no retry, as people's requests all have the same. `moves` allows
    a tag to move from another version.

    Raises ConfigurationError if the name is invalid or the expiry has passed, and TagTakenError if
    the tag names another version, or another client is creating such a tag. After an error of
    `keep`, `past_of` or `Past.states`, an existing tag is unchanged.
    """
    VersionSpec.of(tag=name)
    keep(client, table)
    table = client.get_table(table.ref)
    notes = VersionNotes.of(table)
    snapshot = snapshot_now(client, [table.ref])
    past = _past(client, table, version, snapshot)
    now_s = server_now(client) or 0.0
    if expires_s is not None and expires_s <= now_s:
        raise ConfigurationError(f"tag {name!r}: its expiry {time_text(expires_s)} has passed")
    older = notes.tag(name)
    if older is not None and not older.has_expired(now_s):
        is_again = may_retry and _is_by(older, made_by)
        if is_again and older.is_sure and version.is_now:
            return older
        is_same = _is_for(older, past.then)
        if not is_same and not moves and (older.is_sure or not is_again):
            raise _taken(table, older)
        moved = replace(older, expires_s=expires_s, made_s=_after(older, now_s))
        if is_same and older.is_sure and _replace(client, notes, older, moved):
            return moved
    infos = client.list_partitions(table)
    tag = Tag(
        name=name,
        table_id=table.table_id,
        write_ids=past.then.text(),
        made_s=now_s if older is None else _after(older, now_s),
        made_by=made_by,
        expires_s=expires_s,
        roots=_roots(past, infos),
    )
    notes.note_tag(replace(tag, is_sure=False))
    try:
        # A cleaner first writes a note of the versions that become unreadable, then reads the tags.
        # If it has read them before our tag, this check finds its note. The check needs a snapshot
        # that is at least as new as the cleaner's.
        snapshot = snapshot_now(client, [table.ref])
        write_ids = without_aborted(snapshot.write_ids(table.ref), past.now.aborted)
        _roots(replace(past, now=write_ids, txns=snapshot.txns), infos)
        if not moves:
            _check_alone(notes, table, tag, older, now_s)
    except BaseException:
        notes.forget_this_tag(tag)
        raise
    notes.note_tag(tag)
    notes.forget_tags_before(tag)
    return tag


def time_from_now(client: MetastorePort, seconds: float) -> float:
    """Return the metastore's current time plus some seconds, in seconds since 1970."""
    now_s = server_now(client)
    if now_s is None:
        raise ConfigurationError("the metastore does not report its time")
    return now_s + seconds


def _replace(client: MetastorePort, notes: VersionNotes, older: Tag, moved: Tag) -> bool:
    """Change a tag's expiry; return True if its files are certainly kept.

    They are if the old tag has not expired meanwhile: a cleaner reads the time, then the tags.
    """
    notes.note_tag(moved)
    if older.expires_s is None or not older.has_expired(server_now(client) or older.expires_s):
        notes.forget_tags_before(moved)
        return True
    notes.forget_this_tag(moved)
    return False


def _check_alone(
    notes: VersionNotes, table: TableInfo, tag: Tag, older: Tag | None, now_s: float
) -> None:
    """Check that no other client makes this tag for another version; each writes its own first."""
    version_ids = ValidWriteIdList.parse(tag.write_ids)
    since_s = -1.0 if older is None else older.made_s
    for rival in notes.noted_tags():
        if rival.name != tag.name or rival.made_s <= since_s or rival.has_expired(now_s):
            continue
        if not _is_for(rival, version_ids) and not _is_by(rival, tag.made_by):
            raise _taken(table, rival)


def _is_by(tag: Tag, made_by: str) -> bool:
    return bool(made_by) and tag.made_by == made_by


def _taken(table: TableInfo, tag: Tag) -> TagTakenError:
    return TagTakenError(table=table.ref, tag=tag.name, stands_for=f"version {tag.version}")


def _is_for(tag: Tag, then: ValidWriteIdList) -> bool:
    """Return True if a tag names this version; aborted write IDs are not compared."""
    noted = ValidWriteIdList.parse(tag.write_ids)
    return (noted.high_watermark, set(noted.open)) == (then.high_watermark, set(then.open))


def _after(older: Tag, now_s: float) -> float:
    return max(now_s, older.made_s + _NEXT_S)


def _roots(past: Past, infos: Sequence[PartitionInfo]) -> tuple[TaggedRoot, ...]:
    """Return the roots of a version with its files; check first that all of them exist."""
    fresh = replace(past)  # drop the cached guarantees, so that they are read again
    if past.table.is_partitioned:
        fresh.check_vanished([info.name for info in infos])
    states = fresh.states(infos, list_in_place(past.table, infos))
    return tuple(
        TaggedRoot(
            partition=info.name,
            location=info.location,
            names=frozenset(d.text for d in state.live)
            | frozenset(f.path for f in state.originals),
        )
        for info, state in zip(infos, states, strict=True)
        if state.live or state.originals
    )


def _past(
    client: MetastorePort, table: TableInfo, version: VersionSpec, snapshot: Snapshot
) -> Past:
    """Return a `Past` for a version; the current state means the newest unchangeable version."""
    if version.is_now:
        version = VersionSpec.of(version=settled(snapshot.write_ids(table.ref)))
    taken_s = server_now(client)
    if version.timestamp is not None:
        snapshot = snapshot_now(client, [table.ref])  # not older than `taken_s`
    return past_of(client, table, version, snapshot, taken_s=lambda: taken_s)
