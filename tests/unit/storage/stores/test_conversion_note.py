from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, DirectoryExistsError, StorageError
from airflow_hiveacid.format.ids import LONG_MAX, WriteId
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.storage.stores import conversion_note
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.threads import AT_ONCE


def unguarded() -> None:
    pass


def into_delta(root: Path, olds: Iterable[str]) -> tuple[Move, ...]:
    return tuple(Move(location=str(root), source=old, target=f"delta_3_3/{old}") for old in olds)


def note_of(root: Path) -> ConversionNote:
    moves = (
        Move(location=str(root), source="base_5/a", target="000000_0"),
        Move(location=str(root), source="base_5/b", target="000001_0"),
    )
    emptied = (Move(location=str(root), source="base_5", target="_emptied"),)
    return ConversionNote(
        attempt="1-a",
        table_id="1.2",
        to="flat",
        undo={"transactional": "true", "x": None},
        moves=moves,
        emptied=emptied,
        write_id=WriteId(3),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "base_5").mkdir()
    for name in ("a", "b", "_metadata_acid"):
        (tmp_path / "base_5" / name).write_text(name)
    return tmp_path


def files(root: Path) -> dict[str, str]:
    found = (p for p in sorted(root.rglob("*")) if p.is_file())
    return {str(p.relative_to(root)): p.read_text() for p in found}


def test_a_note_is_read_as_it_was_written(root: Path) -> None:
    assert ConversionNote.read(str(root)) is None
    for note in (note_of(root), replace(note_of(root), write_id=None, is_verified=True)):
        note.write(str(root))
        assert ConversionNote.read(str(root)) == note
    ConversionNote.remove(str(root))
    ConversionNote.remove(str(root))
    assert ConversionNote.read(str(root)) is None


def test_a_damaged_note_is_an_error(root: Path) -> None:
    (root / "_hiveacid").mkdir()
    for text in ("{", "[]", '{"moves": [], "emptied": []}'):
        (root / "_hiveacid/_conversion.json").write_text(text)
        with pytest.raises(CorruptFileError):
            ConversionNote.read(str(root))


@pytest.mark.parametrize("number", ["-2", str(LONG_MAX + 1), "true", "3.5", '"3"'])
def test_a_note_with_an_impossible_write_id_is_damaged(root: Path, number: str) -> None:
    note_of(root).write(str(root))
    path = root / "_hiveacid/_conversion.json"
    path.write_text(path.read_text().replace('"write_id": 3', f'"write_id": {number}'))
    with pytest.raises(CorruptFileError, match="is not a number from -1"):
        ConversionNote.read(str(root))


def test_the_moves_of_a_note_can_be_repeated_and_undone_from_any_state(root: Path) -> None:
    note, before = note_of(root), files(root)
    done = {"000000_0": "a", "000001_0": "b", "_emptied/_metadata_acid": "_metadata_acid"}
    note.move_back(unguarded)
    assert files(root) == before
    note.move_all(unguarded)
    note.move_all(unguarded)
    assert files(root) == done
    note.move_back(unguarded)
    note.move_back(unguarded)
    assert files(root) == before
    (root / "base_5/a").rename(root / "000000_0")  # one of two
    note.move_back(unguarded)
    assert files(root) == before


def test_a_move_never_replaces_an_existing_file(root: Path) -> None:
    note = note_of(root)
    (root / "000001_0").write_text("somebody's")
    with pytest.raises(DirectoryExistsError, match="000001_0"):
        note.move_all(unguarded)
    assert files(root)["000001_0"] == "somebody's"
    (root / "000001_0").unlink()
    (root / "base_5/b").unlink()
    with pytest.raises(StorageError, match="it does not exist"):
        note.move_all(unguarded)


def test_a_file_that_was_lost_before_its_move_back_out_of_a_flat_table_is_an_error(
    root: Path,
) -> None:
    note = replace(note_of(root), write_id=None)
    note.move_all(unguarded)
    (root / "000001_0").unlink()
    with pytest.raises(StorageError, match="it does not exist"):
        note.move_back(unguarded)


def test_a_part_of_a_note_has_only_the_moves_of_its_locations(root: Path) -> None:
    note = note_of(root)
    assert note.part(lambda location: location == str(root)) == note
    rest = note.part(lambda location: location != str(root))
    assert (rest.moves, rest.emptied) == ((), ())


def test_a_file_whose_old_name_was_taken_meanwhile_gets_the_next_free_name(root: Path) -> None:
    """Hive reads these names; a longer or hidden one could hide the rows of a file."""
    olds = ("000000_0", "000001_0_copy_1", "part-0.snappy.orc")
    note = replace(note_of(root), moves=into_delta(root, olds), emptied=())
    for old in olds:
        (root / old).write_text("old")
    note.move_all(unguarded)
    for new in (*olds, "000000_0_copy_1"):
        (root / new).write_text("new")
    note.move_back(unguarded)
    found = {name: text for name, text in files(root).items() if "base_5" not in name}
    assert found == {
        **dict.fromkeys((*olds, "000000_0_copy_1"), "new"),
        **dict.fromkeys(("000000_0_copy_2", "000001_0_copy_2", "part-0_copy_1.snappy.orc"), "old"),
    }


def test_two_files_that_are_put_back_at_once_never_get_one_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two threads could find a name free that the other one is about to use."""
    olds = ["000000_0", *(f"000000_0_copy_{n}" for n in range(1, 6))]
    note = replace(note_of(root), moves=into_delta(root, olds), emptied=())
    for old in olds:
        (root / old).write_text(f"old {old}")
    note.move_all(unguarded)
    for new in olds[:2]:
        (root / new).write_text(f"new {new}")
    move = conversion_note.move

    def slow(fs: pafs.FileSystem, source: str, target: str) -> None:
        time.sleep(0.05)
        move(fs, source, target)

    monkeypatch.setattr(conversion_note, "move", slow)
    note.move_back(unguarded)
    texts = [text for name, text in files(root).items() if name.startswith("000000_0")]
    assert sorted(texts) == sorted(
        [*(f"old {old}" for old in olds), *(f"new {new}" for new in olds[:2])]
    )


def test_the_lock_is_checked_before_each_group_of_moves_and_each_new_name(root: Path) -> None:
    names = [f"{n:06d}_0" for n in range(AT_ONCE + 1)]
    note = replace(note_of(root), moves=into_delta(root, names), emptied=())
    for name in names:
        (root / name).write_text(name)
    checks: list[int] = []

    def guard() -> None:
        checks.append(len(list(root.glob("delta_3_3/*"))))

    note.move_all(guard)
    assert checks == [0, AT_ONCE]
    assert sorted(path.name for path in root.glob("delta_3_3/*")) == names
    for name in names[:2]:
        (root / name).write_text("new")
    checks.clear()
    note.move_back(guard)
    assert checks == [AT_ONCE + 1, 3, 2, 1]
    assert not list(root.glob("delta_3_3/*"))
