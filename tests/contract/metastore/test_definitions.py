"""Definitions of tables, of the fake and of real servers: what stays, what goes, who waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import conflicts, errors
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.jobs import metastore_statements as ddl
from airflow_hiveacid.metastore.catalog import TableChange
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.definitions import DefinitionOutcome
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.bench import REAL_PARAMS, Bench, access, commit, month, start
from tests.support.terms import job_terms

ID, NOTE = (
    ddl.NewColumn(name="id", type="int"),
    ddl.NewColumn(name="note", type="string", comment="new"),
)


def run(
    bench: Bench, statement: ddl.MetastoreStatement, lock_timeout_s: float = 5.0
) -> DefinitionOutcome:
    terms = job_terms(None, lock_timeout_s=lock_timeout_s, clock=bench.clock)
    return run_statement(bench.clients[0], statement, terms)


def test_a_sequence_of_definitions_creates_alters_renames_and_drops_a_table(
    bench: Bench, client: MetastorePort
) -> None:
    name = f"{bench.db}.t"
    run(
        bench,
        ddl.CreateTable(
            target=name,
            columns=(ID,),
            partition_columns=(ddl.NewColumn(name="day", type="date", comment="of the order"),),
            comment="orders",
            properties=(("a", "1"),),
        ),
    )
    days = [ddl.NewPartition(values=(("day", f"2020-01-0{n}"),)) for n in (1, 2, 3)]
    run(bench, ddl.AddPartitions(target=name, partitions=tuple(days)))
    run(bench, ddl.AddColumns(target=name, columns=(NOTE,), cascade=True))
    run(
        bench,
        ddl.ChangeColumn(target=name, column=ddl.NewColumn(name="id", type="bigint"), cascade=True),
    )
    run(bench, ddl.SetProperties(target=name, properties=(("b", "2"),)))
    run(bench, ddl.UnsetProperties(target=name, names=("a",)))
    run(bench, ddl.DropPartitions(target=name, partitions=(days[1].values,)))
    run(bench, ddl.RenameTable(target=name, new_name=f"{bench.db}.u"))
    table = client.get_table(TableRef(bench.db, "u"))
    assert table.kind is TransactionalKind.FULL_ACID
    assert table.columns == (Column(name="id", type="bigint"), Column(name="note", type="string"))
    assert {k: v for k, v in table.parameters.items() if k in {"a", "b", "comment"}} == {
        "b": "2",
        "comment": "orders",
    }
    assert table.location.endswith(f"/{bench.db}.db/u")
    assert [(str(p.name), p.location) for p in client.list_partitions(table)] == [
        (f"day=2020-01-0{n}", f"{table.location}/day=2020-01-0{n}") for n in (1, 3)
    ]
    with pytest.raises(errors.TableNotFoundError):
        client.get_table(TableRef.parse(name))
    run(bench, ddl.DropTable(target=f"{bench.db}.u", purge=True))
    assert client.list_tables(bench.db) == ()
    assert client.show_locks(TableRef.parse(name)) == ()


def test_partitions_get_new_columns_only_with_cascade(bench: Bench, client: MetastorePort) -> None:
    table = bench.table(
        kind=TransactionalKind.INSERT_ONLY,
        partition_columns=(Column(name="month", type="string"),),
    )
    client.add_partitions(table, [month("1")])
    note, more = Column(name="note", type="string"), Column(name="more", type="int")
    client.change_table(table.ref, TableChange(added=(note,), cascade=True))
    changed = client.get_table(table.ref)
    (partition,) = client.list_partitions(changed)
    assert changed.columns == (*table.columns, note)
    assert partition.columns is None
    client.change_table(table.ref, TableChange(added=(more,)))
    again = client.get_table(table.ref)
    assert again.columns == (*table.columns, note, more)
    (partition,) = client.list_partitions(again)
    assert partition.columns == (*table.columns, note)


@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_column_comments_are_kept_and_set(bench: Bench, client: MetastorePort) -> None:
    name = f"{bench.db}.t"
    table = ddl.CreateTable(
        target=name, columns=(ddl.NewColumn(name="id", type="int", comment="key"),)
    )
    run(bench, table)
    run(bench, ddl.AddColumns(target=name, columns=(NOTE,)))
    run(bench, ddl.ChangeColumn(target=name, column=ddl.NewColumn(name="id", type="bigint")))
    raw = client._raw_table(TableRef.parse(name))  # type: ignore[attr-defined]
    assert [(f.name, f.type, f.comment) for f in raw.sd.cols] == [
        ("id", "bigint", "key"),
        ("note", "string", "new"),
    ]


def test_a_renamed_table_keeps_its_write_ids_and_its_compaction_queue(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    for _ in range(2):
        started = start(client, access(table, conflicts.DataOperation.INSERT))
        commit(client, started.txn_id)
    aborted = start(client, access(table, conflicts.DataOperation.UPDATE))
    client.abort_txn(aborted.txn_id)
    client.request_compaction(table.ref, None, CompactionType.MAJOR)
    new = TableRef(bench.db, "renamed")
    run(bench, ddl.RenameTable(target=str(table.ref), new_name=str(new)))
    assert client.get_table(new).table_id == table.table_id
    ids = client.valid_write_ids([new], client.valid_txns())[new]
    assert (ids.high_watermark, ids.aborted) == (3, (3,))
    assert [e.table for e in client.show_compactions(new)] == [new]
    again = bench.table()
    fresh = client.valid_write_ids([again.ref], client.valid_txns())[again.ref]
    assert fresh.high_watermark == 0


def test_a_table_cannot_be_renamed_to_the_name_of_an_existing_table(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    other = bench.table("other")
    with pytest.raises(errors.MetastoreCallError, match="already exists"):
        client.change_table(table.ref, TableChange(name=other.ref))
    with pytest.raises(errors.DefinitionError):
        run(bench, ddl.RenameTable(target=str(table.ref), new_name=str(other.ref)))


def test_a_definition_waits_for_readers_and_the_error_names_their_transaction(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2")
    reading = start(client, access(table, conflicts.DataOperation.SELECT, partitions=(month("1"),)))
    for statement in (
        ddl.DropTable(target=str(table.ref)),
        ddl.AddColumns(target=str(table.ref), columns=(NOTE,)),
        ddl.DropPartitions(target=str(table.ref), partitions=((("month", "1"),),)),
    ):
        with pytest.raises(errors.LockNotAcquiredError, match=f"transaction {reading.txn_id}"):
            run(bench, statement, lock_timeout_s=0.2)
    elsewhere = ddl.DropPartitions(target=str(table.ref), partitions=((("month", "2"),),))
    assert run(bench, elsewhere).has_changed
    (row,) = run(bench, ddl.ShowLocks(target=str(table.ref))).rows
    assert (row["txn_id"], row["partition"], row["type"]) == (
        reading.txn_id,
        "month=1",
        conflicts.LockType.SHARED_READ.value,
    )
    told = run(bench, ddl.ShowTransactions()).rows
    assert reading.txn_id in {one["txn_id"] for one in told if one["state"] == "open"}
    commit(client, reading.txn_id)
    assert run(bench, ddl.DropTable(target=str(table.ref))).has_changed
    assert client.list_tables(bench.db) == ()


def test_a_definition_allocates_no_write_id_and_conflicts_with_no_write(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    client.change_table(table.ref, TableChange(added=(Column(name="x", type="int"),)))
    writing = start(client, access(table, conflicts.DataOperation.UPDATE))
    commit(client, writing.txn_id)
    assert run(
        bench, ddl.SetProperties(target=str(table.ref), properties=(("a", "b"),))
    ).has_changed
    ids = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    assert (ids.high_watermark, ids.aborted, ids.open) == (1, (), ())


def test_dropping_partitions_removes_only_the_named_ones(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.partitioned("1", "2", "Q 3/=")
    births = client.partition_births(table, [month("1"), month("Q 3/="), month("9")])
    assert set(births) == {month("1"), month("Q 3/=")}
    assert all(born > 0 for born in births.values())
    client.drop_partitions(table, [month("1"), month("Q 3/="), month("9")])
    assert client.partition_names(table) == (month("2"),)
    client.drop_partitions(table, [month("1")])


def test_a_partition_is_created_in_the_given_location(
    bench: Bench, client: MetastorePort, tmp_path: Path
) -> None:
    table = bench.partitioned()
    place = f"file:{tmp_path}/elsewhere"
    client.add_partitions(table, [month("1"), month("2")], locations={month("1"): place})
    found = {str(p.name): p.location for p in client.list_partitions(table)}
    assert found["month=2"] == f"{table.location}/month=2"
    assert Path(found["month=1"].removeprefix("file:")) == tmp_path / "elsewhere"
