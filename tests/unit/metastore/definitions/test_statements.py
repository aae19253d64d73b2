from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import Column, FileFormat, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.jobs import metastore_statements as ddl
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.definitions import Before, DefinitionOutcome
from airflow_hiveacid.metastore.definitions.statements import locked, run_statement
from airflow_hiveacid.metastore.locks import components_to_define
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions import JobTerms
from tests.contract.bench import access, start
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

NAME = "default.t"
REF = TableRef.parse(NAME)
NOTE = ddl.NewColumn(name="note", type="string")
LOST = errors.MetastoreUnavailableError(uris=("thrift://hms:9083",), method="x", reason="gone")


class Statements:
    """Runs statements as one task after another, and what an earlier try had noted."""

    def __init__(self, client: FakeClient, clock: ManualClock) -> None:
        self.client = client
        self.terms = job_terms(None, lock_timeout_s=10.0, clock=clock)
        self.noted: list[Before] = []

    def run(
        self, statement: ddl.MetastoreStatement, before: Before | None = None
    ) -> DefinitionOutcome:
        return run_statement(
            self.client, statement, self.terms, before=before, on_begin=self.noted.append
        )

    def lose(self, method: str, statement: ddl.MetastoreStatement) -> Before:
        """Runs one whose answer is lost after it was done; gives what its try has noted."""
        self.client.server.break_next(method, LOST, is_done=True)
        with pytest.raises(errors.MetastoreUnavailableError):
            self.run(statement)
        return self.noted[-1]


@pytest.fixture
def statements(client: FakeClient, clock: ManualClock) -> Statements:
    return Statements(client, clock)


def create(**more: Any) -> ddl.CreateTable:  # noqa: ANN401
    columns = (ddl.NewColumn(name="id", type="bigint"),)
    return ddl.CreateTable(**{"target": NAME, "columns": columns, **more})


@pytest.fixture
def made(statements: Statements) -> TableInfo:
    day = (ddl.NewColumn(name="day", type="int"),)
    statements.run(create(partition_columns=day))
    return statements.client.get_table(REF)


def partitions(client: FakeClient) -> list[str]:
    return [str(p.name) for p in client.list_partitions(client.get_table(REF))]


def drop(*days: str, **more: Any) -> ddl.DropPartitions:  # noqa: ANN401
    return ddl.DropPartitions(target=NAME, partitions=tuple((("day", d),) for d in days), **more)


def add(*days: str, **more: Any) -> ddl.AddPartitions:  # noqa: ANN401
    new = tuple(ddl.NewPartition(values=(("day", d),)) for d in days)
    return ddl.AddPartitions(target=NAME, partitions=new, **more)


# Creation


def test_a_table_is_created_as_it_was_defined(statements: Statements) -> None:
    asked = create(
        columns=(ddl.NewColumn(name="id", type="bigint", comment="key"),),
        partition_columns=(ddl.NewColumn(name="day", type="date"),),
        bucket_columns=("id",),
        num_buckets=3,
        comment="of people",
        properties=(("orc.compress", "ZLIB"),),
    )
    assert statements.run(asked).has_changed
    table = statements.client.get_table(REF)
    assert (table.kind, table.storage.format) == (TransactionalKind.FULL_ACID, FileFormat.ORC)
    assert (table.bucket_columns, table.num_buckets) == (("id",), 3)
    assert table.partition_columns == (Column(name="day", type="date"),)
    found = {k: table.parameters[k] for k in ("comment", "orc.compress", "transactional")}
    assert found == {"comment": "of people", "orc.compress": "ZLIB", "transactional": "true"}
    assert statements.client.show_locks() == ()


def test_creating_an_existing_table_raises_unless_if_not_exists_is_given(
    statements: Statements,
) -> None:
    statements.run(create())
    assert not statements.run(create(if_not_exists=True)).has_changed
    with pytest.raises(
        errors.DefinitionError, match="exists already; write CREATE TABLE IF NOT EXISTS"
    ):
        statements.run(create())
    other = (ddl.NewColumn(name="id", type="int"),)
    with pytest.raises(errors.TableDiffersError, match="id bigint instead of id int"):
        statements.run(create(columns=other, if_not_exists=True))


