"""Where a client of S3 goes is what S3A's settings say, a bucket's own before all others."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.names import attempt_of, attempt_path
from airflow_hiveacid.storage.stores import s3
from tests.support.cases import tables_of

TABLES = tables_of(__file__)


@pytest.mark.parametrize(("settings", "endpoint"), TABLES["endpoints"])
def test_the_endpoint_is_taken_from_the_s3a_settings(
    settings: dict[str, str], endpoint: str | None
) -> None:
    assert s3.endpoint_of("lake", settings) == endpoint


@pytest.mark.parametrize(("settings", "environment", "region"), TABLES["regions"])
def test_the_region_is_taken_from_settings_endpoint_or_environment(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    environment: dict[str, str],
    region: str,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert s3.region_of("lake", settings) == region


@pytest.mark.parametrize(
    ("said", "is_one"), [("true", True), (" True", True), ("false", False), ("", False)]
)
def test_a_boolean_setting_is_parsed_as_in_hadoop(said: str, is_one: bool) -> None:
    assert s3.is_path_style("lake", {"fs.s3a.path.style.access": said}) is is_one


def test_an_empty_setting_is_treated_as_missing() -> None:
    own = {"fs.s3a.bucket.lake.path.style.access": "", "fs.s3a.path.style.access": "true"}
    assert s3.setting_of("lake", own, "path.style.access") == "true"


@pytest.mark.parametrize(
    "root", ["b/t/_tmp_hiveacid_1-a", "b/_attempts/t/_tmp_hiveacid_1-a/p=_attempts/q=2"]
)
def test_the_final_path_of_a_file_is_derived_from_its_attempt_path(root: str) -> None:
    found = attempt_of(attempt_path(root, "9f", "base_0000001", "bucket_00000"))
    assert found is not None
    assert found.attempt == "9f"
    assert found.final == f"{root}/base_0000001/bucket_00000".replace("_tmp_hiveacid_1-a/", "")


@pytest.mark.parametrize(
    "path",
    [
        "b/t/base_0000001/bucket_00000",
        "b/t/_tmp_hiveacid_1/base_0000001/bucket_00000",
        "b/t/_tmp_hiveacid_1/_flat/9f/part-0.orc",
        "b/t/_attempts/9f/base_0000001/bucket_00000",
        "b/t/_tmp_hiveacid_1/_attempts/9f/base_0000001",
        "bucket_00000",
    ],
)
def test_other_paths_do_not_name_an_attempt(path: str) -> None:
    assert attempt_of(path) is None
