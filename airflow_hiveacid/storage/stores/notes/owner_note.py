"""The note in a table's hidden directory that names the directory's owner.

A job that writes to a table without such a note writes it, and so does maintenance. A note of
another owner is replaced only if a user asks for it, or if the other table is gone.
"""

from __future__ import annotations

from typing import Final, cast

from airflow_hiveacid.format.records.owner import Owner
from airflow_hiveacid.storage.stores.filesystem import read_bytes, write_new
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.notes.json_files import (
    NOTES,
    hidden_uri,
    packed_json,
    read_note,
)

OWNER_FILE: Final = "_owner.json"
"""The name of the note."""

_VERSION: Final = 1


def owner_uri(location: str) -> str:
    """Return the URI of a directory's note, for messages."""
    return hidden_uri(location, OWNER_FILE)


def noted_owner(location: str) -> Owner | None:
    """Return the noted owner of a table's directory; None if there is no note.

    Raises:
        CorruptFileError: the note is invalid, so the owner is unknown.
    """
    uri = owner_uri(location)
    try:
        return parsed_owner(read_bytes(*open_location(uri)), uri)
    except FileNotFoundError:
        return None


def note_owner(location: str, owner: Owner) -> None:
    """Write the note of a directory's owner, and replace an earlier note."""
    body = cast("dict[str, object]", NOTES.to_json(owner))
    like = open_location(location)[1]
    write_new(
        *open_location(owner_uri(location)), packed_json({"version": _VERSION, **body}), like=like
    )


def parsed_owner(content: bytes, uri: str) -> Owner:
    """Parse a note."""
    return read_note(Owner, content, uri, version=_VERSION)
