"""How pieces of work are grouped into tasks, and which of them a task unpickles."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass

import pytest

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.reading.pieces import TASK_BYTES, Packed, into_tasks
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE

MADE: list[str] = []


@dataclass(frozen=True, slots=True)
class Part:
    name: str

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    own: Part
    same: tuple[Part, ...]
    number: int


def _make(name: str) -> Part:
    MADE.append(name)
    return Part(name)


def pieces(count: int, common: str = "same") -> list[Piece]:
    same = (Part(common),)
    return [Piece(own=Part(f"own {i}"), same=same, number=1) for i in range(count)]


def alone(count: int, common: str = "same") -> list[tuple[Piece]]:
    return [(piece,) for piece in pieces(count, common)]


def test_every_piece_survives_pickling() -> None:
    tasks = [tuple(pieces(50)[at : at + 3]) for at in range(0, 50, 3)]
    packed: Packed[Piece] = pickle.loads(pickle.dumps(Packed.of(tasks)))  # noqa: S301
    assert [packed[i] for i in range(len(packed))] == tasks


def test_a_task_unpickles_only_its_own_piece_and_the_shared_parts_once() -> None:
    content = pickle.dumps(Packed.of(alone(1000, "kept")))
    MADE.clear()
    for index in (7, 8):
        packed: Packed[Piece] = pickle.loads(content)  # noqa: S301
        assert packed[index][0].same == (Part("kept"),)
    assert sorted(MADE) == ["kept", "own 7", "own 8"]


def test_parts_that_pieces_share_are_pickled_once() -> None:
    large = tuple(Part(f"part {i}") for i in range(1000))
    one = len(pickle.dumps(large))
    packed = Packed.of([(Piece(own=Part("own"), same=large, number=i),) for i in range(100)])
    assert len(pickle.dumps(packed)) < 2 * one
    assert packed[99][0].same == large


def test_no_pieces_make_no_tasks() -> None:
    assert len(Packed.of([])) == 0
    assert into_tasks([], 4) == []


def files(sizes: list[int]) -> list[AcidFile]:
    return [
        AcidFile(
            store=LOCAL_STORE,
            path=f"/t/p={i}/b",
            key=f"p={i}/b",
            length=size,
            kind=FileKind.DATA,
            bucket_id=BucketId(0),
        )
        for i, size in enumerate(sizes)
    ]


@dataclass(frozen=True, slots=True)
class Reading:
    data: AcidFile | PlainFile
    deletes: tuple[AcidFile, ...] = ()


def test_files_are_pickled_with_the_name_of_their_store_but_without_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        def __reduce__(self) -> tuple[object, ...]:
            raise AssertionError("a client has connections and secrets")

    monkeypatch.setattr(locations, "_hadoop", lambda *_: Client())
    (file,) = files([1])
    there = dataclasses.replace(file, store="hdfs://nn:8020")
    plain = PlainFile(
        store="hdfs://nn:8020", path="/t/f", key="f", length=1, format=FileFormat.PARQUET
    )
    assert isinstance(there.fs, Client)
    assert isinstance(plain.fs, Client)
    packed: Packed[Reading] = pickle.loads(  # noqa: S301
        pickle.dumps(Packed.of([[Reading(there, (there,))], [Reading(plain)]]))
    )
    assert packed[0] == (Reading(there, (there,)),)
    assert packed[1] == (Reading(plain),)


def test_small_files_share_a_task() -> None:
    tasks = into_tasks([Reading(file) for file in files([1000] * 310)], cores=2)
    assert [piece.data.path for task in tasks for piece in task] == [
        f"/t/p={i}/b" for i in range(310)
    ]
    assert len(tasks) < 10
    assert max(map(len, tasks)) <= 64


def test_pieces_are_spread_over_all_cores_unless_tasks_would_become_too_small() -> None:
    medium = [Reading(file) for file in files([10 << 20] * 310)]
    assert len(into_tasks(medium, cores=40)) >= 80
    assert len(into_tasks(medium, cores=1000)) == 310
    small = [Reading(file) for file in files([1000] * 310)]
    assert 40 <= len(into_tasks(small, cores=1000)) <= 50
    assert len(into_tasks(small[:3], cores=2)) == 1


def test_a_large_piece_has_a_task_to_itself() -> None:
    sizes = [1000, TASK_BYTES * 2, 1000, 1000]
    tasks = into_tasks([Reading(file) for file in files(sizes)], cores=1)
    assert [[piece.data.length for piece in task] for task in tasks] == [
        [1000],
        [TASK_BYTES * 2],
        [1000, 1000],
    ]


def test_delete_files_count_towards_the_size_of_a_task() -> None:
    deletes = tuple(files([1000] * 100))
    assert len(into_tasks([Reading(file, deletes) for file in files([1] * 9)], cores=1)) == 9


def test_pieces_of_unknown_size_do_not_share_a_task() -> None:
    assert into_tasks(pieces(20), cores=2) == alone(20)
    assert len(into_tasks(pieces(20), cores=1, work=lambda _: 4 << 20)) == 4
