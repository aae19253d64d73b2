"""Random statements on tables of all types, against a model of the rows in Python.

The model knows three things: a comparison with NULL is false, strings compare byte by byte, and two
source rows of one target row are refused. Partitions, buckets of both hashes, deltas and delete
deltas come with the statements.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import MergeCardinalityError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.statements import UpdateSpec
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import DELETE_ALL, INSERT_ALL, UPDATE_ALL, Lake, made

Values = Mapping[str, Any]
Condition = tuple[str, Callable[[Values], bool]]

TYPES: Final = {
    "a": "bigint",
    "b": "int",
    "c": "tinyint",
    "s": "string",
    "d": "decimal(8,2)",
    "w": "decimal(38,10)",
    "f": "boolean",
    "day": "date",
    "x": "double",
    "m": "array<int>",
    "ts": "timestamp",
    "ch": "char(4)",
}
DAYS: Final = [None, dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
DOMAIN: Final[Mapping[str, Sequence[Any]]] = {
    "a": [None, 0, 1, -1, 2**62, -(2**63), 2**63 - 1],
    "b": [None, 0, 1, 2, -(2**31), 2**31 - 1],
    "c": [None, 0, 1, -128, 127],
    "s": [None, "", "a", "ab", " a", "a ", "\u00e9", "\U0001f600", "z" * 40, "NULL", "A"],
    "d": [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("999999.99")],
    "w": [None, Decimal("0E-10"), Decimal("1.0000000001"), Decimal(f"-{9:9<28}.{9:9<10}")],
    "f": [None, True, False],
    "day": DAYS,
    "x": [None, 0.0, -0.0, 1.5, 1e300],
    "m": [None],
    "ts": [None],
    "ch": [None],
    "p": [None, "x", "X", "a b", "\u00e9"],
    "q": [None, 1, -5],
    "r": DAYS[:3],
}
COMPARED: Final = ("a", "b", "c", "s", "d", "w", "f", "day")
PARTITIONS: Final = ((), (("p", "string"),), (("q", "int"), ("r", "date")))
SIGNS: Final = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CLAUSES: Final = (
    (UPDATE_ALL, INSERT_ALL),
    (UPDATE_ALL,),
    (INSERT_ALL,),
    (DELETE_ALL,),
    (DELETE_ALL, INSERT_ALL),
)


def literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def given(value: Any) -> Any:  # noqa: ANN401 - as users write it in values
    match value:
        case dt.date():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case _:
            return value


def ordered(value: Any) -> Any:  # noqa: ANN401
    return value.encode() if isinstance(value, str) else value


@dataclasses.dataclass(kw_only=True)
class Model:
    """The rows that a table should have, and the random choices. Mutable."""

    lake: Lake
    choice: random.Random
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def fixed(self) -> list[str]:
        """The columns that no update may change."""
        table = self.lake.table
        return [*table.bucket_columns, *(c.name for c in table.partition_columns)]

    def new_rows(self, most: int) -> list[dict[str, Any]]:
        names = self.lake.table.column_names
        return [
            {name: self.choice.choice(DOMAIN[name]) for name in names}
            for _ in range(self.choice.randint(0, most))
        ]

    def tuples(self, rows: Sequence[Values]) -> list[tuple[Any, ...]]:
        return [tuple(given(row[name]) for name in self.lake.table.column_names) for row in rows]

    def condition(self, depth: int = 0) -> Condition:
        choose = self.choice
        if depth < 3 and choose.random() < 0.4:
            (one, first), (two, second) = self.condition(depth + 1), self.condition(depth + 1)
            if choose.random() < 0.5:
                return f"({one} AND {two})", lambda row: first(row) and second(row)
            return f"({one} OR {two})", lambda row: first(row) or second(row)
        partition = [c.name for c in self.lake.table.partition_columns]
        name = choose.choice([*COMPARED, *partition, "x", "m", "ts", "ch"])
        if name in {"x", "m", "ts", "ch"} or choose.random() < 0.3:
            if choose.random() < 0.5:
                return f"{name} IS NULL", lambda row: row[name] is None
            return f"`{name}` IS NOT NULL", lambda row: row[name] is not None
        return self.comparison(name)

    def comparison(self, name: str) -> Condition:
        values = self.choice.choices(DOMAIN[name], k=3)
        low, high = values[:2]
        kind = self.choice.random()
        if kind < 0.3:
            text = ", ".join(map(literal, values))
            return f"{name} IN ({text})", lambda row: row[name] is not None and row[name] in values
        if kind < 0.5 and name != "f":
            return (
                f"{name} BETWEEN {literal(low)} AND {literal(high)}",
                lambda row: (
                    None not in (row[name], low, high)
                    and ordered(low) <= ordered(row[name]) <= ordered(high)
                ),
            )
        sign = self.choice.choice(["=", "<>"] if name == "f" else list(SIGNS))
        return (
            f"t.{name} {sign} {literal(low)}",
            lambda row: (
                None not in (row[name], low) and SIGNS[sign](ordered(row[name]), ordered(low))
            ),
        )

    def insert(self) -> None:
        rows = self.new_rows(12)
        self.lake.insert(*self.tuples(rows))
        self.rows += rows

    def delete(self) -> None:
        text, holds = self.condition()
        assert self.lake.delete(text).rows.deleted == sum(map(holds, self.rows)), text
        self.rows = [row for row in self.rows if not holds(row)]

    def update(self) -> None:
        text, holds = self.condition()
        names = self.choice.sample([name for name in COMPARED if name not in self.fixed], 2)
        new = {name: self.choice.choice(DOMAIN[name]) for name in names}
        assigned = {name: literal(value) for name, value in new.items()}
        result = self.lake.run(UpdateSpec(target="default.s", set=assigned, where=text))
        assert result.rows.updated == sum(map(holds, self.rows)), text
        self.rows = [{**row, **new} if holds(row) else row for row in self.rows]

    def merge(self) -> None:
        keys = list(dict.fromkeys([*self.fixed, *self.choice.sample(COMPARED, 1)]))
        source, clauses = self.new_rows(5), self.choice.choice(CLAUSES)
        for row in self.choice.sample(self.rows, min(len(self.rows), 3)):
            source += [{**new, **{key: row[key] for key in keys}} for new in self.new_rows(1)]

        def key_of(row: Values) -> tuple[Any, ...] | None:
            key = tuple(row[name] for name in keys)
            return None if None in key else key

        matches = {key_of(row): row for row in source if key_of(row) is not None}
        known = [key_of(row) for row in self.rows]
        changes = clauses[0] is not INSERT_ALL
        doubles = [key_of(row) for row in source if key_of(row) is not None]
        if changes and any(doubles.count(key) > 1 for key in known):
            with pytest.raises(MergeCardinalityError):
                self.lake.merge(*self.tuples(source), clauses=clauses, keys=tuple(keys))
            return
        self.lake.merge(*self.tuples(source), clauses=clauses, keys=tuple(keys))
        kept = [row for row in self.rows if not changes or key_of(row) not in matches]
        if clauses[0] is UPDATE_ALL:
            kept += [dict(matches[key]) for key in known if key in matches]
        if INSERT_ALL in clauses:
            kept += [row for row in source if key_of(row) is None or key_of(row) not in known]
        self.rows = kept

    def check(self) -> None:
        partition = {column.name for column in self.lake.table.partition_columns}
        expected = [
            tuple(
                None if row[name] is None else str(row[name]) if name in partition else row[name]
                for name in self.lake.table.column_names
            )
            for row in self.rows
        ]
        assert sorted(map(repr, self.lake.rows)) == sorted(map(repr, expected))


@pytest.mark.parametrize("seed", range(6))
def test_random_statements_leave_the_rows_of_the_model(
    server: FakeMetastore, clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    buckets: dict[str, Any] = {}
    if seed % 2:
        names = tuple(choice.sample(["a", "s", "d", "day", "b"], 2))
        buckets = {
            "bucket_columns": names,
            "num_buckets": 3,
            "bucketing_version": 1 + seed % 4 // 2,
        }
    lake = made(
        server,
        clock,
        tmp_path,
        columns=tuple(Column(name=name, type=type_) for name, type_ in TYPES.items()),
        partition_columns=tuple(Column(name=n, type=t) for n, t in PARTITIONS[seed % 3]),
        **buckets,
    )
    model = Model(lake=lake, choice=choice)
    model.insert()
    for _ in range(8):
        choice.choice([model.insert, model.delete, model.update, model.merge])()
        model.check()
