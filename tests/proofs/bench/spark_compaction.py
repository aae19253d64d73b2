"""The yardstick of compaction: Spark decodes the files that a compaction reads, and encodes them.

It does the least that gives the same rows: no order by row ID, no key index, no transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.state.acid_state import AcidState
    from airflow_hiveacid.format.state.directories import AcidDirectory

_IDENTITY: Final = ("originalTransaction", "bucket", "rowId")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCompaction:
    """A compaction of one state of a table into a separate folder, which `run` creates.

    `root` is the table's folder; `buckets` is the number of files of a result.
    """

    spark: SparkSession
    root: Path
    state: AcidState
    buckets: int

    def run(self, kind: str, folder: Path) -> int:
        """Compact, `minor` or `major`, and return the bytes written."""
        if kind == "minor":
            deltas = self._read(self.state.deltas).coalesce(self.buckets)
            _write(deltas, folder / "delta")
            delete_deltas = self._read(self.state.delete_deltas).coalesce(self.buckets)
            _write(delete_deltas, folder / "delete_delta")
        else:
            _write(self._live_events(), folder / "base")
        return sum(file.stat().st_size for file in folder.rglob("*.orc"))

    def rows(self, folder: Path) -> DataFrame:
        """Return the table's rows in a result of `major`."""
        return self.spark.read.orc(str(folder / "base")).select("event_row.*")

    def _live_events(self) -> DataFrame:
        """Return the insert events of the remaining rows."""
        base = [self.state.base] if self.state.base is not None else []
        # ORC mistakes a reader of some ACID columns for a reader of the table's columns
        # (SchemaEvolution), and fails. So read all of them, by a condition that always holds.
        deleted = self._read(self.state.delete_deltas).where(
            F.col("row").isNull() & (F.col("operation") + F.col("currentTransaction") > 0)
        )
        inserts = self._read([*base, *self.state.deltas])
        gone = deleted.select(*_IDENTITY)
        return inserts.join(F.broadcast(gone), list(_IDENTITY), "left_anti")

    def _read(self, directories: Iterable[AcidDirectory]) -> DataFrame:
        files = [str(self.root / file.path) for d in directories for file in d.files]
        return self.spark.read.orc(files)


def _write(events: DataFrame, path: Path) -> None:
    """Write the events under other names, so that ORC lets some of the columns be read back."""
    renamed = events.select(*[F.col(name).alias(f"event_{name}") for name in events.columns])
    renamed.write.orc(str(path))
