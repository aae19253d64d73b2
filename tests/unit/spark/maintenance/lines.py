"""Tables whose files are text, for tests that check names and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_hiveacid.format.acid_state import flat_state, resolve
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.spark.writing.spreading import RowDigest
from airflow_hiveacid.storage.stores.listing import list_table


@dataclass(frozen=True)
class Lines:
    """The rows of a table whose files are text."""

    client: MetastorePort

    @contextmanager
    def group(self, _: str) -> Iterator[Callable[[], None]]:
        yield lambda: None

    def digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        rows = self.of(table, write_ids)
        return RowDigest(rows=len(rows), hashes=hash(tuple(rows)))

    def require_compactable(self, flat: TableInfo) -> None:
        """Accept all files, because lines of text can always be compacted."""

    def of(self, table: TableInfo, write_ids: ValidWriteIdList) -> list[str]:
        found: list[str] = []
        for place in self.client.list_partitions(table):
            listing = list_table(place.location)
            if table.kind is TransactionalKind.NONE:
                files = flat_state(listing).originals
            else:
                state = resolve(listing, write_ids, self.client.valid_txns(), table.kind)
                files = (*state.originals, *(f for d in state.live for f in d.files))
                if table.kind is TransactionalKind.INSERT_ONLY:
                    files = tuple(f for f in files if "/" in f.path)
            root = Path(place.location.removeprefix("file:"))
            found += (line for f in files for line in (root / f.path).read_text().split())
        return sorted(found)
