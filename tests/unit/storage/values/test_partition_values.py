from __future__ import annotations

import pytest

from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.storage.values.partition_values import partition_text_of, partition_texts
from tests.support.cases import tables_of


@pytest.mark.parametrize(("kind", "text", "means"), tables_of(__file__)["texts"])
def test_a_partition_value_is_converted_as_in_hive(kind: str, text: str, means: str | None) -> None:
    assert partition_text_of(text, kind) == means


def test_a_default_partition_value_is_null_even_in_a_boolean_column() -> None:
    columns = [Column(name="p", type="boolean"), Column(name="q", type="char(2)")]
    name = PartitionName(columns=("p", "q"), values=(None, "a"))
    assert partition_texts(columns, name) == (None, "a")
