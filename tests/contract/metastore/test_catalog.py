from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from airflow_hiveacid.format import conflicts, errors, ids, snapshot
from airflow_hiveacid.format.table import (
    Column,
    Constraints,
    FileFormat,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, catalog_calls
from airflow_hiveacid.metastore.client.connection import Repeat
from airflow_hiveacid.metastore.definitions.new_table import define, ensure_table
from airflow_hiveacid.metastore.gen.tables.ttypes import AlterTableRequest, EnvironmentContext
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.bench import REAL_PARAMS, Bench, commit, month

_ACCURATE = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "0"}


@pytest.mark.promise("D3")
def test_a_new_table_is_a_full_acid_orc_table_with_bucketing_version_2(bench: Bench) -> None:
    table = bench.table()
    assert table.kind is TransactionalKind.FULL_ACID
    assert table.storage.format is FileFormat.ORC
    assert table.bucketing_version == 2
    assert table.parameters["transactional_properties"] == "default"
    assert table.columns == (Column(name="id", type="bigint"), Column(name="name", type="string"))
    assert (table.num_buckets, table.bucket_columns, table.is_partitioned) == (0, (), False)


def test_a_table_keeps_its_buckets_partition_columns_and_location(
    bench: Bench, client: MetastorePort
) -> None:
    bench.table(
        "b",
        partition_columns=(Column(name="day", type="date"),),
        bucket_columns=("id",),
        num_buckets=4,
    )
    table = client.get_table(TableRef(bench.db, "b"))
    assert (table.num_buckets, table.bucket_columns) == (4, ("id",))
    assert table.partition_columns == (Column(name="day", type="date"),)
    assert table.location.endswith(f"/{bench.db}.db/b")


def test_an_insert_only_table_is_recognized_as_insert_only(bench: Bench) -> None:
    assert bench.table(kind=TransactionalKind.INSERT_ONLY).kind is TransactionalKind.INSERT_ONLY


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT])
def test_the_file_format_of_an_insert_only_table_and_its_partitions_is_returned(
    bench: Bench, client: MetastorePort, format_: FileFormat
) -> None:
    table = bench.table(
        kind=TransactionalKind.INSERT_ONLY,
        format=format_,
        partition_columns=(Column(name="month", type="int"),),
    )
    assert table.storage.format is format_
    client.add_partitions(table, [month("1")])
    (partition,) = client.list_partitions(table)
    assert partition.storage is not None
    assert partition.storage.format is format_
    assert client.get_partitions(table, [month("1")]) == (partition,)


def test_a_flat_table_is_recognized_as_not_transactional(bench: Bench) -> None:
    assert bench.table(kind=TransactionalKind.NONE).kind is TransactionalKind.NONE


def test_a_sorted_transactional_table_is_refused(bench: Bench) -> None:
    with pytest.raises(errors.MetastoreCallError, match="sorted"):
        bench.table(bucket_columns=("id",), num_buckets=2, sort_columns=("id",))


def test_a_table_cannot_be_created_twice(bench: Bench) -> None:
    bench.table()
    with pytest.raises(errors.MetastoreCallError, match="already exists"):
        bench.table()


def test_a_table_is_created_only_if_missing_and_a_different_one_is_refused(
    bench: Bench, client: MetastorePort
) -> None:
    new = define(
        f"{bench.db}.made",
        {"id": "bigint", "price": "decimal"},
        partition_columns={"day": "date"},
        bucket_columns=["id"],
        num_buckets=2,
    )
    assert ensure_table(client, new) is True
    assert ensure_table(client, new) is False
    place = client.get_table(new.ref).location
    assert ensure_table(client, dataclasses.replace(new, location=place)) is False
    with pytest.raises(errors.TableDiffersError, match="its buckets are 2 instead of 3"):
        ensure_table(client, dataclasses.replace(new, num_buckets=3))


def test_the_error_about_a_missing_table_contains_its_name(
    bench: Bench, client: MetastorePort
) -> None:
    ref = TableRef(bench.db, "nothing")
    with pytest.raises(errors.TableNotFoundError, match=f"{bench.db}.nothing"):
        client.get_table(ref)
    with pytest.raises(errors.TableNotFoundError):
        client.drop_table(ref)
    with pytest.raises(errors.TableNotFoundError):
        client.get_table(TableRef("no_such_database", "t"))


def test_databases_are_listed_and_tables_are_listed_in_alphabetical_order(
    bench: Bench, client: MetastorePort
) -> None:
    bench.table("zebra")
    bench.table("ant")
    assert client.list_tables(bench.db) == ("ant", "zebra")
    assert bench.db in client.list_databases()
    assert client.list_tables("no_such_database") == ()


