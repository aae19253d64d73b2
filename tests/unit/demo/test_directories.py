from __future__ import annotations

from pathlib import Path

from demo.directories import DirectorySize, DirectoryWatch


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


def test_earlier_and_later_pictures_of_the_directories_are_found_by_time(tmp_path: Path) -> None:
    times = iter([10.0, 20.0])
    watch = DirectoryWatch(tmp_path, lambda: next(times))
    make(tmp_path / "delta_0000001_0000001_0000", bucket_00000=1)
    first = watch.look()
    make(tmp_path / "delta_0000002_0000002_0000", bucket_00000=1)
    second = watch.look()
    assert [watch.before(moment) for moment in (9.0, 10.0, 19.0, 20.0)] == [
        None,
        first,
        first,
        second,
    ]
    assert [watch.after(moment) for moment in (10.0, 11.0, 20.0, 21.0)] == [
        first,
        second,
        second,
        None,
    ]


def test_an_unchanged_directory_extends_the_time_of_its_picture(tmp_path: Path) -> None:
    times = iter([10.0, 20.0])
    watch = DirectoryWatch(tmp_path, lambda: next(times))
    first = watch.look()
    again = watch.look()
    assert (first.from_s, first.until_s) == (10.0, 10.0)
    assert (again.from_s, again.until_s) == (10.0, 20.0)
    assert [watch.after(moment) for moment in (15.0, 20.0, 21.0)] == [again, again, None]
