from __future__ import annotations

import json
from pathlib import Path

from demo.directories import DirectorySize, DirectoryWatch
from demo.runs import why_failed


def test_the_last_error_of_a_run_is_found_in_its_log(tmp_path: Path) -> None:
    assert why_failed(tmp_path) == "no task logged an error"
    folder = tmp_path / "task_id=merge"
    folder.mkdir()
    errors = [{"exc_type": "SourceNotFoundError", "exc_value": "no such file"}]
    lines = ["words of a program", "[1]", json.dumps({"event": "x", "error_detail": errors})]
    (folder / "attempt=1.log").write_text("\n".join([*lines, json.dumps({"event": "end"})]))
    assert why_failed(tmp_path) == "SourceNotFoundError: no such file"


def make(folder: Path, **files: int) -> None:
    folder.mkdir(parents=True)
    for name, size in files.items():
        (folder / name).write_bytes(b"x" * size)


def test_only_bases_and_deltas_and_their_visible_files_are_counted(tmp_path: Path) -> None:
    make(tmp_path / "month=1" / "delta_0000001_0000001_0000", bucket_00000=7, _hiveacid=3)
    make(tmp_path / "month=1" / "_tmp_hiveacid_1" / "delta_0000002_0000002_0000", bucket_00000=5)
    make(tmp_path / "base_0000001")
    assert DirectoryWatch(tmp_path).look().directories == (
        DirectorySize(path="base_0000001", files=0, size_bytes=0),
        DirectorySize(path="month=1/delta_0000001_0000001_0000", files=1, size_bytes=7),
    )
