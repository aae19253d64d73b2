"""A change feed: for each range of versions, a directory with Parquet files and a note.

A range, which may have no files, exists once its note exists. Its directory is named after the
version at which it begins, so only one of two writers can continue from a version. A consumer may
remove ranges that it has read, except the last one: the feed continues from it.

On a store that renames directories, the driver moves the tasks' accepted files from staging to a
second directory, and renames it: files and note appear in one step. On other stores, tasks leave
uploads to the attempt's directory in the range's open; the driver completes the reported ones, and
writes the note last. Files without a note are not part of the feed.

Example:
    feed = ChangeFeed("hdfs://nn/feeds/flights")
    directory = feed.new_directory(WriteId(12), "1-abc")
    ...  # tasks write files to `task_file(directory, name)`
    feed.publish(directory, note, sizes)
"""

from __future__ import annotations

import dataclasses
import json
import logging
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.names import (
    STAGING_PREFIX,
    attempt_path,
    staging_directory,
    stays_below,
)
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    make_directory,
    move,
    read_bytes,
    rename_directory,
    storage_errors,
    write_new,
)
from airflow_hiveacid.storage.stores.json_files import NOTES, read_note
from airflow_hiveacid.storage.stores.listing import children, give_up_all
from airflow_hiveacid.storage.stores.locations import open_location, traits_of
from airflow_hiveacid.storage.stores.threads import each_in_threads

FEED_NOTE: Final = "_changes.json"
"""The name of the note of a range, in the directory of the range."""

