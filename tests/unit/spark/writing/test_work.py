"""Several statements on one table; a stand-in makes their rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, TransactionSpec
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.reading.events import Events
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import CheckedStatement, run_changes
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from tests.contract.fake_client import FakeClient
from tests.support.one_row import CONTEXT, OneRow
from tests.support.tables import id_table
from tests.support.terms import job_spec

_, INSERT, UPDATE, _, OVERWRITE = DataOperation


def run(client: FakeClient, *changes: CheckedStatement) -> None:
    spec = job_spec(TransactionSpec(statements=()), lock_timeout_s=5.0)
    spark: Any = SimpleNamespace(sparkContext=CONTEXT)
    run_changes(JobContext.of(spark, spec, client), changes)


def statement(
    table: TableInfo,
    operation: DataOperation,
    seen: list[list[str]],
    **options: Any,  # noqa: ANN401
) -> CheckedStatement:
    """One of one row, that notes what it sees of its table."""

    def events(target: Target, _: object) -> Events:
        seen.append(sorted(d.text for state in target.states for d in state.live))
        rows: Any = OneRow()
        return Events(frame=lambda: rows)

    return CheckedStatement(
        spec=InsertSpec(target=str(table.ref), source=SourceSpec()),
        table=table,
        operations=frozenset({operation}),
        **{"make_events": events, **options},
    )


def directories(root: str) -> list[str]:
    place = Path(root.removeprefix("file:"))
    return sorted(p.name for p in place.iterdir() if p.name != HIDDEN_DIRECTORY)


@pytest.mark.promise("T24")
def test_each_statement_has_its_own_statement_id_and_sees_the_earlier_statements(
    client: FakeClient, table: TableInfo
) -> None:
    seen: list[list[str]] = []
    run(client, *[statement(table, INSERT, seen) for _ in range(3)])
    names = [f"delta_0000001_0000001_{n:04d}" for n in range(3)]
    assert directories(table.location) == names
    assert seen == [[], names[:1], names[:2]]


@pytest.mark.promise("T24")
def test_an_overwrite_writes_a_base_that_replaces_the_earlier_statements(
    client: FakeClient, table: TableInfo
) -> None:
    seen: list[list[str]] = []
    over = [statement(table, OVERWRITE, seen), statement(table, OVERWRITE, seen, make_events=None)]
    run(client, statement(table, INSERT, seen), *over)
    assert directories(table.location) == ["base_0000001"]
    assert seen == [[], ["delta_0000001_0000001_0000"]]
    files = list(Path(table.location.removeprefix("file:"), "base_0000001").glob("bucket_*"))
    assert [f.read_bytes()[:3] for f in files] == [b"ORC"]  # without rows, and not the first one's


@pytest.mark.promise("W9")
def test_a_truncation_empties_only_the_partitions_that_it_selects(
    client: FakeClient, tmp_path: Path
) -> None:
    (tmp_path / "parts").mkdir()
    table = id_table(client, "parts", tmp_path / "parts", by="p int")
    names = tuple(PartitionName.parse(f"p={n}") for n in (1, 2))
    for partition in client.add_partitions(table, names):
        Path(partition.location.removeprefix("file:")).mkdir(exist_ok=True)
    whole = statement(
        table,
        OVERWRITE,
        [],
        make_events=None,
        partitions=Touched,
        empties=lambda there: tuple(n for n in there if n == names[0]),
    )
    run(client, whole)
    assert [directories(f"{table.location}/{n}") for n in names] == [["base_0000001"], []]


def test_a_statement_restarts_if_it_selects_different_partitions_after_its_locks(
    client: FakeClient, table: TableInfo
) -> None:
    """Otherwise it could see half of a commit to several partitions."""
    one, two = (PartitionName.parse(f"p={n}") for n in (1, 2))
    found = iter([(one,), (one, two), (one, two), (one, two)])
    seen: list[list[str]] = []
    whole = statement(table, INSERT, seen, partitions=lambda: Touched(names=next(found)))
    run(client, whole)
    assert directories(table.location) == ["delta_0000002_0000002_0000"]
    assert next(found, None) is None
