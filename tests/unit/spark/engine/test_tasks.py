from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import TaskContext

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import task_body, task_of


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A zip archive on the path of modules, whose importer Python has made."""
    path = tmp_path / "things.zip"
    with zipfile.ZipFile(path, "w") as things:
        things.writestr("hiveacid_thing.py", "VALUE = 1")
        things.writestr("hiveacid_other.py", "VALUE = 2")
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.delitem(sys.modules, "hiveacid_thing", raising=False)
    monkeypatch.delitem(sys.modules, "hiveacid_other", raising=False)
    assert importlib.import_module("hiveacid_thing").VALUE == 1
    return str(path)


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", object)
    monkeypatch.setattr(gc, "freeze", lambda: None)


@pytest.mark.usefixtures("in_a_task")
def test_a_worker_forgets_a_cached_archive_and_reads_it_again_at_the_next_import(
    archive: str,
) -> None:
    with task_body():
        assert archive not in sys.path_importer_cache
    assert importlib.import_module("hiveacid_other").VALUE == 2


def test_the_driver_keeps_its_cached_archives(archive: str) -> None:
    with task_body():
        assert archive in sys.path_importer_cache


@pytest.mark.usefixtures("in_a_task")
def test_a_typed_error_of_a_python_worker_is_recovered_from_the_error_of_spark() -> None:
    def fail(rows: Iterator[object]) -> Iterator[object]:
        yield from rows
        raise CorruptFileError(path="f", reason="cut")

    with pytest.raises(RuntimeError) as of_worker:
        list(task_of(fail)(iter([])))
    said = f"Job aborted\n{of_worker.value}\n\tat java"
    with pytest.raises(CorruptFileError, match="cut"), typed_failures():
        raise RuntimeError(said)
