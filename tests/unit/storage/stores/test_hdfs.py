"""What the contract of HDFS does not ask: settings, errors as they are printed, a lack of it."""

from __future__ import annotations

import errno
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.hadoop_settings import read_settings, umask_of
from airflow_hiveacid.storage.stores.hdfs import HdfsHandler, open_hdfs
from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_streams import PIECE_BYTES, HdfsReader, HdfsWriter
from airflow_hiveacid.storage.stores.traits import renames_directories, traits_of
from contract.stores.hdfs_model import Model, Options

if TYPE_CHECKING:
    from pathlib import Path

SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>fs.permissions.umask-mode</name><value>{}</value></property>
  <property><name>fs.defaultFS</name><value> hdfs://nn </value></property>
  <property><name>empty</name><value/></property>
</configuration>
"""


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "umask"),
    [
        ("022", 0o022),
        ("0077", 0o077),
        ("0", 0),
        ("u=rwx,g=rx,o=", 0o027),
        ("ug=rwx,o=rx", 0o002),
        ("a=rwx", 0),
    ],
)
def test_a_umask_is_written_in_two_ways(text: str, umask: int) -> None:
    assert umask_of({"fs.permissions.umask-mode": text}) == umask


@pytest.mark.parametrize("text", ["", "9", "g-w", "u=rwx;g=r", "rwxr-xr-x"])
def test_a_umask_that_nobody_understands_is_an_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="umask-mode"):
        umask_of({"fs.permissions.umask-mode": text})


def test_settings_lie_where_hadoop_looks_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "hadoop"
    folder.mkdir(parents=True)
    (folder / "core-site.xml").write_text(SITE.format("022"))
    found = read_settings({"HADOOP_HOME": str(tmp_path)})
    assert found == {"fs.permissions.umask-mode": "022", "fs.defaultFS": "hdfs://nn"}
    (folder / "hdfs-site.xml").write_text(SITE.format("077"))
    assert umask_of(read_settings({"HADOOP_CONF_DIR": str(folder), "HADOOP_HOME": "/x"})) == 0o077
    assert read_settings({}) == read_settings({"HADOOP_CONF_DIR": str(tmp_path)}) == {}
    (folder / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigurationError, match=r"hdfs-site\.xml"):
        read_settings({"HADOOP_CONF_DIR": str(folder)})


# ---- errors --------------------------------------------------------------------------------------

DENIED = (
    'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob,'
    ' inode=\\"/t\\":root\\n\\tat org.apache.hadoop.FSPermissionChecker")'
)


@pytest.mark.parametrize(
    ("error", "number", "text"),
    [
        (
            RuntimeError(DENIED),
            errno.EACCES,
            'Permission denied: user=bob, inode="/t":root (AccessControlException)',
        ),
        (
            RuntimeError('FatalRPCError("org.apache.hadoop.ipc.StandbyException", "not active")'),
            errno.EAGAIN,
            "not active (StandbyException)",
        ),
        (
            RuntimeError('RPCError("java.lang.OutOfMemoryError", "heap")'),
            errno.EIO,
            "heap (OutOfMemoryError)",
        ),
        (RuntimeError('SASLError("no ticket")'), errno.EACCES, 'SASLError("no ticket")'),
        (RuntimeError("NoSASLMechanism"), errno.EACCES, "NoSASLMechanism"),
        (RuntimeError("ChecksumError"), errno.EIO, "ChecksumError"),
        (
            NotImplementedError("File encryption"),
            errno.ENOTSUP,
            "hdfs-native cannot do this: File encryption",
        ),
        (FileNotFoundError("/x\n\tat org.apache"), errno.ENOENT, "/x"),
        (FileExistsError("/x"), errno.EEXIST, "/x"),
        (IsADirectoryError("/x"), errno.EISDIR, "/x"),
        (OSError("Connection refused"), errno.EIO, "Connection refused"),
        (OSError(errno.ECONNREFUSED, "refused"), errno.ECONNREFUSED, "refused"),
    ],
)
def test_an_error_gets_a_number_and_one_line(error: Exception, number: int, text: str) -> None:
    with pytest.raises(OSError, match="/path") as caught, hdfs_errors("/path"):
        raise error
    assert (caught.value.errno, caught.value.strerror) == (number, text)
    assert type(caught.value) is type(OSError(number, ""))


def test_what_is_no_failure_of_a_store_passes() -> None:
    with pytest.raises(KeyError), hdfs_errors("/path"):
        raise KeyError("x")


# ---- streams -------------------------------------------------------------------------------------


class Sink:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = 0

    def write(self, buf: bytes) -> int:
        self.pieces.append(buf)
        return len(buf)

    def close(self) -> None:
        self.closed += 1


def test_small_writes_go_together_and_large_ones_in_pieces() -> None:
    sink = Sink()
    writer = HdfsWriter(sink, "/f")
    for _ in range(3):
        writer.write(b"abc")
    assert sink.pieces == []
    large = bytes(5 * PIECE_BYTES)
    writer.write(large)
    assert writer.tell() == 9 + len(large)
    writer.close()
    writer.close()
    assert b"".join(sink.pieces) == b"abc" * 3 + large
    assert max(map(len, sink.pieces)) < 2 * PIECE_BYTES
    assert sink.closed == 1


def test_fewer_bytes_than_there_must_be_are_an_error() -> None:
    class Short(bytes):
        def read_range(self, offset: int, _: int) -> bytes:
            return self[offset : offset + 2]

    reader = HdfsReader(Short(b"12345"), "/f")
    reader.seek(1)
    with pytest.raises(OSError, match="2 bytes came of 4 at 1"):
        reader.read()


# ---- the client ----------------------------------------------------------------------------------


def test_a_name_node_that_knows_no_lists_is_asked_once() -> None:
    model = Model()
    model.knows_lists = False
    asked: list[str] = []

    def refuse(path: str) -> object:
        asked.append(path)
        return Model.get_acl_status(model, path)

    model.get_acl_status = refuse  # type: ignore[method-assign,assignment]
    fs = pafs.PyFileSystem(HdfsHandler("hdfs://model", model, 0o027, Options))
    fs.create_dir("/a/b")
    fs.create_dir("/a/c")
    assert asked == ["/a"]
    assert model.get_file_info("/a/c").permission == 0o750


def test_nobody_empties_a_whole_store() -> None:
    fs = pafs.PyFileSystem(HdfsHandler("hdfs://model", Model(), 0o022, Options))
    with pytest.raises(NotImplementedError):
        fs.delete_dir_contents("/", accept_root_dir=True)
    with pytest.raises(NotImplementedError):
        fs.open_append_stream("/f")


def test_a_client_is_one_of_its_place() -> None:
    one, same = (HdfsHandler("hdfs://one", Model(), 0o022, Options) for _ in range(2))
    other = HdfsHandler("hdfs://other", Model(), 0o022, Options)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert pafs.PyFileSystem(one).equals(pafs.PyFileSystem(same))
    assert pafs.PyFileSystem(one).normalize_path("/a?b#c//") == "/a?b#c//"


def test_the_client_is_told_where_and_finds_the_rest_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def client(url: str) -> Model:
        asked.append(url)
        if "none" in url:
            raise RuntimeError('InvalidArgument("no name node for none")')
        return Model()

    native = SimpleNamespace(Client=client, WriteOptions=Options)
    monkeypatch.setitem(sys.modules, "hdfs_native", native)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    fs = open_hdfs("hdfs", "nn:8020")
    assert open_hdfs("viewfs", "").get_file_info("/").type == pafs.FileType.Directory
    assert asked == ["hdfs://nn:8020", "viewfs:///"]
    assert traits_of(fs).refuses_taken_names
    assert traits_of(fs).deletes_at_once
    with pytest.raises(
        ConfigurationError, match=r"no name node for none.*HADOOP_CONF_DIR.*not set"
    ):
        open_hdfs("hdfs", "none")
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigurationError, match="the package hdfs-native"):
        open_hdfs("hdfs", "nn:8020")


@pytest.mark.parametrize(
    ("scheme", "authority", "place"),
    [
        ("hdfs", "nn:9000", "hdfs://nn:9000"),
        ("hdfs", "nn", "hdfs://nn:8020"),
        ("hdfs", "lake", "hdfs://lake"),
        ("hdfs", "", "hdfs://other:8020"),
        ("viewfs", "cl", "viewfs://cl"),
        ("viewfs", "", "viewfs:///"),
    ],
)
def test_what_has_no_port_is_a_name_service_or_has_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, authority: str, place: str
) -> None:
    asked: list[str] = []

    def client(url: str) -> Model:
        asked.append(url)
        return Model()

    native = SimpleNamespace(Client=client, WriteOptions=Options)
    monkeypatch.setitem(sys.modules, "hdfs_native", native)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    settings = {"fs.defaultFS": "hdfs://other/", "dfs.ha.namenodes.lake": "nn1,nn2"}
    (tmp_path / "core-site.xml").write_text(
        "<configuration>"
        + "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        + "</configuration>"
    )
    open_hdfs(scheme, authority)
    assert asked == [place]


def test_a_local_disk_deletes_file_by_file_and_object_stores_rename_nothing() -> None:
    traits = traits_of(pafs.LocalFileSystem())
    assert not traits.deletes_at_once
    assert not traits.refuses_taken_names
    assert traits.reads_open_files
    assert [s for s in ("file", "hdfs", "viewfs", "s3a", "gs") if renames_directories(s)] == [
        "file",
        "hdfs",
        "viewfs",
    ]
