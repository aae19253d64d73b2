"""What a store of tables promises, on HDFS: of a client in memory, and of a real name node.

Everything goes through the functions that the product calls.
"""

from __future__ import annotations

import errno
import time

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.storage.acid.read.files import RootFiles
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores import filesystem
from airflow_hiveacid.storage.stores.filesystem import (
    check_writable,
    delete_directory,
    delete_file,
    exists,
    make_directory,
    move,
    read_bytes,
    rename_directory,
    write_bytes,
    write_new,
)
from airflow_hiveacid.storage.stores.hdfs.handler import PIECE_BYTES
from airflow_hiveacid.storage.stores.listing import (
    every_file,
    files_below,
    list_directories,
    list_files,
    list_table,
    tree_size,
)
from airflow_hiveacid.storage.stores.staging import Staging
from tests.contract.stores.conftest import Hdfs
from tests.unit.storage.orc_tables import ids

ODD = ["p=a b", "p=%2F?#", "p=[x]{y}*", "p=ä€😀", "p=a;b\\c", "p=100%", "p='q'\"r\""]


def test_bytes_are_read_as_they_were_written(hdfs: Hdfs) -> None:
    fs, path = hdfs.fs, f"{hdfs.root}/a/b/f"
    for content in (b"first, longer", b"\x00second", b"", b"x" * (2 * PIECE_BYTES + 7)):
        write_bytes(fs, path, content)
        assert read_bytes(fs, path) == content
        assert fs.get_file_info(path).size == len(content)
    with pytest.raises(FileNotFoundError):
        read_bytes(fs, f"{hdfs.root}/nothing")


def test_a_file_can_be_read_at_any_offset(hdfs: Hdfs) -> None:
    fs, path = hdfs.fs, f"{hdfs.root}/f"
    write_bytes(fs, path, bytes(range(200)))
    with fs.open_input_file(path) as file:
        assert file.size() == 200
        assert file.read_at(3, 100) == bytes((100, 101, 102))
        assert file.read_at(10, 195) == bytes(range(195, 200))
        assert file.read_at(1, 200) == file.read_at(5, 1000) == b""
        file.seek(198)
        assert file.read() == bytes((198, 199))


@pytest.mark.parametrize("name", ODD)
def test_names_with_special_characters_are_not_changed(hdfs: Hdfs, name: str) -> None:
    partition = f"{hdfs.root}/t/{name}"
    write_bytes(hdfs.fs, f"{partition}/_tmp_x/f", name.encode())
    rename_directory(hdfs.fs, f"{partition}/_tmp_x", f"{partition}/base_1")
    (found,) = list_table(f"{hdfs.uri}/t").files
    assert found.path == f"{name}/base_1/f"
    assert list_table(f"{hdfs.uri}/t/{name}").directories == ("base_1",)
    assert read_bytes(hdfs.fs, f"{hdfs.root}/t/{found.path}") == name.encode()
    delete_directory(hdfs.fs, f"{partition}/base_1")
    assert list_directories(hdfs.fs, partition) == ()


def test_a_name_that_hdfs_does_not_allow_raises_an_error(hdfs: Hdfs) -> None:
    with pytest.raises(errors.StorageError, match=r"12:30"):
        make_directory(hdfs.fs, f"{hdfs.root}/at=12:30")


