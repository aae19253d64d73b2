"""Who takes a step of a life, and who is passed over."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.table import Column
from tests.judges.line_process import JudgeError
from tests.proofs.matrix import course, kinds
from tests.proofs.matrix.course import Ground, _blind, _HalfDoneError, _taken
from tests.proofs.matrix.explanations import BLIND, is_explained
from tests.proofs.matrix.life import LOAD, NotHereError, Step, life
from tests.proofs.matrix.readers import NotReadHereError, as_rows
from tests.proofs.matrix.records import Answers, Life, Taken, Wrong

WRONG = Wrong(step="DELETE", text="3 of 2 rows", has_more=True)


@dataclass
class Stub:
    name: str
    error: Exception | None = None
    took: list[str] = field(default_factory=list)

    def major(self) -> None:
        self.took.append("major")
        if self.error is not None:
            raise self.error


def step() -> Step:
    return Step(name="major compaction", act=lambda w: w.major(), model=dict, rewrites=True)


def writers(errors: dict[str, Exception] | None = None) -> dict[str, Any]:
    return {
        name: Stub(name, (errors or {}).get(name))
        for name in (kinds.OURS, kinds.HIVE_4, kinds.TRINO, kinds.HIVE_3)
    }


@dataclass
class Asked:
    first: str
    blind: set[str] = field(default_factory=set)
    is_whole: bool = True

    def is_as_before(self) -> bool:
        return self.is_whole


def taken(found: dict[str, Any], asked: Asked) -> Taken:
    return _taken(found, asked, step())  # type: ignore[arg-type]


def test_an_engine_that_read_wrong_rows_is_skipped_and_recorded() -> None:
    found = writers({kinds.OURS: NotHereError("not here")})
    told = taken(found, Asked(kinds.TRINO, {kinds.TRINO}))
    assert (told.asked, told.done_by, told.failures) == (
        kinds.TRINO,
        kinds.HIVE_4,
        {kinds.TRINO: BLIND},
    )
    assert found[kinds.TRINO].took == []


def test_a_failure_is_recorded_without_its_path_and_a_different_engine_continues() -> None:
    found = writers({kinds.TRINO: JudgeError("there is file:/tmp/x/y already")})
    told = taken(found, Asked(kinds.TRINO))
    assert (told.done_by, told.failures) == (
        kinds.OURS,
        {kinds.TRINO: "JudgeError: there is (a path) already"},
    )


def test_no_engine_continues_after_a_partly_done_step() -> None:
    found = writers({kinds.TRINO: JudgeError("File already exists")})
    with pytest.raises(_HalfDoneError) as caught:
        taken(found, Asked(kinds.TRINO, is_whole=False))
    assert caught.value.taken.failures == {kinds.TRINO: "JudgeError: File already exists"}
    assert [name for name, stub in found.items() if stub.took] == [kinds.TRINO]


def test_no_other_engine_takes_the_steps_of_hive_3() -> None:
    found = writers({kinds.HIVE_3: NotHereError("not here")})
    with pytest.raises(NotHereError, match="not here"):
        taken(found, Asked(kinds.HIVE_3))
    assert found[kinds.OURS].took == []


def test_only_an_engine_with_wrong_rows_after_the_last_step_counts_as_blind() -> None:
    one = Life(kind=kinds.KINDS[0].name, writer=kinds.OURS)
    one.answers = {
        kinds.NATIVE: Answers(wrong=[WRONG]),
        kinds.ARROW: Answers(),
        kinds.TRINO: Answers(wrong=[WRONG]),
        kinds.HIVE_4: Answers(wrong=[Wrong(step="INSERT", text="")]),
    }
    assert _blind(one) == set()
    one.taken = [
        Taken(step=name, asked=kinds.OURS, done_by=kinds.OURS) for name in ("INSERT", "DELETE")
    ]
    assert _blind(one) == {kinds.OURS, kinds.TRINO}


def test_only_steps_other_than_inserts_and_new_columns_depend_on_existing_rows() -> None:
    names = [step.name for step in life(kinds.KINDS[0]) if step.needs_rows]
    assert [name for name in names if "INSERT" in name or "COLUMNS" in name] == []
    assert len(names) == 8


def test_kinds_with_loaded_files_get_some_rows_with_load_data() -> None:
    (kind,) = [kind for kind in kinds.KINDS if kind.loaded]
    calls: list[tuple[str, int]] = []
    writer: Any = SimpleNamespace(
        load=lambda rows: calls.append(("load", len(rows))),
        insert=lambda rows: calls.append(("insert", len(rows))),
    )
    for step in life(kind):
        if step.name.startswith((LOAD, "INSERT into")):
            step.act(writer)
    assert calls == [("load", 20), ("load", 10), ("insert", 5), ("insert", 6)]


# ---- a life with made-up engines -----------------------------------------------------------------


@dataclass
class Memory:
    """A table and its only writer: it holds the rows of the last INSERT."""

    kind: kinds.Kind
    rows: list[kinds.Row] = field(default_factory=list)
    name: str = "t"
    fails_at: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        extra = (kinds.EXTRA,) if self.rows and len(self.rows[0]) > len(self.kind.columns) else ()
        return (*self.kind.columns, *extra)

    @property
    def lab(self) -> Any:  # noqa: ANN401 - as little of a lab as is asked for
        return SimpleNamespace(info=lambda _name: SimpleNamespace(num_buckets=0))

    def insert(self, rows: list[kinds.Row]) -> None:
        if self.fails_at == "insert":
            raise JudgeError("File already exists")
        self.rows = [*self.rows, *rows]

    def overwrite(self, rows: list[kinds.Row]) -> None:
        self.rows = list(rows)

    def minor(self) -> None:
        pass

    def major(self) -> None:
        pass

    def widen(self) -> None:
        self.rows = [(*row, None) for row in self.rows]

    def empty(self) -> None:
        self.rows = []


@dataclass
class MemoryReader:
    name: str
    error: Exception | None = None
    loses: int = 0

    def rows(self, table: Memory) -> list[kinds.Row]:
        if self.error is not None:
            raise self.error
        return as_rows(table.columns, table.rows[self.loses :])

    def identities(self, table: Memory) -> dict[int, tuple[int, int, int]] | None:
        return (
            {int(str(row[0])): (1, len(self.name), 0) for row in table.rows} if table.rows else None
        )


def lead_with(
    monkeypatch: pytest.MonkeyPatch, readers: list[MemoryReader], **table: str
) -> tuple[Life, list[str]]:
    (kind,) = [kind for kind in kinds.KINDS if kind.name == "insert-only, ORC"]
    memory = Memory(kind=kind, **table)
    monkeypatch.setattr(course, "_made", lambda *_: memory)
    said: list[str] = []
    ground = Ground(lab=None, hive=None, writers={kinds.OURS: lambda t: t}, readers=readers)  # type: ignore[arg-type]
    return course.lead(ground, kind, kinds.OURS, said.append), said


def test_a_run_records_the_result_of_each_reader_after_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers = [
        MemoryReader(kinds.NATIVE),
        MemoryReader(kinds.ARROW, error=NotReadHereError("one way")),
        MemoryReader(kinds.HIVE_4, loses=1),
        MemoryReader(kinds.TRINO, error=JudgeError("boom")),
    ]
    found, said = lead_with(monkeypatch, readers)
    steps = [one.step for one in found.taken]
    assert (len(steps), found.broke_off, found.ended) == (9, None, None)
    assert found.answers[kinds.NATIVE] == Answers(right=9)
    assert found.answers[kinds.ARROW] == Answers(unread={"one way": steps})
    assert [one.step for one in found.answers[kinds.TRINO].wrong] == steps
    lost = found.answers[kinds.HIVE_4]
    assert (lost.right, [one.lacks for one in lost.wrong]) == (1, [True] * 8)
    assert said
    assert not is_explained(found)


def test_different_row_ids_count_as_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = lead_with(monkeypatch, [MemoryReader(kinds.NATIVE), MemoryReader(kinds.TRINO)])
    assert found.answers[kinds.NATIVE].right == 9
    assert found.answers[kinds.TRINO].right == 1  # the empty table
    assert "other identities" in found.answers[kinds.TRINO].wrong[0].text


def test_a_run_ends_after_a_partly_done_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course._Asked, "is_as_before", lambda _self: False)
    found, _ = lead_with(monkeypatch, [MemoryReader(kinds.NATIVE)], fails_at="insert")
    assert [one.step for one in found.taken] == ["INSERT OVERWRITE"]
    assert found.ended is not None
    assert found.ended.failures == {kinds.OURS: "JudgeError: File already exists"}
