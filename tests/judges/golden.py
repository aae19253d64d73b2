"""Knows the golden directories: tables that real Hive wrote, with the rows that it reads in them.

Below `tests/golden/VERSION/CASE/` lie `table/` (the directory as Hive left it), `case.json` (how it
came about, and the snapshot) and `rows.jsonl` (one JSON array a row: identity, columns, partition
columns; sorted by identity). `tools/golden.py` makes them; our own writer never does. No JVM is
needed to use them.

Example:
    for case in cases("4.0.1"):
        directory = case.checkout(tmp_path)
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

GOLDEN: Final = Path(__file__).resolve().parent.parent / "golden"
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenPartition:
    """One partition.

    Attributes:
        values: As the metastore holds them, in the order of the partition columns.
        location: Relative to the table's directory.
    """

    values: tuple[str, ...]
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSnapshot:
    """What the bare reader of the Hive that wrote it sees under another write ID list.

    3.1.3 refuses an aborted INSERT OVERWRITE without an older base, where 4.0.1 looks past it.

    Attributes:
        write_ids: Hive's text.
        rows: As in `GoldenCase.rows`; None where Hive refuses ("not enough history").
    """

    write_ids: str
    rows: list[list[Any]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """One directory.

    Attributes:
        columns: Names and Hive types, without partition columns.
        partitions: Empty for an unpartitioned table.
        buckets: -1 for an unbucketed table.
        bucket_columns: Empty for an unbucketed table.
        parameters: Those table properties that tell how the files are to be read.
        write_ids: The valid write ID list of a reader, in Hive's text.
        txns: The valid transaction list, in Hive's text.
        statements: How it was made; lines with `!` are steps of `tools/golden.py`.
        readers: What Hive's bare readers make of the directory: under `4.0.1 row`, `4.0.1
            vectorised` and the same of 3.1.3 None where they find the rows, "other rows", or the
            Java class of their error.
        empty_directories: Relative to the table's directory.
        rows: `[identity, column, ..., partition column, ...]`, sorted by identity.
        snapshots: Other readers of the same directory; only of unpartitioned tables.
    """

    version: str
    name: str
    note: str
    columns: tuple[tuple[str, str], ...]
    partition_columns: tuple[tuple[str, str], ...]
    partitions: tuple[GoldenPartition, ...]
    buckets: int
    bucket_columns: tuple[str, ...]
    parameters: dict[str, str]
    write_ids: str
    txns: str
    statements: tuple[str, ...]
    readers: dict[str, str | None]
    empty_directories: tuple[str, ...]
    rows: list[list[Any]]
    snapshots: tuple[GoldenSnapshot, ...]

    @property
    def id(self) -> str:
        """Names the case in a list of tests: `4.0.1/merge`."""
        return f"{self.version}/{self.name}"

    @property
    def table(self) -> Path:
        """The committed directory; Git keeps no empty directories, `checkout` brings them back."""
        return GOLDEN / self.version / self.name / "table"

    @property
    def schema(self) -> str:
        """The columns as Hive's `struct<...>`, without partition columns."""
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.columns)}>"

    def checkout(self, folder: Path) -> Path:
        """Copies the directory below a folder, empty directories included, and returns it."""
        target = folder / f"{self.version}-{self.name}"
        target.mkdir(parents=True)
        if self.table.is_dir():  # not where Hive left nothing at all
            shutil.copytree(self.table, target, dirs_exist_ok=True)
        for empty in self.empty_directories:
            (target / empty).mkdir(parents=True, exist_ok=True)
        return target

    def rows_of(self, partition: GoldenPartition) -> list[list[Any]]:
        """Returns the rows of one partition, without the partition columns."""
        width = 1 + len(self.columns)
        return [
            row[:width]
            for row in self.rows
            if all(_is_value_of(*pair) for pair in zip(row[width:], partition.values, strict=True))
        ]

    @classmethod
    def read(cls, folder: Path) -> Self:
        facts = json.loads((folder / "case.json").read_text())
        return cls(
            version=facts["hive_version"],
            name=facts["case"],
            note=facts["note"],
            columns=tuple((name, kind) for name, kind in facts["columns"]),
            partition_columns=tuple((name, kind) for name, kind in facts["partition_columns"]),
            partitions=tuple(
                GoldenPartition(values=tuple(one["values"]), location=one["location"])
                for one in facts["partitions"]
            ),
            buckets=facts["buckets"],
            bucket_columns=tuple(facts["bucket_columns"]),
            parameters=facts["parameters"],
            write_ids=facts["valid_write_id_list"],
            txns=facts["valid_txn_list"],
            statements=tuple(facts["statements"]),
            readers=facts["readers"],
            empty_directories=tuple(facts["empty_directories"]),
            rows=[json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()],
            snapshots=tuple(
                GoldenSnapshot(write_ids=one["valid_write_id_list"], rows=one["rows"])
                for one in facts["snapshots"]
            ),
        )


def cases(version: str | None = None) -> list[GoldenCase]:
    """Returns the cases of one version of Hive, or of all, in the order of their names."""
    folders = sorted(file.parent for file in GOLDEN.glob(f"{version or '*'}/*/case.json"))
    return [GoldenCase.read(folder) for folder in folders]


def _is_value_of(value: object, text: str) -> bool:
    # Hive reads the partition of NULL as NULL, except in a string column: there it is this text.
    return value is None if text == _NULL_PARTITION and value != text else str(value) == text
