"""Versions with names: made, moved to another version or another end, and their files kept.

Takes a metastore and a table; writes notes that cleaners of ours honour. See docs/adr/0052.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError, TagTakenError
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.versions import VersionSpec, without_aborted
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.history import time_text
from airflow_hiveacid.plan.keeping import Tag, TaggedRoot
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import keep
from airflow_hiveacid.versions.losses import snapshot_of
from airflow_hiveacid.versions.past import Past, past_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort

_NEXT_S: Final = 0.002
"""Notes of tags are told apart to the millisecond."""


def make_tag(  # noqa: PLR0913 - a name, what it is for, for how long and by whom
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
    """Give a version a name, and keep its files until the tag expires or is removed.

    The same tag for the same version again only moves its end. Who made a tag of the present and
    asks for it again, as a retry does, means what was the present then. A tag whose maker died
    before he had looked twice is proved, and written, anew.

    Args:
        client: the metastore; nobody else uses it meanwhile.
        table: the table.
        name: of the tag.
        version: which; the present is the newest version that is settled.
        expires_s: seconds since 1970, by the metastore's clock; None is never.
        made_by: for people; and a retry has it from its first try.
        may_retry: whether it says so: people have no more than one name for all that they do.
        moves: whether a tag that stands for another version is moved to this one.

    Raises:
        ConfigurationError: the name is none, or its end is over.
        TagTakenError: it stands for another version, or somebody else is making it for one.
        KeepingRefusedError: the table cannot be kept now.
        VersionGoneError: not all of the version is there; an older tag stays as it is.
        HiveAcidError: the version is not known (`past_of`).
    """
    VersionSpec.of(tag=name)
    keep(client, table)
    table = client.get_table(table.ref)
    notes = VersionNotes.of(table)
    snapshot = snapshot_of(client, table)
    past = _past(client, table, version, snapshot)
    now_s = server_now(client) or 0.0
    if expires_s is not None and expires_s <= now_s:
        raise ConfigurationError(f"tag {name!r} would have expired at {time_text(expires_s)}")
    older = notes.tag(name)
    if older is not None and not older.has_expired(now_s):
        is_again = may_retry and _is_by(older, made_by)
        if is_again and older.is_sure and version.is_now:
            return older
        is_same = _is_for(older, past.then)
        if not is_same and not moves and (older.is_sure or not is_again):
            raise _taken(table, older)
        moved = replace(older, expires_s=expires_s, made_s=_after(older, now_s))
        if is_same and older.is_sure and _take_place(client, notes, older, moved):
            return moved
    roots = client.list_partitions(table)
    made_s = now_s if older is None else _after(older, now_s)
    tag = _tag(past, name, roots, made_s=made_s, expires_s=expires_s, made_by=made_by)
    notes.note_tag(replace(tag, is_sure=False))
    try:
        # Whoever cleans writes down first which versions end, then looks for tags: if he has not
        # seen ours, we see what he has written. But only of what is replaced for us as for him.
        snapshot = snapshot_of(client, table)
        now = without_aborted(snapshot.write_ids(table.ref), past.now.aborted)
        later = replace(past, now=now, txns=snapshot.txns)
        _tag(later, name, roots, made_s=made_s, expires_s=expires_s, made_by=made_by)
        if not moves:
            _check_alone(notes, table, tag, older, now_s)
    except BaseException:
        notes.forget_this_tag(tag)
        raise
    notes.note_tag(tag)
    notes.forget_tags_before(tag)
    return tag


def time_from_now(client: MetastorePort, seconds: float) -> float:
    """A moment by the metastore's clock, as seconds since 1970.

    Raises:
        ConfigurationError: the metastore does not tell the time.
    """
    now_s = server_now(client)
    if now_s is None:
        raise ConfigurationError("the metastore does not say what time it is")
    return now_s + seconds


def _take_place(client: MetastorePort, notes: VersionNotes, older: Tag, moved: Tag) -> bool:
    """Put a tag with another end in place of one; tells whether its files are kept for sure.

    Whoever cleans takes the time first, then looks for tags. If the older one has not expired after
    the other is written, whoever takes it for expired begins later, and sees the other.
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
    """See that nobody else makes a tag of that name for another version, or has made it meanwhile.

    Each looks after he has written his own, so that of two at least one sees the other, and none
    is told of a tag that stands for something else.

    Raises:
        TagTakenError: somebody does.
    """
    then, since_s = ValidWriteIdList.parse(tag.write_ids), -1.0 if older is None else older.made_s
    for other in notes.noted_tags():
        if other.name != tag.name or other.made_s <= since_s or other.has_expired(now_s):
            continue
        if not _is_for(other, then) and not _is_by(other, tag.made_by):
            raise _taken(table, other)


def _is_by(tag: Tag, made_by: str) -> bool:
    return bool(made_by) and tag.made_by == made_by


def _taken(table: TableInfo, tag: Tag) -> TagTakenError:
    return TagTakenError(table=table.ref, tag=tag.name, stands_for=f"version {tag.version}")


def _is_for(tag: Tag, then: ValidWriteIdList) -> bool:
    """Whether a tag stands for a version; metastores forget in time what was aborted."""
    noted = ValidWriteIdList.parse(tag.write_ids)
    return (noted.high_watermark, set(noted.open)) == (then.high_watermark, set(then.open))


def _after(older: Tag, now_s: float) -> float:
    """When a tag is said to be made that takes the place of another."""
    return max(now_s, older.made_s + _NEXT_S)


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
        snapshot = snapshot_of(client, table)  # not older than the moment that was told
    return past_of(client, table, version, snapshot, taken_s=lambda: taken_s)
