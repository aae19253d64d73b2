"""Every file below a table's directories, why it is still there, and the values that notes store.

That includes files that readers ignore: replaced, aborted, staged and hidden files, and files of
dropped partitions. A planned cleaning gives the reasons of those that it would remove or keep. This
module changes nothing, and needs neither Spark nor the content of files.

Each file of a hidden directory is read as JSON, or as a roll of such texts, whatever kind of note
it is. So a kind that a later release adds is searched as well.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.directories import DirectoryStatus, FileEntry
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    LocationPermissionError,
    StorageError,
    StoreUnavailableError,
)
from airflow_hiveacid.format.names import is_below_hidden
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import TableCleaning
from airflow_hiveacid.maintenance.ownership import Neighbours
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.change_feed import FEED_NOTE
from airflow_hiveacid.storage.stores.filesystem import read_bytes
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY, unpacked
from airflow_hiveacid.storage.stores.listing import every_file, list_table, open_uploads
from airflow_hiveacid.storage.stores.locations import (
    locate,
    open_location,
    publishes_files,
    scheme_of,
)
from airflow_hiveacid.storage.stores.threads import each_in_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file below a table's directories, or below another location.

    `entry.path` is relative to `root`. `partition` is None if the metastore knows no partition that
    contains the file; the path may still show the values, `name`. `is_outside` is True for a file
    not below the table's directories. `why_not` is why the file, or all of `root`, cannot be read.
    """

    root: str
    entry: FileEntry
    partition: PartitionInfo | None = None
    name: PartitionName | None = None
    is_outside: bool = False
    why_not: str = ""

    @property
    def uri(self) -> str:
        """The file's URI."""
        return f"{self.root.rstrip('/')}/{self.entry.path}"

    @property
    def is_note(self) -> bool:
        """True if the file is in a table's hidden directory, or describes a range of a feed."""
        return HIDDEN_DIRECTORY in self.entry.path.split("/") or self.entry.name == FEED_NOTE

    @property
    def below(self) -> str:
        """The file's path relative to its partition's location; without a partition, to `root`."""
        if self.partition is None:
            return self.entry.path
        path = posixpath.join(locate(self.root)[1], self.entry.path)
        return posixpath.relpath(path, locate(self.partition.location)[1])


def stored_files(
    table: TableInfo, partitions: Sequence[PartitionInfo], locations: Sequence[str]
) -> list[StoredFile]:
    """Return every file; a file that two partitions share is returned once for each of them.

    `locations` are URIs of directories outside the table. A directory that may not be listed is an
    entry with `why_not`.
    """
    owners: dict[tuple[str, str], list[PartitionInfo]] = {}
    for info in partitions:
        owners.setdefault(locate(info.location), []).append(info)
    roots = dict.fromkeys((table.location, *(info.location for info in partitions)), False)
    roots |= {location: True for location in locations if location not in roots}
    files_at: dict[tuple[str, str], list[StoredFile]] = {}
    for root, is_outside in roots.items():
        store, top = locate(root)
        for file in _below(root, is_outside=is_outside):
            path = posixpath.join(top, file.entry.path)
            if (store, path) not in files_at:
                files_at[store, path] = list(_owned(table, file, owners, store, path))
    return [file for files in files_at.values() for file in files]


def _below(root: str, *, is_outside: bool) -> Iterator[StoredFile]:
    try:
        uploads = open_uploads(root) if publishes_files(scheme_of(root)) else ()
        for upload in uploads:
            entry = FileEntry(path=f"{upload.path}?uploadId={upload.upload_id}", size_bytes=0)
            why_not = "it is an upload that its writer has not finished"
            yield StoredFile(root=root, entry=entry, is_outside=is_outside, why_not=why_not)
        for entry in every_file(root):
            yield StoredFile(root=root, entry=entry, is_outside=is_outside)
    except LocationPermissionError as error:
        entry = FileEntry(path="", size_bytes=0)
        yield StoredFile(root=root, entry=entry, is_outside=is_outside, why_not=str(error))


def _owned(
    table: TableInfo,
    file: StoredFile,
    owners: dict[tuple[str, str], list[PartitionInfo]],
    store: str,
    path: str,
) -> Iterator[StoredFile]:
    """Yield the file for each partition that contains it, or once if none does."""
    parent = posixpath.dirname(path)
    while parent not in ("", "/") and (store, parent) not in owners:
        parent = posixpath.dirname(parent)
    for info in owners.get((store, parent), ()):
        yield replace(file, partition=info, name=info.name)
    if (store, parent) not in owners:
        # Directories above the table's location say nothing about its partitions.
        yield replace(file, name=_name_in(table, path if file.is_outside else file.entry.path))


def _name_in(table: TableInfo, path: str) -> PartitionName | None:
    columns = [column.name for column in table.partition_columns]
    directories = [
        d for d in path.split("/")[:-1] if d.partition("=")[0].lower() in columns and "=" in d
    ]
    name = PartitionName.parse("/".join(directories))
    return name if columns and name.columns == tuple(columns) else None