def test_a_listing_contains_files_directories_sizes_and_times(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/t/delta_1_1/bucket_00000", b"123")
    write_bytes(hdfs.fs, f"{hdfs.root}/t/_tmp_hiveacid_x/base_9/f", b"1")
    make_directory(hdfs.fs, f"{hdfs.root}/t/base_1")
    found = list_table(f"{hdfs.uri}/t")
    assert [(f.path, f.size_bytes) for f in found.files] == [("delta_1_1/bucket_00000", 3)]
    assert found.directories == ("_tmp_hiveacid_x", "base_1", "delta_1_1")
    told = hdfs.client.get_file_info(f"{hdfs.root}/t/delta_1_1/bucket_00000").modification_time
    assert found.files[0].modified_s == pytest.approx(told / 1000, abs=1e-3)
    assert files_below(f"{hdfs.uri}/t", "delta_1_1") == found.files
    assert files_below(f"{hdfs.uri}/t", "delta_1_1/bucket_00000") == found.files
    assert files_below(f"{hdfs.uri}/t", "delta_2_2") == ()
    every = every_file(f"{hdfs.uri}/t")
    assert found.files[0] in every
    assert len(every) == len(found.files) + 1
    assert every_file(f"{hdfs.uri}/none") == ()
    size, newest = tree_size(hdfs.fs, f"{hdfs.root}/t")
    assert size == 4
    assert newest >= told / 1000
    assert list_files(hdfs.fs, f"{hdfs.root}/none") == list_directories(hdfs.fs, "/none") == ()


def test_a_location_that_is_missing_or_not_a_directory_raises_an_error(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/f", b"1")
    with pytest.raises(errors.LocationNotFoundError):
        list_table(f"{hdfs.uri}/none")
    with pytest.raises(errors.LocationNotFoundError):
        list_table(f"{hdfs.uri}/f/below")
    with pytest.raises(errors.ConfigurationError, match="not a directory"):
        list_table(f"{hdfs.uri}/f")
    with pytest.raises(NotADirectoryError):
        hdfs.fs.get_file_info(pafs.FileSelector(f"{hdfs.root}/f"))
    with pytest.raises(FileNotFoundError):
        hdfs.fs.get_file_info(pafs.FileSelector(f"{hdfs.root}/none"))


@pytest.mark.parametrize("content", [[], ["bucket_00000"]])
def test_a_directory_is_never_renamed_to_an_existing_name(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, content: list[str]
) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/new/mine", b"")
    make_directory(hdfs.fs, f"{hdfs.root}/base_5")
    for name in content:
        write_bytes(hdfs.fs, f"{hdfs.root}/base_5/{name}", b"")
    looks: list[str] = []

    def overtaken(_: object, path: str) -> bool:
        looks.append(path)
        return False

    monkeypatch.setattr(filesystem, "exists", overtaken)
    with pytest.raises(errors.DirectoryExistsError):
        rename_directory(hdfs.fs, f"{hdfs.root}/new", f"{hdfs.root}/base_5")
    assert looks == [f"{hdfs.root}/base_5"]  # nothing is asked behind the name node's back
    assert [f.path for f in list_files(hdfs.fs, f"{hdfs.root}/base_5")] == content
    assert list_directories(hdfs.fs, f"{hdfs.root}/base_5") == ()
    assert exists(hdfs.fs, f"{hdfs.root}/new/mine")


def test_a_moved_file_replaces_a_file_but_not_a_directory(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/a", b"new")
    write_bytes(hdfs.fs, f"{hdfs.root}/b", b"old")
    move(hdfs.fs, f"{hdfs.root}/a", f"{hdfs.root}/b")
    assert read_bytes(hdfs.fs, f"{hdfs.root}/b") == b"new"
    assert not exists(hdfs.fs, f"{hdfs.root}/a")
    make_directory(hdfs.fs, f"{hdfs.root}/d")
    with pytest.raises(errors.StorageError):
        move(hdfs.fs, f"{hdfs.root}/b", f"{hdfs.root}/d")
    assert read_bytes(hdfs.fs, f"{hdfs.root}/b") == b"new"
    assert list_files(hdfs.fs, f"{hdfs.root}/d") == ()
    with pytest.raises(errors.StorageError, match="does not exist"):
        move(hdfs.fs, f"{hdfs.root}/none", f"{hdfs.root}/x")
    with pytest.raises(errors.StorageError, match="does not exist"):
        rename_directory(hdfs.fs, f"{hdfs.root}/none", f"{hdfs.root}/x")
    write_new(hdfs.fs, f"{hdfs.root}/b", b"newer")
    assert read_bytes(hdfs.fs, f"{hdfs.root}/b") == b"newer"


def test_a_deleted_file_or_directory_can_be_deleted_again(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/d/e/f", b"1")
    with pytest.raises(errors.StorageError, match="directory"):
        delete_file(hdfs.fs, f"{hdfs.root}/d")
    for _ in range(2):
        delete_file(hdfs.fs, f"{hdfs.root}/d/e/f")
        assert list_files(hdfs.fs, f"{hdfs.root}/d/e") == ()
    with pytest.raises(errors.StorageError, match="directory"):
        delete_file(hdfs.fs, f"{hdfs.root}/d/e")  # an empty one, which the name node would take
    for _ in range(2):
        delete_directory(hdfs.fs, f"{hdfs.root}/d")
        assert not exists(hdfs.fs, f"{hdfs.root}/d")
    for delete in (hdfs.fs.delete_file, hdfs.fs.delete_dir):
        with pytest.raises(FileNotFoundError):
            delete(f"{hdfs.root}/d")
    assert list_directories(hdfs.fs, hdfs.root) == ()  # no trash, nothing aside


def test_the_contents_of_a_directory_can_be_deleted_without_the_directory(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/d/e/f", b"1")
    write_bytes(hdfs.fs, f"{hdfs.root}/d/g", b"1")
    hdfs.fs.delete_dir_contents(f"{hdfs.root}/d")
    assert hdfs.fs.get_file_info(pafs.FileSelector(f"{hdfs.root}/d")) == []
    assert exists(hdfs.fs, f"{hdfs.root}/d")


def test_a_copied_file_remains_after_its_source_is_deleted(hdfs: Hdfs) -> None:
    content = b"0123456789" * 200_000
    write_bytes(hdfs.fs, f"{hdfs.root}/a", content)
    hdfs.fs.copy_file(f"{hdfs.root}/a", f"{hdfs.root}/b")
    delete_file(hdfs.fs, f"{hdfs.root}/a")
    assert read_bytes(hdfs.fs, f"{hdfs.root}/b") == content


def test_a_directory_is_staged_and_published(hdfs: Hdfs) -> None:
    make_directory(hdfs.fs, f"{hdfs.root}/t")
    staging = Staging(location=f"{hdfs.uri}/t/p=1", token="job", home=f"{hdfs.uri}/t")
    path = hdfs.path(staging.attempt_path("delta_0000001_0000001_0000", "bucket_00000", "try"))
    write_bytes(hdfs.fs, path, b"rows")
    staging.accept("delta_0000001_0000001_0000", "bucket_00000", "try")
    staging.add_version_file("delta_0000001_0000001_0000")
    assert [f.path for f in list_table(f"{hdfs.uri}/t").files] == []
    staging.publish(["delta_0000001_0000001_0000"])
    staging.discard()
    found = list_table(f"{hdfs.uri}/t")
    assert [(f.path, f.size_bytes) for f in found.files] == [
        ("p=1/delta_0000001_0000001_0000/_orc_acid_version", 1),
        ("p=1/delta_0000001_0000001_0000/bucket_00000", 4),
    ]
    assert found.directories == ("p=1", "p=1/delta_0000001_0000001_0000")


# ---- files that somebody is writing -------------------------------------------------------------


def test_a_file_that_is_still_being_written_is_never_read_as_a_shorter_file(hdfs: Hdfs) -> None:
    writer = hdfs.open_for_writing(f"{hdfs.root}/f")
    writer.write(b"x" * 100)
    assert [f.size_bytes for f in list_files(hdfs.fs, hdfs.root)] == [0]
    assert read_bytes(hdfs.fs, f"{hdfs.root}/f") == b""
    with pytest.raises(errors.UnsupportedFileError, match="still writing to it"):
        read_tail(hdfs.fs, f"{hdfs.root}/f", 100)  # what a side file may say of it
    writer.hsync()
    assert [f.size_bytes for f in list_files(hdfs.fs, hdfs.root)] == [100]
    with pytest.raises(
        errors.StorageError, match="0 of its 100 bytes can be read: a writer is still writing"
    ):
        read_bytes(hdfs.fs, f"{hdfs.root}/f")
    writer.close()
    assert [f.size_bytes for f in list_files(hdfs.fs, hdfs.root)] == [100]
    with pytest.raises(errors.CorruptFileError):
        read_tail(hdfs.fs, f"{hdfs.root}/f", 100)


def test_a_side_file_that_is_still_being_written_is_not_read_as_length_zero(hdfs: Hdfs) -> None:
    delta = f"{hdfs.root}/t/delta_1_10"
    side = hdfs.open_for_writing(f"{delta}/bucket_00000_flush_length")
    side.write(bytes(7) + b"\x64")
    rows = hdfs.open_for_writing(f"{delta}/bucket_00000")
    rows.write(b"x" * 100)
    state = resolve(list_table(f"{hdfs.uri}/t"), ids(10), None)
    with pytest.raises(errors.UnsupportedFileError, match=r"flush_length.*still writing to it"):
        RootFiles.of(state).delta_files()
    side.close()
    (file,) = RootFiles.of(state).delta_files()
    assert file.length == 100
    with pytest.raises(errors.UnsupportedFileError, match="still writing to it"):
        file.tail()
    rows.close()


def test_closing_a_file_that_was_deleted_during_the_write_raises_an_error(hdfs: Hdfs) -> None:
    stream = hdfs.fs.open_output_stream(f"{hdfs.root}/d/f")
    stream.write(b"rows")
    delete_directory(hdfs.fs, f"{hdfs.root}/d")
    with pytest.raises(OSError, match="deleted while being written") as caught:
        stream.close()
    assert not isinstance(caught.value, FileNotFoundError)
    assert caught.value.errno == errno.ESTALE
    assert not exists(hdfs.fs, f"{hdfs.root}/d")


# ---- permissions --------------------------------------------------------------------------------


def test_a_user_without_permission_gets_a_permission_error(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/d/f", b"1")
    bob = hdfs.of_user("bob")
    with pytest.raises(errors.LocationPermissionError, match="bob"):
        hdfs.check_writable(bob, f"{hdfs.root}/d")
    for attempt in (
        lambda: write_bytes(bob, f"{hdfs.root}/d/g", b""),
        lambda: make_directory(bob, f"{hdfs.root}/d/e"),
        lambda: move(bob, f"{hdfs.root}/d/f", f"{hdfs.root}/d/g"),
        lambda: delete_file(bob, f"{hdfs.root}/d/f"),
        lambda: delete_directory(bob, f"{hdfs.root}/d"),
    ):
        with pytest.raises(errors.LocationPermissionError, match="Permission denied: user=bob"):
            attempt()
    assert read_bytes(hdfs.fs, f"{hdfs.root}/d/f") == b"1"
    check_writable(f"{hdfs.uri}/d")
    assert list_directories(hdfs.fs, f"{hdfs.root}/d") == ()


def test_the_umask_applies_unless_the_directory_has_a_default_acl(hdfs: Hdfs) -> None:
    write_bytes(hdfs.fs, f"{hdfs.root}/plain/d/f", b"")
    assert hdfs.permission(f"{hdfs.root}/plain/d") == 0o755
    assert hdfs.permission(f"{hdfs.root}/plain/d/f") == 0o644
    make_directory(hdfs.fs, f"{hdfs.root}/listed")
    hdfs.give_default_list(f"{hdfs.root}/listed", "hive")
    write_bytes(hdfs.fs, f"{hdfs.root}/listed/_tmp/base_1/f", b"")
    # The group's bits are the list's mask: what `hive` may do at most.
    assert hdfs.permission(f"{hdfs.root}/listed/_tmp/base_1") & 0o070 == 0o070
    assert hdfs.permission(f"{hdfs.root}/listed/_tmp/base_1/f") & 0o060 == 0o060


def test_modification_times_are_those_of_the_name_node(hdfs: Hdfs) -> None:
    before = time.time()
    write_bytes(hdfs.fs, f"{hdfs.root}/f", b"1")
    (file,) = list_files(hdfs.fs, hdfs.root)
    assert file.modified_s is not None
    if hdfs.is_real:
        assert before - 60 < file.modified_s < time.time() + 60
