from __future__ import annotations

import pytest

from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.storage.values.partition_values import partition_text_of, partition_texts


@pytest.mark.parametrize(
    ("kind", "text", "means"),
    [
        ("int", "01", "1"),
        ("int", "+5", "5"),
        ("int", " 1", None),
        ("int", "1.7", None),
        ("int", "3000000000", None),
        ("bigint", "3000000000", "3000000000"),
        ("tinyint", "300", "44"),
        ("smallint", "-32769", "32767"),
        ("smallint", "x", None),
        ("boolean", "TRUE", "true"),
        ("boolean", "x", "true"),
        ("boolean", "off", "false"),
        ("date", "2020-1-2", "2020-01-02"),
        ("date", "2020-01-02 10:00:00", "2020-01-02"),
        ("date", "2020-13-01", None),
        ("date", "20200102", None),
        ("date", " 2020-01-02 ", "2020-01-02"),
        ("date", "2020-01-02x", "2020-01-02"),
        ("date", "2020-01-021", None),
        ("date", "1-1-1", "0001-01-01"),
        ("date", "12000-01-01", None),
        ("timestamp", "2020-01-02", "2020-01-02 00:00:00"),
        ("timestamp", "2020-01-02 03:04:05.1234567", "2020-01-02 03:04:05.123456"),
        ("timestamp", "2020-01-02 25:00:00", "2020-01-02 00:00:00"),
        ("timestamp", "2020-01-02 10:00", "2020-01-02 00:00:00"),
        ("timestamp", "2020-01-02 10:00:00.", "2020-01-02 00:00:00"),
        ("timestamp", " 2020-1-2T1:2:3 ", "2020-01-02 01:02:03"),
        ("timestamp", "2020-01-02 00:00:00", "2020-01-02 00:00:00"),
        ("timestamp", "2020-01-02 10:00:00.1234567891", "2020-01-02 10:00:00.123456"),
        ("timestamp", "2020-02-30 10:00:00", None),
        ("timestamp", "bad", None),
        ("decimal(5,2)", "1.505", "1.51"),
        ("decimal(5,2)", "1e1", "10.00"),
        ("decimal(5,2)", "99999", None),
        ("double", "1e2", "100.0"),
        ("double", "x", None),
        ("char(4)", "abcdef", "abcd"),
        ("char(4)", "ab  ", "ab"),
        ("char(4)", "  ", ""),
        ("varchar(3)", "ab ", "ab "),
        ("string", " x ", " x "),
    ],
)
def test_a_partition_value_is_converted_as_in_hive(kind: str, text: str, means: str | None) -> None:
    assert partition_text_of(text, kind) == means


def test_a_default_partition_value_is_null_even_in_a_boolean_column() -> None:
    columns = [Column(name="p", type="boolean"), Column(name="q", type="char(2)")]
    name = PartitionName(columns=("p", "q"), values=(None, "a"))
    assert partition_texts(columns, name) == (None, "a")
