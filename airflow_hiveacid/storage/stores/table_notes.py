"""Small notes that maintenance keeps in a table's hidden directory, beside the ledger.

Two kinds: when a replacement was first seen (for cleaning), and up to which write ID a compaction
of ours went (the metastore's queue does not tell it). Lost notes cost time, never rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.plan.cleaning import FirstSeen
from airflow_hiveacid.storage.stores.filesystem import delete_file, read_bytes, write_bytes
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY, table_digest
from airflow_hiveacid.storage.stores.listing import list_files
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.table import PartitionName, TableInfo

_SEEN: Final = "_seen_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotes:
    """The notes of one table. Those of another `table_id`, here before it, are never met.

    Names of directories, and the numbers of another metastore's queue, begin anew with a table.
    """

    location: str
    table_id: str

    @classmethod
    def of(cls, table: TableInfo) -> Self:
        """Those of a table as the metastore knows it now."""
        return cls(location=table.location, table_id=table.table_id)

    def noted(self) -> frozenset[str]:
        """Which partitions have notes of replacements, in the words of `note_of`."""
        files = list_files(*open_location(self._uri("")), f"{_SEEN}{self._digest}.")
        return frozenset(file.name for file in files)

    def note_of(self, partition: PartitionName) -> str:
        """What the note of a partition's replacements is called."""
        digest = hashlib.sha256(str(partition).encode()).hexdigest()[:32]
        return f"{_SEEN}{self._digest}.{digest}.json"

    def first_seen(self, partition: PartitionName) -> dict[str, FirstSeen]:
        """When each replacement of a partition was first seen, by directory name."""
        found = {}
        for name, note in self._read(self.note_of(partition)).items():
            match note:
                case {"high_watermark": int(watermark), "at_s": int(at_s) | float(at_s)}:
                    found[name] = FirstSeen(high_watermark=TxnId(watermark), at_s=at_s)
                case _:
                    pass  # as good as none
        return found

    def note_first_seen(self, partition: PartitionName, seen: Mapping[str, FirstSeen]) -> None:
        """Replace the notes of a partition; no notes, no file."""
        if not seen:
            delete_file(*open_location(self._uri(self.note_of(partition))))
            return
        self._write(
            self.note_of(partition),
            {n: {"high_watermark": s.high_watermark, "at_s": s.at_s} for n, s in seen.items()},
        )

    def highest_write_id(self, entry_id: int) -> WriteId | None:
        """Up to where our compaction under this queue entry went; None if it was not ours."""
        found = self._read(self._compaction(entry_id)).get("highest_write_id")
        return WriteId(found) if isinstance(found, int) else None

    def note_highest_write_id(self, entry_id: int, write_id: WriteId) -> None:
        """Note it before the entry becomes ready for cleaning."""
        self._write(self._compaction(entry_id), {"highest_write_id": write_id})

    def forget_compaction(self, entry_id: int) -> None:
        """Remove the note of a queue entry that is cleaned."""
        delete_file(*open_location(self._uri(self._compaction(entry_id))))

    def _read(self, name: str) -> dict[str, Any]:
        try:
            body = json.loads(read_bytes(*open_location(self._uri(name))))
        except (FileNotFoundError, ValueError, RecursionError):
            # A half-written note, or one that is none, is as good as none: it is taken anew.
            return {}
        return body if isinstance(body, dict) else {}

    def _write(self, name: str, body: Mapping[str, object]) -> None:
        write_bytes(*open_location(self._uri(name)), json.dumps(body).encode())

    def _compaction(self, entry_id: int) -> str:
        return f"_compaction_{self._digest}.{entry_id}.json"

    @property
    def _digest(self) -> str:
        return table_digest(self.table_id)

    def _uri(self, name: str) -> str:
        return f"{self.location.rstrip('/')}/{HIDDEN_DIRECTORY}/{name}"
