from __future__ import annotations

import time
from typing import TYPE_CHECKING

from demo.directories import DirectorySize, DirectoryWatch

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path, **files: int) -> None:
    folder.mkdir(parents=True)
    for name, size in files.items():
        (folder / name).write_bytes(b"x" * size)


def test_only_directories_of_the_format_and_their_data_count(tmp_path: Path) -> None:
    make(tmp_path / "month=1" / "delta_0000001_0000001_0000", bucket_00000=7, _hiveacid=3)
    make(tmp_path / "month=1" / "_tmp_hiveacid_1" / "delta_0000002_0000002_0000", bucket_00000=5)
    make(tmp_path / "base_0000001")
    assert DirectoryWatch(tmp_path).look().directories == (
        DirectorySize(path="base_0000001", files=0, size_bytes=0),
        DirectorySize(path="month=1/delta_0000001_0000001_0000", files=1, size_bytes=7),
    )


def test_a_table_without_a_folder_has_no_directories(tmp_path: Path) -> None:
    assert DirectoryWatch(tmp_path / "nowhere").look().directories == ()


def test_the_past_is_remembered(tmp_path: Path) -> None:
    watch = DirectoryWatch(tmp_path)
    began = time.time()
    make(tmp_path / "delta_0000001_0000001_0000", bucket_00000=1)
    first = watch.look()
    make(tmp_path / "delta_0000002_0000002_0000", bucket_00000=1)
    moment = time.time()
    second = watch.look()
    assert watch.before(began) is None
    assert watch.before(moment) == first
    assert watch.after(moment) == second
    assert watch.after(time.time() + 60) is None


def test_looking_again_at_the_same_only_lengthens_its_time(tmp_path: Path) -> None:
    watch = DirectoryWatch(tmp_path)
    first = watch.look()
    moment = time.time()
    again = watch.look()
    assert again.from_s == first.from_s
    assert again.until_s >= moment
    assert watch.after(moment) == again
