from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    MetastoreCallError,
    TableNotFoundError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import (
    COPY_OF,
    Column,
    FileFormat,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore import catalog
from airflow_hiveacid.metastore.client.catalog_calls import CatalogCalls
from airflow_hiveacid.metastore.client.connection import Connection
from airflow_hiveacid.metastore.gen.tables import ttypes as tables
from airflow_hiveacid.metastore.half_exchange import copy_mark

COLUMNS = (Column(name="id", type="bigint"), Column(name="price", type="decimal(10,2)"))


def struct(**changes: object) -> tables.Table:
    new = catalog.NewTable(ref=TableRef("db", "t"), columns=COLUMNS, location="file:/t")
    made = catalog.table_struct(new)
    for name, value in changes.items():
        owner = made if hasattr(made, name) else made.sd
        setattr(owner, name, value)
    return made


def client_of(connection: Any) -> CatalogCalls:  # noqa: ANN401 - a stand-in
    client = CatalogCalls()
    client._connection = connection
    return client


def table_of_days(**changes: Any) -> TableInfo:  # noqa: ANN401
    day = (Column(name="day", type="string"),)
    parts = {"columns": COLUMNS, "partition_columns": day, **changes}
    return TableInfo(ref=TableRef("d", "t"), location="file:/t", **parts)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, TransactionalKind.NONE),
        ({"transactional": "false"}, TransactionalKind.NONE),
        ({"transactional_properties": "default"}, TransactionalKind.NONE),
        ({"transactional": "true"}, TransactionalKind.FULL_ACID),
        (
            {"transactional": "TRUE", "transactional_properties": "default"},
            TransactionalKind.FULL_ACID,
        ),
        (
            {"transactional": "true", "transactional_properties": "Insert_Only"},
            TransactionalKind.INSERT_ONLY,
        ),
    ],
)
def test_two_table_properties_decide_the_transactional_kind(
    parameters: dict[str, str], expected: TransactionalKind
) -> None:
    assert catalog.transactional_kind(parameters) is expected


@pytest.mark.parametrize("kind", TransactionalKind)
def test_a_new_table_is_read_back_as_it_was_defined(kind: TransactionalKind) -> None:
    new = catalog.NewTable(
        ref=TableRef("db", "t"),
        columns=COLUMNS,
        partition_columns=(Column(name="day", type="date"),),
        kind=kind,
        bucket_columns=("id",),
        num_buckets=4,
        bucketing_version=1,
        sort_columns=("id",),
        location="file:/t",
    )
    info = catalog.table_info(catalog.table_struct(new))
    assert (info.ref, info.columns, info.location) == (new.ref, new.columns, "file:/t")
    assert info.partition_columns == new.partition_columns
    assert (info.kind, info.num_buckets, info.bucket_columns) == (kind, 4, ("id",))
    assert (info.bucketing_version, info.sort_columns) == (1, ("id",))


def test_a_table_without_a_bucketing_version_has_version_1() -> None:
    assert catalog.table_info(struct(parameters={"transactional": "true"})).bucketing_version == 1


@pytest.mark.parametrize("count", [-1, 0, 7])
def test_a_bucket_count_without_bucket_columns_is_ignored(count: int) -> None:
    assert catalog.table_info(struct(numBuckets=count)).num_buckets == 0


def test_table_names_become_lower_case_and_an_unknown_format_is_reported_as_other() -> None:
    info = catalog.table_info(
        struct(
            dbName="DB",
            tableName="T",
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        )
    )
    assert info.ref == TableRef("db", "t")
    assert info.storage.format is FileFormat.OTHER  # text by the SerDe of ORC


@pytest.mark.parametrize("kind", ["VIRTUAL_VIEW", "MATERIALIZED_VIEW"])
def test_views_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedTableError, match="view"):
        catalog.table_info(struct(tableType=kind))


def test_a_materialized_view_can_be_read_but_a_view_has_no_rows_of_its_own() -> None:
    assert catalog.source_info(struct(tableType="MATERIALIZED_VIEW")) == catalog.table_info(
        struct()
    )
    with pytest.raises(UnsupportedTableError, match="use the tables that it selects from"):
        catalog.source_info(struct(tableType="VIRTUAL_VIEW"))


def test_hives_default_partition_is_read_as_null() -> None:
    new = catalog.NewTable(
        ref=TableRef("db", "t"),
        columns=COLUMNS,
        partition_columns=(Column(name="day", type="date"),),
        location="file:/t",
    )
    partition = tables.Partition(
        values=["__HIVE_DEFAULT_PARTITION__"], sd=tables.StorageDescriptor(location="file:/t/day=x")
    )
    info = catalog.partition_info(catalog.table_info(catalog.table_struct(new)), partition)
    assert info.name == PartitionName(("day",), (None,))


