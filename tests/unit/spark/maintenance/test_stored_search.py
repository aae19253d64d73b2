"""Which files of a table count as read in a proof, before any row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.maintenance.stored_files import StoredFile
from airflow_hiveacid.spark.maintenance.stored_search import How, StoredSearch
from tests.support.tables import table_of


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
    table = table_of("id int", location=f"file:{tmp_path}", kind=kind)
    search = StoredSearch(spark=cast("Any", None), table=table, where="", moment=cast("Any", None))
    entry = FileEntry(path="x_flush_length", size_bytes=7)
    assert search._glance(StoredFile(root=table.location, entry=entry)).how is how
