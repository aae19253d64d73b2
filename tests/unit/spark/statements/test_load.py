"""What tasks do for LOAD DATA and restores: they read and copy files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    FileFormat,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.reading.pieces import Packed
from airflow_hiveacid.spark.statements import insert
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.loadable import loadable_files
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.loading import FileToCopy, Rewriting
from tests.unit.storage.orc_tables import COLUMNS, plain_file, write_plain
from tests.unit.storage.plain.test_loadable import with_damaged_end

TABLE = TableInfo(
    ref=TableRef("db", "t"),
    location="file:/warehouse/t",
    columns=COLUMNS,
    kind=TransactionalKind.INSERT_ONLY,
    storage=Storage(format=FileFormat.ORC),
)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - never called
    """A session that is never called, since tasks run here, in any order, from pickled pieces."""

    def run_tasks(
        _spark: object,
        function: Callable[[object], Iterator[pa.RecordBatch]],
        pieces: Sequence[object],
        _schema: str,
        *,
        work: Callable[[Any], int],
    ) -> object:
        assert all(map(work, pieces))
        packed = Packed.of([[piece] for piece in reversed(pieces)])
        batches = [b for n in range(len(packed)) for piece in packed[n] for b in function(piece)]
        rows = [SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()]
        return SimpleNamespace(collect=lambda: rows)

    monkeypatch.setattr(insert, "run_tasks", run_tasks)
    for here in ("checked_here", "copied_here"):
        monkeypatch.delattr(insert, here)


def test_tasks_read_many_files_to_their_ends(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    for number in range(5):
        write_plain(tmp_path / f"f{number}", [{"id": n, "name": "a"} for n in range(number)])
    each = partial(insert._checked_files, spark)
    find = partial(loadable_files, TABLE, str(tmp_path), MetastoreGeneration.V4, each=each)
    assert [file.rows for file in find()] == [0, 1, 2, 3, 4]
    with_damaged_end(tmp_path / "f2")
    with pytest.raises(CorruptFileError, match="f2"):
        find()


def test_tasks_copy_files_and_rewrite_others(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    for number in range(5):
        write_plain(tmp_path / f"in/f{number}", [{"id": number, "name": "a"}])
    found = loadable_files(TABLE, str(tmp_path / "in"), MetastoreGeneration.V4)
    staging = Staging(location=str(tmp_path), token="1")
    rewriting = Rewriting(
        plain_file(tmp_path / "in/f1", FileFormat.ORC), TABLE, WriterOptions(compression="none")
    )
    copies = [
        FileToCopy(
            number=BucketId(number),
            source=file,
            partition=UNPARTITIONED,
            staging=staging,
            directory="base_0000001",
            format=FileFormat.ORC,
        )
        for number, file in enumerate(found)
    ]
    copies[1] = dataclasses.replace(copies[1], rewriting=rewriting)
    for number, file in enumerate(insert.copied_files(spark, copies)):
        path = Path(staging.attempt_path(file.directory, f"00000{number}_0", file.attempt))
        assert (file.bucket, file.rows, file.size_bytes) == (number, 1, path.stat().st_size)
        is_copy = path.read_bytes() == (tmp_path / f"in/f{number}").read_bytes()
        assert is_copy is (number != 1)