def test_creating_or_dropping_a_database_twice_has_no_further_effect(
    bench: Bench, client: MetastorePort
) -> None:
    name = f"{bench.db}_more"
    client.create_database(name)
    client.create_database(name.upper())
    assert name in client.list_databases()
    client.drop_database(name)
    client.drop_database(name)
    assert name not in client.list_databases()


def test_a_dropped_table_is_no_longer_listed(bench: Bench, client: MetastorePort) -> None:
    client.drop_table(bench.table().ref)
    assert client.list_tables(bench.db) == ()


def test_partitions_are_added_once_and_listed_in_order_of_their_names(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("2", "1")
    names = [month("2"), month("3"), month(None)]
    added = client.add_partitions(table, names)
    assert {p.name for p in added} == set(names)
    listed = client.list_partitions(table)
    assert [str(p.name) for p in listed] == [
        "month=1",
        "month=2",
        "month=3",
        "month=__HIVE_DEFAULT_PARTITION__",
    ]
    assert listed[0].location == f"{table.location}/month=1"
    assert client.get_partitions(table, [month("1")]) == listed[:1]
    assert client.partition_names(table) == tuple(p.name for p in listed)


@pytest.mark.parametrize("value", ["a/b=c", "50% {off}", "x y", "été", "Q1"])
def test_a_partition_value_with_special_characters_is_returned_unchanged(
    bench: Bench, client: MetastorePort, value: str
) -> None:
    table = bench.partitioned()
    client.add_partitions(table, [month(value)])
    (found,) = client.list_partitions(table)
    assert found.name == month(value)
    assert client.partition_names(table) == (month(value),)
    assert client.get_partitions(table, [month(value)]) == (found,)


def test_partitions_are_listed_even_if_they_do_not_fit_in_one_response(
    bench: Bench, client: MetastorePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_calls, "_PARTITIONS_PER_CALL", 3)
    table = bench.partitioned()
    names = [month(f"{number:04d}") for number in range(7)]
    client.add_partitions(table, names)
    assert [p.name for p in client.list_partitions(table)] == names


def test_an_unpartitioned_table_is_listed_as_one_partition_without_a_name(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    (whole,) = client.list_partitions(table)
    assert whole.location == table.location
    assert str(whole.name) == ""
    assert client.partition_names(table) == (whole.name,)


def test_setting_and_removing_table_properties_changes_nothing_else(
    bench: Bench, client: MetastorePort
) -> None:
    before = bench.table(parameters={"old": "1", "kept": "2"})
    client.set_table_parameters(before.ref, {"new": "3", "old": None})
    after = client.get_table(before.ref)
    ours = {k: v for k, v in after.parameters.items() if k in {"old", "new", "kept"}}
    assert ours == {"new": "3", "kept": "2"}
    assert after.columns == before.columns
    assert after.kind is TransactionalKind.FULL_ACID
    assert after.location == before.location


@pytest.mark.promise("R9")
def test_accurate_statistics_of_a_table_are_marked_outdated_once(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table(parameters=_ACCURATE)
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    write_ids = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    for expected in (1, 0):
        count = client.forget_statistics(table, [], write_id=write_id, write_ids=write_ids)
        assert count == expected
    parameters = client.get_table(table.ref).parameters
    assert "COLUMN_STATS_ACCURATE" not in parameters
    assert parameters["transactional"] == "true"
    client.abort_txn(txn_id)


@pytest.mark.promise("R9")
@pytest.mark.parametrize(
    "bench", [pytest.param("real-4.0.1", marks=pytest.mark.server)], indirect=True
)
@pytest.mark.parametrize("parameters", [_ACCURATE, {}], ids=["accurate", "unmarked"])
def test_an_analysis_started_before_a_write_cannot_mark_statistics_accurate_after_it(
    bench: Bench, client: MetastoreClient, parameters: dict[str, str]
) -> None:
    """Hive would answer count(*) from them, without the rows of the write."""
    table = bench.table(parameters=parameters)
    ref = table.ref

    def listed(own: ids.WriteId) -> snapshot.ValidWriteIdList:
        return client.valid_write_ids([ref], client.valid_txns())[ref].with_own(own)

    writer = client.open_txn()
    write_id = client.allocate_write_id(writer, ref)
    analysis = client.open_txn()
    theirs = client._raw_table(ref)
    seen = client.valid_write_ids([ref], client.valid_txns())[ref]
    client.forget_statistics(table, [], write_id=write_id, write_ids=listed(write_id))
    commit(client, writer)
    own = client.allocate_write_id(analysis, ref)
    theirs.parameters = {**theirs.parameters, **_ACCURATE, "numRows": "10"}
    theirs.writeId = own
    request = AlterTableRequest(
        dbName=ref.db,
        tableName=ref.name,
        table=theirs,
        environmentContext=EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"}),
        writeId=own,
        validWriteIdList=seen.with_own(own).text(),
    )
    client._connection.call("alter_table_req", request, repeat=Repeat.NEVER)
    commit(client, analysis)
    assert "COLUMN_STATS_ACCURATE" not in client.get_table(ref).parameters


def test_only_a_4x_metastore_turns_a_flat_table_into_an_external_table(
    bench: Bench, client: MetastorePort
) -> None:
    is_external = bench.table(kind=TransactionalKind.NONE).parameters.get("EXTERNAL") == "TRUE"
    assert is_external is (client.generation is conflicts.MetastoreGeneration.V4)


def test_a_transactional_table_is_created_in_the_location_of_its_database(
    bench: Bench, client: MetastorePort, tmp_path: Path
) -> None:
    name = f"{bench.db}_elsewhere"
    client.create_database(name, f"file:{tmp_path}/db")
    table = NewTable(ref=TableRef(name, "t"), columns=(Column(name="id", type="bigint"),))
    assert client.create_table(table).location == f"file:{tmp_path}/db/t"


@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_hmsclient_calls_and_our_calls_can_share_one_connection(
    bench: Bench, client: MetastoreClient
) -> None:
    table = bench.partitioned("1", "2")
    txn_id = client.open_txn()
    assert sorted(client.hms().get_partition_names(bench.db, "p", -1)) == ["month=1", "month=2"]
    client.heartbeat(txn_id)
    assert client.hms().get_database(bench.db).name == bench.db
    assert client.get_table(table.ref) == table
    client.abort_txn(txn_id)


@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_only_enabled_constraints_of_a_table_are_read(
    bench: Bench, client: MetastoreClient
) -> None:
    """Made by an independent client, as Hive makes them; what is disabled counts for nothing."""
    ref = bench.table("c").ref
    assert client.constraints(ref) == Constraints()
    names = {"catName": "hive", "table_db": ref.db, "table_name": ref.name}
    enabled = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": False}
    disabled = enabled | {"enable_cstr": False, "rely_cstr": True}
    column, other = {"column_name": "id", **names}, {"column_name": "name", **names}
    with independent(client.endpoint) as hive:
        hive.add_not_null_constraint(
            ttypes.AddNotNullConstraintRequest(
                [
                    ttypes.SQLNotNullConstraint(nn_name="nn", **column, **enabled),
                    ttypes.SQLNotNullConstraint(nn_name="off", **other, **disabled),
                ]
            )
        )
        hive.add_default_constraint(
            ttypes.AddDefaultConstraintRequest(
                [ttypes.SQLDefaultConstraint(dc_name="d", default_value="7", **column, **enabled)]
            )
        )
        hive.add_check_constraint(
            ttypes.AddCheckConstraintRequest(
                [
                    ttypes.SQLCheckConstraint(
                        dc_name="ck", check_expression="id > 0", **column, **enabled
                    )
                ]
            )
        )
    assert client.constraints(ref) == Constraints(
        defaults={"id": "7"}, not_null={"id": "nn"}, checks={"ck": "id > 0"}
    )


@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_the_columns_of_a_primary_key_are_returned_in_key_order(
    bench: Bench, client: MetastoreClient
) -> None:
    ref = bench.table("k").ref
    assert client.primary_key(ref) == ()
    names = {"catName": "hive", "table_db": ref.db, "table_name": ref.name, "pk_name": "pk"}
    flags = {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False}
    columns = [
        ttypes.SQLPrimaryKey(column_name=column, key_seq=number, **names, **flags)
        for number, column in enumerate(("name", "id"), 1)
    ]
    with independent(client.endpoint) as hive:
        hive.add_primary_key(ttypes.AddPrimaryKeyRequest(columns))
    assert client.primary_key(ref) == ("name", "id")


@contextmanager
def independent(endpoint: MetastoreEndpoint) -> Iterator[ThriftHiveMetastore.Client]:
    """A client made from Hive's own IDL."""
    host, _, port = endpoint.uris[0].removeprefix("thrift://").partition(":")
    transport = TTransport.TBufferedTransport(TSocket.TSocket(host, int(port)))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    finally:
        transport.close()
