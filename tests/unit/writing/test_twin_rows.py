"""Two changes of one row ID: of two source rows, or of two rows of the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import MergeCardinalityError, TwinRowIdsError
from airflow_hiveacid.writing.event_files import named_twins, row_text
from tests.unit.storage.orc_tables import B0, acid_file, insert, write_acid

KEY = (1, B0, 0)


def target(folder: Path, *names: str) -> Any:  # noqa: ANN401 - a few members of a view
    files = []
    for name in names:
        path = folder / name / "bucket_00000"
        path.parent.mkdir()
        write_acid(path, [insert(KEY[0], KEY[2], 1), insert(KEY[0], KEY[2] + 1, 2)])
        files.append(SimpleNamespace(partition=0, data=acid_file(path)))
    return SimpleNamespace(
        table=SimpleNamespace(ref="d.t"),
        partitions=[SimpleNamespace(location=f"file:{folder}")],
        files=files,
    )


def change_twice(found: Any, key: tuple[int, int, int] = KEY) -> None:  # noqa: ANN401
    with named_twins(found):
        raise MergeCardinalityError(table="d.t", count=1, example=row_text(key))


def test_an_error_about_rows_with_one_row_id_names_their_files(tmp_path: Path) -> None:
    with pytest.raises(TwinRowIdsError) as caught:
        change_twice(target(tmp_path, "delta_1", "copy_1"))
    text = str(caught.value)
    assert f"file:{tmp_path}/delta_1/bucket_00000, file:{tmp_path}/copy_1/bucket_00000" in text
    assert "source" not in text


def test_two_source_rows_of_one_row_are_an_error_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(MergeCardinalityError, match="more than one source row"):
        change_twice(target(tmp_path, "delta_1"))
