"""Every row that a file stores, whichever directory it is in, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, StorageError, UnsupportedFileError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.stored import (
    columns_in,
    format_by_content,
    orc_tail,
    row_path,
    stored_rows,
)
from airflow_hiveacid.storage.stores.locations import locate
from tests.unit.storage.orc_tables import COLUMNS, event, insert, tombstone, write_acid, write_plain

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = pafs.LocalFileSystem()


def described(path: Path, format_: FileFormat = FileFormat.ORC, key: str = "x/f") -> PlainFile:
    store, root = locate(f"file:{path}")
    length = path.stat().st_size
    return PlainFile(store=store, path=root, key=key, length=length, format=format_)


def names_in(file: PlainFile) -> list[str | None]:
    batches = stored_rows(file, COLUMNS, data_columns=["name"], batch_rows=100)
    return [row["name"] for batch in batches for row in batch.to_pylist()]


def test_all_rows_of_a_file_are_read_whatever_write_wrote_them(tmp_path: Path) -> None:
    file = described(write_acid(tmp_path / "f", [insert(7, 0, 1), insert(900, 0, 2)]))
    assert names_in(file) == ["n1", "n2"]
    assert row_path(orc_tail(file)) == ("row",)
    assert columns_in(file, orc_tail(file)) == ("id", "name")


def test_a_file_without_acid_columns_is_read_too(tmp_path: Path) -> None:
    file = described(write_plain(tmp_path / "f", [{"id": 1, "name": "Zoe"}]))
    assert names_in(file) == ["Zoe"]
    assert row_path(orc_tail(file)) == ()


def test_delete_events_are_no_rows(tmp_path: Path) -> None:
    file = described(write_acid(tmp_path / "f", [tombstone(1, 0, 2), tombstone(1, 1, 2)]))
    assert names_in(file) == []


@pytest.mark.promise("K10")
@pytest.mark.parametrize("operation", [1, 2])
def test_a_row_of_an_update_or_delete_event_of_hive_2_is_never_skipped(
    tmp_path: Path, operation: int
) -> None:
    old = event(1, 0, {"id": 1, "name": "Zoe"}, operation=operation)
    file = described(write_acid(tmp_path / "f", [old, tombstone(1, 1, 1)]))
    with pytest.raises((UnsupportedFileError, CorruptFileError)):
        names_in(file)


def test_an_update_event_in_a_base_is_a_row(tmp_path: Path) -> None:
    row = event(1, 0, {"id": 1, "name": "Zoe"}, operation=1)
    path = write_acid(tmp_path / "f", [row])
    assert names_in(described(path, key="base_0000001/f")) == ["Zoe"]


@pytest.mark.promise("K10")
def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = write_acid(tmp_path / "f", [insert(1, n, n) for n in range(50)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError):
        names_in(described(path))
    path.unlink()
    with pytest.raises(StorageError):
        format_by_content(LOCAL, str(path))


def test_the_first_bytes_show_the_format(tmp_path: Path) -> None:
    path = tmp_path / "f"
    pq.write_table(pa.table({"id": [1], "name": ["Zoe"]}), path)
    assert format_by_content(LOCAL, str(path)) is FileFormat.PARQUET
    file = described(path, FileFormat.PARQUET)
    assert columns_in(file, None) == ("id", "name")
    assert names_in(file) == ["Zoe"]
    assert format_by_content(LOCAL, str(write_acid(path, [insert(1, 0, 1)]))) is FileFormat.ORC
    path.write_bytes(b"Obj\x01")
    assert format_by_content(LOCAL, str(path)) is FileFormat.AVRO
    path.write_bytes(b"or")
    assert format_by_content(LOCAL, str(path)) is None
