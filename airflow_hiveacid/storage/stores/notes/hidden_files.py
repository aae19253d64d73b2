"""The files of a table's hidden directory, listed once for many lookups.

A busy table has hundreds of notes. To find the notes of one kind, a store must list the notes of
all kinds.
"""

from __future__ import annotations

from threading import Lock

from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.notes.json_files import hidden_uri


class HiddenFiles:
    """The listed files of one hidden directory. The object is mutable and thread-safe.

    The owner of the listing reports its own changes (`note_written`, `note_removed`).

    Until `refresh`, the listing does not show changes by other processes. So use a listing only if
    outdated results are harmless.
    """

    def __init__(self, location: str) -> None:
        self._root = hidden_uri(location)
        self._names: set[str] | None = None
        self._lock = Lock()

    def named(self, prefix: str) -> list[str]:
        """Return the sorted names with this prefix; list the directory at the first call."""
        with self._lock:
            if self._names is None:
                self._names = {file.name for file in list_files(*open_location(self._root))}
            return sorted(name for name in self._names if name.startswith(prefix))

    def note_written(self, name: str) -> None:
        """Record a file that the owner of this listing has written."""
        with self._lock:
            if self._names is not None:
                self._names.add(name)

    def note_removed(self, name: str) -> None:
        """Record that the owner of this listing has removed a file."""
        with self._lock:
            if self._names is not None:
                self._names.discard(name)

    def refresh(self) -> None:
        """Discard the listing, so that the next lookup lists the directory again."""
        with self._lock:
            self._names = None
