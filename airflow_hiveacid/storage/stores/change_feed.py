"""A feed of changes: a directory of Parquet for each range, with a note in it that says which.

The note is the feed's memory. A range is there when its note is: where directories are renamed,
both appear in one step; elsewhere the note comes last, files without one count for nothing, and
each attempt writes to a directory of its own inside the range's: what another one writes, even
later, is in nobody's way. A range has the name of the version at which it begins, so two writers
cannot both go on from there.
Whoever has taken over what is in a range may remove it, but for the last one, from which the feed
goes on.

Example:
    feed = ChangeFeed("hdfs://nn/feeds/flights")
    place = feed.place_for(WriteId(12), "1-abc")
    ...  # files are written to it
    feed.publish(place, note)
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import DirectoryExistsError, FeedError
from airflow_hiveacid.format.names import STAGING_PREFIX, staging_directory
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    delete_file,
    make_directory,
    read_bytes,
    rename_directory,
    storage_errors,
    write_new,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_NOTE: Final = "_changes.json"
_NOTE_VERSION: Final = 1
_RANGE: Final = re.compile(r"changes_([0-9]{7,19})\Z")
_STAGED: Final = f"{STAGING_PREFIX}feed_"
_ORPHAN_AGE_S: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedNote:
    """What is in one range of a feed, and who wrote it.

    `table_id` tells the table from one that had its name before, `births` (seconds since 1970, by
    partition) its partitions from such. `is_whole` says that the rows are the table as it was at
    `until`, and not changes since `since`. `rows` are counted by type of change. `directory` is
    where the files are, in the range's own; blank if they are in that itself. `where` is the
    condition by which rows were chosen; blank if there was none.
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
        return next((note for note in self._notes() if note.job_key == job_key), None)

    def _notes(self) -> Iterator[FeedNote]:
        """Those of all ranges, the last one first."""
        for since in sorted(self._begun(), reverse=True):
            fs, path = open_location(f"{self.uri_of(since)}/{_NOTE}")
            try:
                yield _note_in(self.location, read_bytes(fs, path))
            except FileNotFoundError:
                continue  # somebody died before it was complete

    def place_for(self, since: int, attempt: str) -> str:
        """Where an attempt writes the files of a range; nobody else writes there.

        Where directories are kept without files, it exists.
        """
        fs, root = open_location(self.location)
        if traits_of(fs).renames:
            place = f"{self.location.rstrip('/')}/{staging_directory(f'feed_{attempt}')}"
            self._remove_orphans(fs, root)
            make_directory(*open_location(place))
            return place
        return f"{self.uri_of(since)}/{attempt}"

    def publish(self, place: str, note: FeedNote) -> str:
        """Make a range of the files that the note names; answers where they are.

        Raises:
            DirectoryExistsError: somebody else went on from the same version.
            LocationPermissionError, StorageError: it failed otherwise.
        """
        _keep_only(place, note.files)
        fs, path = open_location(place)
        if not traits_of(fs).renames:
            self._note_down(dataclasses.replace(note, directory=posixpath.basename(path)))
            return place
        write_new(fs, posixpath.join(path, _NOTE), _text_of(note))
        target = self.uri_of(note.since)
        rename_directory(fs, path, open_location(target)[1])
        return target

    def _note_down(self, note: FeedNote) -> None:
        """Write the note where there is none, and remove what others have left beside its files."""
        fs, root = open_location(self.uri_of(note.since))
        path = posixpath.join(root, _NOTE)
        with storage_errors("write", path):
            try:
                fs.handler.put_once(path, _text_of(note), note.attempt)
            except FileExistsError as error:
                raise DirectoryExistsError(path=root) from error
        for info in _inside(fs, root):
            if info.type == pafs.FileType.Directory and info.base_name != note.directory:
                delete_directory(fs, info.path)

    def discard(self, place: str) -> None:
        """Remove what was written for a range that is not to be."""
        fs, path = open_location(place)
        if traits_of(fs).renames:
            delete_directory(fs, path)
        else:
            _keep_only(place, ())

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


def _keep_only(place: str, names: Collection[str]) -> None:
    """Remove the files of tasks whose answers were not heard."""
    fs, root = open_location(place)
    for info in _inside(fs, root):
        if info.type == pafs.FileType.File and info.base_name not in names:
            delete_file(fs, info.path)


def _text_of(note: FeedNote) -> bytes:
    body = {"version": _NOTE_VERSION, **dataclasses.asdict(note)}
    return json.dumps(body, sort_keys=True).encode()


def _note_in(location: str, content: bytes) -> FeedNote:
    try:
        body = json.loads(content)
        if body.pop("version") != _NOTE_VERSION:
            reason = "its last note was written by another release"
            raise FeedError(location=location, reason=reason)
        return FeedNote(**{**body, "files": tuple(body["files"])})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FeedError(location=location, reason=f"its last note is none: {error!r}") from error
