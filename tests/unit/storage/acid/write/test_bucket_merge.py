"""One bucket's compaction: which delete events it takes, and where they end up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.storage.acid.read.files import RootFiles
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.compacting import compact
from tests.unit.storage.orc_tables import B0, B1, COLUMNS, ids, insert, tombstone, write_acid

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile


def identities(files: Iterable[AcidFile]) -> dict[str, list[tuple[int, int, int]]]:
    """The identities of the events of each file."""
    return {
        file.key: [
            (r["originalTransaction"], r["bucket"], r["rowId"])
            for batch in read_identity(file)
            for r in batch.to_pylist()
        ]
        for file in files
    }


def test_a_minor_compaction_drops_a_row_that_its_own_write_deleted(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(3)])
    write_acid(tmp_path / "delete_delta_1_1_1/bucket_00000", [tombstone(1, 1, 1)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 2, 2)])
    assert sorted(compact(tmp_path, COLUMNS, ids(2), major=False)) == [
        "delete_delta_0000001_0000002",
        "delta_0000001_0000002",
    ]
    state = resolve(list_table(str(tmp_path)), ids(2), None)
    assert identities(RootFiles.of(state).delta_files()) == {
        "delta_0000001_0000002/bucket_00000": [(1, B0, 0), (1, B0, 2)]
    }
    assert identities(RootFiles.of(state).delete_files()) == {
        "delete_delta_0000001_0000002/bucket_00000": [(1, B0, 2)]
    }


def test_a_minor_compaction_moves_each_delete_event_to_the_bucket_of_its_row(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(2)])
    write_acid(
        tmp_path / "delta_1_1_0/bucket_00001", [insert(1, i, i, bucket=B1) for i in range(2)]
    )
    # As a minor compaction of Hive 3.1 leaves them: every file holds the events of all buckets.
    everyones = [tombstone(1, 0, 2), tombstone(1, 1, 2, B1)]
    for bucket in (0, 1):
        write_acid(tmp_path / f"delete_delta_2_2/bucket_0000{bucket}", everyones)
    compact(tmp_path, COLUMNS, ids(2), major=False)
    state = resolve(list_table(str(tmp_path)), ids(2), None)
    assert identities(RootFiles.of(state).delete_files()) == {
        "delete_delta_0000001_0000002/bucket_00000": [(1, B0, 0)],
        "delete_delta_0000001_0000002/bucket_00001": [(1, B1, 1)],
    }
