"""What the README says of reading in PySpark, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

    from spark_lab import Lab

README: Final = Path(__file__).parents[2] / "README.md"


def test_tables_are_read_as_the_readme_reads_them(
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
    (block,) = (
        one
        for one in re.findall("```python\n(.*?)```", README.read_text(), re.DOTALL)
        if "read_snapshot" in one
    )
    uri = str(lab4.endpoint.uris[0])
    code = block.replace("thrift://hms.example.com:9083", uri).replace('"demo.', f'"{lab4.db}.')
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - that is the point
    assert "| Ada|    2|" in capsys.readouterr().out