def test_a_retry_of_a_creation_with_a_lost_response_finds_its_table(statements: Statements) -> None:
    before = statements.lose("create_table", create())
    assert not statements.run(create(), before).has_changed
    other = create(columns=(ddl.NewColumn(name="id", type="int"),))
    with pytest.raises(errors.TableDiffersError):
        statements.run(other, before)


def test_a_table_property_that_would_change_the_kind_of_table_is_refused(
    statements: Statements,
) -> None:
    with pytest.raises(errors.ConfigurationError, match="cannot be set"):
        statements.run(create(properties=(("EXTERNAL", "TRUE"),)))


def test_a_database_is_created_once(statements: Statements) -> None:
    asked = ddl.CreateDatabase(target="fresh")
    assert statements.run(asked).has_changed
    assert not statements.run(replace(asked, if_not_exists=True)).has_changed
    assert not statements.run(asked, Before()).has_changed
    with pytest.raises(errors.ConfigurationError, match="exists already"):
        statements.run(asked)


# Removal


def test_a_table_is_dropped_once(statements: Statements, made: TableInfo) -> None:
    assert statements.run(ddl.DropTable(target=NAME)).txn_id is not None
    assert statements.client.list_tables("default") == ()
    assert not statements.run(ddl.DropTable(target=NAME, if_exists=True)).has_changed
    with pytest.raises(errors.TableNotFoundError):
        statements.run(ddl.DropTable(target=NAME))
    assert made.ref == REF


def test_a_retry_of_a_drop_with_a_lost_response_spares_a_table_created_meanwhile(
    statements: Statements, made: TableInfo
) -> None:
    before = statements.lose("drop_table", ddl.DropTable(target=NAME))
    assert before == Before(table_id=made.table_id)
    assert not statements.run(ddl.DropTable(target=NAME), before).has_changed
    another = Before(table_id="0.0")
    statements.run(create())
    assert not statements.run(ddl.DropTable(target=NAME), another).has_changed
    assert statements.client.list_tables("default") == ("t",)


def test_a_failed_drop_is_done_by_the_next_try(statements: Statements, made: TableInfo) -> None:
    statements.client.server.break_next("drop_table", LOST, is_done=False)
    with pytest.raises(errors.MetastoreUnavailableError):
        statements.run(ddl.DropTable(target=NAME))
    assert statements.run(ddl.DropTable(target=NAME), statements.noted[-1]).has_changed
    assert made.ref.name not in statements.client.list_tables("default")


def test_only_transactional_tables_are_changed(statements: Statements) -> None:
    columns = (Column(name="id", type="bigint"),)
    statements.client.create_table(NewTable(ref=REF, columns=columns, kind=TransactionalKind.NONE))
    asked: list[ddl.MetastoreStatement] = [
        ddl.DropTable(target=NAME),
        ddl.AddColumns(target=NAME, columns=(NOTE,)),
        ddl.RenameTable(target=NAME, new_name="default.u"),
        ddl.SetProperties(target=NAME, properties=(("a", "b"),)),
    ]
    for statement in asked:
        with pytest.raises(errors.NotTransactionalError):
            statements.run(statement)
    assert statements.client.open_txns_info() == ()


# Columns


def test_columns_are_added_after_the_existing_ones(statements: Statements, made: TableInfo) -> None:
    asked = ddl.AddColumns(target=NAME, columns=(NOTE, ddl.NewColumn(name="n", type="INTEGER")))
    before = statements.lose("change_table", asked)
    table = statements.client.get_table(REF)
    assert [(c.name, c.type) for c in table.columns] == [
        ("id", "bigint"),
        ("note", "string"),
        ("n", "int"),
    ]
    assert table.partition_columns == made.partition_columns
    assert not statements.run(asked, before).has_changed
    with pytest.raises(errors.DefinitionError, match="has a column 'note' already"):
        statements.run(asked)
    other = replace(asked, columns=(ddl.NewColumn(name="n", type="bigint"),))
    with pytest.raises(errors.DefinitionError, match="has a column 'n' already"):
        statements.run(other, before)


@pytest.mark.parametrize("name", ["id", "day"])
def test_a_column_is_not_added_twice(statements: Statements, made: TableInfo, name: str) -> None:
    with pytest.raises(errors.DefinitionError, match=f"has a column '{name}' already"):
        statements.run(ddl.AddColumns(target=NAME, columns=(ddl.NewColumn(name=name, type="int"),)))
    assert statements.client.get_table(REF) == made