@pytest.mark.parametrize("format_", [f for f in FileFormat if f is not FileFormat.OTHER])
def test_each_file_format_is_read_back_as_it_was_defined(format_: FileFormat) -> None:
    new = catalog.NewTable(
        ref=TableRef("db", "t"),
        columns=COLUMNS,
        kind=TransactionalKind.INSERT_ONLY,
        format=format_,
        location="file:/t",
    )
    storage = catalog.table_info(catalog.table_struct(new)).storage
    assert (storage.format, str(storage)) == (format_, format_.value)
    assert storage.parameter("serialization.format") == "1"
    assert storage.parameter("field.delim") is None


def test_text_files_with_an_unsupported_serde_have_the_format_other() -> None:
    csv = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    text = "org.apache.hadoop.mapred.TextInputFormat"
    serde = tables.SerDeInfo(serializationLib=csv, parameters={"quoteChar": "'"})
    storage = catalog.table_info(struct(inputFormat=text, serdeInfo=serde)).storage
    assert (storage.format, str(storage)) == (FileFormat.OTHER, f"{text} with {csv}")
    assert storage.parameter("quoteChar") == "'"


@pytest.mark.parametrize("kind", [TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY])
def test_only_partitions_of_insert_only_tables_are_listed_with_their_storage(
    kind: TransactionalKind,
) -> None:
    wire: Any = Wire(3)
    wire.there = ["day=1", "day=2"]
    client, table = client_of(wire), table_of_days(kind=kind)
    found = client.list_partitions(table)
    assert [str(p.name) for p in found] == wire.there
    is_told = kind is TransactionalKind.INSERT_ONLY
    assert [p.storage is not None for p in found] == [is_told, is_told]


def test_only_the_flag_of_accurate_statistics_is_removed() -> None:
    marked = {"COLUMN_STATS_ACCURATE": "{}", "numRows": "5", "x": "y"}
    assert catalog.without_statistics(marked) == {"numRows": "5", "x": "y"}
    assert catalog.without_statistics({"numRows": "5"}) is None
    assert catalog.without_statistics(None) is None


class Wire:
    """A connection that keeps what is sent, and answers with definitions of very wide tables."""

    generation = MetastoreGeneration.V4

    def __init__(self, columns: int) -> None:
        self.fields = [ttypes.FieldSchema(name=f"c{i}", type="int") for i in range(columns)]
        self.sent: list[int] = []
        self.there: list[str] = []
        self.looked_up: list[str] = []
        self.names_sent = 0

    def catalog_call(self, method: str, *arguments: Any, **_: object) -> Any:  # noqa: ANN401
        if method == "get_table_req":
            storage = ttypes.StorageDescriptor(cols=self.fields)
            return SimpleNamespace(table=SimpleNamespace(sd=storage))
        if method == "add_partitions_req":
            self.sent.append(sum(len(part.sd.cols) for part in arguments[0].parts))
            self.there += [f"day={part.values[0]}" for part in arguments[0].parts]
            return None
        if method == "get_partition_names_ps":
            self.looked_up.append(f"day={arguments[2][0]}")
            return [name for name in self.there if re.fullmatch(self.looked_up[-1], name)]
        assert method == "get_partition_names"
        self.names_sent += len(self.there)
        return self.there

    def call(self, method: str, *arguments: Any, **_: object) -> Any:  # noqa: ANN401
        if method == "get_partitions_by_names":
            return [self.partition(name) for name in arguments[2]]
        assert method == "alter_partitions_req"
        self.sent.append(sum(len(part.sd.cols) for part in arguments[0].partitions))
        return None

    brief_call = call
    calls_for = Connection.calls_for
    endpoint = MetastoreEndpoint(uris=())

    def partition(self, name: str) -> tables.Partition:
        return tables.Partition(
            values=[name.partition("=")[2]],
            sd=tables.StorageDescriptor(location=f"file:/t/{name}", cols=self.fields),
            parameters={catalog.STATISTICS_FLAG: "{}"},
        )


@pytest.mark.parametrize(("columns", "messages"), [(10, 2), (2_000, 40), (100_000, 1000)])
def test_partitions_are_sent_in_batches_that_keep_each_message_small(
    columns: int, messages: int
) -> None:
    """A server accepts 100 MB, and each definition contains all columns of the table."""
    wire: Any = Wire(columns)
    client, table = client_of(wire), table_of_days(columns=(COLUMNS[0],) * columns)
    days = [table.partition_name([str(day)]) for day in range(1000)]
    assert len(client.add_partitions(table, days)) == len(days)
    assert len(wire.sent) == messages
    assert max(wire.sent) <= max(100_000, columns)
    wire.sent.clear()
    write_ids = ValidWriteIdList.parse("d.t:1:1::")
    count = client.forget_statistics(table, days, write_id=WriteId(1), write_ids=write_ids)
    assert (count, len(wire.sent), sum(wire.sent)) == (len(days), messages, len(days) * columns)


