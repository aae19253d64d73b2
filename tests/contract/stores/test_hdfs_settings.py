"""How a real name node is found by the settings of Hadoop's client alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.filesystem import make_directory, rename_directory, write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import MiniHdfs

pytestmark = pytest.mark.server

_PROVIDER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"


@pytest.fixture(autouse=True)
def _new_clients() -> Iterator[None]:
    locations._hadoop.cache_clear()
    yield
    locations._hadoop.cache_clear()


def _say(folder: Path, patch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> None:
    entries = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")
    patch.setenv("HADOOP_CONF_DIR", str(folder))


def _name_service(mini_hdfs: MiniHdfs) -> dict[str, str]:
    """One whose first name node is dead."""
    return {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "nn1,nn2",
        "dfs.namenode.rpc-address.lake.nn1": "127.0.0.1:1",
        "dfs.namenode.rpc-address.lake.nn2": mini_hdfs.authority,
        "dfs.client.failover.proxy.provider.lake": _PROVIDER,
    }


def test_a_name_service_is_resolved_from_hadoops_settings(
    mini_hdfs: MiniHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**_name_service(mini_hdfs), "fs.defaultFS": "hdfs://lake"}
    _say(tmp_path, monkeypatch, {**settings, "fs.permissions.umask-mode": "u=rwx,g=rx,o="})
    fs, root = open_location("hdfs://lake/named/t")
    write_bytes(fs, f"{root}/delta_1_1/f", b"rows")
    assert [f.path for f in list_table("hdfs:///named/t").files] == ["delta_1_1/f"]
    assert [f.path for f in list_table(f"{mini_hdfs.uri}/named/t").files] == ["delta_1_1/f"]
    client = fs.handler._client
    assert client.get_file_info(f"{root}/delta_1_1").permission == 0o750
    assert client.get_file_info(f"{root}/delta_1_1/f").permission == 0o640


def test_a_viewfs_mount_table_is_resolved_to_its_name_nodes(
    mini_hdfs: MiniHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {
        "fs.viewfs.mounttable.cl.link./warehouse": f"{mini_hdfs.uri}/mounted",
        "fs.viewfs.mounttable.cl.link./other": "hdfs://lake/elsewhere",
        "fs.viewfs.mounttable.cl.linkFallback": f"{mini_hdfs.uri}/",
    }
    _say(tmp_path, monkeypatch, {**_name_service(mini_hdfs), **mounts})
    fs, root = open_location("viewfs://cl/warehouse/t")
    write_bytes(fs, f"{root}/_tmp_x/base_1/f", b"rows")
    rename_directory(fs, f"{root}/_tmp_x/base_1", f"{root}/base_1")
    found = list_table("viewfs://cl/warehouse/t")
    assert [f.path for f in found.files] == ["base_1/f"]
    assert [f.path for f in list_table(f"{mini_hdfs.uri}/mounted/t").files] == ["base_1/f"]
    make_directory(fs, "/other")
    with pytest.raises(StorageError, match="across"):
        rename_directory(fs, f"{root}/base_1", "/other/base_1")
    assert [f.path for f in list_table("viewfs://cl/warehouse/t").files] == ["base_1/f"]


def test_the_error_about_an_unreachable_name_node_contains_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default fifteen, some minutes in all, as Java's client does it.
    _say(tmp_path, monkeypatch, {"dfs.client.failover.max.attempts": "1"})
    with pytest.raises(StorageError, match="/w/t"):
        list_table("hdfs://127.0.0.1:1/w/t")
