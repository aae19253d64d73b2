"""What S3 refuses is an error that says where, whose keys were used, and what to do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from airflow_hiveacid.format import errors
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.filesystem import exists, write_bytes
from airflow_hiveacid.storage.stores.hadoop_settings import VARIABLE
from airflow_hiveacid.storage.stores.listing import list_files, list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.s3.bucket import s3_errors
from tests.contract.stores.s3_faults import Faults
from tests.support.s3_lab import KEYS, MotoS3


@pytest.mark.parametrize("code", ["SlowDown", "ServiceUnavailable", "InternalError"])
def test_the_client_retries_while_the_store_is_overloaded(
    table: str, faults: Faults, code: str
) -> None:
    faults.refuse["PutObject"] = [(503, code)] * 2
    write_bytes(*open_location(f"{table}/f"), b"x")
    assert faults.seen.count("PutObject") == 3


@pytest.mark.parametrize(
    ("status", "code", "error", "words"),
    [
        (503, "SlowDown", errors.StoreUnavailableError, "overloaded"),
        (500, "InternalError", errors.StoreUnavailableError, "try again"),
        (400, "ExpiredToken", errors.StoreUnavailableError, "renew them"),
        (403, "RequestTimeTooSkewed", errors.StoreUnavailableError, "clock"),
        (403, "AccessDenied", errors.LocationPermissionError, "s3:GetObject"),
        (403, "InvalidAccessKeyId", errors.LocationPermissionError, "valid keys"),
        (403, "SignatureDoesNotMatch", errors.LocationPermissionError, "valid keys"),
        (404, "NoSuchBucket", errors.StorageError, "bucket does not exist"),
        (501, "NotImplemented", errors.StorageError, "If-None-Match"),
        (418, "Teapot", errors.StorageError, "Teapot"),
    ],
)
def test_each_s3_error_names_the_path_the_source_of_the_keys_and_a_remedy(
    table: str, faults: Faults, status: int, code: str, error: type[errors.StorageError], words: str
) -> None:
    faults.refuse["ListObjectsV2"] = [(status, code)] * 9
    with pytest.raises(error, match=words) as caught:
        list_files(*open_location(table))
    assert type(caught.value) is error
    assert f"{table.removeprefix('s3a://')}" in str(caught.value)
    assert "credentials: env" in str(caught.value)
    assert code in str(caught.value)
    assert "lab-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, errors.StoreUnavailableError, r"expired, renew them"),
        (403, errors.LocationPermissionError, "s3:GetObject.*clock"),
        (503, errors.StoreUnavailableError, "overloaded"),
    ],
)
def test_if_s3_gives_no_reason_the_error_lists_the_possible_reasons(
    table: str, faults: Faults, status: int, error: type[errors.StorageError], words: str
) -> None:
    # Of a 400 botocore asks once more where the bucket is.
    faults.refuse.update(HeadObject=[(status, "")] * 9, HeadBucket=[(status, "")] * 9)
    with pytest.raises(error, match=words) as caught:
        list_table(table)
    assert type(caught.value) is error
    assert "credentials: env" in str(caught.value)


def test_the_error_for_a_bucket_in_a_different_region_names_the_region_setting() -> None:
    answer = {"Error": {"Code": "301"}, "ResponseMetadata": {"HTTPStatusCode": 301}}
    with pytest.raises(OSError, match=r"fs\.s3a\.endpoint\.region"), s3_errors("s3a://b/k", "env"):
        raise ClientError(answer, "HeadObject")


def test_a_missing_bucket_is_an_error_and_not_an_empty_table(s3: MotoS3) -> None:
    del s3
    with pytest.raises(errors.StorageError, match="bucket does not exist"):
        list_table("s3a://lake-that-nobody-made/w/t")
    with pytest.raises(errors.StorageError, match="bucket does not exist"):
        exists(*open_location("s3a://lake-that-nobody-made/w/t"))


def test_an_unreachable_store_raises_an_error_that_names_the_endpoint_setting(
    s3: MotoS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**s3.settings, "fs.s3a.endpoint": "http://127.0.0.1:1"}
    monkeypatch.setenv(VARIABLE, json.dumps(settings))
    with pytest.raises(errors.StoreUnavailableError, match=r"fs\.s3a\.endpoint"):
        list_table(f"s3a://{s3.bucket}/w/t")


def test_if_only_the_jvm_has_keys_the_error_says_where_to_set_them(
    s3: MotoS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    locations._s3.cache_clear()
    with pytest.raises(errors.ConfigurationError, match="AWS_ACCESS_KEY_ID") as caught:
        open_location(f"s3a://{s3.bucket}/w/t")
    assert "event log" not in str(caught.value)
    settings = {**s3.settings, "hiveacid.s3.keys.in.jvm": "true"}
    monkeypatch.setenv(VARIABLE, json.dumps(settings))
    with pytest.raises(errors.ConfigurationError, match=r"fs\.s3a\.access\.key.*event log"):
        open_location(f"s3a://{s3.bucket}/w/t")


def test_an_s3_client_cannot_be_pickled(table: str) -> None:
    fs, _ = open_location(table)
    with pytest.raises(TypeError, match="must stay in its process"):
        pickle.dumps(fs)