def test_cascade_is_refused_for_an_unpartitioned_table(statements: Statements) -> None:
    statements.run(create())
    asked: list[ddl.MetastoreStatement] = [
        ddl.AddColumns(target=NAME, columns=(NOTE,), cascade=True),
        ddl.ChangeColumn(target=NAME, column=ddl.NewColumn(name="id", type="bigint"), cascade=True),
    ]
    for statement in asked:
        with pytest.raises(errors.DefinitionError, match="leave CASCADE out"):
            statements.run(statement)


def test_a_column_type_may_be_widened(statements: Statements) -> None:
    statements.run(create(columns=(ddl.NewColumn(name="id", type="int"),)))
    asked = ddl.ChangeColumn(target=NAME, column=ddl.NewColumn(name="id", type="bigint"))
    assert statements.run(asked).has_changed
    assert statements.client.get_table(REF).columns == (Column(name="id", type="bigint"),)
    assert not statements.run(asked).has_changed
    commented = replace(asked, column=ddl.NewColumn(name="id", type="bigint", comment="x"))
    assert statements.run(commented).has_changed


@pytest.mark.parametrize(
    ("changes", "column", "error", "message"),
    [
        ({}, ("x", "int"), errors.UnknownColumnError, "has no column 'x'; it has id"),
        (
            {},
            ("id", "int"),
            errors.DefinitionError,
            "cannot become int: readers of .* all convert bigint",
        ),
        ({}, ("id", "string"), errors.DefinitionError, "cannot become string"),
        (
            {"partition_columns": (ddl.NewColumn(name="day", type="int"),)},
            ("day", "bigint"),
            errors.DefinitionError,
            "partition column",
        ),
        (
            {
                "columns": (ddl.NewColumn(name="id", type="int"),),
                "bucket_columns": ("id",),
                "num_buckets": 2,
            },
            ("id", "bigint"),
            errors.DefinitionError,
            "is bucketed by column 'id'",
        ),
        (
            {
                "columns": (ddl.NewColumn(name="id", type="int"),),
                "insert_only": True,
                "stored_as": "parquet",
            },
            ("id", "bigint"),
            errors.DefinitionError,
            "is stored as Parquet",
        ),
    ],
)
def test_a_column_change_that_readers_would_interpret_differently_is_refused(
    statements: Statements,
    changes: dict[str, Any],
    column: tuple[str, str],
    error: type[errors.InputError],
    message: str,
) -> None:
    statements.run(create(**changes))
    name, type_ = column
    with pytest.raises(error, match=message):
        statements.run(ddl.ChangeColumn(target=NAME, column=ddl.NewColumn(name=name, type=type_)))


# Names and parameters


def test_a_renamed_table_keeps_its_write_ids(statements: Statements, made: TableInfo) -> None:
    client = statements.client
    started = start(client, access(made, DataOperation.INSERT))
    client.commit_txn(started.txn_id)
    asked = ddl.RenameTable(target=NAME, new_name="default.u")
    before = statements.lose("change_table", asked)
    assert client.list_tables("default") == ("u",)
    assert not statements.run(asked, before).has_changed
    with pytest.raises(errors.TableNotFoundError):
        statements.run(asked)
    new = TableRef.parse("default.u")
    assert client.valid_write_ids([new], client.valid_txns())[new].high_watermark == 1


def test_a_table_cannot_be_renamed_to_the_name_of_an_existing_table(
    statements: Statements, made: TableInfo
) -> None:
    statements.run(create(target="default.u"))
    asked = ddl.RenameTable(target=NAME, new_name="default.u")
    with pytest.raises(errors.DefinitionError, match=r"cannot be renamed to default\.u"):
        statements.run(asked)
    with pytest.raises(errors.DefinitionError):
        statements.run(asked, Before(table_id=made.table_id))


def test_table_properties_are_set_and_removed(statements: Statements) -> None:
    statements.run(create())
    asked = ddl.SetProperties(target=NAME, properties=(("a", "1"), ("b", "2")))
    assert statements.run(asked).has_changed
    assert not statements.run(asked).has_changed
    unset = ddl.UnsetProperties(target=NAME, names=("a", "x"))
    with pytest.raises(errors.DefinitionError, match="has no property 'x'"):
        statements.run(unset)
    assert statements.run(replace(unset, if_exists=True)).has_changed
    left = statements.client.get_table(REF).parameters
    assert "a" not in left
    assert left["b"] == "2"
    assert not statements.run(replace(unset, if_exists=True)).has_changed