_NOTE_VERSION: Final = 1
_RANGE: Final = re.compile(r"changes_([0-9]{7,19})\Z")
_STAGED: Final = f"{STAGING_PREFIX}feed_"
_CHOSEN: Final = "_chosen"
_ORPHAN_AGE_S: Final = 86400.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedNote:
    """The note of one range in a feed: its content and its writer.

    `table_id` distinguishes the table from an earlier table of the same name. For the same purpose,
    `births` has the creation time of each partition in seconds since 1970. If `is_whole`, the rows
    are the whole table at `until`, not the changes since `since`. `rows` is the number of rows by
    type of change. `directory` is the subdirectory with the files; blank means the range's
    directory itself. `where` is the condition that selected the rows; blank means no condition.
    `asked` has digests of the arguments that determine which changes are written, and in what form.
    `held` has the newest write of each partition at `until` (`format.versions.newest_of`).
    `keys` are the columns that identified updates.
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
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The feed at one URI. Of two concurrent writers, one fails."""

    location: str

    def uri_of(self, since: int) -> str:
        """Return the URI of the range that begins at a version."""
        return f"{self.location.rstrip('/')}/changes_{since:07d}"

    def directory_of(self, note: FeedNote) -> str:
        """Return the URI of the directory that contains a range's files."""
        return posixpath.join(self.uri_of(note.since), note.directory).rstrip("/")

    def last(self) -> FeedNote | None:
        """Return the last range; None if the feed has not begun."""
        notes = (self._note(since) for since in sorted(self._begun(), reverse=True))
        return next((note for note in notes if note is not None), None)

    def written_by(self, job_key: str) -> FeedNote | None:
        """Return the range that a job wrote; None if there is none, or it was removed."""
        notes = each_in_threads(self._note, sorted(self._begun(), reverse=True))
        return next((n for n in notes if n is not None and n.job_key == job_key), None)

    def _note(self, since: int) -> FeedNote | None:
        fs, path = open_location(f"{self.uri_of(since)}/{FEED_NOTE}")
        try:
            return feed_note(self.location, read_bytes(fs, path))
        except FileNotFoundError:
            return None  # a writer was killed before it completed the range

    def new_directory(self, since: int, attempt: str) -> str:
        """Return the attempt's own directory for a range, and create it if the store renames."""
        fs, root = open_location(self.location)
        staged = staging_directory(f"feed_{attempt}")
        if not traits_of(fs).renames:
            return f"{self.uri_of(since)}/{staged}"
        directory = f"{self.location.rstrip('/')}/{staged}"
        self._remove_orphans(fs, root)
        make_directory(*open_location(directory))
        return directory

    def publish(
        self,
        directory: str,
        note: FeedNote,
        sizes: Mapping[str, int],
        *,
        guard: Callable[[], None] = lambda: None,
    ) -> str:
        """Publish the files listed in a note as a range; return their directory.

        Tasks have written the files to `directory`; `sizes` has their bytes by name. `guard` is
        called directly before the range appears; if it raises an error, the range does not appear.
        Raises FeedOvertakenError if a different writer continued from the same version.
        """
        fs, path = open_location(directory)
        if not traits_of(fs).renames:
            return self._publish_files(directory, note, sizes, guard)
        target = self.uri_of(note.since)
        chosen = path + _CHOSEN
        make_directory(fs, chosen)
        try:
            each_in_threads(
                lambda name: move(fs, posixpath.join(path, name), posixpath.join(chosen, name)),
                note.files,
            )
            write_new(fs, posixpath.join(chosen, FEED_NOTE), _text_of(note))
            guard()
            try:
                rename_directory(fs, chosen, open_location(target)[1])
            except errors.DirectoryExistsError as error:
                raise errors.FeedOvertakenError(location=target) from error
        except (errors.FeedOvertakenError, errors.MetastoreError, errors.TransactionError):
            self.discard(directory + _CHOSEN)
            self.discard(directory)
            raise
        self.discard(directory)
        return target

    def _publish_files(
        self, directory: str, note: FeedNote, sizes: Mapping[str, int], guard: Callable[[], None]
    ) -> str:
        fs, path = open_location(directory)
        final_note = dataclasses.replace(note, directory=_own_directory(directory))
        with storage_errors("publish", path):
            for name in note.files:
                fs.handler.publish(open_location(task_file(directory, name))[1], sizes[name])
        _, root = open_location(self.uri_of(note.since))
        noted = posixpath.join(root, FEED_NOTE)
        try:
            guard()
            with storage_errors("write", noted):
                try:
                    fs.handler.put_once(noted, _text_of(final_note), note.attempt)
                except FileExistsError as error:
                    raise errors.FeedOvertakenError(location=self.uri_of(note.since)) from error
        except (errors.FeedOvertakenError, errors.MetastoreError, errors.TransactionError):
            # After any other error, the note may be there, so the files that it names stay.
            self.discard(directory)
            delete_directory(fs, posixpath.join(root, final_note.directory))
            raise
        self.discard(directory)
        self._sweep(fs, root, final_note.directory)
        return self.directory_of(final_note)

    def _sweep(self, fs: pafs.FileSystem, root: str, directory: str) -> None:
        try:
            for info in children(fs, root):
                if info.type == pafs.FileType.Directory and info.base_name != directory:
                    delete_directory(fs, info.path)
        except errors.HiveAcidError as error:
            _log.warning("cannot remove other writers' files below %s: %s", root, error)

    def discard(self, directory: str) -> None:
        """Remove unpublished files of tasks; only log a failure, as no range contains them."""
        try:
            delete_directory(*open_location(directory))
            give_up_all(posixpath.join(posixpath.dirname(directory), _own_directory(directory)))
        except errors.HiveAcidError as error:
            _log.warning("cannot remove %s: %s", directory, error)

    def _begun(self) -> list[int]:
        fs, root = open_location(self.location)
        names = [info.base_name for info in children(fs, root)]
        return [int(match[1]) for name in names if (match := _RANGE.match(name)) is not None]

    def _remove_orphans(self, fs: pafs.FileSystem, root: str) -> None:
        for info in children(fs, root):
            is_ours = info.base_name.startswith(_STAGED)
            age_s = time.time() - info.mtime.timestamp() if info.mtime else 0.0
            if is_ours and age_s > _ORPHAN_AGE_S:
                delete_directory(fs, info.path)


def task_file(directory: str, name: str) -> str:
    """Return the path at which a task writes a file; `name` must be unique to the attempt."""
    if traits_of(open_location(directory)[0]).renames:
        return f"{directory}/{name}"
    return attempt_path(directory, name, _own_directory(directory), name)


def _own_directory(directory: str) -> str:
    return posixpath.basename(directory).removeprefix(_STAGED)


def _text_of(note: FeedNote) -> bytes:
    body = {"version": _NOTE_VERSION, **cast("dict[str, object]", NOTES.to_json(note))}
    return json.dumps(body, sort_keys=True).encode()


def feed_note(location: str, content: bytes) -> FeedNote:
    """Parse a range's note; raise FeedError if it is invalid, or leads out of the range."""
    try:
        note = read_note(FeedNote, content, location, version=_NOTE_VERSION)
    except errors.CorruptFileError as error:
        raise errors.FeedError(
            location=location, reason=f"its last note is {error.reason}"
        ) from error
    # The feed's readers get these paths. A note may not lead them to another directory.
    paths = [*note.files, *([note.directory] if note.directory else [])]
    if not all(stays_below(path) and "/" not in path for path in paths):
        raise errors.FeedError(location=location, reason="its last note names a path elsewhere")
    return note
