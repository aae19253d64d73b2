"""Knows the golden directories of insert-only tables: what real Hive wrote, with its own rows.

Below `tests/golden_plain/VERSION/CASE/` lie `table/`, as Hive left it, and `case.json`: how it
came about, the snapshot, and the rows that the engine which wrote it reads. `tools/golden_plain.py`
makes them; our own writer never does. No JVM is needed to use them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

GOLDEN_PLAIN: Final = Path(__file__).resolve().parent.parent / "golden_plain"
NEW_YORK: Final = "America/New_York"
FORMATS: Final = {
    "orc": "stored as orc",
    "parquet": "stored as parquet",
    "text": "stored as textfile",
    "avro": "stored as avro",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCase:
    """One directory.

    Attributes:
        name: Of the folder; it ends with the format, and perhaps with the writer's time zone.
        columns: Names and Hive types, without partition columns.
        partitions: Values and directories, the latter relative to the table's; empty without any.
        steps: How it was made, as in `tools/golden_plain.py`.
        rows: `[column, ..., partition column, ...]`, sorted by their JSON text.
    """

    version: str
    name: str
    columns: tuple[tuple[str, str], ...]
    partitions: tuple[tuple[tuple[str, ...], str], ...]
    write_ids: str
    txns: str
    steps: tuple[str, ...]
    rows: tuple[list[Any], ...]

    @property
    def folder(self) -> Path:
        return GOLDEN_PLAIN / self.version / self.name

    @property
    def format(self) -> str:
        return next(name for name in FORMATS if f"_{name}" in self.name)

    @classmethod
    def read(cls, folder: Path) -> Self:
        facts = json.loads((folder / "case.json").read_text())
        return cls(
            version=folder.parent.name,
            name=folder.name,
            columns=tuple((name, kind) for name, kind in facts["columns"]),
            partitions=tuple((tuple(p["values"]), p["location"]) for p in facts["partitions"]),
            write_ids=facts["valid_write_id_list"],
            txns=facts["valid_txn_list"],
            steps=tuple(facts["steps"]),
            rows=tuple(facts["rows"]),
        )

    def places(self) -> list[tuple[tuple[str, ...], Path]]:
        """The values and the directory of each partition, or of the table."""
        table = self.folder / "table"
        return [(v, table / place) for v, place in self.partitions] or [((), table)]


def plain_cases() -> list[PlainCase]:
    return [PlainCase.read(f.parent) for f in sorted(GOLDEN_PLAIN.glob("*/*/case.json"))]
