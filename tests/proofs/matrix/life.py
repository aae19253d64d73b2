"""The steps of a table's life, and the rows that it must hold after each.

Each step says what a writer does and what the rows are afterwards; conditions and values are SQL
that every dialect reads alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tests.proofs.matrix.kinds import Kind, Row

Rows = dict[int, Row]
"""Rows by their numbers."""


class NotHereError(Exception):
    """An engine has no such statement for such a table, so another engine runs it."""


class Writer(Protocol):
    """An engine that changes one table."""

    @property
    def name(self) -> str: ...

    def insert(self, rows: Sequence[Row]) -> None: ...

    def load(self, rows: Sequence[Row]) -> None:
        """Add the files that hold these rows; see `Table.place_of`."""

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Replace the rows of the table, or of these rows' partitions."""

    def delete(self, where: str) -> None: ...

    def update(self, values: Mapping[str, str], where: str) -> None:
        """Set columns to expressions."""

    def upsert(self, rows: Sequence[Row]) -> None:
        """Merge by id: a value below zero deletes, another sets `v`; insert missing rows."""

    def minor(self) -> None:
        """Compact the deltas of every partition."""

    def major(self) -> None:
        """Compact every partition."""

    def widen(self) -> None:
        """Add the column `EXTRA`."""

    def empty(self) -> None:
        """Remove all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement.

    Attributes:
        changes_rows: True if tables whose rows have no row ID lack such statements.
        rewrites: True if the step reads rows of any kind of table to write others.
    """

    name: str
    act: Callable[[Writer], None]
    model: Callable[[Rows], Rows]
    changes_rows: bool = False
    rewrites: bool = False

    @property
    def needs_rows(self) -> bool:
        """True if the writer's output depends on the rows that it reads."""
        return self.changes_rows or self.rewrites


_V, _TAG = 2, 7
_SEVENTH, _LEFT_OUT = 7, 3
_FIRST_NEW = 100
LOAD: Final = "LOAD DATA"


def life(kind: Kind) -> list[Step]:
    """Return the steps for a table of a kind, in order."""
    verb = LOAD if kind.loaded else "INSERT"
    steps = [
        _brought("INSERT of the first rows", kind, range(40))
        if kind.flat
        else _brought("INSERT OVERWRITE", kind, range(40), is_overwrite=True),
        _brought(verb, kind, range(40, 60)),
        Step(
            name="DELETE",
            act=lambda w: w.delete(f"id % {_SEVENTH} = {_LEFT_OUT}"),
            model=lambda rows: {n: r for n, r in rows.items() if n % _SEVENTH != _LEFT_OUT},
            changes_rows=True,
        ),
        Step(
            name="UPDATE",
            act=lambda w: w.update({"v": "v + 100", "tag": "'new'"}, "id % 3 = 0"),
            model=lambda rows: {n: _raised(r, 100, n % 3 == 0, tag="new") for n, r in rows.items()},
            changes_rows=True,
        ),
        _merged(kind, [*range(5, 15), *range(_FIRST_NEW, _FIRST_NEW + 10)]),
        Step(name="minor compaction", act=lambda w: w.minor(), model=dict, rewrites=True),
        _brought(f"{verb} again", kind, range(200, 210)),
        Step(
            name="UPDATE again",
            act=lambda w: w.update({"v": "v + 1"}, "id % 2 = 0"),
            model=lambda rows: {n: _raised(r, 1, n % 2 == 0) for n, r in rows.items()},
            changes_rows=True,
        ),
        Step(name="major compaction", act=lambda w: w.major(), model=dict, rewrites=True),
        Step(
            name="ADD COLUMNS",
            act=lambda w: w.widen(),
            model=lambda rows: {n: _with_extra(kind, r, None) for n, r in rows.items()},
        ),
        _brought("INSERT into the new column", kind, range(300, 305), extra="more"),
        Step(
            name="DELETE of new and old rows",
            act=lambda w: w.delete("id % 5 = 0"),
            model=lambda rows: {n: r for n, r in rows.items() if n % 5},
            changes_rows=True,
        ),
        Step(name="emptied", act=lambda w: w.empty(), model=lambda _rows: {}, rewrites=True),
        _brought("INSERT into the empty table", kind, range(400, 406), extra="last"),
    ]
    return [step for step in steps if not (step.changes_rows and kind.is_insert_only)]


def _brought(
    name: str,
    kind: Kind,
    numbers: Sequence[int],
    *,
    extra: str | None = None,
    is_overwrite: bool = False,
) -> Step:
    new = {n: kind.row(n) for n in numbers}
    if extra is not None:
        new = {n: _with_extra(kind, row, extra) for n, row in new.items()}

    def act(writer: Writer) -> None:
        bring = writer.load if numbers in kind.loaded else writer.insert
        (writer.overwrite if is_overwrite else bring)(list(new.values()))

    # Only an empty table is overwritten, since settings decide whether partitions would be kept.
    return Step(name=name, act=act, model=lambda rows: {**rows, **new})


def _merged(kind: Kind, numbers: Sequence[int]) -> Step:
    source = {
        n: _set(kind.row(n), _V, -1 if n % 4 == 0 and n < _FIRST_NEW else n * 10) for n in numbers
    }

    def model(rows: Rows) -> Rows:
        found = dict(rows)
        for n, row in source.items():
            if n not in rows:
                found[n] = row
            elif row[_V] == -1:
                del found[n]
            else:
                found[n] = _set(rows[n], _V, row[_V])
        return found

    return Step(
        name="MERGE",
        act=lambda w: w.upsert(list(source.values())),
        model=model,
        changes_rows=True,
    )


def _set(row: Row, at: int, value: int | str | None) -> Row:
    return (*row[:at], value, *row[at + 1 :])


def _raised(row: Row, by: int, is_meant: bool, tag: str | None = None) -> Row:
    if not is_meant:
        return row
    found = _set(row, _V, int(row[_V] or 0) + by)
    return found if tag is None else _set(found, _TAG, tag)


def _with_extra(kind: Kind, row: Row, extra: str | None) -> Row:
    at = len(row) - len(kind.partition_columns)
    return (*row[:at], extra, *row[at:])
