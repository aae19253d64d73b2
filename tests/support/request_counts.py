"""A fake metastore and a local store that count what is asked of them.

`Counts` has the calls of the metastore by name, the partitions in its answers, and the listings,
file opens and status requests of the store.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyarrow import fs as pafs

from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo

SUMMARIES = ("calls", "names", "definitions", "listings", "opens")


@dataclass
class Counts:
    """What was asked since the last `take`. Mutable."""

    calls: Counter[str] = field(default_factory=Counter)
    store: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)

    def take(self) -> Counts:
        """Return the counts until now, and begin again at zero."""
        taken = Counts(Counter(self.calls), Counter(self.store), Counter(self.answers), self.listed)
        self.calls.clear()
        self.store.clear()
        self.answers.clear()
        self.listed = []
        return taken

    @property
    def summary(self) -> dict[str, int]:
        """The numbers of calls, partitions in answers, listings, and opened files."""
        return {
            "calls": self.calls.total(),
            "names": self.answers["names"],
            "definitions": self.answers["definitions"],
            "listings": self.store["listings"],
            "opens": self.store["opens"],
        }


class CountingMetastore(FakeMetastore):
    """A fake metastore that counts each call. Every call looks for planted faults first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(*arguments, **named)
        self.counts = Counts()

    def take_fault(self, method: str, *, is_done: bool) -> None:
        if not is_done:
            self.counts.calls[method] += 1
        super().take_fault(method, is_done=is_done)


class CountingClient(FakeClient):
    """A client that counts the partitions in answers, as names or whole definitions."""

    server: CountingMetastore

    def list_partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        answer = super().list_partitions(table)
        if table.is_partitioned:
            self._count("names", len(answer))
            self._count("definitions", len(answer))
        return answer

    def partition_names(self, table: TableInfo) -> tuple[PartitionName, ...]:
        answer = super().partition_names(table)
        self._count("names", len(answer) if table.is_partitioned else 0)
        return answer

    def get_partitions(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> tuple[PartitionInfo, ...]:
        answer = super().get_partitions(table, names)
        self._count("definitions", len(answer) if table.is_partitioned else 0)
        return answer

    def _count(self, what: str, number: int) -> None:
        with self.server.guard:
            self.server.counts.answers[what] += number


class CountingStore(pafs.LocalFileSystem):  # type: ignore[misc] # pyarrow has no types
    """The local file system, with counts of what Python asks of it."""

    counts: Counts

    def get_file_info(self, what: Any) -> Any:  # noqa: ANN401 - pyarrow's
        is_listing = isinstance(what, pafs.FileSelector)
        self.counts.store["listings" if is_listing else "statuses"] += 1
        if is_listing:
            self.counts.listed.append(what.base_dir)
        return super().get_file_info(what)

    def open_input_file(self, path: str) -> Any:  # noqa: ANN401 - pyarrow's
        self.counts.store["opens"] += 1
        return super().open_input_file(path)

    def open_input_stream(self, path: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        self.counts.store["opens"] += 1
        return super().open_input_stream(path, *arguments, **named)


def counting_store(counts: Counts) -> CountingStore:
    """Return a local file system that adds to these counts."""
    store = CountingStore()
    store.counts = counts
    return store
