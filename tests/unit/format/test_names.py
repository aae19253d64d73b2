from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import names
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, StatementId, TxnId, WriteId
from tests.support.cases import cases_of

CASES = Path(__file__).parent / "cases"


def delta(low: int, high: int, statement: int | None = None, **rest: object) -> names.DeltaName:
    return names.DeltaName(
        low=WriteId(low),
        high=WriteId(high),
        statement_id=None if statement is None else StatementId(statement),
        **rest,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (names.BaseName(write_id=WriteId(5)), "base_0000005"),
        (
            names.BaseName(write_id=WriteId(5), visibility_txn_id=TxnId(31)),
            "base_0000005_v0000031",
        ),
        (names.BaseName(write_id=names.MINIMUM_BASE), "base_-9223372036854775808"),
        (names.BaseName(write_id=WriteId(123456789)), "base_123456789"),
        (delta(1, 1, 0), "delta_0000001_0000001_0000"),
        (delta(10000001, 10000001, 0), "delta_10000001_10000001_0000"),
        (delta(1, 3), "delta_0000001_0000003"),
        (delta(1, 3, visibility_txn_id=TxnId(9)), "delta_0000001_0000003_v0000009"),
        (delta(2, 2, 9999), "delta_0000002_0000002_9999"),
        (delta(2, 4, is_delete=True), "delete_delta_0000002_0000004"),
        (
            delta(2, 2, 1, is_delete=True, visibility_txn_id=TxnId(7)),
            "delete_delta_0000002_0000002_0001_v0000007",
        ),
    ],
)
def test_directory_names_are_formatted_as_in_hive_and_can_be_parsed(
    name: names.BaseName | names.DeltaName, text: str
) -> None:
    assert str(name) == text
    assert names.parse_directory_name(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("base_5", names.BaseName(write_id=WriteId(5))),
        ("delta_1_1", delta(1, 1)),
        ("delta_00061_61_0", delta(61, 61, 0)),
        ("delete_delta_5_5_0", delta(5, 5, 0, is_delete=True)),
        ("delta_40_60_v7", delta(40, 60, visibility_txn_id=TxnId(7))),
    ],
)
def test_a_directory_name_with_any_zero_padding_is_parsed(
    text: str, name: names.BaseName | names.DeltaName
) -> None:
    assert names.parse_directory_name(text) == name


def test_visibility_zero_is_the_same_as_no_suffix() -> None:
    assert names.parse_directory_name("base_0000005_v0000000") == names.BaseName(
        write_id=WriteId(5)
    )
    assert names.parse_directory_name("delta_1_2_v0") == delta(1, 2)


@pytest.mark.parametrize(
    "text",
    [*dict(cases_of(CASES / "no_directories.txt")), "base_5 ", "base_5\n", "base_\u0665", ""],
)
def test_names_that_are_neither_a_base_nor_a_delta_are_not_parsed(text: str) -> None:
    assert names.parse_directory_name(text) is None


def test_a_malformed_delta_name_is_distinguished_from_a_foreign_name() -> None:
    assert names.looks_like_directory_name("delta_1_x")
    assert names.looks_like_directory_name("delete_delta_1")
    assert not names.looks_like_directory_name("month=1")


@pytest.mark.parametrize(("low", "high"), [(3, 2), (-1, 2)])
def test_a_delta_with_an_invalid_range_of_write_ids_is_refused(low: int, high: int) -> None:
    with pytest.raises(InvalidNameError, match="range of write IDs"):
        delta(low, high)


def test_write_ids_beyond_64_bits_are_refused() -> None:
    with pytest.raises(InvalidNameError, match="64 bits"):
        names.BaseName(write_id=WriteId(LONG_MAX + 1))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("bucket_00000", names.BucketFileName(bucket_id=BucketId(0))),
        ("bucket_4095", names.BucketFileName(bucket_id=BucketId(4095))),
        ("bucket_00001_0", names.BucketFileName(bucket_id=BucketId(1), attempt_id=0)),
        ("bucket_00001_12", names.BucketFileName(bucket_id=BucketId(1), attempt_id=12)),
        ("000000_0", names.OriginalFileName(bucket_id=BucketId(0))),
        ("000001_0_copy_1", names.OriginalFileName(bucket_id=BucketId(1), copy=1)),
        ("000002_1000", names.OriginalFileName(bucket_id=BucketId(2), attempt_id=1000)),
    ],
)
def test_the_bucket_attempt_and_copy_are_parsed_from_a_file_name(text: str, name: object) -> None:
    assert names.parse_file_name(text) == name


@pytest.mark.parametrize("text", ["bucket_00001_0", "bucket_00000", "000001_3_copy_10", "000000_0"])
def test_a_parsed_file_name_is_formatted_as_it_was(text: str) -> None:
    assert str(names.parse_file_name(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "bucket_",
        "bucket_00000_flush_length",
        "bucket_00000_0_1",
        "bucket_x",
        "000000",
        "000000_0_copy_",
        "000000_0.snappy",
        "part-00000.orc",
        "_orc_acid_version",
        "",
    ],
)
def test_names_that_are_neither_bucket_nor_original_files_are_not_parsed(text: str) -> None:
    assert names.parse_file_name(text) is None


def test_our_bucket_files_have_no_attempt_suffix() -> None:
    assert names.bucket_file(BucketId(7)) == "bucket_00007"


def test_names_that_begin_with_an_underscore_or_a_dot_are_hidden() -> None:
    assert names.is_hidden("_tmp_1")
    assert names.is_hidden(".hive-staging_1")
    assert not names.is_hidden("-tmp.1")


def test_only_manifests_in_the_work_directories_of_hive_4_are_manifests() -> None:
    assert names.is_manifest("-tmp.delta_0000004_0000004_0001/000000_0.manifest")
    assert names.is_manifest("p=1/-tmp.base_0000004/000000_0.manifest")
    assert not names.is_manifest("-tmp.delta_0000004_0000004_0001/000000_0")  # may have rows
    assert not names.is_manifest("000000_0.manifest")


def test_a_staging_directory_is_hidden_from_every_reader() -> None:
    assert names.staging_directory("12_a-b.c") == "_tmp_hiveacid_12_a-b.c"
    assert names.is_hidden(names.staging_directory("x"))


@pytest.mark.parametrize("token", ["", "a/b", "a b", "ä"])
def test_an_empty_staging_token_or_one_with_special_characters_is_refused(token: str) -> None:
    with pytest.raises(InvalidNameError, match="staging token"):
        names.staging_directory(token)


@pytest.mark.parametrize("name", ["base_", "delta_1_", "bucket_", "00_"])
def test_a_name_of_thousands_of_digits_is_not_parsed(name: str) -> None:
    long = name + "7" * 5000
    assert names.parse_directory_name(long) is None
    assert names.parse_file_name(long) is None
