"""Values of rows that a table's notes store: names of partitions, and offsets of streams.

Each file of a hidden directory is read as JSON, or as a roll of such texts, whatever kind of note
it is. So a kind that a later release adds is searched as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import CorruptFileError, StorageError, StoreUnavailableError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.maintenance.stored_files import StoredFile
from airflow_hiveacid.storage.stores.filesystem import read_bytes
from airflow_hiveacid.storage.stores.json_files import unpacked
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import each_in_threads

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
