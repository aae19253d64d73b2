"""What a job refuses before it opens a transaction, and how often it looks up partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.writing import context
from airflow_hiveacid.spark.writing.context import JobContext
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.tables import id_table
from tests.support.terms import job_spec


def by_day(client: FakeClient) -> TableInfo:
    return id_table(client, "p", Path("/d/p"), by="day string")


def test_a_table_on_an_unsupported_store_is_refused_before_a_transaction_is_opened(
    server: FakeMetastore, client: FakeClient, table: TableInfo
) -> None:
    server.tables[table.ref] = replace(table, location="gs://lake/w/t")
    spec = job_spec(DeleteSpec(target=str(table.ref)), "k")
    nothing: Any = None
    context = JobContext.of(nothing, spec, client)
    with pytest.raises(UnsupportedTableError, match="gs://lake/w/t"):
        context.changeable_table(str(table.ref), "DELETE")
    assert server.txns == {}


def test_spark_selects_partitions_again_only_if_partitions_were_added(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_day(client)
    days = [table.partition_name([day]) for day in "1234"]
    client.add_partitions(table, days[:3])
    asked: list[int] = []

    def first_of(
        _spark: object, _table: object, known: tuple[PartitionName, ...], *_: object
    ) -> tuple[PartitionName, ...]:
        asked.append(len(known))
        return known[:1]

    monkeypatch.setattr(context, "partitions_where", first_of)
    nothing: Any = None
    job = JobContext(spark=nothing, spec=nothing, client=client, terms=nothing)
    look = job.partitions_touched(table, "day = '1'", nothing)
    assert [look().names for _ in range(3)] == [(days[0],)] * 3
    assert asked == [3]
    client.add_partitions(table, days[3:])
    touched = look()
    assert (touched.names, asked) == ((days[0],), [3, 4])
    assert [p.name for p in touched.partitions(client, table)] == days[:1]


@pytest.mark.parametrize(("names", "found"), [(None, ("1", "2")), (("2", "9"), ("2",)), ((), ())])
def test_only_partitions_that_exist_count_as_touched(
    client: FakeClient, names: tuple[str, ...] | None, found: tuple[str, ...]
) -> None:
    table = by_day(client)
    client.add_partitions(table, [table.partition_name([day]) for day in "12"])
    named = None if names is None else tuple(table.partition_name([day]) for day in names)
    for seen in ((), client.partition_names(table)):
        places = Touched(names=named, seen=seen).partitions(client, table)
        assert tuple(p.name.values[0] for p in places) == found


def test_a_partition_that_is_not_found_by_name_is_searched_for_among_all_partitions(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_day(client)
    seen = tuple(table.partition_name([day]) for day in "12")
    infos = client.add_partitions(table, seen)
    # As where somebody has escaped a name otherwise than we do.
    monkeypatch.setattr(client, "get_partitions", lambda *_: ())
    assert Touched(names=seen[1:], seen=seen).partitions(client, table) == infos[1:]
    assert Touched(names=seen[1:]).partitions(client, table) == ()
