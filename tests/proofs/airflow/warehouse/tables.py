"""The tables of the play `warehouse`, the changes that are made to them, and a model of their rows.

Each table has one writer. So the writer's order is the order of the table's write IDs, and the
model knows the rows that each snapshot must show. Readers compare sums, because every engine
computes them.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from airflow_hiveacid.format import table
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.jobs.maintenance import DELTA_COUNT
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.compaction_policy import COUNT_PARAMETER

DB: Final = "sales"
"""The database whose tables `compact_warehouse` compacts without other parameters."""

COLUMNS: Final = (
    table.Column(name="id", type="bigint"),
    table.Column(name="v", type="bigint"),
    table.Column(name="note", type="string"),
)
PARTITION_COLUMN: Final = table.Column(name="p", type="int")
PARTITIONS: Final = 2
NOTE_CHARS: Final = 160
BASE_ROWS: Final = 1000
"""With notes, these rows are so many bytes that 10 small deltas are due before 10 % is reached."""

_LOW_THRESHOLD: Final = 5
_VALUES: Final = 1_000_000
_RECENT: Final = 400
_MOST_ROWS: Final = 5


class Route(enum.Enum):
    """How a table is written: with our storage code, by our Spark jobs, or by Hive."""

    FILES = "our files"
    SPARK = "our Spark jobs"
    HIVE = "Hive"


class Sums(NamedTuple):
    """What a reader computes from a table's rows."""

    rows: int = 0
    ids: int = 0
    values: int = 0
    products: int = 0
    note_chars: int = 0


SUMS: Final = "count(*), sum(id), sum(v), sum(id * v), coalesce(sum(length(note)), 0)"
"""The SQL of `Sums`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Rows by ID: new ones, known ones with a new value, and IDs of deleted rows."""

    inserted: Mapping[int, int] = field(default_factory=dict)
    updated: Mapping[int, int] = field(default_factory=dict)
    deleted: Collection[int] = ()

    @property
    def kind(self) -> str:
        """The statement that makes this change."""
        if self.deleted:
            return "delete"
        if self.updated:
            return "merge" if self.inserted else "update"
        return "insert"


@dataclass(slots=True, kw_only=True)
class Table:
    """One table and its model. Mutable: its writer records each committed change.

    `states` are the sums after each write, with its write ID if that is known. `recent` are IDs of
    rows that later changes may pick.
    """

    info: table.TableInfo
    partitions: tuple[table.PartitionInfo, ...]
    route: Route
    threshold: int
    rows: dict[int, int] = field(default_factory=dict)
    states: list[tuple[WriteId | None, Sums]] = field(default_factory=list)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    next_id: int = 0
    is_doubtful: bool = False

    @property
    def name(self) -> str:
        return str(self.info.ref)

    @property
    def is_insert_only(self) -> bool:
        """True if rows cannot be changed."""
        return self.info.kind is table.TransactionalKind.INSERT_ONLY

    @property
    def is_readable_by_trino(self) -> bool:
        """False if Trino ignores the table's deletes, whose files have names of Hive 4."""
        return self.route is not Route.HIVE or self.is_insert_only

    def base(self, random: Random) -> Change:
        """Return the first rows, whose notes have `NOTE_CHARS` characters."""
        return Change(inserted=self._new(random, BASE_ROWS))

    def draw(self, random: Random) -> Change:
        """Return a small change, which is not yet made."""
        kinds = (
            ["insert"] if self.is_insert_only else ["insert", "insert", "update", "delete", "merge"]
        )
        kind, count = random.choice(kinds), random.randint(1, _MOST_ROWS)
        known = [one for one in set(random.sample(self.recent, count)) if one in self.rows]
        if kind == "insert" or not known:
            return Change(inserted=self._new(random, count))
        if kind == "delete":
            return Change(deleted=known)
        updated = {one: random.randrange(_VALUES) for one in known}
        inserted = self._new(random, count) if kind == "merge" else {}
        return Change(inserted=inserted, updated=updated)

    def record(self, change: Change, write_id: WriteId | None) -> None:
        found = self.states[-1][1] if self.states else Sums()
        old = [(one, self.rows.pop(one)) for one in (*change.updated, *change.deleted)]
        new = [*change.updated.items(), *change.inserted.items()]
        self.rows.update(new)
        self.recent.extend(change.inserted)
        noted = -sum(one < BASE_ROWS for one in change.deleted)
        noted += sum(one < BASE_ROWS for one in change.inserted)
        sums = Sums(
            rows=len(self.rows),
            ids=found.ids + sum(i for i, _ in new) - sum(i for i, _ in old),
            values=found.values + sum(v for _, v in new) - sum(v for _, v in old),
            products=found.products + sum(i * v for i, v in new) - sum(i * v for i, v in old),
            note_chars=found.note_chars + noted * NOTE_CHARS,
        )
        self.states.append((write_id, sums))

    def _new(self, random: Random, count: int) -> dict[int, int]:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return {one: random.randrange(_VALUES) for one in ids}


def create_tables(client: MetastorePort, count: int) -> list[Table]:
    """Create the database and its tables, of several kinds, without rows."""
    client.create_database(DB)
    return [_create(client, number) for number in range(count)]


def _create(client: MetastorePort, number: int) -> Table:
    is_partitioned, is_insert_only = number % 4 == 1, number % 5 == 2
    threshold = _LOW_THRESHOLD if number % 7 == 3 else DELTA_COUNT
    own = {COUNT_PARAMETER: str(threshold)} if threshold != DELTA_COUNT else {}
    info = client.create_table(
        NewTable(
            ref=table.TableRef(DB, f"t_{number:03}"),
            columns=COLUMNS,
            partition_columns=(PARTITION_COLUMN,) if is_partitioned else (),
            kind=table.TransactionalKind.INSERT_ONLY
            if is_insert_only
            else table.TransactionalKind.FULL_ACID,
            parameters=own,
        )
    )
    if is_partitioned:
        names = [
            table.PartitionName.parse(f"{PARTITION_COLUMN.name}={n}") for n in range(PARTITIONS)
        ]
        client.add_partitions(info, names)
    # 3 of 5 tables are written without a JVM, because each of their writes costs least.
    route = (Route.FILES, Route.SPARK, Route.FILES, Route.HIVE, Route.FILES)[number % 10 // 2]
    partitions = tuple(client.list_partitions(info))
    return Table(info=info, partitions=partitions, route=route, threshold=threshold)
