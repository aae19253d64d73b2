from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import FileEntry, Listing, UnknownEntry
from tests.unit.format.listings import ids, read, texts


def sized(*files: tuple[str, int], modified_s: float | None = None) -> Listing:
    return Listing(
        location="/t",
        files=tuple(FileEntry(path=p, size_bytes=n, modified_s=modified_s) for p, n in files),
    )


def test_an_empty_root_has_no_base_deltas_or_original_files() -> None:
    state = resolve(Listing(location="/t", files=()), ids("9:MAX::"), None)
    assert not state.directories
    assert (state.base, state.originals, state.delta_count, state.base_bytes) == (None, (), 0, 0)


def test_a_file_named_like_a_base_is_an_original_file() -> None:
    state = resolve(sized(("base_5", 7)), ids("9:MAX::"), None)
    assert texts(state.originals) == ["base_5"]
    assert state.unknown == (
        UnknownEntry(path="base_5", why="an original file whose name contains no bucket"),
    )


@pytest.mark.promise("F12")
def test_empty_files_are_ignored_and_reported() -> None:
    state = resolve(
        sized(
            ("base_1/bucket_00000", 0),
            ("base_1/bucket_00001", 5),
            ("delta_2_2_0/bucket_00000", 0),
        ),
        ids("9:MAX::"),
        None,
    )
    assert [[f.name for f in d.files] for d in state.directories] == [["bucket_00001"], []]
    assert state.unknown == tuple(
        UnknownEntry(path=p, why="ignored: it is empty")
        for p in ("base_1/bucket_00000", "delta_2_2_0/bucket_00000")
    )


def test_sizes_and_counts_include_only_live_data_files() -> None:
    state = read(
        "000000_0 base_2 base_3/bucket_00000 base_3/bucket_00001 base_3/_orc_acid_version"
        " delta_4_4_0 delete_delta_4_4_0 delta_5_5_0 delta_10_10_0",
        "9:MAX::5",
    )
    assert state.base_bytes == 200
    assert state.delta_count == 2
    assert state.delta_bytes == 200
    assert [d.size_bytes for d in state.live] == [200, 100, 100]
    assert read("000001_0 sub/000001_0 delta_1_1_0", "9:MAX::").base_bytes == 200


def test_the_modification_time_of_a_directory_is_that_of_its_newest_file() -> None:
    files = (
        FileEntry(path="base_2/bucket_00000", size_bytes=1, modified_s=10.0),
        FileEntry(path="base_2/_orc_acid_version", size_bytes=1, modified_s=12.5),
        FileEntry(path="delta_3_3_0/bucket_00000", size_bytes=1),
    )
    state = resolve(Listing(location="/t", files=files), ids("9:MAX::"), None)
    assert [d.modified_s for d in state.directories] == [12.5, None]


def test_a_directory_takes_its_kind_and_highest_write_id_from_its_name() -> None:
    state = read("base_2 delta_3_5 delete_delta_3_5", "9:MAX::")
    assert [(d.is_base, d.is_delete, d.high) for d in state.live] == [
        (True, False, 2),
        (False, False, 5),
        (False, True, 5),
    ]
