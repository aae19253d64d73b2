from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import AcidDirectory, FileEntry, Listing, UnknownEntry
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import TransactionalKind
from tests.unit.format.listings import ids, listing, live, read, texts

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


def test_a_base_with_only_a_metadata_file_hides_older_deltas() -> None:
    truncated = listing("delta_1_1_0", metadata={"base_2": "truncated"})
    state = resolve(truncated, ids("2:MAX::"), None)
    assert live(state) == ["base_2"]
    assert state.base is not None
    assert (state.base.files, state.base.is_compacted) == ((), False)


def test_a_base_with_a_visibility_suffix_counts_as_compacted() -> None:
    assert directory("base_2_v7", "base_2_v7").is_compacted
    assert not directory("base_2", "base_2").is_compacted


def test_an_unknown_data_format_in_a_bases_metadata_file_is_an_error() -> None:
    with pytest.raises(CorruptFileError, match=r"/t/base_2/_metadata_acid .*'odd'"):
        resolve(listing("", metadata={"base_2": "odd"}), ids("2:MAX::"), None)


@pytest.mark.parametrize("name", ["base_x", "delta_1_2_copy", "delete_delta_1", "delta_3_2"])
@pytest.mark.parametrize("kind", ["/", "/bucket_00000"])
def test_a_malformed_base_or_delta_name_is_an_error_as_in_hive(name: str, kind: str) -> None:
    with pytest.raises(UnsupportedFileError, match=f"/t/{name} is not supported"):
        read(f"{name}{kind}", "9:MAX::")


def test_a_file_named_like_a_base_is_an_original_file() -> None:
    state = resolve(sized(("base_5", 7)), ids("9:MAX::"), None)
    assert texts(state.originals) == ["base_5"]
    assert state.unknown == (
        UnknownEntry(path="base_5", why="an original file whose name contains no bucket"),
    )


def test_only_bucket_and_original_names_are_data_files_of_a_delta() -> None:
    found = directory(
        "delta_1_1_0/bucket_00000 delta_1_1_0/bucket_00001_0 delta_1_1_0/000000_0"
        " delta_1_1_0/000000_0_copy_1 delta_1_1_0/notes.txt delta_1_1_0/bucket_x",
        "delta_1_1_0",
    )
    assert file_names(found) == ["000000_0", "000000_0_copy_1", "bucket_00000", "bucket_00001_0"]


def test_only_bucket_names_are_data_files_of_a_delete_delta() -> None:
    state = read("delete_delta_1_1_0/bucket_00000 delete_delta_1_1_0/000000_0", "9:MAX::")
    assert file_names(state.delete_deltas[0]) == ["bucket_00000"]
    assert [(u.path, u.why) for u in state.delete_deltas[0].unread] == [
        (
            "delete_delta_1_1_0/000000_0",
            "its name is not that of a data file, such as bucket_00000",
        )
    ]
    assert [u.path for u in state.unknown] == ["delete_delta_1_1_0/000000_0"]


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


def test_every_file_in_a_base_is_a_data_file() -> None:
    assert file_names(directory("base_1/bucket_00000 base_1/part-0.orc", "base_1")) == [
        "bucket_00000",
        "part-0.orc",
    ]


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


def test_a_file_in_a_subdirectory_of_a_delta_belongs_to_the_delta() -> None:
    found = directory("delta_1_1_0/HIVE_UNION_SUBDIR_1/000000_0", "delta_1_1_0")
    assert file_names(found) == ["HIVE_UNION_SUBDIR_1/000000_0"]


def test_side_files_are_not_data_files() -> None:
    found = directory("delta_1_9/bucket_00000 delta_1_9/bucket_00000_flush_length", "delta_1_9")
    assert file_names(found) == ["bucket_00000"]
    assert texts(found.side_files) == ["delta_1_9/bucket_00000_flush_length"]


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


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("base_2/000000_0", True),
        ("base_2/bucket_00000", False),
        ("base_2_v7/000000_0", False),
        ("delta_2_2_0/000000_0", True),
        ("delta_2_2_0/bucket_00000", False),
        ("delta_2_3/000000_0", False),
        ("delete_delta_2_2_0/bucket_00000", False),
    ],
)
def test_only_uncompacted_directories_of_one_write_may_contain_raw_files(
    names: str, expected: object
) -> None:
    assert read(names, "9:MAX::").directories[0].may_be_raw is expected


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


def test_in_an_insert_only_table_files_of_any_visible_name_are_data_files() -> None:
    names = listing(
        "base_1/part-0.parquet delta_2_2_0/000000_0.deflate"
        " delta_2_2_0/HIVE_UNION_SUBDIR_1/000000_0 delta_2_2_0/.hidden delta_2_2_0/_tmp/000001_0"
        " delta_2_2_0/delta_3_3_0/000000_0"
    )
    kind = TransactionalKind.INSERT_ONLY
    state = resolve(names, ids("9:MAX::"), None, kind)
    assert live(state) == ["base_1", "delta_2_2_0"]
    assert file_names(state.deltas[0]) == ["000000_0.deflate", "HIVE_UNION_SUBDIR_1/000000_0"]
    full = resolve(names, ids("9:MAX::"), None)
    assert file_names(full.deltas[0]) == ["HIVE_UNION_SUBDIR_1/000000_0"]


def test_insert_only_tables_have_no_side_files() -> None:
    names = listing("delta_1_1_0/000000_0 delta_1_1_0/000000_0_flush_length")
    (delta,) = resolve(names, ids("9:MAX::"), None, TransactionalKind.INSERT_ONLY).deltas
    assert file_names(delta) == ["000000_0", "000000_0_flush_length"]
    assert delta.side_files == ()
