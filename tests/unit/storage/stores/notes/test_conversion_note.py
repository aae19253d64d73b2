from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import CorruptFileError, DirectoryExistsError, StorageError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records.conversion import Move
from airflow_hiveacid.storage.stores.notes.conversion_note import ConversionNote

if TYPE_CHECKING:
    from pathlib import Path


def unguarded() -> None:
    pass


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
    note = note_of(root)
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
