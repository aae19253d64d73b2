"""Tables of Hive before 3: refused as they are, and read once Hive has compacted them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.judges.engine import HiveJudge
from tests.judges.engine3 import Hive3Engine
from tests.support.spark_lab import Lab
from tests.unit.storage.orc_tables import Event, ids, insert, write_acid

COLUMNS: Final = {"id": "int", "name": "string"}
AS_COLUMNS: Final = [Column(name=name, type=type_) for name, type_ in COLUMNS.items()]
REMEDY: Final = "COMPACT 'major'"


def _new(write_id: int, row: int, identifier: int) -> Event:
    return insert(write_id, row, identifier, bucket=0)  # a bucket was its number alone


def _updated(row: int, identifier: int, by: int) -> Event:
    return insert(1, row, identifier, bucket=0, current=by, operation=1)


def _deleted(row: int, by: int) -> Event:
    return (2, 1, 0, row, by, None)


WRITES: Final = (
    [_new(1, row, row) for row in range(5)],
    [_updated(1, 20, 2), _deleted(2, 2), _new(2, 0, 7)],
    [_deleted(1, 3), _updated(3, 33, 3), _new(3, 0, 8)],
)
LIVE: Final = [0, 33, 4, 7, 8]


def lay_out(root: Path) -> None:
    """Three writes as Hive before 3 left them: no delete deltas, no version files."""
    for number, events in enumerate(WRITES, start=1):
        write_acid(root / f"delta_{number:07d}_{number:07d}" / "bucket_00000", events)


def scanned(root: Path | str, high: int) -> list[Any]:
    found = scan(str(root), AS_COLUMNS, ids(high))
    return [row["id"] for batch in found for row in batch.to_pylist()]


@pytest.mark.promise("D6")
def test_a_table_written_before_hive_3_is_refused_until_hive_4_compacts_it(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    name = f"{lab4.db}.t"
    table = lab4.table("t", COLUMNS, parameters={ONLY_HIVE_4_READS: "true"})
    for _ in WRITES:
        txn_id = lab4.client.open_txn()
        lab4.client.allocate_write_id(txn_id, table.ref)
        lab4.client.commit_txn(txn_id)
    lay_out(lab4.root("t"))
    for refused in (
        lambda: lab4.frame("t").limit(1).collect(),
        lambda: lab4.frame("t").where("id = 0").count(),
        lambda: lab4.update("t", {"name": "'x'"}, "id = 0"),
        lambda: lab4.delete("t", "id = 1"),
        lambda: lab4.compact("t", CompactionChoice.MAJOR),
    ):
        with pytest.raises(UnsupportedFileError, match=REMEDY):
            refused()
    assert len(lab4.directories("t")) == len(WRITES)
    hive_judge.compact(name, None, "major")
    hive_judge.clean()
    assert [row[0] for row in sorted(hive_judge.rows(name), key=str)] == sorted(LIVE, key=str)

    def agreed() -> list[Any]:
        rows = [[*row] for row in lab4.rows("t")]
        assert sorted(rows, key=str) == sorted(hive_judge.rows(name), key=str)
        return sorted(row[0] for row in rows)

    assert agreed() == sorted(LIVE)
    # A row that an update of old Hive made is changed as any other.
    lab4.update("t", {"name": "'new'"}, "id IN (33, 8)")
    lab4.delete("t", "id = 4")
    hive_judge.execute(f"delete from {name} where id = 33")
    assert agreed() == [0, 7, 8]
    lab4.compact("t", CompactionChoice.MAJOR)
    assert agreed() == [0, 7, 8]


@pytest.mark.promise("D6")
def test_a_table_written_before_hive_3_is_refused_until_hive_3_compacts_it(
    hive_3_new_york: Hive3Engine,
) -> None:
    hive, name = hive_3_new_york, "default.of_old_hive"
    hive.execute(
        f"create table {name} (id int, name string) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    for _ in WRITES:
        hive.execute(f"insert into {name} values (0, 'replaced')")
    root = Path(hive.describe(name)["location"])
    for delta in root.glob("delta_*"):
        shutil.rmtree(delta)
    lay_out(root)
    with pytest.raises(UnsupportedFileError, match=REMEDY):
        scanned(root, len(WRITES))
    hive.compact(name, None, "major")
    hive.clean()
    assert sorted(scanned(root, len(WRITES))) == sorted(LIVE)
    assert sorted(row[0] for row in hive.rows(name)) == sorted(LIVE)
