"""What a program's own session is given before a table is looked at; nobody reads one here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.spark.reading import tables
from airflow_hiveacid.spark.reading.changes import read_changes
from airflow_hiveacid.spark.reading.tables import ReadSnapshot, read_table


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


def test_a_table_that_the_snapshot_was_not_taken_of_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    taken = TableInfo(ref=TableRef("d", "t"), location="", columns=(), partition_columns=())
    snapshot = ReadSnapshot(client=nothing, snapshot=nothing, tables={taken.ref: taken})
    monkeypatch.setattr(tables, "give_store_settings", lambda _: None)
    monkeypatch.setattr(tables, "give_store_tokens", lambda _: None)
    monkeypatch.setattr(
        "airflow_hiveacid.spark.reading.changes.give_store_settings", lambda _: None
    )
    monkeypatch.setattr("airflow_hiveacid.spark.reading.changes.give_store_tokens", lambda _: None)
    for read in (
        lambda: read_table(nothing, "D.u", snapshot),
        lambda: read_changes(nothing, "D.u", snapshot, since=1),
    ):
        with pytest.raises(ConfigurationError, match=r"not taken of table d\.u, but of d\.t; name"):
            read()
