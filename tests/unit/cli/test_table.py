"""The command line with a metastore: it takes table names, and prints rows and directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import Listing
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionName,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.storage.acid.read import scan as scan_module
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.values.column_types import row_type
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.command_line import rows_in, status_of
from tests.unit.storage.orc_tables import insert, write_acid, write_plain

COLUMNS = (Column(name="id", type="int"), Column(name="name", type="string"))


@pytest.fixture
def server() -> FakeMetastore:
    return FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=300.0)


@pytest.fixture
def client(server: FakeMetastore, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    asked: list[MetastoreEndpoint] = []

    def connect(endpoint: MetastoreEndpoint) -> FakeClient:
        asked.append(endpoint)
        return FakeClient(server)

    monkeypatch.setattr("airflow_hiveacid.metastore.client.connect", connect)
    return FakeClient(server)


def _write(client: FakeClient, ref: TableRef, location: Path, ids: list[int]) -> None:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, ref)
    file = location / f"delta_{write_id}_{write_id}_0/bucket_00000"
    write_acid(file, [insert(write_id, at, i) for at, i in enumerate(ids)])
    client.commit_txn(txn_id)


@pytest.fixture
def plain(client: FakeClient, tmp_path: Path) -> TableRef:
    ref = TableRef("default", "plain")
    client.create_table(NewTable(ref=ref, columns=COLUMNS, location=str(tmp_path)))
    _write(client, ref, tmp_path, [7, 8])
    return ref


@pytest.fixture
def monthly(client: FakeClient, tmp_path: Path) -> TableRef:
    ref = TableRef("default", "monthly")
    month = (Column(name="month", type="int"),)
    table = client.create_table(
        NewTable(ref=ref, columns=COLUMNS, partition_columns=month, location=str(tmp_path))
    )
    client.add_partitions(table, [PartitionName.parse(f"month={m}") for m in (1, 2)])
    _write(client, ref, tmp_path / "month=1", [7])
    _write(client, ref, tmp_path / "month=2", [8])
    return ref


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def command(*argv: str, status: int = 0) -> str:
        assert status_of(argv) == status
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return command


def test_scan_takes_columns_location_and_write_ids_from_the_metastore(
    plain: TableRef, run: Callable[..., str]
) -> None:
    assert rows_in(run("scan", str(plain), "-o", "json")) == [[7, "n7"], [8, "n8"]]
    assert "default.plain: 2 rows" in run("scan", "Default.Plain")


def test_scan_does_not_show_an_open_write(
    client: FakeClient, plain: TableRef, tmp_path: Path, run: Callable[..., str]
) -> None:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, plain)
    file = tmp_path / f"delta_{write_id}_{write_id}_0/bucket_00000"
    write_acid(file, [insert(write_id, 0, 99)])
    assert "99" not in run("scan", str(plain), "-o", "json")
    assert "invisible" in run("inspect", str(plain))
    client.commit_txn(txn_id)
    assert "99" in run("scan", str(plain), "-o", "json")


def test_scan_shows_partition_values_as_columns_and_can_read_a_single_partition(
    monthly: TableRef, run: Callable[..., str]
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
    client: FakeClient,
    monthly: TableRef,
    tmp_path: Path,
    run: Callable[..., str],
    text: str,
    value: int | None,
) -> None:
    name = PartitionName.parse(f"month={text}")
    client.add_partitions(client.get_table(monthly), [name])
    _write(client, monthly, tmp_path / f"month={text}", [9])
    found = run("scan", str(monthly), "--partition", str(name), "-o", "json")
    assert rows_in(found) == [[9, "n9", value]]


def test_scan_holds_a_lock_during_the_read_and_inspect_does_not(
    server: FakeMetastore, plain: TableRef, run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    list_table = scan_module.list_table

    def listing(location: str) -> Listing:
        seen.append(len(FakeClient(server).show_locks(plain)))
        return list_table(location)

    monkeypatch.setattr(scan_module, "list_table", listing)
    monkeypatch.setattr("airflow_hiveacid.storage.acid.read.inspect.list_table", listing)
    run("scan", str(plain))
    run("inspect", str(plain))
    assert seen == [1, 0]
    assert FakeClient(server).show_locks(plain) == ()


def test_inspect_prints_the_snapshot_and_the_state_of_every_partition(
    monthly: TableRef, tmp_path: Path, run: Callable[..., str]
) -> None:
    text = run("inspect", str(monthly))
    assert text.startswith("default.monthly: a reader sees writes up to 2\n")
    found = json.loads(run("inspect", str(monthly), "-o", "json"))
    assert [(one["partition"], one["location"], one["state"]) for one in found] == [
        (f"month={month}", f"{tmp_path}/month={month}", "live") for month in (1, 2)
    ]


@pytest.mark.parametrize(
    ("argv", "status", "error"),
    [
        ("scan default.nothing", 3, "TableNotFoundError: table default.nothing"),
        ("scan default.monthly --partition month=9", 3, "PartitionNotFoundError"),
        ("inspect default.monthly --partition 9", 2, "argument --partition: '9' is not a valid"),
    ],
)
@pytest.mark.usefixtures("monthly")
def test_a_missing_table_or_partition_is_named(
    argv: str, status: int, error: str, run: Callable[..., str]
) -> None:
    assert run(*argv.split(), status=status).startswith(f"error: {error}")


def test_a_partition_of_an_unpartitioned_table_is_refused(
    plain: TableRef, run: Callable[..., str]
) -> None:
    argv = ["inspect", str(plain), "--partition", "month=1"]
    assert "is not partitioned; omit --partition" in run(*argv, status=2)


def test_a_table_without_transactions_is_refused(
    client: FakeClient, run: Callable[..., str]
) -> None:
    ref = TableRef("default", "flat")
    client.create_table(NewTable(ref=ref, columns=COLUMNS, kind=TransactionalKind.NONE))
    assert "NotTransactionalError" in run("scan", str(ref), status=5)


def test_an_unreachable_metastore_prints_one_line(run: Callable[..., str]) -> None:
    text = run("scan", "db.t", "--metastore", "127.0.0.1:1", status=4)
    assert text.startswith("error: MetastoreUnavailableError: metastore thrift://127.0.0.1:1")
    assert text.count("\n") == 1


@pytest.fixture(params=[FileFormat.ORC, FileFormat.PARQUET])
def insert_only(client: FakeClient, tmp_path: Path, request: pytest.FixtureRequest) -> TableRef:
    ref, format_ = TableRef("default", "insert_only"), request.param
    client.create_table(
        NewTable(
            ref=ref,
            columns=COLUMNS,
            kind=TransactionalKind.INSERT_ONLY,
            format=format_,
            location=str(tmp_path),
        )
    )
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, ref)
    path = str(tmp_path / f"delta_{write_id}_{write_id}_0/000000_0")
    with rows_writer(format_, LocalFileSystem(), path, COLUMNS, WriterOptions()) as writer:
        writer.write(pa.array([{"id": 7, "name": "n7"}], row_type(COLUMNS)))
        writer.close()
    client.commit_txn(txn_id)
    return ref


def test_scan_and_inspect_read_an_insert_only_table(
    insert_only: TableRef, run: Callable[..., str]
) -> None:
    assert rows_in(run("scan", str(insert_only), "-o", "json")) == [[7, "n7"]]
    (entry,) = json.loads(run("inspect", str(insert_only), "-o", "json"))
    assert (entry["type"], entry["state"], entry["files"], entry["rows"]) == ("delta", "live", 1, 1)
    refused = run("scan", str(insert_only), "--row-ids", "-o", "json", status=2)
    assert "have no identity" in refused


def test_a_file_at_the_root_of_an_insert_only_table_is_refused(
    insert_only: TableRef, tmp_path: Path, run: Callable[..., str]
) -> None:
    (tmp_path / "000000_0").write_text("rows?")
    found = json.loads(run("inspect", str(insert_only), "-o", "json"))
    entry = next(e for e in found if e["type"] == "original")
    assert entry["state"] == "refused"
    assert "hiveacid.reads.originals" in entry["why"]
    assert "Trino reads them" in run("scan", str(insert_only), status=5)


def test_rows_that_a_killed_conversion_moved_out_of_a_base_are_not_left_out(
    client: FakeClient, insert_only: TableRef, tmp_path: Path, run: Callable[..., str]
) -> None:
    table = client.get_table(insert_only)
    (delta,) = tmp_path.glob("delta_*")
    moved = Move(location=table.location, source="base_0000001/000000_0", target="000000_0")
    ConversionNote(
        attempt="1-00c0ffee0001", table_id=table.table_id, to="flat", undo={}, moves=(moved,)
    ).write(table.location)
    delta.rename(tmp_path / "base_0000001")
    assert rows_in(run("scan", str(insert_only), "-o", "json")) == [[7, "n7"]]
    (tmp_path / "base_0000001/000000_0").rename(tmp_path / "000000_0")
    assert f"convert {insert_only} --to flat`" in run("scan", str(insert_only), status=5)


def test_an_insert_only_text_table_is_scanned_but_its_rows_are_not_counted(
    client: FakeClient, tmp_path: Path, run: Callable[..., str]
) -> None:
    ref = TableRef("default", "texts")
    client.create_table(
        NewTable(
            ref=ref,
            columns=COLUMNS,
            kind=TransactionalKind.INSERT_ONLY,
            format=FileFormat.TEXT,
            location=str(tmp_path),
        )
    )
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, ref)
    (tmp_path / f"delta_{write_id}_{write_id}_0").mkdir()
    (tmp_path / f"delta_{write_id}_{write_id}_0/000000_0").write_text("1\x01a\n")
    client.commit_txn(txn_id)
    inspected = run("inspect", str(ref), "-o", "json")
    assert "a text file does not state its number of rows" in inspected
    assert rows_in(run("scan", str(ref), "-o", "json")) == [[1, "a"]]


def test_a_conversion_is_planned_without_spark(
    client: FakeClient, tmp_path: Path, run: Callable[..., str]
) -> None:
    ref = TableRef("default", "flat")
    location = tmp_path / "flat"
    client.create_table(
        NewTable(ref=ref, columns=COLUMNS, kind=TransactionalKind.NONE, location=f"file:{location}")
    )
    client.set_table_parameters(ref, {"EXTERNAL": None})
    write_plain(location / "part-0.orc", [{"id": 1, "name": "a"}])
    arguments = ["convert", "default.flat", "--dry-run", "--to"]
    shown = run(*arguments, "insert_only")
    assert shown.startswith("default.flat: flat to insert_only, not done\n")
    assert "1 files are moved into one delta" in shown
    refused = run(*arguments, "full_acid", status=5)
    assert "part-0.orc does not have a name in Hive's form" in refused
    assert "it is already of that kind" in run(*arguments, "flat")
    assert client.get_table(ref).kind is TransactionalKind.NONE
