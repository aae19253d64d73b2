from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.storage.plain.files import plain_files
from tests.unit.format.listings import ids, listing


def state_of(names: str) -> AcidState:
    return resolve(listing(names), ids("9:MAX::"), None, TransactionalKind.INSERT_ONLY)


def keys(names: str, *, with_originals: bool = False) -> list[str]:
    found = plain_files(state_of(names), FileFormat.ORC, with_originals=with_originals)
    return [file.key for file in found]


def test_only_files_of_the_base_and_of_later_deltas_are_read() -> None:
    names = "000000_0 base_2/000000_0 base_2/000001_0 delta_1_1_0/000000_0 delta_3_3_0/x.orc"
    assert keys(names) == ["base_2/000000_0", "base_2/000001_0", "delta_3_3_0/x.orc"]


def test_original_files_are_read_only_if_requested() -> None:
    names = "000000_0 sub/000000_0 delta_1_1_0/000000_0"
    with pytest.raises(UnsupportedFileError, match="Hive ignores such files, Trino reads them"):
        keys(names)
    assert keys(names, with_originals=True) == ["000000_0", "sub/000000_0", "delta_1_1_0/000000_0"]


def test_a_delete_delta_in_an_insert_only_table_raises_an_error() -> None:
    with pytest.raises(CorruptFileError, match="an insert-only table has no delete events"):
        keys("delta_1_1_0/000000_0 delete_delta_2_2_0/bucket_00000")


def test_a_delta_inside_another_delta_is_refused_because_hive_reads_it_and_trino_does_not() -> None:
    with pytest.raises(UnsupportedFileError, match="inside another base or delta"):
        keys("delta_1_1_0/000000_0 delta_1_1_0/delta_1_1_0/000000_0")


def test_files_in_subdirectories_and_files_of_any_name_are_read() -> None:
    found = "delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0 delta_1_1_0/a=1/b=2/x delta_1_1_0/y.parq"
    assert keys(f"{found} delta_1_1_0/_z delta_1_1_0/.w/000000_0") == found.split()


def test_a_compacted_delta_that_is_only_partly_visible_is_refused() -> None:
    def read(snapshot: str) -> list[str]:
        names = listing("delta_1_3/000000_0")
        state = resolve(names, ids(snapshot), None, TransactionalKind.INSERT_ONLY)
        return [file.key for file in plain_files(state, FileFormat.ORC, with_originals=False)]

    assert read("3:MAX::") == ["delta_1_3/000000_0"]
    assert read("3:MAX::2") == ["delta_1_3/000000_0"]
    for partly_seen in ("2:MAX::", "3:3:3:"):
        with pytest.raises(UnsupportedFileError, match="Read a newer snapshot"):
            read(partly_seen)
