from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import flat_state
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.errors import UnsupportedFileError


def listing(*paths: str) -> Listing:
    return Listing(
        location="/t", files=tuple(FileEntry(path=p, size_bytes="empty" not in p) for p in paths)
    )


def test_a_flat_table_reads_every_file_that_is_neither_hidden_nor_empty() -> None:
    found = flat_state(
        listing("b", "a/b/c", "_SUCCESS", ".x", "a/_tmp/y", ".hive-staging/z", "empty", "000000_0")
    )
    assert [file.path for file in found.originals] == ["000000_0", "a/b/c", "b"]
    assert (found.location, found.live) == ("/t", ())


@pytest.mark.parametrize(
    "name", ["base_0000001", "delta_0000001_0000001", "x/delete_delta_0000001_0000001_0000"]
)
def test_a_flat_table_with_base_or_delta_directories_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedFileError, match="of a transactional table"):
        flat_state(listing("000000_0", f"{name}/bucket_00000"))
    assert flat_state(listing(f"_gone/{name}/bucket_00000")).originals == ()
