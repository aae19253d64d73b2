"""What the play `warehouse` measures beside its writers: deltas, notes, the compaction queue."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event  # noqa: TC003 - a type of the dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.notes.json_files import HIDDEN_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.table import PartitionInfo
    from airflow_hiveacid.metastore.compaction_queue import CompactionEntry
    from airflow_hiveacid.metastore.port import MetastorePort
    from tests.proofs.airflow.warehouse.tables import Table

Name = tuple[str, str]
"""A table and a partition, which is empty in an unpartitioned table."""

_QUEUE_S: Final = 3.0
_OURS: Final = "hiveacid-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One look at all tables: what each reader has to read, and what no reader needs."""

    at_s: float
    deltas: Mapping[Name, int]
    obsolete: int
    notes: Mapping[str, int]


def measure(client: MetastorePort, tables: Sequence[Table]) -> Measured:
    """Count the deltas of each partition, obsolete directories, and the files of notes."""
    txns = client.valid_txns()
    write_ids = client.valid_write_ids([table.info.ref for table in tables], txns)
    healths: dict[Name, TableHealth] = {}
    for table, partition in pieces(tables):
        listing = list_table(partition.location)
        state = resolve(listing, write_ids[table.info.ref], txns, table.info.kind)
        healths[table.name, str(partition.name)] = TableHealth.of(state)
    return Measured(
        at_s=time.time(),
        deltas={name: health.delta_count for name, health in healths.items()},
        obsolete=sum(health.obsolete for health in healths.values()),
        notes={table.name: _notes(table) for table in tables},
    )


def pieces(tables: Sequence[Table]) -> Iterator[tuple[Table, PartitionInfo]]:
    """Yield each table with each of its partitions."""
    return ((table, partition) for table in tables for partition in table.partitions)


def _notes(table: Table) -> int:
    folder = Path(table.info.location.removeprefix("file:"), HIDDEN_DIRECTORY)
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One run of the task that compacts; times are seconds since 1970."""

    began_s: float
    ended_s: float


def rounds_above(
    measured: Sequence[Measured], thresholds: Mapping[Name, int], rounds: Sequence[Round]
) -> dict[Name, int]:
    """Return, for each partition, the most rounds in a row that left it at its threshold.

    A round counts if the partition had reached its threshold before the round began, and was not
    seen below it until after the round's end.
    """
    found: dict[Name, int] = {}
    for name, threshold in thresholds.items():
        since_s, most = None, 0
        for one in measured:
            if one.deltas[name] < threshold:
                since_s = None
                continue
            since_s = one.at_s if since_s is None else since_s
            whole = [r for r in rounds if since_s <= r.began_s and r.ended_s <= one.at_s]
            most = max(most, len(whole))
        found[name] = most
    return found


@dataclass(kw_only=True)
class Queue:
    """A thread that looks at the compaction queue, because the metastore forgets old entries."""

    client: MetastorePort
    over: Event
    entries: dict[int, CompactionEntry] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.is_set():
            self.look()
            self.over.wait(_QUEUE_S)

    def look(self) -> None:
        """Remember the state of each entry."""
        for entry in self.client.show_compactions():
            if entry.entry_id is not None:
                self.entries[entry.entry_id] = entry
                if (entry.pool or "").startswith(_OURS):
                    self.ours.add(entry.entry_id)

    def states(self, *, ours: bool) -> Counter[str]:
        """Count our entries or those of others by type and state."""
        return Counter(
            f"{entry.compaction_type.value} {entry.state.value}"
            for number, entry in self.entries.items()
            if (number in self.ours) is ours
        )

    def done(self, *, ours: bool) -> int:
        """Count the compactions that have a result."""
        done = (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED)
        return sum(
            (number in self.ours) is ours and entry.state in done
            for number, entry in self.entries.items()
        )

    def has_foreign_minor(self, table: str, began_s: float, ended_s: float) -> bool:
        """Return True if a worker of Hive made a minor compaction of the table at that time."""
        return any(
            number not in self.ours
            and entry.compaction_type is CompactionType.MINOR
            and str(entry.table) == table
            and entry.started_s is not None
            and entry.started_s <= ended_s
            and began_s <= (entry.committed_s or ended_s)
            for number, entry in self.entries.items()
        )

    def reasons(self, *, ours: bool) -> Counter[str]:
        """Count why compactions have no result."""
        return Counter(
            f"{entry.state.value}: {_kind(entry.reason)}"
            for number, entry in self.entries.items()
            if (number in self.ours) is ours and entry.state.is_unsuccessful
        )


def _kind(reason: str) -> str:
    """Return a reason without the numbers, which differ."""
    text = "".join("N" if char.isdigit() else char for char in reason)
    while "NN" in text:
        text = text.replace("NN", "N")
    return text[:200]
