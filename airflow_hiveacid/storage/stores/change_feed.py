"""A feed of changes: a directory of Parquet for each range, with a note in it that says which.

The note is the feed's memory, also where a range has no rows and so no files. A range is there when
its note is: where directories are renamed, both appear in one step, in a directory into which
nobody but the driver brings anything: a task that is late writes to where it was told to, and that
is never published. Elsewhere tasks leave uploads of which the driver completes those that it has
heard of, into a directory of the attempt's own inside the range's; the note comes last, and files
without one count for nothing. A range has the name of the version at which it begins, so two
writers cannot both go on from there. Whoever has taken over what is in a range may remove it, but
for the last one, from which the feed goes on.

Example:
    feed = ChangeFeed("hdfs://nn/feeds/flights")
    place = feed.place_for(WriteId(12), "1-abc")
    ...  # tasks write files to `task_file(place, name)`
    feed.publish(place, note, sizes)
"""

from __future__ import annotations

import dataclasses
import json
import logging
import posixpath
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import (
    DirectoryExistsError,
    FeedError,
    FeedOvertakenError,
    HiveAcidError,
    MetastoreError,
    TransactionError,
)
from airflow_hiveacid.format.names import STAGING_PREFIX, staging_directory
from airflow_hiveacid.storage.stores.attempt_paths import attempt_path
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    make_directory,
    move,
    read_bytes,
    rename_directory,
    storage_errors,
    write_new,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.open_uploads import give_up_all
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NOTE: Final = "_changes.json"
_NOTE_VERSION: Final = 1
_RANGE: Final = re.compile(r"changes_([0-9]{7,19})\Z")
_STAGED: Final = f"{STAGING_PREFIX}feed_"
_CHOSEN: Final = "_chosen"
_ORPHAN_AGE_S: Final = 86400.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedNote:
    """What is in one range of a feed, and who wrote it.

    `table_id` tells the table from one that had its name before, `births` (seconds since 1970, by
    partition) its partitions from such. `is_whole` says that the rows are the table as it was at
    `until`, and not changes since `since`. `rows` are counted by type of change. `directory` is
    where the files are, in the range's own; blank if they are in that itself. `where` is the
    condition by which rows were chosen; blank if there was none. `asked` has a digest of each
    argument that says which changes these are, and in which form. `held` has, by partition, what
    was written last of it by `until` (`format.versions.newest_of`). `keys` are the columns by which
    updates were told; None if an earlier release wrote it, which did not say.
    """

    table: str
    table_id: str
    since: int
    until: int
    is_whole: bool
    job_key: str
    attempt: str
    files: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    births: Mapping[str, int] = field(default_factory=dict)
    directory: str = ""
    where: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The feed at one URI. Two writers at a time do no harm: one of them fails."""

    location: str

    def uri_of(self, since: int) -> str:
        """Where the range that begins with a version lies."""
        return f"{self.location.rstrip('/')}/changes_{since:07d}"

    def place_of(self, note: FeedNote) -> str:
        """Where the files of a range lie."""
        return posixpath.join(self.uri_of(note.since), note.directory).rstrip("/")

    def last(self) -> FeedNote | None:
        """The last range; None if the feed has not begun.

        Raises:
            FeedError: its note cannot be read.
            LocationPermissionError, StorageError: the store cannot be read.
        """
        return next(self._notes(), None)

    def written_by(self, job_key: str) -> FeedNote | None:
        """The range that a job has written; None if there is none, or it was removed.

        Raises:
            HiveAcidError: as `last`.
        """
        notes = each_in_threads(self._note, sorted(self._begun(), reverse=True))
        return next((n for n in notes if n is not None and n.job_key == job_key), None)

    def _notes(self) -> Iterator[FeedNote]:
        """Those of all ranges, the last one first."""
        found = (self._note(since) for since in sorted(self._begun(), reverse=True))
        return (note for note in found if note is not None)

    def _note(self, since: int) -> FeedNote | None:
        fs, path = open_location(f"{self.uri_of(since)}/{_NOTE}")
        try:
            return _note_in(self.location, read_bytes(fs, path))
        except FileNotFoundError:
            return None  # somebody died before it was complete

    def place_for(self, since: int, attempt: str) -> str:
        """Where an attempt writes the files of a range; nobody else writes there.

        Where directories are kept without files, it exists.
        """
        fs, root = open_location(self.location)
        staged = staging_directory(f"feed_{attempt}")
        if not traits_of(fs).renames:
            return f"{self.uri_of(since)}/{staged}"
        place = f"{self.location.rstrip('/')}/{staged}"
        self._remove_orphans(fs, root)
        make_directory(*open_location(place))
        return place

    def publish(
        self,
        place: str,
        note: FeedNote,
        sizes: Mapping[str, int],
        *,
        guard: Callable[[], None] = lambda: None,
    ) -> str:
        """Make a range of the files that the note names, and of no others; answers where they are.

        Args:
            place: where tasks have written them.
            note: what is in them.
            sizes: their bytes.
            guard: called right before the range appears; what it raises keeps it away.

        Raises:
            FeedOvertakenError: somebody else went on from the same version.
            LocationPermissionError, StorageError: it failed otherwise.
        """
        fs, path = open_location(place)
        if not traits_of(fs).renames:
            return self._publish_files(place, note, sizes, guard)
        target = self.uri_of(note.since)
        chosen = path + _CHOSEN
        make_directory(fs, chosen)
        try:
            each_in_threads(
                lambda name: move(fs, posixpath.join(path, name), posixpath.join(chosen, name)),
                note.files,
            )
            write_new(fs, posixpath.join(chosen, _NOTE), _text_of(note))
            guard()
            try:
                rename_directory(fs, chosen, open_location(target)[1])
            except DirectoryExistsError as error:
                raise FeedOvertakenError(location=target) from error
        except (FeedOvertakenError, MetastoreError, TransactionError):
            self.discard(place + _CHOSEN)
            self.discard(place)
            raise
        self.discard(place)
        return target

    def _publish_files(
        self, place: str, note: FeedNote, sizes: Mapping[str, int], guard: Callable[[], None]
    ) -> str:
        """The same where files appear one by one: the note makes them count."""
        fs, path = open_location(place)
        done = dataclasses.replace(note, directory=_own_directory(place))
        with storage_errors("publish", path):
            for name in note.files:
                fs.handler.publish(open_location(task_file(place, name))[1], sizes[name])
        _, root = open_location(self.uri_of(note.since))
        noted = posixpath.join(root, _NOTE)
        try:
            guard()
            with storage_errors("write", noted):
                try:
                    fs.handler.put_once(noted, _text_of(done), note.attempt)
                except FileExistsError as error:
                    raise FeedOvertakenError(location=self.uri_of(note.since)) from error
        except (FeedOvertakenError, MetastoreError, TransactionError):
            self.discard(place)
            delete_directory(fs, posixpath.join(root, done.directory))
            raise
        self.discard(place)
        self._sweep(fs, root, done.directory)
        return self.place_of(done)

    def _sweep(self, fs: pafs.FileSystem, root: str, directory: str) -> None:
        """Remove what is not the range's: of the dead, or of somebody who will find the note."""
        try:
            for info in _inside(fs, root):
                if info.type == pafs.FileType.Directory and info.base_name != directory:
                    delete_directory(fs, info.path)
        except HiveAcidError as error:
            _log.warning("files of others are left behind at %s: %s", root, error)

    def discard(self, place: str) -> None:
        """Remove what tasks have written that is not to be, as far as that is possible now.

        What stays is in nobody's way: it is in no range.
        """
        try:
            delete_directory(*open_location(place))
            give_up_all(posixpath.join(posixpath.dirname(place), _own_directory(place)))
        except HiveAcidError as error:
            _log.warning("%s is left behind: %s", place, error)

    def _begun(self) -> list[int]:
        fs, root = open_location(self.location)
        names = [info.base_name for info in _inside(fs, root)]
        return [int(match[1]) for name in names if (match := _RANGE.match(name)) is not None]

    def _remove_orphans(self, fs: pafs.FileSystem, root: str) -> None:
        for info in _inside(fs, root):
            is_ours = info.base_name.startswith(_STAGED)
            age_s = time.time() - info.mtime.timestamp() if info.mtime else 0.0
            if is_ours and age_s > _ORPHAN_AGE_S:
                delete_directory(fs, info.path)


