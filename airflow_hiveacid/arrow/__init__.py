"""The engine in one process: finds rows by key or simple condition, and makes events of them.

This module has the limits of a statement that one process runs; above them, Spark runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError, SparkNeededError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest work of one statement; by default of a program that has its rows in memory.

    `rows` and `key_bytes` count the rows, and the stored bytes of the key and identity columns, in
    the stripes that statistics cannot exclude. One core decodes and looks up 10 million bigint keys
    in 2 s. `changed_rows` counts the rows to delete, update and insert; `memory_bytes`, at most
    2 GiB, limits these rows' keys, row IDs and new values. `file_bytes` limits the files that LOAD
    DATA copies, or a compaction reads.
    """

    rows: int = 2_000_000_000
    key_bytes: int = 16 << 30
    changed_rows: int = 20_000_000
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 30

    def __post_init__(self) -> None:
        """Refuse more memory than Arrow's strings can address."""
        if self.memory_bytes >= 1 << 31:
            raise ConfigurationError(
                f"memory_bytes is {self.memory_bytes}, but one statement can have at most 2 GiB;"
                " split a larger change"
            )

    def check_reading(self, rows: int, key_bytes: int) -> None:
        """Raise a SparkNeededError if there is too much to read."""
        if rows > self.rows:
            raise SparkNeededError(
                reason=f"{rows} rows must be searched, more than {self.rows}", limit="rows"
            )
        if key_bytes > self.key_bytes:
            raise SparkNeededError(
                reason=f"{key_bytes} bytes of keys must be searched, more than {self.key_bytes}",
                limit="key_bytes",
            )

    def check_changes(self, rows: int, size_bytes: int = 0) -> None:
        """Raise a SparkNeededError if there are too many rows to change."""
        if rows > self.changed_rows:
            raise SparkNeededError(
                reason=f"it changes more than {self.changed_rows} rows", limit="changed_rows"
            )
        if size_bytes > self.memory_bytes:
            raise SparkNeededError(
                reason=f"its changes need more than {self.memory_bytes} bytes of memory",
                limit="memory_bytes",
            )

    def check_files(self, size_bytes: int) -> None:
        """Raise a SparkNeededError if there are too many bytes of files to copy."""
        if size_bytes > self.file_bytes:
            raise SparkNeededError(
                reason=f"its files have {size_bytes} bytes, more than {self.file_bytes}",
                limit="file_bytes",
            )


LIBRARY_LIMITS: Final = Limits()
TASK_LIMITS: Final = Limits(
    rows=20_000_000,
    key_bytes=32 << 20,
    changed_rows=100_000,
    memory_bytes=512 << 20,
    file_bytes=256 << 20,
)
"""The limits of an Airflow task, which would use Spark for more."""
