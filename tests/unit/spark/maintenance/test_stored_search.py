"""Which files of a table count as read in a proof, before any row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.table import Column, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.maintenance.stored_files import StoredFile
from airflow_hiveacid.spark.maintenance.stored_search import How, StoredSearch


@pytest.mark.promise("K10")
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (TransactionalKind.FULL_ACID, How.WITHOUT_ROWS),
        (TransactionalKind.INSERT_ONLY, How.NOT_READ),
        (TransactionalKind.NONE, How.NOT_READ),
    ],
)
def test_only_a_full_acid_table_has_side_files_without_rows(
    tmp_path: Path, kind: TransactionalKind, how: How
) -> None:
    (tmp_path / "x_flush_length").write_bytes(b"unknown")
    table = TableInfo(
        ref=TableRef("d", "t"),
        location=f"file:{tmp_path}",
        columns=(Column(name="id", type="int"),),
        kind=kind,
    )
    search = StoredSearch(spark=cast("Any", None), table=table, where="", moment=cast("Any", None))
    entry = FileEntry(path="x_flush_length", size_bytes=7)
    assert search._glance(StoredFile(root=table.location, entry=entry)).how is how