@pytest.mark.parametrize(
    "statement",
    [
        ddl.SetProperties(target=NAME, properties=(("transactional", "false"),)),
        ddl.UnsetProperties(target=NAME, names=("transactional_properties",), if_exists=True),
    ],
)
def test_the_transactional_properties_of_a_table_cannot_be_changed(
    statements: Statements, statement: ddl.MetastoreStatement
) -> None:
    statements.run(create())
    with pytest.raises(errors.DefinitionError, match="cannot be changed"):
        statements.run(statement)


# Partitions


def test_partitions_are_added_and_dropped_by_value(statements: Statements, made: TableInfo) -> None:
    client = statements.client
    outcome = statements.run(add("1", "02", "3"))
    assert [str(name) for name in outcome.partitions] == ["day=1", "day=2", "day=3"]
    with pytest.raises(errors.DefinitionError, match="has partition day=2 already"):
        statements.run(add("2", "4"))
    assert statements.run(add("2", "4", if_not_exists=True)).partitions == (
        made.partition_name(["4"]),
    )
    assert not statements.run(add("2", if_not_exists=True)).has_changed
    assert statements.run(drop("01", "4")).has_changed
    assert partitions(client) == ["day=2", "day=3"]
    with pytest.raises(errors.PartitionNotFoundError):
        statements.run(drop("2", "9"))
    assert statements.run(drop("2", "9", if_exists=True)).has_changed
    assert partitions(client) == ["day=3"]
    assert not statements.run(drop("9", if_exists=True)).has_changed


def test_a_drop_with_some_partition_values_drops_all_matching_partitions(
    statements: Statements,
) -> None:
    columns = (ddl.NewColumn(name="day", type="int"), ddl.NewColumn(name="hour", type="string"))
    statements.run(create(partition_columns=columns))
    for day, hour in (("1", "a"), ("1", "b"), ("2", "a")):
        values = (("hour", hour), ("day", day))
        statements.run(
            ddl.AddPartitions(target=NAME, partitions=(ddl.NewPartition(values=values),))
        )
    statements.run(drop("1"))
    assert partitions(statements.client) == ["day=2/hour=a"]


def test_a_new_partition_outside_the_table_is_refused(
    statements: Statements, made: TableInfo
) -> None:
    new = ddl.NewPartition(values=(("day", "1"),), location="file:/elsewhere")
    asked = ddl.AddPartitions(target=NAME, partitions=(new,), if_not_exists=True)
    with pytest.raises(errors.DefinitionError, match=r"day=1 at file:/elsewhere.*LOAD DATA INPATH"):
        statements.run(asked)
    assert statements.client.list_partitions(made) == ()
    its_own = replace(new, location=f"{made.location}/day=1")
    assert statements.run(replace(asked, partitions=(its_own,))).has_changed
    assert partitions(statements.client) == ["day=1"]


def test_an_existing_partition_outside_the_table_is_accepted_only_at_its_location(
    statements: Statements, made: TableInfo
) -> None:
    new = ddl.NewPartition(values=(("day", "1"),), location="file:/elsewhere")
    asked = ddl.AddPartitions(target=NAME, partitions=(new,), if_not_exists=True)
    name = made.partition_name(["1"])
    statements.client.add_partitions(made, [name], locations={name: "file:/elsewhere"})
    assert not statements.run(asked).has_changed
    other = replace(asked, partitions=(replace(new, location="file:/other"),))
    with pytest.raises(errors.DefinitionError, match="at file:/elsewhere, not at file:/other"):
        statements.run(other)


def test_a_retry_finds_added_partitions_whose_response_was_lost(
    statements: Statements, made: TableInfo
) -> None:
    before = statements.lose("add_partitions", add("1", "2"))
    assert not statements.run(add("1", "2"), before).has_changed
    assert before.is_of(made)


def test_a_retry_of_a_partition_drop_spares_a_partition_added_meanwhile(
    statements: Statements, made: TableInfo, clock: ManualClock
) -> None:
    statements.run(add("1", "2"))
    before = statements.lose("drop_partitions", drop("1", "2"))
    assert not statements.run(drop("1", "2"), before).has_changed
    clock.advance(1)
    statements.run(add("2"))
    assert not statements.run(drop("1", "2"), before).has_changed
    assert partitions(statements.client) == ["day=2"]
    assert before.is_of(made)


