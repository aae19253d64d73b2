from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import names
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, WriteId
from tests.support.cases import cases_of

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(("text", "expected"), cases_of(CASES / "names.txt"))
def test_names_are_parsed_with_any_padding_and_formatted_as_in_hive(
    text: str, expected: str
) -> None:
    parsed = names.parse_directory_name(text) or names.parse_file_name(text)
    assert [str(parsed), repr(parsed)] == [line.strip() for line in expected.splitlines()]


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
        names.DeltaName(low=WriteId(low), high=WriteId(high))


def test_write_ids_beyond_64_bits_are_refused() -> None:
    with pytest.raises(InvalidNameError, match="64 bits"):
        names.BaseName(write_id=WriteId(LONG_MAX + 1))


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
