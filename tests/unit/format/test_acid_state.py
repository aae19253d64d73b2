from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import AcidDirectory, FileEntry, Listing, UnknownEntry
from airflow_hiveacid.format.errors import UnsupportedFileError
from tests.unit.format.listings import ids, read, texts

_STREAMED = {"": 0, "_flush_length": 8}


def directory(names: str, text: str) -> AcidDirectory:
    return next(d for d in read(names, "9:MAX::").directories if d.text == text)


def file_names(found: AcidDirectory) -> list[str]:
    return [f.path.partition("/")[2] for f in found.files]


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


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("delta_1_1_0/bucket_x", "its name is not that of a data file"),
        ("delta_1_1_0/bucket_00000_copy_1", "its name is not that of a data file"),
        ("delta_1_1_0/part-0.orc", "its name is not that of a data file"),
        ("delta_1_1_0/HIVE_UNION_SUBDIR_1/part-0.orc", "its name is not that of a data file"),
        ("delete_delta_1_1_0/000000_0", "its name is not that of a data file"),
        ("delta_1_1_0/delta_1_1_0/bucket_00000", "inside another base or delta"),
        ("base_1/base_1/bucket_00000", "inside another base or delta"),
    ],
)
def test_readers_refuse_a_file_in_a_directory_that_may_be_data(names: str, why: str) -> None:
    (found,) = read(names, "9:MAX::").directories
    with pytest.raises(UnsupportedFileError, match=f"(?s){names}.*{why}.*move it out"):
        found.require_known_files("/t")


@pytest.mark.parametrize(
    "names",
    [
        "delta_1_1_0/_part-0.orc delta_1_1_0/.bucket_x.crc delta_1_1_0/_delta_1_1_0/bucket_00000",
        "delta_1_1_0/bucket_00000 delta_1_1_0/bucket_00000_flush_length",
        "delta_1_1_0/HIVE_UNION_SUBDIR_1/bucket_00000_0 delta_1_1_0/000000_0_copy_1",
        "base_1/part-0.orc base_1/HIVE_UNION_SUBDIR_1/x",
    ],
)
def test_hidden_files_side_files_and_data_files_are_not_refused(names: str) -> None:
    for found in read(names, "9:MAX::").directories:
        found.require_known_files("/t")


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
    assert [file_names(d) for d in state.directories] == [["bucket_00001"], []]
    assert state.unknown == tuple(
        UnknownEntry(path=p, why="ignored: it is empty")
        for p in ("base_1/bucket_00000", "delta_2_2_0/bucket_00000")
    )


def test_an_empty_file_with_a_side_file_counts_only_in_an_insert_delta() -> None:
    """Hive writes none beside delete events."""
    names = ("delta_1_9", "delete_delta_1_9")
    files = [(f"{name}/bucket_00000{end}", n) for name in names for end, n in _STREAMED.items()]
    state = resolve(sized(*files), ids("9:MAX::"), None)
    assert [(d.text, len(d.files)) for d in state.directories] == [
        ("delete_delta_1_9", 0),
        ("delta_1_9", 1),
    ]


def test_an_empty_original_file_is_not_read_and_becomes_obsolete_with_a_base() -> None:
    files = (("000000_0", 0), ("000001_0", 5))
    state = resolve(sized(*files), ids("9:MAX::"), None)
    assert texts(state.originals) == ["000001_0"]
    state = resolve(sized(*files, ("base_5/bucket_00000", 1)), ids("9:MAX::"), None)
    assert texts(state.obsolete) == ["000000_0", "000001_0"]


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