def test_a_failed_partition_drop_is_done_by_the_next_try(
    statements: Statements, made: TableInfo
) -> None:
    statements.run(add("1", "2"))
    statements.client.server.break_next("drop_partitions", LOST, is_done=False)
    with pytest.raises(errors.MetastoreUnavailableError):
        statements.run(drop("1", "2"))
    assert statements.run(drop("1", "2"), statements.noted[-1]).has_changed
    assert partitions(statements.client) == []
    assert made.is_partitioned


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((("month", "1"),), "'month' is not one of its partition columns, which are day"),
        ((("day", "x"),), "'x' is not a valid value of a partition column of int"),
        ((("day", None),), "'day' is None, which Hive stores as NULL"),
        ((("day", ""),), "'day' is '', which Hive stores as NULL"),
    ],
)
def test_invalid_partition_values_are_refused(
    statements: Statements, made: TableInfo, values: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        statements.run(ddl.DropPartitions(target=NAME, partitions=(values,), if_exists=True))
    assert made.is_partitioned


def test_a_misspelt_setting_of_ours_cannot_be_set_but_can_be_removed(
    statements: Statements, made: TableInfo
) -> None:
    wrong = "hiveacid.readable_for"
    with pytest.raises(
        errors.DefinitionError, match=r"no such setting exists, only .*readable\.for"
    ):
        statements.run(ddl.SetProperties(target=NAME, properties=((wrong, "7 days"),)))
    with pytest.raises(errors.ConfigurationError, match="no such setting exists"):
        statements.run(create(properties=((wrong, "7 days"),)))
    statements.run(ddl.UnsetProperties(target=NAME, names=(wrong,), if_exists=True))
    statements.run(
        ddl.SetProperties(target=NAME, properties=(("hiveacid.readable.for", "7 days"),))
    )
    assert made.is_partitioned


def test_adding_a_partition_to_an_unpartitioned_table_is_refused(statements: Statements) -> None:
    statements.run(create())
    with pytest.raises(errors.UnsupportedTableError, match="has no partitions"):
        statements.run(add("1"))


# Locks


EXCLUSIVE = [
    ddl.DropTable(target=NAME),
    ddl.AddColumns(target=NAME, columns=(NOTE,)),
    ddl.RenameTable(target=NAME, new_name="default.u"),
    ddl.SetProperties(target=NAME, properties=(("a", "b"),)),
    ddl.DropPartitions(target=NAME, partitions=((("day", "1"),),)),
]


@pytest.mark.parametrize("statement", EXCLUSIVE, ids=lambda s: s.kind)
def test_a_definition_cannot_change_while_a_reader_holds_a_lock(
    statements: Statements, made: TableInfo, statement: ddl.MetastoreStatement
) -> None:
    statements.run(add("1"))
    client = statements.client
    reading = start(client, access(made, DataOperation.INSERT))
    before = client.get_table(REF), partitions(client)
    noted = len(statements.noted)
    with pytest.raises(errors.LockNotAcquiredError):
        statements.run(statement)
    assert (client.get_table(REF), partitions(client)) == before
    assert len(statements.noted) == noted
    assert {lock.txn_id for lock in client.show_locks()} == {reading.txn_id}
    client.commit_txn(reading.txn_id)
    assert statements.run(statement).has_changed
    assert client.show_locks() == ()


def test_partitions_are_added_while_other_transactions_are_open(
    statements: Statements, made: TableInfo
) -> None:
    reading = start(statements.client, access(made, DataOperation.UPDATE))
    assert statements.run(add("1")).has_changed
    statements.client.abort_txn(reading.txn_id)


def test_a_change_during_the_lock_wait_is_seen_by_the_statement(
    statements: Statements, made: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = statements.client
    lock = client.lock

    def overtaken(request: Any) -> Any:  # noqa: ANN401
        answer = lock(request)
        client.drop_table(REF)
        return answer

    monkeypatch.setattr(client, "lock", overtaken)
    with pytest.raises(errors.TableNotFoundError):
        statements.run(ddl.DropTable(target=NAME))
    assert statements.noted[1:] == []
    assert {t.state for t in client.open_txns_info()} == {TxnState.ABORTED}
    assert made.ref == REF


def test_mixed_case_partitions_are_locked_alone_on_hive_4_and_with_the_table_on_hive_3(
    statements: Statements, made: TableInfo, server: FakeMetastore
) -> None:
    names = (made.partition_name(["Q1"]), made.partition_name(["1"]))
    found = components_to_define(REF, names, LockType.EXCLUSIVE, server.generation)
    places = [str(c.partition) for c in found]
    alone = server.generation is MetastoreGeneration.V4
    assert places == (["day=1", "day=Q1"] if alone else ["None"])
    assert statements.client.show_locks() == ()


@pytest.mark.usefixtures("made")
def test_a_newer_copy_of_the_task_fences_an_older_one(
    client: FakeClient, clock: ManualClock, statements: Statements
) -> None:
    def terms(try_number: int) -> JobTerms:
        attempt = AttemptId.new(try_number)
        return job_terms("d/r/t/-1", lock_timeout_s=10.0, attempt=attempt, clock=clock)

    components = components_to_define(REF, (), LockType.EXCLUSIVE, client.generation)
    with locked(client.clone(), components, terms(1)):
        run_statement(client, ddl.SetProperties(target=NAME, properties=(("a", "1"),)), terms(2))
    drop = ddl.DropTable(target=NAME)
    with locked(client.clone(), components, terms(2)), pytest.raises(errors.FencedError):
        run_statement(client, drop, terms(1))
    assert client.get_table(REF).parameters["a"] == "1"
    assert client.show_locks() == ()
    assert statements.run(drop).has_changed


@pytest.mark.usefixtures("made")
def test_a_statement_that_lost_its_locks_to_a_newer_copy_changes_nothing(
    client: FakeClient, clock: ManualClock, statements: Statements
) -> None:
    def terms(try_number: int) -> JobTerms:
        attempt = AttemptId.new(try_number)
        return job_terms("d/r/t/-1", lock_timeout_s=10.0, attempt=attempt, clock=clock)

    statements.run(add("1"))
    drop = ddl.DropPartitions(target=NAME, partitions=((("day", "1"),),))

    @contextmanager
    def slow_store(*_: object) -> Iterator[None]:
        run_statement(client.clone(), drop, terms(2))
        statements.run(add("1"))  # by another job
        yield

    with pytest.raises(errors.TransactionAbortedError):
        run_statement(client, drop, terms(1), around_drop=slow_store)
    assert [str(p.name) for p in client.list_partitions(client.get_table(REF))] == ["day=1"]


# Questions


def test_show_locks_show_transactions_and_abort_return_their_rows(
    statements: Statements, made: TableInfo
) -> None:
    statements.run(add("1", "2"))
    client = statements.client
    name = made.partition_name(["1"])
    holding = start(client, access(made, DataOperation.DELETE, partitions=(name,)))
    rows = statements.run(ddl.ShowLocks()).rows
    assert [(r["table"], r["partition"], r["type"], r["state"]) for r in rows] == [
        (NAME, "day=1", "shared_write", "acquired")
    ]
    at = ddl.ShowLocks(target=NAME, partition=(("day", "01"),))
    assert statements.run(at).rows == rows
    assert statements.run(replace(at, partition=(("day", "2"),))).rows == []
    txns = statements.run(ddl.ShowTransactions()).rows
    assert [(t["txn_id"], t["state"]) for t in txns] == [(holding.txn_id, "open")]
    ended = statements.run(ddl.AbortTransactions(txn_ids=(holding.txn_id, 999))).rows
    assert ended == [
        {"txn_id": holding.txn_id, "is_aborted": True},
        {"txn_id": 999, "is_aborted": False},
    ]
    assert client.show_locks() == ()


def test_show_compactions_returns_the_queue_entries(
    statements: Statements, made: TableInfo
) -> None:
    statements.run(add("1", "2"))
    for day in ("1", "2"):
        name = made.partition_name([day])
        statements.client.request_compaction(REF, name, CompactionType.MAJOR)
    rows = statements.run(ddl.ShowCompactions(target=NAME, partition=(("day", "2"),))).rows
    assert [(r["table"], r["partition"], r["type"], r["state"]) for r in rows] == [
        (NAME, "day=2", "major", "initiated")
    ]
    assert len(statements.run(ddl.ShowCompactions()).rows) == 2
    assert statements.noted[1:] == [Before(table_id=made.table_id)]
