"""What is seen of a real HDFS in trouble: a typed error that says what to do, and no half file."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.storage.stores import filesystem
from airflow_hiveacid.storage.stores.hdfs import connect as hdfs_connect
from airflow_hiveacid.storage.stores.hdfs.handler import PIECE_BYTES
from airflow_hiveacid.storage.stores.listing import list_directories, list_files, list_table
from airflow_hiveacid.storage.stores.staging import Staging
from tests.contract.stores.conftest import Hdfs
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.contract.stores.name_node_calls import safe_mode, set_quota

pytestmark = pytest.mark.server


@pytest.fixture
def hdfs(real_hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    monkeypatch.setattr(hdfs_connect.hadoop_settings, "given_settings", dict)
    filesystem.make_directory(real_hdfs.fs, real_hdfs.root)
    return real_hdfs


def test_a_change_during_safe_mode_raises_an_error_that_advises_a_retry(hdfs: Hdfs) -> None:
    filesystem.write_bytes(hdfs.fs, f"{hdfs.root}/d/f", b"1")
    stream = hdfs.fs.open_output_stream(f"{hdfs.root}/d/g")
    stream.write(b"rows")
    with safe_mode(hdfs.store.removeprefix("hdfs://")):
        for attempt in (
            lambda: filesystem.write_bytes(hdfs.fs, f"{hdfs.root}/new/f", b"2"),
            lambda: filesystem.make_directory(hdfs.fs, f"{hdfs.root}/new"),
            lambda: filesystem.rename_directory(hdfs.fs, f"{hdfs.root}/d", f"{hdfs.root}/e"),
            lambda: filesystem.delete_directory(hdfs.fs, f"{hdfs.root}/d"),
            lambda: filesystem.check_writable(f"{hdfs.uri}/d"),
        ):
            with pytest.raises(
                errors.StoreUnavailableError, match=r"[Ss]afe mode.*try again later"
            ) as e:
                attempt()
            assert hdfs.store in str(e.value)
        with pytest.raises(OSError, match="safe mode"):
            stream.close()
        assert filesystem.exists(hdfs.fs, f"{hdfs.root}/d/f")
    assert list_directories(hdfs.fs, hdfs.root) == ("d",)
    stream.close()  # once more does not finish it
    assert hdfs.fs.get_file_info(f"{hdfs.root}/d/g").size == 0


@pytest.mark.parametrize("kind", ["names", "space"])
def test_an_exceeded_quota_raises_an_error_and_leaves_no_directories(hdfs: Hdfs, kind: str) -> None:
    table, authority = f"{hdfs.root}/t", hdfs.store.removeprefix("hdfs://")
    filesystem.make_directory(hdfs.fs, table)
    staging = Staging(location=f"{hdfs.uri}/t", token="job")
    delta = "delta_0000001_0000001_0000"
    path = hdfs.path(staging.attempt_path(delta, "bucket_00000", "try"))
    if kind == "names":
        set_quota(authority, table, names=3)
        with pytest.raises(errors.StorageError, match=r"NameSpace quota.*Compact and clean") as e:
            filesystem.write_bytes(hdfs.fs, path, b"rows")
    else:
        # A block that is being written counts as if it were full.
        set_quota(authority, table, space_bytes=(128 << 20) + (1 << 19))
        filesystem.write_bytes(hdfs.fs, path, b"x" * PIECE_BYTES)
        with pytest.raises(errors.StorageError, match=r"DiskSpace quota.*Compact and clean") as e:
            filesystem.write_bytes(hdfs.fs, f"{path}_2", b"x" * 4 * PIECE_BYTES)
    assert hdfs.store in str(e.value)
    assert not e.value.retryable
    staging.discard()
    assert list_table(f"{hdfs.uri}/t").directories == ()


def test_a_file_whose_second_block_exceeds_the_quota_cannot_be_closed(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hdfs_connect.hadoop_settings, "given_settings", lambda: {"dfs.blocksize": "1m"}
    )
    authority = hdfs.store.removeprefix("hdfs://")
    fs = hdfs_connect.open_hdfs("hdfs", authority)
    set_quota(authority, hdfs.root, space_bytes=3 << 19)
    stream = fs.open_output_stream(f"{hdfs.root}/f")
    with pytest.raises(OSError, match="DiskSpace quota"):
        stream.write(bytes(3 * PIECE_BYTES))
    with pytest.raises(OSError, match="an earlier write to it failed"):
        stream.close()


def test_a_full_store_raises_an_error_and_leaves_the_file_empty(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that fits nowhere: hdfs-native forgets it, and would finish the file without."""
    monkeypatch.setattr(
        hdfs_connect.hadoop_settings, "given_settings", lambda: {"dfs.blocksize": "128t"}
    )
    fs = hdfs_connect.open_hdfs("hdfs", hdfs.store.removeprefix("hdfs://"))
    with pytest.raises(errors.StorageError, match="Data nodes are full") as caught:
        filesystem.write_bytes(fs, f"{hdfs.root}/d/f", b"rows")
    assert hdfs.store in str(caught.value)
    assert hdfs.fs.get_file_info(f"{hdfs.root}/d/f").size == 0
    with pytest.raises(errors.StorageError, match="Data nodes are full"):
        filesystem.write_new(fs, f"{hdfs.root}/d/g", b"note")
    assert [f.path for f in list_files(hdfs.fs, f"{hdfs.root}/d")] == ["f"]


