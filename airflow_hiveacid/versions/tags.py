"""Create, move and renew tags; a tag names a version and keeps its files.

A tag is a note that protects the files from this provider's cleaners (docs/decisions/versions.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError, TagTakenError
from airflow_hiveacid.format.records.commits import time_text
from airflow_hiveacid.format.records.keeping import Tag, TaggedRoot
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.state.versions import VersionSpec, without_aborted
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.storage.stores.notes.conversion_note import list_in_place
from airflow_hiveacid.storage.stores.notes.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import keep
from airflow_hiveacid.versions.past import Past, past_of

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
    of the current state again, the tag keeps the version of the first request. That may have been
    killed before its second check, so the tag is checked and written again.

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
    """Check that no other client creates this tag for a different version; all write it first."""
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
        newest = snapshot.write_ids(table.ref)
        lowest = newest.min_open_write_id
        high = newest.high_watermark if lowest is None else lowest - 1
        version = VersionSpec.of(version=high)
    taken_s = server_now(client)
    if version.timestamp is not None:
        snapshot = snapshot_now(client, [table.ref])  # not older than `taken_s`
    return past_of(client, table, version, snapshot, taken_s=lambda: taken_s)
