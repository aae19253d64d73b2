"""What the play `warehouse` measures beside its writers: deltas, notes, the compaction queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.metastore import compaction_queue, port
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_table
from tests.proofs.airflow.warehouse.tables import Table

Name = tuple[str, str]
"""A table and a partition, which is empty in an unpartitioned table."""

_QUEUE_S: Final = 3.0
_DONE: Final = (
    compaction_queue.CompactionState.READY_FOR_CLEANING,
    compaction_queue.CompactionState.SUCCEEDED,
)
_OURS: Final = "hiveacid-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One look at all tables: what each reader has to read, and what no reader needs."""

    at_s: float
    deltas: Mapping[Name, int]
    obsolete: int
    notes: Mapping[str, int]


def measure(client: port.MetastorePort, tables: Sequence[Table]) -> Measured:
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
    measured: Sequence[Measured],
    thresholds: Mapping[Name, int],
    rounds: Sequence[Round],
    compacted: Mapping[Name, Sequence[float]],
) -> dict[Name, int]:
    """Return, for each partition, the most rounds in a row that left it at its threshold.

    A round left a partition there if the partition had reached its threshold before the round
    began, and no compaction of it was committed until the round ended. Deltas that were written
    after such a compaction are the next round's work.

    `compacted` has the times of the committed compactions, in seconds since 1970.
    """
    found: dict[Name, int] = {}
    for name, threshold in thresholds.items():
        most = in_a_row = 0
        for one in sorted(rounds, key=lambda one: one.began_s):
            before = [look for look in measured if look.at_s <= one.began_s][-1:]
            is_left = any(
                look.deltas[name] >= threshold
                and not any(look.at_s < at_s <= one.ended_s for at_s in compacted.get(name, ()))
                for look in before
            )
            in_a_row = in_a_row + 1 if is_left else 0
            most = max(most, in_a_row)
        found[name] = most
    return found


@dataclass(kw_only=True)
class Queue:
    """A thread that looks at the compaction queue, because the metastore forgets old entries."""

    client: port.MetastorePort
    over: Event
    entries: dict[int, compaction_queue.CompactionEntry] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)
    done_s: dict[int, float] = field(default_factory=dict)

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
                if entry.state in _DONE:
                    self.done_s.setdefault(entry.entry_id, entry.committed_s or time.time())
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
        return sum((number in self.ours) is ours for number in self.done_s)

    def compacted(self) -> dict[Name, list[float]]:
        """Return the times of the compactions that have a result, by partition."""
        found: dict[Name, list[float]] = {}
        for number, at_s in self.done_s.items():
            entry = self.entries[number]
            found.setdefault((str(entry.table), str(entry.partition or "")), []).append(at_s)
        return found

    def has_foreign_minor(self, table: str, began_s: float, ended_s: float) -> bool:
        """Return True if a worker of Hive made a minor compaction of the table at that time."""
        return any(
            number not in self.ours
            and entry.compaction_type is compaction_queue.CompactionType.MINOR
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
