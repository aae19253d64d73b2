"""Locations as the metastore writes them, and the file systems behind them."""

from __future__ import annotations

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.locations import open_location

LOCAL = pafs.LocalFileSystem()


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/t", "/w/t"),
        ("/w/t/", "/w/t"),
        ("/", "/"),
        ("file:/w/t", "/w/t"),
        ("file:///w/t", "/w/t"),
        ("file://localhost/w/t/", "/w/t"),
        ("FILE:/w//t", "/w/t"),
        ("file:/w/t/p=a%2Fb", "/w/t/p=a%2Fb"),
        ("/w/t/at=12:30", "/w/t/at=12:30"),
        ("file:/w/t/p=a b#c?d", "/w/t/p=a b#c?d"),
    ],
)
def test_a_local_location_is_taken_as_hadoop_takes_it(location: str, path: str) -> None:
    fs, found = open_location(location)
    assert found == path
    assert fs.type_name == "local"


@pytest.mark.parametrize(
    "location", ["", "w/t", "file:w/t", "file://elsewhere/w/t", "ftp://host/w", "hdfs:w"]
)
def test_a_location_that_no_client_can_open_is_a_configuration_error(location: str) -> None:
    with pytest.raises(ConfigurationError):
        open_location(location)


def test_a_missing_hadoop_client_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Unable to load libhdfs")

    monkeypatch.setattr(locations.pafs, "HadoopFileSystem", refuse)
    with pytest.raises(ConfigurationError, match="HADOOP_HOME"):
        open_location("hdfs://nobody:1/w")


def test_an_object_store_keeps_its_bucket_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Stores:
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            asked.append(uri)
            return LOCAL, uri.removeprefix("s3://")

    monkeypatch.setattr(locations.pafs, "FileSystem", Stores)
    assert open_location("s3a://lake/w/t")[1] == "lake/w/t"
    assert asked == ["s3://lake"]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("abfss://cont@acc.dfs.core.windows.net/wh/db/t", "cont/wh/db/t"),
        ("abfs://cont@acc.dfs.core.windows.net/wh/", "cont/wh"),
        ("abfss://acc.dfs.core.windows.net/cont/wh", "cont/wh"),
        ("gs://bucket/wh/t", "bucket/wh/t"),
    ],
)
def test_the_path_on_an_object_store_begins_with_its_container(location: str, path: str) -> None:
    assert open_location(location)[1] == path