LIVE: Final = "it belongs to the table's current state"
_HIDDEN: Final = "it is staged or hidden; remove it after its writer has ended"
_UNKNOWN: Final = "it belongs to no state of the table; move it away or remove it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StillThere:
    """The reasons of one table's files. Mutable, because it plans a partition's cleaning once."""

    client: MetastorePort
    cleaning: TableCleaning
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, client: MetastorePort, table: TableInfo, on_step: Callable[[str], None]
    ) -> StillThere:
        """Read the facts that all partitions need."""
        spec = CleanSpec.of_table(str(table.ref), plan_only=True)
        cleaning = TableCleaning.of(client, table.ref, spec, on_step, Neighbours())
        return cls(client=client, cleaning=cleaning)

    def why(self, partition: PartitionInfo | None, path: str) -> str:
        """Return why a file is still there; `path` is relative to its partition or table."""
        location = self.cleaning.table.location if partition is None else partition.location
        if location not in self._known:
            self._known[location] = self._reasons(partition)
        reasons = self._known[location]
        reason = reasons.get(path) or reasons.get(path.partition("/")[0])
        return reason or (_HIDDEN if is_below_hidden(path) else _UNKNOWN)

    def _reasons(self, partition: PartitionInfo | None) -> dict[str, str]:
        if partition is None:
            return _planned(self.cleaning.finish(self.client, ()))
        table = self.cleaning.table
        txns = self.client.valid_txns()
        write_ids = self.client.valid_write_ids([table.ref], txns)[table.ref]
        state = resolve(list_table(partition.location), write_ids, txns, table.kind)
        return {
            **{file.path: LIVE for file in state.originals},
            **{
                d.text: LIVE if d.status is DirectoryStatus.LIVE else f"it is {d.why}"
                for d in state.directories
            },
            **_planned([self.cleaning.clean(self.client, partition)]),
        }


def _planned(outcomes: Iterable[CleaningOutcome]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for outcome in outcomes:
        reasons |= {r.path: f"clean the table to remove it: {r.why}" for r in outcome.removed}
        reasons |= {r.path: f"cleaning keeps it: {r.why}" for r in outcome.kept}
    return reasons


_AROUND_WORDS: Final = "\"'`()[]{}<>,.:;"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedValues:
    """The names of partitions in notes, whether the partitions exist or not.

    `not_searched` has, by URI, why a note may store other values of rows; it holds none of them.
    """

    names: frozenset[str]
    not_searched: Mapping[str, str]


def noted_values(table: TableInfo, files: Iterable[StoredFile]) -> NotedValues:
    """Search the notes among a table's files; raise StoreUnavailableError if the store fails."""
    uris = [file.uri for file in files if file.is_note and file.entry.size_bytes]
    columns = [column.name for column in table.partition_columns]
    found = each_in_threads(lambda uri: _of_note(uri, columns), uris)
    return NotedValues(
        names=frozenset(name for names, _ in found for name in names),
        not_searched={uri: why for uri, (_, why) in zip(uris, found, strict=True) if why},
    )


def _of_note(uri: str, columns: Sequence[str]) -> tuple[frozenset[str], str]:
    """Return the names in a note, and why the note may store other values, or ""."""
    names, streams = set[str](), set[str]()
    try:
        for document in _documents(read_bytes(*open_location(uri)), uri):
            for key, value in _parts(document):
                names |= _names_in(key, columns)
                names |= _names_in(value, columns) if isinstance(value, str) else set()
                if key == "offsets" and value is not None:
                    streams.add(str(document.get("job_key", "a stream")))
    except FileNotFoundError:
        return frozenset(), "another job has replaced it meanwhile; run the proof again"
    except (CorruptFileError, ValueError, RecursionError):  # the text of an error may have values
        return frozenset(), "it is damaged, or its format is unknown"
    except StoreUnavailableError:
        raise
    except StorageError as error:
        return frozenset(), f"it cannot be read: {type(error).__name__}"
    owners = ", ".join(sorted(streams))
    why = f"it stores offsets of {owners}, which may be values of rows" if streams else ""
    return frozenset(names), why


def _documents(content: bytes, uri: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the JSON of a note, or of each entry of a roll; raise CorruptFileError, ValueError."""
    try:
        texts = [json.loads(content)]
    except ValueError:
        texts = [json.loads(line.text) for line in unpacked(content, path=uri)]
    for text in texts:
        if not isinstance(text, dict):
            raise CorruptFileError(path=uri, reason="not a note")
        yield text


def _parts(value: JsonValue, key: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield a value with its key, and all values inside it; a text may be JSON, too."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        with suppress(ValueError):
            value = json.loads(value)
    yield key, value
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _parts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _parts(item)


def _names_in(text: str, columns: Sequence[str]) -> set[str]:
    """Return the names in a name, in a path, or else in the words of a sentence.

    Example:
        >>> _names_in("file:/t/name=Ann Lee/base_1", ["name"])
        {'name=Ann Lee'}
        >>> _names_in("cannot read t (name=Ann): timeout", ["name"])
        {'name=Ann'}
    """
    if not columns or "=" not in text:
        return set()
    in_path = _names_in_path(text, columns)
    if in_path:
        return in_path
    words = (word.strip(_AROUND_WORDS) for word in text.split())
    return {name for word in words for name in _names_in_path(word, columns)}


def _names_in_path(text: str, columns: Sequence[str]) -> set[str]:
    directories, names = text.split("/"), set[str]()
    for start in range(len(directories) - len(columns) + 1):
        run = directories[start : start + len(columns)]
        if all("=" in directory for directory in run):
            name = PartitionName.parse("/".join(run))
            names |= {str(name)} if name.columns == tuple(columns) else set()
    return names