def test_a_few_partitions_are_added_without_the_names_of_all() -> None:
    wire: Any = Wire(3)
    wire.there = [f"day={day}" for day in range(1000)] + ["day=1x5"]
    client, table = client_of(wire), table_of_days()
    # The server takes a name for a pattern, so `1.5` also finds `1x5`.
    days = [table.partition_name([day]) for day in ("7", "1.5", "7")]
    assert [str(p.name) for p in client.add_partitions(table, days[:2])] == ["day=1.5", "day=7"]
    assert (wire.looked_up, wire.names_sent) == (["day=7", "day=1.5"], 0)
    assert wire.there[-1] == "day=1.5"
    client.add_partitions(table, days)
    assert wire.there.count("day=1.5") == 1
    client.add_partitions(table, [table.partition_name([str(day)]) for day in range(5)])
    assert wire.names_sent == len(wire.there)


@pytest.mark.parametrize("generation", MetastoreGeneration)
@pytest.mark.parametrize("is_skewed", [False, True])
def test_forgetting_absent_statistics_succeeds_without_the_alter_permission(
    generation: MetastoreGeneration, caplog: pytest.LogCaptureFixture, *, is_skewed: bool
) -> None:
    asked: list[str] = []
    raw = struct()
    raw.parameters = {"transactional": "true"}
    raw.sd.skewedInfo = tables.SkewedInfo(skewedColNames=["id"]) if is_skewed else None

    def call(method: str, *_: object, **__: object) -> Any:  # noqa: ANN401
        asked.append(method)
        if method == "get_table_req":
            return SimpleNamespace(table=raw)
        raise MetastoreCallError(method=method, reason="no privilege ALTER")

    wire: Any = SimpleNamespace(generation=generation, call=call)
    client = client_of(wire)
    table = dataclasses.replace(catalog.table_info(raw), partition_columns=())
    write_ids = ValidWriteIdList.parse("d.t:1:1::")
    assert client.forget_statistics(table, [], write_id=WriteId(2), write_ids=write_ids) == 0
    is_asked = generation is MetastoreGeneration.V4 and not is_skewed
    assert asked == ["get_table_req", *(["alter_table_req"] if is_asked else [])]
    assert ("write_id=2" in caplog.text) is (generation is MetastoreGeneration.V4)


def test_a_partition_has_its_own_columns_only_if_they_differ_from_the_tables() -> None:
    table = catalog.table_info(struct())
    now, before = struct().sd, struct().sd
    before.cols = before.cols[:1]
    partitions = [tables.Partition(values=[], sd=sd) for sd in (now, before, before)]
    same, older, alike = catalog.whole_partition_infos(table, partitions)
    assert (same.columns, older.columns) == (None, COLUMNS[:1])
    assert alike.columns is older.columns  # ten thousand of them are one
    assert alike.storage is same.storage


class HalfExchanged(CatalogCalls):
    """A client of a metastore in which `t` is missing, because a conversion to flat has died."""

    def __init__(self, copy: TransactionalKind) -> None:
        ref, kept, flat = (TableRef("db", n) for n in ("t", "t__acid", "t__flat_00c0ffee0001"))
        acid = catalog.table_struct(catalog.NewTable(ref=kept, columns=COLUMNS, location="file:/t"))
        mark = copy_mark(ref, catalog.table_info(acid))
        new = catalog.NewTable(
            ref=flat, columns=COLUMNS, location="file:/c", kind=copy, parameters={COPY_OF: mark}
        )
        self.structs = {kept: acid, flat: catalog.table_struct(new)}

    def list_tables(self, db: str) -> tuple[str, ...]:
        return tuple(sorted(ref.name for ref in self.structs if ref.db == db))

    def _raw_table(self, ref: TableRef) -> Any:  # noqa: ANN401
        if ref not in self.structs:
            raise TableNotFoundError(table=ref)
        return self.structs[ref]


@pytest.mark.parametrize("name", ["t", "t__acid__acid", "u"])
@pytest.mark.parametrize("copy", [TransactionalKind.NONE, TransactionalKind.INSERT_ONLY])
def test_only_a_table_between_the_renames_of_an_exchange_is_not_said_to_be_unknown(
    copy: TransactionalKind, name: str
) -> None:
    client, ref = HalfExchanged(copy), TableRef("db", name)
    is_half = name == "t" and copy is TransactionalKind.NONE
    for ask in (client.get_table, client.get_source):
        with pytest.raises(UnsupportedTableError if is_half else TableNotFoundError) as caught:
            ask(ref)
        assert ("convert db.t --to flat`" in str(caught.value)) is is_half
