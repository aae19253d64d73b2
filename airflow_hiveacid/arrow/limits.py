"""The limits of a statement that one process runs; above them, Spark runs it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.errors import SparkNeededError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest work of one statement.

    `rows` and `key_bytes` count the rows, and the stored bytes of the key and identity columns, in
    the stripes that statistics cannot exclude. One core decodes and looks up 10 million bigint keys
    in 2 s. `changed_rows` counts the rows to delete, update and insert; `memory_bytes` limits these
    rows' keys, row IDs and new values.
    """

    rows: int = 20_000_000
    key_bytes: int = 32 << 20
    changed_rows: int = 100_000
    memory_bytes: int = 512 << 20

    def check_reading(self, rows: int, key_bytes: int) -> None:
        """Raise a SparkNeededError if there is too much to read."""
        if rows > self.rows:
            raise SparkNeededError(f"{rows} rows must be searched, more than {self.rows}")
        if key_bytes > self.key_bytes:
            raise SparkNeededError(
                f"{key_bytes} bytes of keys must be searched, more than {self.key_bytes}"
            )

    def check_changes(self, rows: int, size_bytes: int = 0) -> None:
        """Raise a SparkNeededError if there are too many rows to change."""
        if rows > self.changed_rows:
            raise SparkNeededError(f"it changes more than {self.changed_rows} rows")
        if size_bytes > self.memory_bytes:
            raise SparkNeededError(
                f"its changes need more than {self.memory_bytes} bytes of memory"
            )


DEFAULT_LIMITS = Limits()
