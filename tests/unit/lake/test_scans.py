"""Connections, and scans of tables: their rows, types and snapshots, and what they refuse."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gc
import os
import shutil
import sys
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_hiveacid import acid
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    ExpressionError,
    MetastoreUnavailableError,
    NotTransactionalError,
    SnapshotClosedError,
    SparkNeededError,
    TableChangedError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFileError,
    VersionUnknownError,
)
from airflow_hiveacid.format.table import Column, FileFormat, TableRef, TransactionalKind
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.table import Table
from airflow_hiveacid.metastore.port import TxnState
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import COLUMNS, ROW
from tests.unit.lake.lakes import DAY, T, Warehouse, ids, rows
from tests.unit.storage.orc_tables import event, tombstone, write_acid

JAN = dt.date(2026, 1, 1)
FEB = dt.date(2026, 2, 1)
WRITER = "airflow_hiveacid.storage.acid.write.writer"


def open_txns(server: FakeMetastore) -> int:
    return Counter(txn.state for txn in server.txns.values())[TxnState.OPEN]


def test_a_scan_gives_the_columns_and_rows_that_are_asked_for(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    table = lake.table("default.S")
    table.append(rows(1, 2, 3, name=["a", None, "c"], price=[Decimal("1.50"), None, None]))
    table.delete("id = 3")
    assert table.scan().to_arrow().to_pylist() == [
        {"id": 1, "name": "a", "price": Decimal("1.50")},
        {"id": 2, "name": None, "price": None},
    ]
    found = table.scan(["price", "ID"], "name IS NULL OR id > :id", parameters={"id": 7})
    assert found.to_arrow().to_pylist() == [{"price": None, "id": 2}]
    assert found.schema.names == ["price", "id"]
    assert found.to_arrow().schema == found.schema
    assert table.scan(["id"], "id > 9").to_arrow().num_rows == 0
    assert repr(found) == "<scan of default.s now: price, id, with a condition>"


def test_a_scan_reads_only_the_partitions_of_its_condition(
    dated: Table, warehouse: Warehouse
) -> None:
    dated.append(rows(1, 2, day=[JAN, FEB]))
    dated.append(rows(3, day=None))
    assert dated.scan().to_arrow().column("day").type == pa.date32()
    assert ids(dated, "day = DATE '2026-02-01'") == [2]
    assert ids(dated, "day IS NULL") == [3]
    assert ids(dated, "day < :day AND id < 9 OR id = 3", parameters={"day": FEB}) == [1, 3]
    for path in (warehouse.root / "s").rglob("day=2026-01-01/*/bucket*"):
        path.write_bytes(b"no ORC file")
    assert ids(dated.refresh(), "day >= DATE '2026-01-02'") == [2]


def test_a_partition_value_whose_time_zone_only_readers_know_is_refused_if_it_is_asked_for(
    warehouse: Warehouse, lake: Lake, client: FakeClient
) -> None:
    warehouse.create(
        partition_columns=(Column(name="at", type="timestamp with local time zone"), *DAY)
    )
    found = client.get_table(TableRef.parse(T))
    name = found.partition_name(["2026-01-01 00:00:00", "2026-01-01"])
    client.add_partitions(found, [name])
    (warehouse.root / "s" / str(name)).mkdir(parents=True)
    table = lake.table(T)
    with pytest.raises(
        SparkNeededError, match=r"default\.s: .* at is of type timestamp with local"
    ):
        table.scan().to_arrow()
    assert table.scan(["id", "day"]).to_arrow().num_rows == 0


@pytest.mark.parametrize("where", ["id = 2500", "day = DATE '1976-11-05'"])
def test_a_scan_reads_only_the_stripes_of_its_condition(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    warehouse.create(columns=(Column(name="id", type="int"), *DAY))
    monkeypatch.setattr(f"{WRITER}.stripe_row_limit", lambda _: 1000)
    monkeypatch.setattr("airflow_hiveacid.writing.event_files._BATCH_ROWS", 1000)
    table = lake.table(T)
    days = [dt.date(1970, 1, 1) + dt.timedelta(days=n) for n in range(3000)]
    table.append(rows(*range(3000), day=days))
    table.append(rows(*range(3000, 3010), day=[dt.date(2026, 1, 1)] * 10))
    assert ids(table, where) == [2500]
    pieces = table.scan(where=where)._plan.pieces
    assert [piece.work.stripes for piece in pieces] == [(2,)]


def test_a_row_change_of_hive_2_is_refused_also_if_statistics_exclude_its_file(
    table: Table, warehouse: Warehouse
) -> None:
    """Without the refusal, the row that it deletes would be shown."""
    table.append(rows(9))
    table.append(rows(8))
    root = warehouse.root / "s"
    shutil.rmtree(root / "delta_0000002_0000002_0000")
    for name, *events in (
        ("base_0000001", event(1, 0, _row(5))),
        ("delta_0000002_0000002", tombstone(1, 0, 2), event(2, 0, _row(100))),
    ):
        (root / name).mkdir()
        write_acid(root / name / "bucket_00000", events, row=ROW)
    with pytest.raises(UnsupportedFileError, match="before Hive 3"):
        table.scan(["id"], "id = 5").to_arrow()


def _row(number: int) -> dict[str, object]:
    return {"id": number, "name": "a", "price": None}


def test_several_threads_read_rows_in_a_fixed_order(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create(bucket_columns=("id",), num_buckets=4, partition_columns=DAY)
    table = lake.table(T)
    for start in range(0, 200, 40):
        table.append(rows(*range(start, start + 40), day=[JAN, FEB] * 20))
    first = table.scan(["id"]).to_arrow()
    assert first["id"].to_pylist() == table.scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(first["id"].to_pylist()) == list(range(200))
    small = list(table.scan(["id"]).to_batches())
    assert sum(batch.num_rows for batch in small) == 200


def test_every_type_comes_back_as_it_was_written(warehouse: Warehouse, lake: Lake) -> None:
    moment = dt.datetime(9999, 12, 31, 23, 59, 59, 1)  # noqa: DTZ001 - a wall clock
    values: dict[str, tuple[str, Any]] = {
        "a": ("timestamp", [moment, None]),
        "b": ("struct<x:int,y:array<string>>", [{"x": 1, "y": ["p", None]}, None]),
        "c": ("map<string,double>", [[("k", 1.5)], []]),
        "d": ("char(4)", ["ab", ""]),
        "e": ("binary", [b"\0", None]),
        "f": ("float", [0.5, None]),
        "g": ("boolean", [True, False]),
        "h": ("tinyint", [-1, 1]),
        "i": ("array<timestamp>", [[moment], None]),
    }
    columns = tuple(Column(name=name, type=type_) for name, (type_, _) in values.items())
    warehouse.create(columns=columns)
    table = lake.table(T)
    types = {"c": pa.map_(pa.string(), pa.float64())}
    given = pa.table({n: pa.array(v, types.get(n)) for n, (_, v) in values.items()})
    table.append(given)
    assert table.scan().to_arrow().to_pydict() == given.to_pydict()
    assert table.scan().schema == table.schema


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_insert_only_tables_are_read_and_appended_to(
    warehouse: Warehouse, lake: Lake, format_: FileFormat
) -> None:
    warehouse.create(
        kind=TransactionalKind.INSERT_ONLY,
        format=format_,
        partition_columns=DAY,
    )
    table = lake.table(T)
    table.append(rows(1, 2, name="a", day=[JAN, FEB]))
    table.overwrite(rows(3, name="b", day=JAN))
    assert ids(table) == [2, 3]
    assert ids(table, "name = 'b' AND day = DATE '2026-01-01'") == [3]


@pytest.mark.parametrize("format_", [FileFormat.PARQUET, FileFormat.AVRO])
def test_timestamps_of_insert_only_tables_come_back(
    warehouse: Warehouse, lake: Lake, format_: FileFormat
) -> None:
    types = {"id": "bigint", "t": "timestamp", "u": "timestamp", "v": "array<timestamp>"}
    columns = tuple(Column(name=name, type=type_) for name, type_ in types.items())
    warehouse.create(kind=TransactionalKind.INSERT_ONLY, format=format_, columns=columns)
    table = lake.table(T)
    moment = dt.datetime(2026, 1, 31, 12, 30, 1)  # noqa: DTZ001 - a wall clock
    table.append(pa.table({"id": [1], "t": pa.array([moment], pa.timestamp("s"))}))
    found = table.scan().to_arrow().to_pylist()
    assert found == [{"id": 1, "t": moment, "u": None, "v": None}]


# ---- snapshots -----------------------------------------------------------------------------------


def test_all_scans_of_a_table_show_one_point_in_time_until_a_refresh(
    table: Table, warehouse: Warehouse, server: FakeMetastore
) -> None:
    table.append(rows(1))
    assert ids(table) == [1]
    with warehouse.connect() as other:
        other.table(T).append(rows(2))
    old = table.scan(["id"])
    assert ids(table) == [1]
    assert open_txns(server) == 1
    assert ids(table.refresh()) == [1, 2]
    assert old.to_arrow().num_rows == 1
    del old
    gc.collect()
    assert open_txns(server) == 1


@pytest.mark.parametrize(
    ("changed", "changes"),
    [
        ("columns", {"columns": (Column(name="id", type="decimal(20,0)"), *COLUMNS[1:])}),
        ("location", {"location": "file:/elsewhere"}),
    ],
)
def test_a_scan_does_not_read_with_a_definition_that_has_changed(
    table: Table, server: FakeMetastore, changed: str, changes: dict[str, Any]
) -> None:
    """An old type may round or lose the values of new files; an old place has old rows."""
    table.append(rows(1))
    ref = TableRef.parse(T)
    server.tables[ref] = dataclasses.replace(server.tables[ref], **changes)
    with pytest.raises(TableChangedError, match=rf"{changed} changed since .*Call refresh\(\)"):
        table.scan()
    table.refresh()
    assert table.scan().schema == table.schema
    assert open_txns(server) == 1


def test_a_change_through_a_table_is_seen_by_its_next_scan(table: Table) -> None:
    table.append(rows(1))
    old = table.scan(["id"])
    table.append(old.to_arrow())
    assert ids(table) == [1, 1]
    assert old.to_arrow().num_rows == 1


def test_a_scan_of_a_closed_table_or_connection_says_so(
    table: Table, lake: Lake, server: FakeMetastore
) -> None:
    table.append(rows(1))
    scan, reader = table.scan(), table.scan().to_batches()
    table.close()
    assert open_txns(server) == 0
    with pytest.raises(SnapshotClosedError, match=r"default\.s: .* its table was closed"):
        scan.to_arrow()
    with pytest.raises(SnapshotClosedError):
        reader.read_all()
    early, scan = scan, table.scan()
    lake.close()
    lake.close()
    with pytest.raises(SnapshotClosedError, match=r"table was closed; .* Connect again"):
        early.to_arrow()
    with pytest.raises(
        SnapshotClosedError, match=r"is closed; .* Connect again with acid\.connect$"
    ):
        scan.to_arrow()
    with pytest.raises(ConfigurationError, match="this connection is closed"):
        lake.table(T)
    assert open_txns(server) == 0
    assert repr(lake) == "<closed connection to thrift://h:1>"


def test_a_scan_whose_transaction_has_timed_out_says_so(
    table: Table, server: FakeMetastore
) -> None:
    table.append(rows(1))
    scan = table.scan()
    for txn in server.txns.values():
        if txn.state is TxnState.OPEN:
            server.end(txn, TxnState.ABORTED)
    with pytest.raises(SnapshotClosedError, match="the metastore has ended its transaction"):
        scan.to_arrow()
    assert ids(table.refresh()) == [1]


def test_a_scan_that_was_read_before_its_transaction_timed_out_is_not_read_on(
    dated: Table, server: FakeMetastore, clock: ManualClock
) -> None:
    """A new table may have files of the same names in its place."""
    dated.append(rows(1, 2, day=[JAN, FEB]))
    scan = dated.scan(["id"])
    assert scan.to_arrow().num_rows == 2
    reader = scan.to_batches()
    assert reader.read_next_batch().num_rows == 1
    for txn in server.txns.values():
        if txn.state is TxnState.OPEN:
            server.end(txn, TxnState.ABORTED)
    with pytest.raises(SnapshotClosedError, match="the metastore has ended its transaction"):
        scan.to_arrow()
    clock.advance(21)
    with pytest.raises(SnapshotClosedError, match="the metastore has ended its transaction"):
        reader.read_next_batch()


def test_a_snapshot_ends_when_no_table_and_scan_needs_it(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore
) -> None:
    warehouse.create()
    lake.table(T).append(rows(1))
    assert lake.table(T).scan().to_arrow().num_rows == 1
    gc.collect()
    assert open_txns(server) == 0


@pytest.mark.parametrize("closes", [False, True])
def test_a_forked_process_does_not_end_a_snapshot_of_its_parent(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore, *, closes: bool
) -> None:
    warehouse.create()
    tables = [lake.table(T)]
    assert ids(tables[0]) == []
    child = os.fork()
    if child == 0:  # its metastore is a copy, in which a call of this process can be seen
        still_open = 0
        try:
            if closes:
                lake.close()
            tables.clear()
            gc.collect()
            still_open = open_txns(server)
        finally:
            os._exit(still_open)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert ids(tables[0]) == []
    tables.clear()
    gc.collect()
    assert open_txns(server) == 0


def test_a_cleaning_keeps_the_files_of_a_snapshot(table: Table, warehouse: Warehouse) -> None:
    table.append(rows(1))
    scan = table.scan(["id"])
    with warehouse.connect() as other:
        other.table(T).append(rows(2))
        other.table(T).clean()
    assert scan.to_arrow().num_rows == 1


# ---- connections -------------------------------------------------------------------------------


def test_a_connection_asks_the_metastore_only_for_a_table() -> None:
    metastore = acid.Metastore(uris=("thrift://127.0.0.1:1",), connect_timeout_s=0.1)
    with acid.connect(metastore) as lake:
        assert repr(lake) == "<connection to thrift://127.0.0.1:1>"
        with pytest.raises(MetastoreUnavailableError):
            lake.table("demo.orders")


def test_an_airflow_connection_needs_airflow() -> None:
    pytest.importorskip("pyspark", reason="Airflow's environment has Airflow")
    with pytest.raises(ConfigurationError, match=r"'hive_acid_default' needs Airflow.*Metastore"):
        acid.connect("hive_acid_default")


def test_a_connection_warns_once_of_settings_with_which_dead_readers_stay(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.create()
    with warehouse.connect() as lake:
        assert caplog.messages == []
        assert ids(lake.table(T)) == []
        lake.table(T).refresh()
    (warning,) = [text for text in caplog.messages if "does not end transactions" in text]
    assert warning.startswith("this metastore does not end transactions of clients that died")


# ---- versions ------------------------------------------------------------------------------------


def test_a_scan_reads_a_version(dated: Table, clock: ManualClock) -> None:
    del clock
    first = dated.append(rows(1, 2, day=[JAN, FEB]))
    dated.delete("id = 1")
    (number,) = first.write_ids.values()
    assert ids(dated, version=number) == [1, 2]
    assert ids(dated, "day = DATE '2026-01-01'", version=number) == [1]
    assert ids(dated) == [2]
    with pytest.raises(VersionUnknownError):
        ids(dated, version=99)
    with pytest.raises(ConfigurationError, match="mutually exclusive"):
        dated.scan(version=1, tag="closing")


# ---- libraries -----------------------------------------------------------------------------------


def test_scans_are_frames_of_libraries(table: Table) -> None:
    table.append(rows(1, 2, name=["a", "b"]))
    scan = table.scan(["id", "name"])
    assert scan.to_pandas()["name"].tolist() == ["a", "b"]
    assert pa.table(scan).num_rows == 2
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        assert relation.aggregate("sum(id)").fetchall() == [(3,)]
        assert relation.filter("id = 2").fetchall() == [(2, "b")]


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_missing_is_named(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    scan = table.scan()
    with pytest.raises(ConfigurationError, match=f"needs the package {name}.*pip install {name}"):
        getattr(scan, f"to_{name}")()


# ---- refusals ------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_refused_before_a_snapshot_is_taken(
    table: Table, lake: Lake, server: FakeMetastore
) -> None:
    with pytest.raises(UnknownColumnError, match="'nothing'"):
        table.scan(["nothing"])
    with pytest.raises(ExpressionError, match=r"'upper\(name\) = 1'.* without Spark, a condition"):
        table.scan(where="upper(name) = 1")
    with pytest.raises(ConfigurationError, match="no value for :id"):
        table.scan(where="id = :id")
    with pytest.raises(TableNotFoundError):
        lake.table("default.gone")
    assert not server.txns


def test_a_table_without_transactions_can_be_read_and_not_changed(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create(kind=TransactionalKind.NONE)
    table = lake.table(T)
    assert ids(table) == []
    with pytest.raises(NotTransactionalError):
        table.append(rows(1))
    with pytest.raises(NotTransactionalError):
        table.history()


def test_a_table_shows_its_columns(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create(partition_columns=DAY)
    shown = repr(lake.table(T))
    assert shown.startswith("table default.s (full_acid, ORC) at file:")
    assert "  id: bigint\n" in shown
    assert shown.endswith("  day: date (partition)")
