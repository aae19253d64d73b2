"""Random transactions of several statements over three tables, and the same in plain Python.

`t` is full ACID in any shape, with keys; `u` is full ACID without partitions; `log` is insert-only.
Each transaction is built of statements that the model does to lists of rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeSpec,
    SourceSpec,
    StatementSpec,
    TransactionSpec,
    UpdateSpec,
)
from airflow_hiveacid.reading import partition_at
from airflow_hiveacid.spark.reading.target import POSITION, resolve_target
from tests.support.merge_clauses import INSERT_ALL, matched_delete, matched_update
from tests.support.spark_lab import Lab, Row

COLUMNS: Final = {"id": "bigint", "v": "int", "p": "int"}
NAMES: Final = tuple(COLUMNS)
# What every engine of the judges can read.
READABLE_BY_3: Final = {"orc.compress": "ZLIB"}
UPSERT: Final = (matched_delete("s.v % 5 = 0"), matched_update({"v": "s.v + t.v"}), INSERT_ALL)
IdRow = tuple[int, int, int]


@dataclass
class Life:
    """Tables with their model; `before` is what the model was before the last transaction."""

    lab: Lab
    seed: int
    partitioned: bool = False
    buckets: int = 0
    tables: dict[str, list[IdRow]] = field(default_factory=dict)
    before: dict[str, list[IdRow]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.next_id = 0
        self._closed: set[str] = set()
        self.tables = {"t": [], "u": [], "log": []}
        kinds = {"log": TransactionalKind.INSERT_ONLY}
        for name in self.tables:
            is_cut = name == "t" and self.partitioned
            shape: dict[str, Any] = {"partition": {"p": "int"}} if is_cut else {}
            if name == "t" and self.buckets:
                shape["buckets"] = ("id", self.buckets)
            self.lab.table(
                name,
                {n: k for n, k in COLUMNS.items() if not (is_cut and n == "p")},
                kind=kinds.get(name, TransactionalKind.FULL_ACID),
                parameters=READABLE_BY_3,
                **shape,
            )

    def transaction(self, count: int) -> TransactionSpec:
        """So many statements; the model has done them."""
        self.before = {name: list(rows) for name, rows in self.tables.items()}
        self._closed = set()
        verbs: list[Callable[[], StatementSpec]] = [
            *[self.insert] * 2,
            *[self.update] * 2,
            *[self.delete] * 2,
            *[self.merge] * 2,
            self.merge_from_u,
            *[self.copy] * 2,
            self.overwrite,
        ]
        return TransactionSpec(statements=tuple(self.random.choice(verbs)() for _ in range(count)))

    def take_back(self) -> None:
        """The last transaction was none."""
        self.tables = self.before

    def name(self, table: str) -> str:
        return f"{self.lab.db}.{table}"

    def pick(self, *tables: str) -> str:
        """A table that may be changed: not after an overwrite, unless none is left."""
        return self.random.choice([t for t in tables if t not in self._closed] or ["log"])

    def fresh(self, count: int) -> list[IdRow]:
        start, self.next_id = self.next_id, self.next_id + count
        return [(i, self.random.randint(0, 9), i % 3) for i in range(start, self.next_id)]

    # ---- statements ------------------------------------------------------------------------------

    def insert(self) -> StatementSpec:
        name, rows = self.pick("t", "u"), self.fresh(self.random.randint(1, 5))
        self.tables[name] += rows
        source = SourceSpec(values=tuple(rows), columns=NAMES)
        return InsertSpec(target=self.name(name), source=source, columns=NAMES)

    def update(self) -> StatementSpec:
        name, n = self.pick("t", "u"), self.random.randint(1, 3)
        if name == "log":
            return self.insert()
        self.tables[name] = [
            (i, (v * 3 + p + 1) % 1000 if i % n == 0 else v, p) for i, v, p in self.tables[name]
        ]
        assign = {"v": "(v * 3 + p + 1) % 1000"}
        return UpdateSpec(target=self.name(name), set=assign, where=f"id % {n} = 0")

    def delete(self) -> StatementSpec:
        name, n = self.pick("t", "u"), self.random.randint(2, 5)
        if name == "log":
            return self.insert()
        p = self.random.randint(0, 2)
        self.tables[name] = [r for r in self.tables[name] if not (r[0] % n == 1 and r[2] == p)]
        return DeleteSpec(target=self.name(name), where=f"id % {n} = 1 AND p = {p}")

    def merge(self) -> StatementSpec:
        known = {i: p for i, _, p in self.tables["t"]}
        old = self.random.sample(sorted(known), min(4, len(known)))
        rows = [(i, self.random.randint(1, 9), known[i]) for i in old] + self.fresh(2)
        return self._merged(rows, SourceSpec(values=tuple(rows), columns=NAMES))

    def merge_from_u(self) -> StatementSpec:
        """The source is a table that the transaction may have changed."""
        best: dict[int, IdRow] = {}
        for i, v, p in self.tables["u"]:
            _, most_v, most_p = best.get(i, (i, v, p))
            best[i] = (i, max(v, most_v), max(p, most_p))
        query = "SELECT id, max(v) AS v, max(p) AS p FROM n GROUP BY id"
        source = SourceSpec(tables={"n": self.name("u")}, query=query)
        return self._merged(list(best.values()), source)

    def _merged(self, rows: list[IdRow], source: SourceSpec) -> StatementSpec:
        if "t" in self._closed:
            return self.insert()
        news = {i: (v, p) for i, v, p in rows}
        found = []
        for i, v, p in self.tables["t"]:
            if i not in news:
                found.append((i, v, p))
            elif news[i][0] % 5:
                found.append((i, v + news[i][0], p))
        there = {i for i, _, _ in self.tables["t"]}
        found += [(i, v, p) for i, (v, p) in news.items() if i not in there]
        self.tables["t"] = found
        return MergeSpec(target=self.name("t"), source=source, keys=("id",), clauses=UPSERT)

    def copy(self) -> StatementSpec:
        """Rows of one table into another, or into itself, under other IDs."""
        to, come = self.pick("t", "u", "log"), self.random.choice(["t", "u"])
        shift = 1000 + self.next_id
        self.next_id += 2000
        self.tables[to] += [(i + shift, v, p) for i, v, p in self.tables[come] if i % 2 == 0]
        query = f"SELECT id + {shift} AS id, v, p FROM n WHERE id % 2 = 0"
        source = SourceSpec(tables={"n": self.name(come)}, query=query)
        return InsertSpec(target=self.name(to), source=source)

    def overwrite(self) -> StatementSpec:
        """A table by what is left of another, or of itself; by partitions where it has some."""
        to, come = self.random.choice(["t", "u", "log"]), self.random.choice(["t", "u"])
        new = [r for r in self.tables[come] if r[1] % 2 == 0]
        kept: list[IdRow] = []
        if to == "t" and self.partitioned:
            hit = {p for _, _, p in new}
            kept = [r for r in self.tables[to] if r[2] not in hit]
        self.tables[to] = kept + new
        self._closed.add(to)
        query = "SELECT id, v, p FROM n WHERE v % 2 = 0"
        source = SourceSpec(tables={"n": self.name(come)}, query=query)
        return InsertSpec(target=self.name(to), source=source, mode=InsertMode.OVERWRITE)

    # ---- what is there ---------------------------------------------------------------------------

    def check(self) -> None:
        """Both of our readers see the model's rows, each under an identity of its own."""
        for name, rows in self.tables.items():
            assert self.lab.rows(name) == sorted(rows), name
            if name != "log":
                ours = identities(self.lab, name)
                assert [row for _, row in ours] == sorted(rows, key=str), name
                assert len({place for place, _ in ours}) == len(rows), name


def identities(lab: Lab, name: str) -> list[tuple[Row, Row]]:
    """The identity of each row with the row, on which both readers agree; sorted by the row."""
    target = resolve_target(lab.spark, lab.client, lab.info(name), lab.snapshot(name))
    data = [c.name for c in target.table.columns]
    parts = [tuple(int(str(v)) for v in info.name.values) for info in target.partitions]

    def found(frame: Any) -> list[tuple[Row, Row]]:  # noqa: ANN401
        each = []
        for row in frame.select(POSITION, *data).collect():
            number, *identity = row[0]
            keys = parts[partition_at(number)]
            each.append(((*keys, *identity), (*row[1:], *keys)))
        return sorted(each, key=lambda one: str(one[1]))

    ours, theirs = found(target.scan(data)), found(target.read_with_arrow(data, position=POSITION))
    assert ours == theirs
    return ours


def run(life: Life, count: int, **options: Any) -> JobResult:  # noqa: ANN401
    """One transaction of so many statements, by us."""
    return life.lab.run(life.transaction(count), **options)
