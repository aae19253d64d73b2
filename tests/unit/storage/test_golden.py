"""Every golden directory, row for row: what Hive reads in its own files is what we read in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import (
    ArrayType,
    HiveType,
    MapType,
    PrimitiveType,
    StructType,
    parse_type,
)
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.values.hive_text import json_lines
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden import GoldenCase, GoldenSnapshot, cases

GOLDEN = cases()
IDENTITY = parse_type("struct<writeid:bigint,bucketid:int,rowid:bigint>")


def rows_at(case: GoldenCase, location: Path, write_ids: str) -> list[Any]:
    """What we read, as the JSON that the command line prints. Tiny batches: borders show."""
    batch_rows = 3 if len(case.rows) < 200 else 500
    types = [parse_type(text) for _, text in case.columns]
    batches = scan(
        str(location),
        [Column(name=name, type=text) for name, text in case.columns],
        ValidWriteIdList.parse(write_ids),
        ValidTxnList.parse(case.txns),
        with_identity=True,
        batch_rows=batch_rows,
        timestamps=TimestampForm.PAIR,
    )
    lines = [line for batch in batches for line in json_lines(batch, [IDENTITY, *types])]
    return [alike(json.loads(line), types) for line in lines]


def alike(row: list[Any], types: list[HiveType]) -> list[Any]:
    """A row in which a float is the same whether printed in its own digits or a double's."""
    return [row[0], *(_alike(v, t) for v, t in zip(row[1:], types, strict=True))]


def _alike(value: object, hive_type: HiveType) -> object:
    match hive_type, value:
        case _, None:
            return None
        case PrimitiveType(name="float"), float() | int():
            return float(np.float32(value))
        case ArrayType(element=element), list():
            return [_alike(item, element) for item in value]
        case MapType(key=key, value=item), list():
            return [[_alike(k, key), _alike(v, item)] for k, v in value]
        case StructType(fields=fields), dict():
            return {name: _alike(value[name], type_) for name, type_ in fields}
        case _:
            return value


def expected(case: GoldenCase, rows: list[list[Any]]) -> list[Any]:
    return [alike(row, [parse_type(text) for _, text in case.columns]) for row in rows]


@pytest.mark.promise("R1")
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.id)
def test_our_rows_of_a_directory_written_by_hive_equal_those_that_hive_reads(
    case: GoldenCase, tmp_path: Path
) -> None:
    table = case.checkout(tmp_path)
    if not case.partition_columns:
        assert rows_at(case, table, case.write_ids) == expected(case, case.rows)
    for partition in case.partitions:
        found = rows_at(case, table / partition.location, case.write_ids)
        assert found == expected(case, case.rows_of(partition))


SNAPSHOTS = [(case, snapshot) for case in GOLDEN for snapshot in case.snapshots]


@pytest.mark.promise("T4", "T5", "T6")
@pytest.mark.parametrize(
    ("case", "snapshot"), SNAPSHOTS, ids=[f"{c.id}-{s.write_ids}" for c, s in SNAPSHOTS]
)
def test_our_rows_of_every_other_snapshot_equal_those_that_hive_reads(
    case: GoldenCase, snapshot: GoldenSnapshot, tmp_path: Path
) -> None:
    table = case.checkout(tmp_path)
    rows = snapshot.rows
    if rows is None and case.version == "3.1.3":
        rows = _rows_in_hive_4(case, snapshot)
    if rows is None:
        with pytest.raises(NotEnoughHistoryError):
            rows_at(case, table, snapshot.write_ids)
        return
    assert rows_at(case, table, snapshot.write_ids) == expected(case, rows)


def _rows_in_hive_4(case: GoldenCase, snapshot: GoldenSnapshot) -> list[list[Any]] | None:
    """What Hive 4 reads after the same history.

    3.1.3 also refuses where the one base is an INSERT OVERWRITE that the reader does not see; 4.x
    passes over that base (HIVE-20410), and so do we.
    """
    for other in GOLDEN:
        if other.version == "4.0.1" and other.name == case.name:
            for one in other.snapshots:
                if one.write_ids.partition(":")[2] == snapshot.write_ids.partition(":")[2]:
                    return one.rows
    return None
