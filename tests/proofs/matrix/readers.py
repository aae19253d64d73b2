"""The readers: each reads all rows of a table, and other facts for comparison.

Rows are in the form of `kinds.canonical`, sorted, after their row IDs if they have any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketProperty, decode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.reading import FILE_BITS, NUMBER
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.reading.target import POSITION, Target, resolve_target
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.hashing import bucket_ids
from airflow_hiveacid.storage.stores.listing import list_table
from tests.judges import bare, line_process, trino
from tests.judges.engine import HiveJudge
from tests.proofs.matrix.kinds import ARROW, HIVE_3_READER, HIVE_4, NATIVE, TRINO, Row, canonical
from tests.proofs.matrix.writers import Table

# From a file `bucket_00000_0`, since Hive 3.1 takes the text after "bucket_" for a number.
_NAME_OF_HIVE_4: Final = re.compile(r'For input string: "[0-9]+_[0-9]+"')
Identity = tuple[int, int, int]
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "bigint": pa.int64(),
    "char": pa.string(),
    "date": pa.date32(),
    "string": pa.string(),
}


class NotReadHereError(Exception):
    """A reader does not support such a table; the message says why."""


class Reader(Protocol):
    """A reader of the rows by one engine."""

    @property
    def name(self) -> str: ...

    def rows(self, table: Table) -> list[Row]:
        """Return all rows, sorted; see `canonical`.

        Raises:
            NotReadHereError: the reader does not support this table.
        """

    def identities(self, table: Table) -> dict[int, Identity] | None:
        """Return the row ID of each row by its number; None if the reader gives none."""


def as_rows(columns: Sequence[Column], found: Iterable[Sequence[object]]) -> list[Row]:
    """Return rows in the form for comparison."""
    rows = [
        tuple(canonical(column, value) for column, value in zip(columns, row, strict=True))
        for row in found
    ]
    return sorted(rows, key=repr)


def _target(table: Table) -> Target:
    lab = table.lab
    return resolve_target(lab.spark, lab.client, lab.info(table.name), lab.snapshot(table.name))


@dataclass(frozen=True, slots=True)
class NativeReader:
    """Our reader, as a user calls it."""

    name: str = NATIVE

    def rows(self, table: Table) -> list[Row]:
        with typed_failures():
            found = _target(table).rows().collect()
        return as_rows(table.columns, found)

    def identities(self, table: Table) -> dict[int, Identity] | None:
        if table.kind.is_insert_only:
            return None
        found = (
            _target(table).scan(["id"]).select(*[f"{POSITION}.{n}" for n in IDENTITY_COLUMNS], "id")
        )
        return {
            number: (write_id, bucket, row) for write_id, bucket, row, number in found.collect()
        }


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """Our reader for cases in which Spark's is not trusted."""

    name: str = ARROW

    def rows(self, table: Table) -> list[Row]:
        if table.kind.is_insert_only:
            raise NotReadHereError("for rows without row IDs this provider has only one reader")
        target = _target(table)
        names = [column.name for column in target.table.columns]
        found = target.read_with_arrow(names).select(f"{POSITION}.{NUMBER}", *names).collect()
        keys = [p.name.values for p in target.partitions]
        return as_rows(table.columns, [(*row[1:], *keys[row[0] >> FILE_BITS]) for row in found])

    def identities(self, table: Table) -> dict[int, Identity] | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class HiveReader:
    engine: HiveJudge
    name: str = HIVE_4

    def rows(self, table: Table) -> list[Row]:
        return as_rows(table.columns, self.engine.rows(table.full_name))

    def identities(self, table: Table) -> dict[int, Identity] | None:
        if table.kind.is_insert_only:
            return None
        found = self.engine.execute(f"select row__id, id from {table.full_name}")
        return {n: (i["writeid"], i["bucketid"], i["rowid"]) for i, n in found}


@dataclass(frozen=True, slots=True)
class BareHiveReader:
    """Hive's ORC reader alone, over each partition's directory."""

    reader: bare.BareReader
    name: str = HIVE_3_READER

    def rows(self, table: Table) -> list[Row]:
        if table.kind.is_insert_only:
            raise NotReadHereError("this ORC reader supports only full-ACID tables")
        info, snapshot = table.lab.info(table.name), table.lab.snapshot(table.name)
        write_ids = snapshot.write_ids(info.ref)
        schema = f"struct<{','.join(f'{c.name}:{c.type}' for c in info.columns)}>"
        found: list[tuple[object, ...]] = []
        for partition in table.lab.client.list_partitions(info):
            state = resolve(list_table(partition.location), write_ids, snapshot.txns)
            if any("_v" in directory.text for directory in state.directories):
                raise NotReadHereError(
                    "this reader cannot parse Hive 4's names of compacted directories"
                )
            try:
                rows = self.reader.read(
                    partition.location.removeprefix("file:"),
                    write_ids.text(),
                    schema,
                    txns=snapshot.txns.text(),
                    buckets=info.num_buckets or -1,
                    vectorized=True,
                )
            except line_process.JudgeError as error:
                if _NAME_OF_HIVE_4.search(str(error)):
                    raise NotReadHereError(
                        "this reader cannot parse Hive 4's file names"
                    ) from error
                raise
            found += [(*row[1:], *partition.name.values) for row in rows]
        return as_rows(table.columns, found)

    def identities(self, table: Table) -> dict[int, Identity] | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class TrinoReader:
    engine: trino.TrinoJudge
    name: str = TRINO

    def rows(self, table: Table) -> list[Row]:
        return as_rows(table.columns, self.engine.execute(f"select * from {table.full_name}"))

    def identities(self, table: Table) -> dict[int, Identity] | None:  # noqa: ARG002
        return None


def misplaced(table: Table) -> int:
    """Return the number of rows in another bucket than Hive's hash of their columns selects."""
    info = table.lab.info(table.name)
    if not info.num_buckets:
        return 0
    target = _target(table)
    names = list(info.bucket_columns)
    found = target.scan(names).select(f"{POSITION}.bucket", *names).collect()
    types = tuple(parse_type(c.type) for n in names for c in info.columns if c.name == n)
    by_name = {c.name: _ARROW[c.type.partition("(")[0]] for c in info.columns if c.name in names}
    values = [pa.array([row[n] for row in found], by_name[n]) for n in names]
    expected = bucket_ids(values, types, info.num_buckets, info.bucketing_version).to_pylist()
    there = [int(decode(BucketProperty(row[0])).bucket_id) for row in found]
    return sum(a != b for a, b in zip(expected, there, strict=True))