def test_a_permission_error_names_the_user_and_the_full_path(hdfs: Hdfs) -> None:
    filesystem.write_bytes(hdfs.fs, f"{hdfs.root}/d/f", b"1")
    bob = hdfs.of_user("bob")
    with pytest.raises(errors.LocationPermissionError, match=r"user=bob.*setfacl") as caught:
        filesystem.make_directory(bob, f"{hdfs.root}/d/e")
    assert f"{hdfs.store}{hdfs.root}/d/e" in str(caught.value)


WRITER = """
import json, sys
from airflow_hiveacid.storage.stores.locations import open_location
fs, path = open_location(sys.argv[1])
with fs.open_output_stream(path) as stream:
    for _ in range(3):
        stream.write(bytes(1 << 20))
    print("written", flush=True)
    sys.stdin.read()
"""


def test_a_writer_killed_during_a_write_leaves_an_empty_file_that_can_be_replaced(
    hdfs: Hdfs,
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, f"{hdfs.uri}/d/f"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"written\n"
    writer.kill()
    writer.communicate()
    assert hdfs.fs.get_file_info(f"{hdfs.root}/d/f").size == 0
    filesystem.write_bytes(
        hdfs.fs, f"{hdfs.root}/d/f", b"another's"
    )  # the dead one's lease is no hindrance
    filesystem.delete_directory(hdfs.fs, f"{hdfs.root}/d")


def test_a_file_whose_writer_is_forgotten_is_not_completed(hdfs: Hdfs) -> None:
    stream = hdfs.fs.open_output_stream(f"{hdfs.root}/d/f")
    stream.write(bytes(3 * PIECE_BYTES))
    del stream
    gc.collect()
    assert hdfs.fs.get_file_info(f"{hdfs.root}/d/f").size == 0
    filesystem.delete_directory(hdfs.fs, f"{hdfs.root}/d")


def test_a_call_to_a_frozen_name_node_times_out_and_later_calls_succeed(
    hdfs: Hdfs, mini_hdfs: MiniHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hdfs_connect.hadoop_settings, "given_settings", lambda: {"ipc.client.rpc-timeout.ms": "500"}
    )
    impatient = hdfs_connect.open_hdfs("hdfs", mini_hdfs.authority)
    filesystem.write_bytes(hdfs.fs, f"{hdfs.root}/f", b"1")
    os.kill(mini_hdfs.process_id, signal.SIGSTOP)
    try:
        with pytest.raises(errors.StoreUnavailableError, match=rf"no answer in 0\.5 s.*{hdfs.uri}"):
            filesystem.make_directory(impatient, f"{hdfs.root}/d")
    finally:
        os.kill(mini_hdfs.process_id, signal.SIGCONT)
    filesystem.write_bytes(hdfs.fs, f"{hdfs.root}/f", b"2")
    assert filesystem.read_bytes(hdfs.fs, f"{hdfs.root}/f") == b"2"
