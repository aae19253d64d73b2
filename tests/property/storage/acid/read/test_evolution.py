"""Columns that come, go, move and widen between writes, against a model that knows them by name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId, encode
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import ROW_COLUMN_ID
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.convert import Matching
from tests.unit.storage.compacting import compact
from tests.unit.storage.writing import write_events

FIELDS: Final = (
    {"a": "int"},
    {"a": "int", "b": "string"},
    {"c": "double", "b": "string", "a": "bigint"},
)
_IN_FIELD: Final[Mapping[str, Callable[[int], Any]]] = {
    "a": lambda n: n,
    "b": str,
    "c": lambda n: n / 2,
}


def struct(level: int) -> str:
    return f"struct<{','.join(f'{name}:{type_}' for name, type_ in FIELDS[level].items())}>"


LADDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "whole": ("tinyint", "smallint", "int", "bigint"),
    "float": ("float", "double"),
    "decimal": ("decimal(5,1)", "decimal(8,2)", "decimal(20,4)"),
    "text": ("varchar(5)", "varchar(9)", "string"),
    "told": ("int", "string"),
    "struct": tuple(map(struct, range(len(FIELDS)))),
    "list": tuple(f"array<{struct(i)}>" for i in range(len(FIELDS))),
    "map": tuple(f"map<string,{struct(i)}>" for i in range(len(FIELDS))),
}
"""Types that hold all values of those before them."""


def value(ladder: str, written: int, level: int, n: int | None) -> object:
    """What a number is, written at one level of its ladder and read at another."""
    if n is None:
        return None
    if ladder in ("struct", "list", "map"):
        there = {f: _IN_FIELD[f](n) if f in FIELDS[written] else None for f in FIELDS[level]}
        return {"struct": there, "list": [there, None], "map": [("k", there), ("l", None)]}[ladder]
    says: Mapping[str, Callable[[int], Any]] = {
        "whole": int,
        "float": lambda n: n / 4,
        "decimal": lambda n: Decimal(n) / 10,
        "text": str,
        "told": str if LADDERS[ladder][level] == "string" else int,
    }
    return says[ladder](n)


@dataclass
class Known:
    """A column of the table now."""

    name: str
    ladder: str
    level: int = 0

    @property
    def column(self) -> Column:
        return Column(name=self.name, type=LADDERS[self.ladder][self.level])


Cell = tuple[int, int | None]
"""At which level of its ladder something was written, and which number."""
B0: Final = encode(BucketId(0), StatementId(0))
MAX: Final = 9223372036854775807


@dataclass
class World:
    """A directory on disk, the table's columns, and the rows that must be there."""

    root: Path
    known: list[Known] = field(
        default_factory=lambda: [Known(f"n{at}", ladder) for at, ladder in enumerate(LADDERS)]
    )
    live: dict[tuple[int, int], dict[str, Cell]] = field(default_factory=dict)
    high: int = 0
    made: int = len(LADDERS)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(one.column for one in self.known)

    @property
    def write_ids(self) -> ValidWriteIdList:
        return ValidWriteIdList.parse(f"d.t:{self.high}:{MAX}::")

    def take(self, step: tuple[str, int, int]) -> None:
        what, a, b = step
        match what:
            case "add":
                self.known.append(Known(f"n{self.made}", list(LADDERS)[a % len(LADDERS)]))
                self.made += 1
            case "drop" if len(self.known) > 1:
                del self.known[a % len(self.known)]
            case "move":
                self.known.insert(b % len(self.known), self.known.pop(a % len(self.known)))
            case "widen":
                one = self.known[a % len(self.known)]
                one.level = min(one.level + 1 + b % 2, len(LADDERS[one.ladder]) - 1)
            case "write":
                self.write(a % 4, b)
            case "minor" | "major" if not self.is_ambiguous:
                compact(self.root, self.columns, self.write_ids, major=what == "major")
            case _:
                pass

    def write(self, count: int, seed: int) -> None:
        self.high += 1
        write_id = WriteId(self.high)
        if self.live and seed % 2:
            gone = sorted(self.live)[seed % len(self.live)]
            del self.live[gone]
            keys = pa.record_batch(
                [pa.array([gone[0]], pa.int64()), pa.array([B0], pa.int32()), pa.array([gone[1]])],
                names=["originalTransaction", "bucket", "rowId"],
            )
            self._put(delete_events(keys, write_id, self.columns), is_delete=True)
        if not count:
            return
        rows: list[dict[str, Cell]] = [
            {
                one.name: (one.level, None if (seed + i + at) % 4 == 3 else seed % 90 + i - 40)
                for at, one in enumerate(self.known)
            }
            for i in range(count)
        ]
        arrays = [
            pa.array(
                [value(one.ladder, one.level, one.level, r[one.name][1]) for r in rows], f.type
            )
            for one, f in zip(self.known, row_type(self.columns), strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[one.name for one in self.known])
        self._put(insert_events(batch, write_id, B0, RowId(0)), is_delete=False)
        self.live |= {(self.high, i): row for i, row in enumerate(rows)}

    def _put(self, events: pa.RecordBatch, *, is_delete: bool) -> None:
        write_id = WriteId(self.high)
        name = DeltaName(
            low=write_id, high=write_id, statement_id=StatementId(0), is_delete=is_delete
        )
        path = self.root / str(name) / "bucket_00000"
        write_events(path, self.columns, events, is_delete=is_delete)

    @property
    def is_ambiguous(self) -> bool:
        """A column of the table is not at its place in some file, dropped ones not counted."""
        state = resolve(list_table(str(self.root)), self.write_ids, None)
        ours = [one.name for one in self.known]
        for bucket in bucket_files(state, self.write_ids):
            for file in bucket.inserts:
                theirs = file.tail().types[ROW_COLUMN_ID].field_names
                kept = [name for name in theirs if name in ours]
                if len(kept) < len(theirs) and len(kept) < len(ours):
                    return True
                if any(ours[at] != name for at, name in enumerate(kept)):
                    return True
        return False

    def expected(self) -> list[dict[str, Any]]:
        return [
            {
                one.name: value(one.ladder, row[one.name][0], one.level, row[one.name][1])
                if one.name in row
                else None
                for one in self.known
            }
            for _, row in sorted(self.live.items())
        ]

    def found(self, matching: Matching, names: list[str] | None = None) -> list[dict[str, Any]]:
        batches = scan(
            str(self.root), self.columns, self.write_ids, data_columns=names, matching=matching
        )
        return [row for batch in batches for row in batch.to_pylist()]


_OFTEN: Final = {"write": 4, "widen": 6, "add": 2, "minor": 1, "major": 1, "drop": 1, "move": 1}
STEP = st.tuples(
    st.sampled_from([step for step, times in _OFTEN.items() for _ in range(times)]),
    st.integers(0, 40),
    st.integers(0, 1000),
)


@pytest.mark.promise("D11", "R15")
@settings(max_examples=settings.default.max_examples * 3 // 5, deadline=None)
@given(steps=st.lists(STEP, min_size=8, max_size=16))
def test_a_column_is_read_by_its_name_after_any_changes_of_other_columns(
    steps: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        world.write(3, 0)
        for step in steps:
            world.take(step)
        expected = world.expected()
        assert world.found(Matching.NAME) == expected
        if world.is_ambiguous:
            with pytest.raises(UnsupportedFileError, match="read different values"):
                world.found(Matching.UNAMBIGUOUS)
            return
        assert world.found(Matching.UNAMBIGUOUS) == expected
        last = world.known[-1].name
        assert world.found(Matching.UNAMBIGUOUS, [last]) == [{last: r[last]} for r in expected]
