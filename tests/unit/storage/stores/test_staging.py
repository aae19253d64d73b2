"""Directories are built out of sight and appear whole."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.storage.stores.hadoop_settings import JAVA_PATTERN, VARIABLE
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.staging import Staging, check_publishable, check_renames

BASE = BaseName(write_id=WriteId(5))
DELTA = DeltaName(low=WriteId(6), high=WriteId(6), statement_id=StatementId(0))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_staged_files_are_in_one_hidden_directory_under_their_final_names(tmp_path: Path) -> None:
    staging = Staging(location=f"file:{tmp_path}/", token="job-1")
    assert staging.root == f"file:{tmp_path}/_tmp_hiveacid_job-1"
    assert staging.path_for(BASE) == f"{staging.root}/base_0000005"
    assert staging.final_path(DELTA) == f"file:{tmp_path}/delta_0000006_0000006_0000"
    assert staging.attempt_path(BASE, "bucket_00000", "a7").startswith(f"{staging.root}/_attempts/")


@pytest.mark.parametrize(
    ("location", "top"),
    [
        ("file:/w/t", "file:/w/t"),
        ("file:/w/t/day=1", "file:/w/t"),
        ("file:/w/t_old/day=1", "file:/w/t_old/day=1"),  # its name only begins like the table's
        ("file:/elsewhere", "file:/elsewhere"),
    ],
)
def test_only_partitions_inside_the_table_location_are_staged_in_it(
    location: str, top: str
) -> None:
    table = TableInfo(ref=TableRef("d", "t"), location="file:/w/t", columns=())
    staging = Staging.of(table, location, "x")
    assert staging.top == f"{top}/_tmp_hiveacid_x"
    assert staging.root == staging.top + location.removeprefix(top)
    assert staging.final_path(BASE) == f"{location}/base_0000005"


def test_a_staging_can_be_pickled() -> None:
    staging = Staging(location="file:/w/t", token="x")
    assert pickle.loads(pickle.dumps(staging)) == staging  # noqa: S301 - our own bytes


def test_a_staging_token_that_is_not_a_plain_name_is_refused() -> None:
    for token in ("", "../x", "a/b", "a b"):
        with pytest.raises(errors.InvalidNameError):
            Staging(location="/w", token=token)


@pytest.mark.promise("F11")
def test_version_and_metadata_files_exist_before_the_directory_is_visible(
    tmp_path: Path,
) -> None:
    staging = Staging(location=str(tmp_path), token="x")
    staging.prepare(BASE)
    staging.add_version_file(BASE)
    staging.add_metadata_file(BASE)
    assert list_table(str(tmp_path)).files == ()
    assert staging.publish([BASE]) == (f"{tmp_path}/base_0000005",)
    staging.discard()
    assert names(tmp_path) == ["base_0000005"]
    assert (tmp_path / "base_0000005" / "_orc_acid_version").read_bytes() == b"2"
    assert list_table(str(tmp_path)).metadata == {"base_0000005": "compacted"}


def test_only_the_accepted_attempt_is_published(tmp_path: Path) -> None:
    staging = Staging(location=str(tmp_path), token="x")
    for attempt in ("lost", "counts"):
        path = tmp_path / staging.attempt_path(DELTA, "bucket_00000", attempt)
        path.parent.mkdir(parents=True)
        path.write_text(attempt)
    assert staging.accept(DELTA, "bucket_00000", "counts").endswith("_0000/bucket_00000")
    with pytest.raises(errors.DirectoryExistsError):
        staging.accept(DELTA, "bucket_00000", "lost")
    staging.publish([DELTA])
    staging.discard()
    assert names(tmp_path) == [str(DELTA)]
    assert names(tmp_path / str(DELTA)) == ["bucket_00000"]
    assert (tmp_path / str(DELTA) / "bucket_00000").read_text() == "counts"


def test_accepting_a_file_that_no_attempt_wrote_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError):
        Staging(location=str(tmp_path), token="x").accept(DELTA, "bucket_00000", "none")


def test_nothing_is_published_if_one_target_already_exists(tmp_path: Path) -> None:
    staging = Staging(location=str(tmp_path), token="x")
    staging.prepare(DELTA)
    staging.prepare(BASE)
    (tmp_path / str(BASE)).mkdir()
    with pytest.raises(errors.DirectoryExistsError) as caught:
        staging.publish([DELTA, BASE])
    assert caught.value.path.endswith("/base_0000005")
    assert names(tmp_path) == ["_tmp_hiveacid_x", "base_0000005"]


def test_nothing_is_published_if_one_directory_was_not_built(tmp_path: Path) -> None:
    staging = Staging(location=str(tmp_path), token="x")
    staging.prepare(DELTA)
    with pytest.raises(errors.StorageError, match="it was not built"):
        staging.publish([DELTA, BASE])
    assert names(tmp_path) == ["_tmp_hiveacid_x"]


def test_discarding_removes_all_staged_files_and_can_be_repeated(tmp_path: Path) -> None:
    staging = Staging(location=str(tmp_path), token="x")
    staging.prepare(BASE)
    staging.discard()
    staging.discard()
    assert names(tmp_path) == []


@pytest.mark.parametrize("location", ["/w/t", "file:/w/t", "hdfs://nn:8020/w/t", "viewfs://c/w/t"])
def test_publishing_to_a_store_that_renames_directories_is_allowed(location: str) -> None:
    check_renames(TableRef("d", "t"), location, "a conversion")
    check_publishable(TableRef("d", "t"), location)


ABFS: Final = "abfss://c@a.dfs.core.windows.net/w/t"
SWITCH: Final = r"set hiveacid\.untested\.stores=abfss in core-site\.xml, or spark\.hadoop\."


@pytest.mark.parametrize(
    ("location", "named", "words"),
    [
        (ABFS, "", f"readers could see half a change.*{SWITCH}"),
        (ABFS, "abfs,s3a", SWITCH),
        ("gs://lake/w/t", "", "this store cannot rename directories.*and no setting allows such"),
        ("gs://lake/w/t", "gs", "no setting allows such"),
    ],
)
def test_the_error_for_an_untested_store_says_whether_a_setting_allows_it(
    location: str, named: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"hiveacid.untested.stores": named}))
    with pytest.raises(
        errors.UnsupportedTableError, match=rf"d\.t.*changing a table is untested.*{words}"
    ):
        check_publishable(TableRef("d", "t"), location)


def test_a_change_on_an_allowed_untested_store_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"hiveacid.untested.stores": "gs, ABFSS"}))
    check_publishable(TableRef("d", "t"), ABFS)
    assert f"on an untested store: {ABFS}" in caplog.text
    with pytest.raises(errors.UnsupportedTableError, match="no renames"):
        check_renames(TableRef("d", "t"), ABFS, "a conversion")


def test_untested_stores_can_be_allowed_in_the_hadoop_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setting = "<property><name>hiveacid.untested.stores</name><value>abfss</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{setting}</configuration>")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    check_publishable(TableRef("d", "t"), ABFS)
    assert re.search(JAVA_PATTERN, "hiveacid.untested.stores")  # of Spark's JVM, too


@pytest.mark.parametrize("location", ["s3a://lake/w/t", "S3://lake/w/t", "gs://lake/w/t"])
def test_a_conversion_on_a_store_without_renames_is_refused(location: str) -> None:
    with pytest.raises(
        errors.UnsupportedTableError, match=r"d\.t.*a conversion renames .* no renames"
    ):
        check_renames(TableRef("d", "t"), location, "a conversion")
