"""Locations as the metastore writes them, and the file systems behind them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE, client_of, locate, open_location
from tests.support.cases import tables_of

TABLES = tables_of(__file__)


@pytest.fixture(autouse=True)
def _no_clients_of_other_tests() -> Iterator[None]:
    clients = locations._hadoop
    clients.cache_clear()
    yield
    clients.cache_clear()


@pytest.mark.parametrize(("location", "path"), TABLES["local"])
def test_a_local_location_is_parsed_as_in_hadoop(location: str, path: str) -> None:
    fs, found = open_location(location)
    assert found == path
    assert fs.type_name == "local"


@pytest.mark.parametrize(
    "location", ["", "w/t", "file:w/t", "file://elsewhere/w/t", "ftp://host/w", "hdfs:w"]
)
def test_a_location_that_no_client_can_open_raises_a_configuration_error(location: str) -> None:
    with pytest.raises(ConfigurationError):
        open_location(location)


@pytest.mark.parametrize(("location", "around"), TABLES["around"])
def test_the_directories_around_a_location_lead_to_the_root(
    location: str, around: list[str]
) -> None:
    assert locations.directories_around(location) == around


@pytest.mark.parametrize(("location", "directory", "is_in_it"), TABLES["within"])
def test_a_location_is_within_a_directory_only_of_the_same_store(
    location: str, directory: str, is_in_it: bool
) -> None:
    assert locations.is_within(location, directory) is is_in_it


def test_a_missing_hadoop_client_raises_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Unable to load libhdfs")

    monkeypatch.setattr(locations.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(locations.pafs, "HadoopFileSystem", refuse)
    with pytest.raises(ConfigurationError, match=r"hdfs-native.*HADOOP_HOME.*load libhdfs"):
        open_location("hdfs://nobody:1/w")


@pytest.mark.parametrize("installed", [True, False])
def test_hdfs_is_opened_without_a_jvm_if_the_native_client_is_installed(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(locations.importlib.util, "find_spec", lambda _: installed or None)
    monkeypatch.setattr(locations, "open_hdfs", lambda *place: ("native", *place))
    monkeypatch.setattr(locations.pafs, "HadoopFileSystem", lambda *place: ("libhdfs", *place))
    found = [open_location(f"{place}/w") for place in ("hdfs://nn:1", "viewfs://", "hdfs://ns")]
    assert [path for _, path in found] == ["/w"] * 3
    assert [fs for fs, _ in found] == (
        [("native", "hdfs", "nn:1"), ("native", "viewfs", ""), ("native", "hdfs", "ns")]
        if installed
        else [("libhdfs", "hdfs://nn", 1), ("libhdfs", "default", 0), ("libhdfs", "hdfs://ns", 0)]
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "-Xrs"), ("-Xmx1g", "-Xmx1g -Xrs"), ("-Xrs -Xmx1g", "-Xrs -Xmx1g")],
)
def test_the_jvm_of_libhdfs_leaves_signals_to_this_process(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    monkeypatch.setenv("LIBHDFS_OPTS", "")
    monkeypatch.delenv("LIBHDFS_OPTS")
    if before is not None:
        monkeypatch.setenv("LIBHDFS_OPTS", before)
    monkeypatch.setattr(locations.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(
        locations.pafs, "HadoopFileSystem", lambda *_, **__: os.environ["LIBHDFS_OPTS"]
    )
    found, _ = open_location("hdfs://lake/w")
    assert found == after


def test_libhdfs_uses_no_observer_name_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "dfs.client.failover.proxy.provider.lake"
    there = "org.apache.hadoop.hdfs.server.namenode.ha."
    given = json.dumps({name: f"{there}ObserverReadProxyProvider"})
    monkeypatch.setenv(locations.hadoop_settings.VARIABLE, given)
    monkeypatch.setattr(locations.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(locations.pafs, "HadoopFileSystem", lambda *_, **more: more)
    fs, _ = open_location("hdfs://lake/w")
    assert fs == {"extra_conf": {name: f"{there}ConfiguredFailoverProxyProvider"}}


@pytest.mark.parametrize(("location", "place"), TABLES["store and path"])
def test_a_location_is_split_into_its_store_and_its_path(location: str, place: list[str]) -> None:
    assert [*locate(location)] == place


def test_the_client_of_a_store_is_found_by_the_name_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locations, "_hadoop", lambda *place: place[:2])
    assert client_of(locate("hdfs://nn:8020/w")[0]) == ("hdfs", "nn:8020")
    assert client_of(locate("viewfs:///w")[0]) == ("viewfs", "")
    assert client_of(LOCAL_STORE) is client_of(locate("file:/x")[0])
    assert client_of("gs://bucket").type_name == "gcs"


@pytest.mark.parametrize("scheme", ["s3", "S3A", "s3n"])
def test_the_path_of_an_s3_location_contains_its_bucket(scheme: str) -> None:
    assert locate(f"{scheme}://lake/w/t/") == ("s3://lake", "lake/w/t")
    assert locate(f"{scheme}://lake/") == ("s3://lake", "lake")


@pytest.mark.parametrize(("location", "path"), TABLES["containers"])
def test_the_path_on_an_object_store_begins_with_its_container(location: str, path: str) -> None:
    assert open_location(location)[1] == path


def test_a_forked_process_and_changed_settings_or_tokens_get_a_new_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locations.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(locations, "open_hdfs", lambda *_: object())
    monkeypatch.delenv("HIVEACID_STORE_SETTINGS", raising=False)
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION", raising=False)
    first = client_of("hdfs://nn")
    assert client_of("hdfs://nn") is first
    monkeypatch.setenv("HIVEACID_STORE_SETTINGS", "{}")
    assert client_of("hdfs://nn") is not first
    monkeypatch.delenv("HIVEACID_STORE_SETTINGS")
    assert client_of("hdfs://nn") is first
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/tokens")
    assert client_of("hdfs://nn") is not first
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION")
    assert client_of("hdfs://nn") is first
    monkeypatch.setattr(locations.os, "getpid", lambda: -1)
    assert client_of("hdfs://nn") is not first
