"""The example of reading in PySpark, as its page shows it."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.documents import DOCS, python_blocks
from tests.support.spark_lab import Lab

PAGE: Final = DOCS / "how-to" / "read-in-pyspark.md"


def test_the_documented_example_of_reading_tables_runs(
    lab4: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab4.table("orders", {"id": "bigint", "customer": "bigint"}, partition={"day": "date"})
    columns = ["id", "customer", "day"]
    rows = [
        (1, 7, "2026-01-02"),
        (2, 7, "2026-01-03"),
        (3, 7, "2025-12-31"),
        (1000, 7, "2026-02-01"),
    ]
    lab4.insert("orders", rows, columns)
    lab4.table("customers", {"id": "bigint", "name": "string"})
    lab4.insert("customers", [(7, "Ada"), (8, "Grace")], ["id", "name"])
    (block,) = (one for one in python_blocks(PAGE) if "read_snapshot" in one)
    uri = str(lab4.endpoint.uris[0])
    code = block.replace("thrift://hms.example.com:9083", uri).replace('"demo.', f'"{lab4.db}.')
    exec(compile(code, PAGE.name, "exec"), {})  # noqa: S102 - that is the point
    assert "| Ada|    3|" in capsys.readouterr().out
