"""What a program's own session is given before a table is looked at; nobody reads one here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.spark.reading import tables
from airflow_hiveacid.spark.reading.tables import ReadSnapshot, read_table

if TYPE_CHECKING:
    import pytest


def test_python_may_go_where_the_sessions_jvm_may_before_files_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, object]] = []

    def resolve(spark: object, *_: object, **__: object) -> SimpleNamespace:
        done.append(("list", spark))
        return SimpleNamespace(rows=lambda columns: ("rows", columns))

    monkeypatch.setattr(tables, "give_store_settings", lambda s: done.append(("settings", s)))
    monkeypatch.setattr(tables, "give_store_tokens", lambda s: done.append(("tokens", s)))
    monkeypatch.setattr(tables, "resolve_target", resolve)
    table = TableInfo(
        ref=TableRef("d", "t"),
        location="hdfs://nn/d/t",
        columns=(Column(name="a", type="int"),),
        partition_columns=(),
    )
    nothing: Any = None
    session: Any = "a session"
    snapshot = ReadSnapshot(client=nothing, snapshot=nothing, tables={table.ref: table})
    assert read_table(session, "d.t", snapshot, columns=["a"]) == ("rows", ["a"])
    assert done == [("settings", session), ("tokens", session), ("list", session)]
