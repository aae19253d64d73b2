"""The command line with a metastore: it takes table names, and prints rows and directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import Listing
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionName,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.storage.acid.read import scan as scan_module
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.values.column_types import row_type
from tests.contract.fake_client import FakeClient
from tests.support.command_line import rows_in
from tests.unit.cli.commands import COLUMNS, Run, Warehouse
from tests.unit.storage.orc_tables import write_plain

MONTH = (Column(name="month", type="int"),)


@pytest.fixture
def plain(warehouse: Warehouse) -> TableRef:
    ref = warehouse.table("plain")
    warehouse.write(ref, [7, 8])
    return ref


@pytest.fixture
def monthly(warehouse: Warehouse) -> TableRef:
    ref = warehouse.table("monthly", partition_columns=MONTH)
    table = warehouse.client.get_table(ref)
    warehouse.client.add_partitions(table, [PartitionName.parse(f"month={m}") for m in (1, 2)])
    warehouse.write(ref, [7], partition="month=1")
    warehouse.write(ref, [8], partition="month=2")
    return ref


def test_scan_takes_columns_location_and_write_ids_from_the_metastore(
    plain: TableRef, run: Run
) -> None:
    assert rows_in(run("scan", str(plain), "-o", "json")) == [[7, "n7"], [8, "n8"]]
    assert "demo.plain: 2 rows" in run("scan", "Demo.Plain")


def test_scan_does_not_show_an_open_write(warehouse: Warehouse, plain: TableRef, run: Run) -> None:
    txn_id = warehouse.write(plain, [99], ends=False)
    assert "99" not in run("scan", str(plain), "-o", "json")
    assert "invisible" in run("inspect", str(plain))
    warehouse.client.commit_txn(txn_id)
    assert "99" in run("scan", str(plain), "-o", "json")


def test_scan_shows_partition_values_as_columns_and_can_read_a_single_partition(
    monthly: TableRef, run: Run
) -> None:
    both = json.loads(run("scan", str(monthly), "-o", "json"))
    assert both == [{"id": 7, "name": "n7", "month": 1}, {"id": 8, "name": "n8", "month": 2}]
    one = run("scan", str(monthly), "--partition", "month=2", "-o", "json")
    assert rows_in(one) == [[8, "n8", 2]]
    assert rows_in(run("scan", str(monthly), "--limit", "1", "-o", "json")) == [[7, "n7", 1]]


@pytest.mark.parametrize(
    ("text", "value"), [("03", 3), ("1_000", None), ("x", None), ("1" + "0" * 30, None)]
)
def test_partition_values_are_converted_as_hive_converts_them(
    warehouse: Warehouse, monthly: TableRef, run: Run, text: str, value: int | None
) -> None:
    name = PartitionName.parse(f"month={text}")
    warehouse.client.add_partitions(warehouse.client.get_table(monthly), [name])
    warehouse.write(monthly, [9], partition=f"month={text}")
    found = run("scan", str(monthly), "--partition", str(name), "-o", "json")
    assert rows_in(found) == [[9, "n9", value]]


def test_scan_holds_a_lock_during_the_read_and_inspect_does_not(
    client: FakeClient, plain: TableRef, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    list_table = scan_module.list_table

    def listing(location: str) -> Listing:
        seen.append(len(client.show_locks(plain)))
        return list_table(location)

    monkeypatch.setattr(scan_module, "list_table", listing)
    monkeypatch.setattr("airflow_hiveacid.storage.acid.read.inspect.list_table", listing)
    run("scan", str(plain))
    run("inspect", str(plain))
    assert seen == [1, 0]
    assert client.show_locks(plain) == ()


def test_inspect_prints_the_snapshot_and_the_state_of_every_partition(
    monthly: TableRef, tmp_path: Path, run: Run
) -> None:
    text = run("inspect", str(monthly))
    assert text.startswith("demo.monthly: a reader sees writes up to 2\n")
    found = json.loads(run("inspect", str(monthly), "-o", "json"))
    assert [(one["partition"], one["location"], one["state"]) for one in found] == [
        (f"month={month}", f"{tmp_path}/monthly/month={month}", "live") for month in (1, 2)
    ]


@pytest.mark.parametrize(
    ("argv", "status", "error"),
    [
        ("scan demo.nothing", 3, "TableNotFoundError: table demo.nothing"),
        ("scan demo.monthly --partition month=9", 3, "PartitionNotFoundError"),
        ("inspect demo.monthly --partition 9", 2, "argument --partition: '9' is not a valid"),
    ],
)
@pytest.mark.usefixtures("monthly")
def test_a_missing_table_or_partition_is_named(
    argv: str, status: int, error: str, run: Run
) -> None:
    assert run(*argv.split(), status=status).startswith(f"error: {error}")


def test_a_partition_of_an_unpartitioned_table_is_refused(plain: TableRef, run: Run) -> None:
    argv = ["inspect", str(plain), "--partition", "month=1"]
    assert "is not partitioned; omit --partition" in run(*argv, status=2)


def test_a_table_without_transactions_is_refused(warehouse: Warehouse, run: Run) -> None:
    ref = warehouse.table("flat", kind=TransactionalKind.NONE)
    assert "NotTransactionalError" in run("scan", str(ref), status=5)


@pytest.fixture(params=[FileFormat.ORC, FileFormat.PARQUET])
def insert_only(warehouse: Warehouse, request: pytest.FixtureRequest) -> TableRef:
    def write(path: Path) -> None:
        options, store = WriterOptions(), LocalFileSystem()
        with rows_writer(request.param, store, str(path), COLUMNS, options) as writer:
            writer.write(pa.array([{"id": 7, "name": "n7"}], row_type(COLUMNS)))
            writer.close()

    return _insert_only(warehouse, "insert_only", request.param, write)


def _insert_only(
    warehouse: Warehouse, name: str, format_: FileFormat, write: Callable[[Path], object]
) -> TableRef:
    ref = warehouse.table(name, kind=TransactionalKind.INSERT_ONLY, format=format_)
    txn_id = warehouse.client.open_txn()
    write_id = warehouse.client.allocate_write_id(txn_id, ref)
    delta = warehouse.root / name / f"delta_{write_id}_{write_id}_0"
    delta.mkdir()
    write(delta / "000000_0")
    warehouse.client.commit_txn(txn_id)
    return ref


def test_scan_and_inspect_read_an_insert_only_table(insert_only: TableRef, run: Run) -> None:
    assert rows_in(run("scan", str(insert_only), "-o", "json")) == [[7, "n7"]]
    (entry,) = json.loads(run("inspect", str(insert_only), "-o", "json"))
    assert (entry["type"], entry["state"], entry["files"], entry["rows"]) == ("delta", "live", 1, 1)
    refused = run("scan", str(insert_only), "--row-ids", "-o", "json", status=2)
    assert "have no identity" in refused


def test_a_file_at_the_root_of_an_insert_only_table_is_refused(
    insert_only: TableRef, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "insert_only/000000_0").write_text("rows?")
    found = json.loads(run("inspect", str(insert_only), "-o", "json"))
    entry = next(e for e in found if e["type"] == "original")
    assert entry["state"] == "refused"
    assert "hiveacid.reads.originals" in entry["why"]
    assert "Trino reads them" in run("scan", str(insert_only), status=5)


def test_rows_that_a_killed_conversion_moved_out_of_a_base_are_not_left_out(
    client: FakeClient, insert_only: TableRef, tmp_path: Path, run: Run
) -> None:
    table = client.get_table(insert_only)
    (delta,) = (tmp_path / "insert_only").glob("delta_*")
    moved = Move(location=table.location, source="base_0000001/000000_0", target="000000_0")
    ConversionNote(
        attempt="1-00c0ffee0001", table_id=table.table_id, to="flat", undo={}, moves=(moved,)
    ).write(table.location)
    delta.rename(tmp_path / "insert_only/base_0000001")
    assert rows_in(run("scan", str(insert_only), "-o", "json")) == [[7, "n7"]]
    (tmp_path / "insert_only/base_0000001/000000_0").rename(tmp_path / "insert_only/000000_0")
    assert f"convert {insert_only} --to flat`" in run("scan", str(insert_only), status=5)


def test_an_insert_only_text_table_is_scanned_but_its_rows_are_not_counted(
    warehouse: Warehouse, run: Run
) -> None:
    ref = _insert_only(
        warehouse, "texts", FileFormat.TEXT, lambda path: path.write_text("1\x01a\n")
    )
    inspected = run("inspect", str(ref), "-o", "json")
    assert "a text file does not state its number of rows" in inspected
    assert rows_in(run("scan", str(ref), "-o", "json")) == [[1, "a"]]


def test_a_conversion_is_planned_without_spark(
    client: FakeClient, tmp_path: Path, run: Run
) -> None:
    ref = TableRef("demo", "flat")
    location = tmp_path / "flat"
    client.create_table(
        NewTable(ref=ref, columns=COLUMNS, kind=TransactionalKind.NONE, location=f"file:{location}")
    )
    client.set_table_parameters(ref, {"EXTERNAL": None})
    write_plain(location / "part-0.orc", [{"id": 1, "name": "a"}])
    arguments = ["convert", "demo.flat", "--dry-run", "--to"]
    shown = run(*arguments, "insert_only")
    assert shown.startswith("demo.flat: flat to insert_only, not done\n")
    assert "1 files are moved into one delta" in shown
    refused = run(*arguments, "full_acid", status=5)
    assert "part-0.orc does not have a name in Hive's form" in refused
    assert "it is already of that kind" in run(*arguments, "flat")
    assert client.get_table(ref).kind is TransactionalKind.NONE