def _inside(fs: pafs.FileSystem, root: str) -> list[pafs.FileInfo]:
    with storage_errors("list", root):
        found: list[pafs.FileInfo] = fs.get_file_info(
            pafs.FileSelector(root, recursive=False, allow_not_found=True)
        )
    return found


def task_file(place: str, name: str) -> str:
    """Where a task writes a file of this name, which no other attempt of it has."""
    if traits_of(open_location(place)[0]).renames:
        return f"{place}/{name}"
    return attempt_path(place, name, _own_directory(place), name)


def _own_directory(place: str) -> str:
    """The directory of the range in which the attempt's files are that a place belongs to."""
    return posixpath.basename(place).removeprefix(_STAGED)


def _text_of(note: FeedNote) -> bytes:
    body = {"version": _NOTE_VERSION, **dataclasses.asdict(note)}
    return json.dumps(body, sort_keys=True).encode()


def _note_in(location: str, content: bytes) -> FeedNote:
    try:
        body = json.loads(content)
        if body.pop("version") != _NOTE_VERSION:
            reason = "its last note was written by another release"
            raise FeedError(location=location, reason=reason)
        keys = body.get("keys")
        lists = {"files": tuple(body["files"]), "keys": None if keys is None else tuple(keys)}
        return FeedNote(**{**body, **lists})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FeedError(location=location, reason=f"its last note is none: {error!r}") from error
