"""Listings and single files: and every failure as an error of our tree."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Owner
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.filesystem import (
    check_writable,
    delete_directory,
    delete_file,
    exists,
    file_errors,
    move,
    read_bytes,
    rename_directory,
    storage_errors,
    write_bytes,
)
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.listing import (
    every_file,
    list_files,
    list_table,
    metadata_text,
    tree_size,
)
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.table_notes import TableNotes, note_owner
from tests.support.ledger_entries import ledger_entry

LOCAL = pafs.LocalFileSystem()


# ---- listing -------------------------------------------------------------------------------------


def test_a_listing_contains_files_and_also_empty_and_hidden_directories(tmp_path: Path) -> None:
    (tmp_path / "base_1").mkdir()
    (tmp_path / "delta_2_2_0").mkdir()
    (tmp_path / "delta_2_2_0" / "bucket_00000").write_bytes(b"123")
    (tmp_path / "delta_2_2_0" / "_orc_acid_version").write_bytes(b"2")
    (tmp_path / "_tmp_hiveacid_x" / "base_9").mkdir(parents=True)
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "000000_0").write_bytes(b"1")
    found = list_table(f"file:{tmp_path}")
    assert [(f.path, f.size_bytes) for f in found.files] == [
        ("delta_2_2_0/_orc_acid_version", 1),
        ("delta_2_2_0/bucket_00000", 3),
        ("sub/deep/000000_0", 1),
    ]
    assert found.directories == ("_tmp_hiveacid_x", "base_1", "delta_2_2_0", "sub", "sub/deep")
    assert found.location == f"file:{tmp_path}"
    changed = (tmp_path / "sub" / "deep" / "000000_0").stat().st_mtime
    assert found.files[2].modified_s == pytest.approx(changed, abs=1e-3)


def test_a_listing_contains_the_metadata_markers_of_bases(tmp_path: Path) -> None:
    write_bytes(LOCAL, f"{tmp_path}/base_1/_metadata_acid", metadata_text("compacted"))
    turned = b'{"dataFormat":"truncated","thisFileVersion":"0"}'
    write_bytes(LOCAL, f"{tmp_path}/base_2/_metadata_acid", turned)
    assert list_table(str(tmp_path)).metadata == {"base_1": "compacted", "base_2": "truncated"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"not json",
        b'{"thisFileVersion":"1","dataFormat":"compacted"}',
        b'{"thisFileVersion":"0","dataFormat":3}',
        b"[" * 100_000,
    ],
    ids=lambda text: text[:20].decode(),
)
def test_a_metadata_marker_that_hive_would_not_write_is_corrupt(
    tmp_path: Path, text: bytes
) -> None:
    write_bytes(LOCAL, f"{tmp_path}/base_1/_metadata_acid", text)
    with pytest.raises(errors.CorruptFileError, match="_metadata_acid"):
        list_table(str(tmp_path))


def test_a_file_name_with_invalid_utf8_raises_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "delta_1_1").mkdir()
    with open(os.path.join(os.fsencode(tmp_path), b"delta_1_1", b"\xff"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(b"x")
    with pytest.raises(errors.StorageError, match="cannot list"):
        list_table(str(tmp_path))


def test_a_missing_location_and_a_location_that_is_a_file_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(errors.LocationNotFoundError, match="does not exist"):
        list_table(f"{tmp_path}/nothing")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.ConfigurationError, match="not a directory"):
        list_table(f"{tmp_path}/file")


class _Handler(pafs.FSSpecHandler):
    """A local file system that goes wrong on purpose: `before` sees every call."""

    def __init__(self, before: Any) -> None:  # noqa: ANN401
        self._before = before
        self.inner = LOCAL

    def get_type_name(self) -> str:
        return "nesting"

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        self._before("get_file_info", paths[0])
        infos: list[pafs.FileInfo] = LOCAL.get_file_info(paths)
        return infos

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        self._before("list", selector.base_dir)
        infos: list[pafs.FileInfo] = LOCAL.get_file_info(selector)
        return infos

    def open_input_stream(self, path: str) -> pa.PythonFile:
        self._before("open", path)
        return LOCAL.open_input_stream(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._before("create_dir", path)
        LOCAL.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._before("delete_dir", path)
        LOCAL.delete_dir(path)

    def delete_file(self, path: str) -> None:
        raise OSError(errno.EIO, "libhdfs says no more", path)

    def move(self, src: str, dest: str) -> None:
        self._before("move", src)
        if LOCAL.get_file_info(dest).type == pafs.FileType.Directory:
            dest = f"{dest}/{src.rpartition('/')[2]}"  # as HDFS does it
        LOCAL.move(src, dest)


def _going_wrong(monkeypatch: pytest.MonkeyPatch, before: Any) -> pafs.FileSystem:  # noqa: ANN401
    fs = pafs.PyFileSystem(_Handler(before))
    monkeypatch.setattr(locations, "_local", lambda: fs)
    return fs


@pytest.mark.promise("R11")
def test_a_listing_restarts_if_one_of_many_directories_disappears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"delta_{n:07d}_{n:07d}_0000" for n in range(100)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"rows")

    gone = names.pop(70)

    def clean_once(call: str, path: str) -> None:
        if call == "list" and path.endswith(gone) and (tmp_path / gone).exists():
            shutil.rmtree(tmp_path / gone)

    _going_wrong(monkeypatch, clean_once)
    listing = list_table(str(tmp_path))
    assert listing.directories == tuple(names)
    assert [file.path for file in listing.files] == [f"{name}/bucket_00000" for name in names]


def test_a_listing_restarts_if_a_directory_disappears_while_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "delta_1_1_0").mkdir()

    def clean_once(call: str, path: str) -> None:
        if call == "list" and path.endswith("delta_1_1_0"):
            (tmp_path / "base_1").mkdir()
            (tmp_path / "delta_1_1_0").rmdir()

    _going_wrong(monkeypatch, clean_once)
    assert list_table(str(tmp_path)).directories == ("base_1",)


@pytest.mark.promise("R11")
def test_a_listing_of_a_constantly_changing_location_raises_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "delta_1_1_0").mkdir()

    def vanish(call: str, path: str) -> None:
        if call == "list" and path.endswith("delta_1_1_0"):
            raise FileNotFoundError(errno.ENOENT, "gone", path)

    _going_wrong(monkeypatch, vanish)
    with pytest.raises(errors.StorageError, match="kept changing"):
        list_table(str(tmp_path))


@pytest.mark.promise("K10")
def test_a_listing_of_every_file_restarts_if_a_directory_disappears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".staged").mkdir()
    (tmp_path / ".staged" / "f").write_bytes(b"rows")
    left = [1]

    def vanish(call: str, path: str) -> None:
        if call == "list" and left:
            left.pop()
            raise FileNotFoundError(errno.ENOENT, "gone", path)

    _going_wrong(monkeypatch, vanish)
    assert [file.path for file in every_file(str(tmp_path))] == [".staged/f"]
    assert every_file(str(tmp_path / "none")) == ()
    left.extend(range(10))
    with pytest.raises(errors.StorageError, match="kept changing"):
        every_file(str(tmp_path))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_missing_permission_raises_a_specific_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(call: str, path: str) -> None:
        if call in ("list", "create_dir"):
            raise OSError(number, "no", path)

    _going_wrong(monkeypatch, refuse)
    with pytest.raises(errors.LocationPermissionError, match="list"):
        list_table(str(tmp_path))
    with pytest.raises(errors.LocationPermissionError, match="write"):
        check_writable(str(tmp_path))


# ---- single files and directories ----------------------------------------------------------------


def test_bytes_are_read_as_written_and_parent_directories_are_created(tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b.gz"
    write_bytes(LOCAL, path, b"first, longer")
    write_bytes(LOCAL, path, b"\x00second")
    assert read_bytes(LOCAL, path) == b"\x00second"
    with pytest.raises(FileNotFoundError):
        read_bytes(LOCAL, f"{tmp_path}/nothing")


def test_a_directory_is_published_by_a_rename(tmp_path: Path) -> None:
    (tmp_path / "_tmp" / "base_5").mkdir(parents=True)
    (tmp_path / "_tmp" / "base_5" / "bucket_00000").write_bytes(b"x")
    rename_directory(LOCAL, f"{tmp_path}/_tmp/base_5", f"{tmp_path}/base_5")
    assert (tmp_path / "base_5" / "bucket_00000").read_bytes() == b"x"
    assert not exists(LOCAL, f"{tmp_path}/_tmp/base_5")


@pytest.mark.parametrize("content", [[], ["bucket_00000"]])
def test_a_rename_never_replaces_an_existing_directory(tmp_path: Path, content: list[str]) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_bytes(b"")
    (tmp_path / "base_5").mkdir()
    for name in content:
        (tmp_path / "base_5" / name).write_bytes(b"")
    with pytest.raises(errors.DirectoryExistsError):
        rename_directory(LOCAL, f"{tmp_path}/new", f"{tmp_path}/base_5")
    assert sorted(p.name for p in (tmp_path / "base_5").iterdir()) == content
    assert (tmp_path / "new" / "mine").exists()


def test_a_rename_that_ended_inside_the_target_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_tmp" / "base_5").mkdir(parents=True)

    def overtake(call: str, path: str) -> None:
        if call == "move" and path.endswith("_tmp/base_5"):
            (tmp_path / "base_5").mkdir()

    fs = _going_wrong(monkeypatch, overtake)
    with pytest.raises(errors.DirectoryExistsError):
        rename_directory(fs, f"{tmp_path}/_tmp/base_5", f"{tmp_path}/base_5")
    assert (tmp_path / "_tmp" / "base_5").is_dir()
    assert list((tmp_path / "base_5").iterdir()) == []


def test_renaming_a_missing_file_or_directory_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="does not exist"):
        rename_directory(LOCAL, f"{tmp_path}/none", f"{tmp_path}/base_5")
    with pytest.raises(errors.StorageError, match="does not exist"):
        move(LOCAL, f"{tmp_path}/none", f"{tmp_path}/some/where")


def test_deleting_a_directory_twice_raises_no_error(tmp_path: Path) -> None:
    (tmp_path / "delta_1_1" / "deep").mkdir(parents=True)
    delete_directory(LOCAL, f"{tmp_path}/delta_1_1")
    delete_directory(LOCAL, f"{tmp_path}/delta_1_1")
    assert list(tmp_path.iterdir()) == []


def test_deleting_a_file_twice_raises_no_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    delete_file(LOCAL, f"{tmp_path}/x")
    delete_file(LOCAL, f"{tmp_path}/x")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_deletion_is_an_error_only_if_the_file_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = _going_wrong(monkeypatch, lambda *_: None)
    delete_file(fs, f"{tmp_path}/none")
    (tmp_path / "there").write_bytes(b"")
    with pytest.raises(errors.StorageError, match="there"):
        delete_file(fs, f"{tmp_path}/there")


def test_files_of_one_directory_are_listed_without_subdirectories(tmp_path: Path) -> None:
    write_bytes(LOCAL, f"{tmp_path}/b", b"12")
    write_bytes(LOCAL, f"{tmp_path}/a", b"1")
    write_bytes(LOCAL, f"{tmp_path}/deep/c", b"123")
    assert [(f.path, f.size_bytes) for f in list_files(LOCAL, str(tmp_path))] == [
        ("a", 1),
        ("b", 2),
    ]
    assert list_files(LOCAL, f"{tmp_path}/nothing") == ()


def test_a_tree_has_the_size_of_all_its_files_and_the_age_of_the_newest(
    tmp_path: Path,
) -> None:
    write_bytes(LOCAL, f"{tmp_path}/t/b", b"12")
    write_bytes(LOCAL, f"{tmp_path}/t/deep/c", b"123")
    for path in ("t/b", "t/deep/c", "t/deep", "t"):
        os.utime(tmp_path / path, (1000, 1000))
    os.utime(tmp_path / "t" / "deep" / "c", (2000, 2000))
    assert tree_size(LOCAL, f"{tmp_path}/t") == (5, 2000.0)
    assert tree_size(LOCAL, f"{tmp_path}/nothing") == (0, 0.0)


def test_the_check_for_write_permission_leaves_the_location_unchanged(tmp_path: Path) -> None:
    check_writable(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(errors.LocationNotFoundError):
        check_writable(f"{tmp_path}/nothing")


def test_a_location_without_write_permission_is_reported() -> None:
    # Nobody makes a directory in the kernel's own file system, not even root.
    with pytest.raises(
        errors.LocationPermissionError, match=r"no permission to write .*/sys/kernel"
    ):
        check_writable("file:/sys/kernel")


def test_arrow_errors_become_storage_errors_and_other_errors_are_unchanged() -> None:
    with (
        pytest.raises(errors.StorageError, match="cannot read /x: broken"),
        storage_errors("read", "/x"),
    ):
        raise pa.ArrowInvalid("broken")
    with pytest.raises(errors.StorageError, match="does not exist"), file_errors("read", "/x"):
        raise FileNotFoundError
    with pytest.raises(KeyError), file_errors("read", "/x"):
        raise KeyError


@dataclass(frozen=True)
class _FailingInTheMiddle:
    """A local disk on which removing a directory stops half-way."""

    type_name: str = "local"

    def move(self, source: str, target: str) -> None:
        LOCAL.move(source, target)

    def delete_dir(self, path: str) -> None:
        LOCAL.delete_file(f"{path}/bucket_00000")
        raise OSError(errno.EIO, "stopped", path)


def test_a_partly_deleted_directory_is_hidden_from_readers(tmp_path: Path) -> None:
    directory = tmp_path / "base_1"
    directory.mkdir()
    for name in ("bucket_00000", "_metadata_acid"):
        (directory / name).write_text("x")
    with pytest.raises(errors.StorageError, match="stopped"):
        delete_directory(_FailingInTheMiddle(), str(directory))  # type: ignore[arg-type]
    assert not directory.exists()
    assert [path.name[:14] for path in tmp_path.iterdir()] == ["_tmp_hiveacid_"]


@pytest.mark.parametrize(
    ("number", "is_passing"),
    [
        *((number, True) for number in (errno.ETIMEDOUT, errno.ECONNREFUSED)),
        *((number, True) for number in (errno.ECONNRESET, errno.EAGAIN)),
        *((number, False) for number in (errno.EIO, errno.ENOSPC, errno.EDQUOT)),
    ],
)
def test_only_temporary_store_errors_have_a_temporary_cause(number: int, is_passing: bool) -> None:
    with (
        pytest.raises(errors.StorageError, match=r"cannot write /f.*why") as caught,
        storage_errors("write", "/f"),
    ):
        raise OSError(number, "why", "hdfs://nn/f")
    assert isinstance(caught.value, errors.RetryableError) == is_passing
    assert isinstance(caught.value, errors.StoreUnavailableError) == is_passing


@pytest.fixture
def _narrow_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.usefixtures("_narrow_umask")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2770, 0o755, 0o700])
def test_a_table_is_as_open_after_a_write_as_before_whatever_the_umask(
    tmp_path: Path, mode: int
) -> None:
    table = tmp_path / "t"
    table.mkdir()
    table.chmod(mode)
    Ledger(location=str(table), table_id="1.1").write(ledger_entry(table_id="1.1"))
    TableNotes(location=str(table), table_id="1.1").note_highest_write_id(1, WriteId(1))
    note_owner(str(table), Owner(metastore="m", table=TableRef("d", "t"), table_id="1.1"))
    staging = Staging(location=str(table / "p=1"), token="1-a", home=str(table))
    staged = staging.prepare("delta_0000001_0000001_0000")
    write_bytes(LOCAL, f"{staged}/bucket_00000", b"rows")
    staging.publish(["delta_0000001_0000001_0000"])
    found = {path: rights(path) for path in table.rglob("*")}
    assert len(found) == 9
    for path, got in found.items():
        wanted = mode & (0o2777 if path.is_dir() else 0o666)
        assert got & wanted == wanted, f"{path} is {got:o}"


@pytest.mark.usefixtures("_narrow_umask")
def test_what_is_no_table_keeps_the_rights_of_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    write_bytes(pafs.LocalFileSystem(), f"{tmp_path}/results/result.json", b"{}")
    assert rights(tmp_path / "results") == 0o700
    assert rights(tmp_path / "results" / "result.json") == 0o600


def test_a_new_file_gets_the_group_of_the_table(tmp_path: Path) -> None:
    group = 12345 if os.getuid() == 0 else os.getgroups()[-1]
    os.chown(tmp_path, -1, group)
    write_bytes(*locations.open_location(f"{tmp_path}/a/b"), b"", like=str(tmp_path))
    assert {(tmp_path / name).stat().st_gid for name in ("a", "a/b")} == {group}
