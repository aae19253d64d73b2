"""Two metastores, or two tables, with one directory: only its owner writes into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from airflow_hiveacid.arrow.job import run_in_process
from airflow_hiveacid.format.errors import (
    OtherOwnerError,
    PartitionsFailedError,
    StorageError,
    StoreFullError,
)
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.jobs.metastore_statements import AddPartitions, NewPartition
from airflow_hiveacid.jobs.statements import LoadSpec, TruncateSpec, UpdateSpec
from airflow_hiveacid.maintenance.ownership import (
    Neighbours,
    check_definition,
    check_outside,
    take_ownership,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.storage.stores.table_notes import noted_owner
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_terms
from tests.unit.arrow.lake import COLUMNS
from tests.unit.arrow.test_load import put
from tests.unit.lake.lakes import T, Warehouse, ids, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.records import Owner
    from airflow_hiveacid.jobs.job import Job
    from airflow_hiveacid.lake.connection import Lake

FULL, ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY
FIRST: Final = VersionSpec.of(1, None, None).text()


def _run(job: Job) -> Callable[[Lake], object]:
    def run(lake: Lake) -> None:
        lake.table(T).close()
        with lake._session.job(job) as own:
            run_in_process(own)

    return run


def _transaction(lake: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.table(T).append(rows(9))


WRITES: Final[dict[str, Callable[[Lake], object]]] = {
    "append": lambda lake: lake.table(T).append(rows(9)),
    "overwrite": lambda lake: lake.table(T).overwrite(rows(9)),
    "restore": _run(RestoreSpec(target=T, version=FIRST)),
    "transaction": _transaction,
    "stream": lambda lake: lake.stream_writer(T, stream="x").write(rows(9), 1),
}
CHANGES: Final[dict[str, Callable[[Lake], object]]] = {
    "truncate": _run(TruncateSpec(target=T)),
    "update": _run(UpdateSpec(target=T, set={"name": "'new'"}, where="id = 1")),
    "delete": lambda lake: lake.table(T).delete("id = 1"),
    "upsert": lambda lake: lake.table(T).upsert(rows(1, 9, name="new"), keys="id"),
}


def stored(root: Path) -> dict[Path, bytes]:
    """The files below a directory."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        *((kind, write) for kind in (FULL, ONLY) for write in (*WRITES, "load")),
        *((FULL, change) for change in CHANGES),
    ],
)
def test_a_clone_of_the_metastore_changes_no_file_of_the_original(
    warehouse: Warehouse, lake: Lake, kind: TransactionalKind, write: str
) -> None:
    warehouse.create(kind=kind)
    for number in range(3):
        lake.table(T).append(rows(number))
    load = _run(LoadSpec(target=T, location=put(warehouse.root, a=[9]).location))
    work = {**WRITES, **CHANGES, "load": load}[write]
    before = stored(warehouse.root)
    original, warehouse.server.metastore_id = warehouse.server.metastore_id, "clone"
    with pytest.raises(OtherOwnerError, match=f"of the metastore {original}"):
        work(lake)
    assert stored(warehouse.root) == before
    warehouse.server.metastore_id = original
    assert ids(lake.table(T)) == [0, 1, 2]
    work(lake)
    assert stored(warehouse.root) != before


def test_a_second_table_on_the_directory_of_another_writes_nothing_into_it(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    lake.table(T).append(rows(1))
    twin = TableRef("default", "twin")
    client = warehouse.client
    new = NewTable(ref=twin, location=f"file:{warehouse.root}/s", columns=COLUMNS)
    client.create_table(new)
    with pytest.raises(OtherOwnerError, match=f"belongs to table {T}"):
        lake.table(str(twin)).append(rows(9))
    client.drop_table(TableRef.parse(T), delete_data=False)
    lake.table(str(twin)).append(rows(9))
    assert ids(lake.table(str(twin))) == [9]


OUTSIDE: Final[dict[str, Callable[[Lake, str], object]]] = {
    "append": lambda lake, name: lake.table(name).append(rows(9, p=1)),
    "overwrite": lambda lake, name: lake.table(name).overwrite(rows(9, p=1)),
    "delete": lambda lake, name: lake.table(name).delete("p = 1"),
    "upsert": lambda lake, name: lake.table(name).upsert(rows(1, 9, p=1), keys="id"),
    "compact": lambda lake, name: lake.table(name).compact("major"),
    "clean": lambda lake, name: lake.table(name).clean(),
    "restore": lambda lake, name: _run(RestoreSpec(target=name, version=FIRST))(lake),
    "stream": lambda lake, name: lake.stream_writer(name, stream="x").write(rows(9, p=1), 1),
}
P_1: Final = PartitionName(("p",), ("1",))
KINDS: Final = [(FULL, work) for work in OUTSIDE] + [
    (ONLY, work) for work in OUTSIDE if work not in ("delete", "upsert")
]

B: Final = "default.b"


def _partitioned(warehouse: Warehouse, *names: str, kind: TransactionalKind = FULL) -> None:
    for name in names:
        warehouse.create(name, kind=kind, partition_columns=(Column(name="p", type="int"),))


def _fill(lake: Lake, name: str, p: int) -> None:
    for number in range(3):
        lake.table(name).append(rows(number, p=p))


@pytest.mark.parametrize(("kind", "work"), [one for one in KINDS if one[1] != "restore"])
def test_a_partition_in_the_directory_of_another_table_is_not_changed(
    warehouse: Warehouse, lake: Lake, kind: TransactionalKind, work: str
) -> None:
    _partitioned(warehouse, T, B, kind=kind)
    _fill(lake, T, 1)
    _fill(lake, B, 2)
    lake.table(B).clean()  # notes that it owns its directory
    warehouse.add_partition(B, P_1, "s/p=1")
    before = stored(warehouse.root / "s")
    one_of_two = PartitionsFailedError if work in ("compact", "clean") else OtherOwnerError
    with pytest.raises(one_of_two, match=f"belongs to table {T}") as caught:
        OUTSIDE[work](lake, B)
    assert "remove file:" in str(caught.value)
    assert stored(warehouse.root / "s") == before
    OUTSIDE[work](lake, T)


@pytest.mark.parametrize("spelling", ["file:{}/s/2024/01", "file:{}/link"])
def test_a_note_is_found_at_any_distance_above_a_partition(
    warehouse: Warehouse, lake: Lake, spelling: str
) -> None:
    _partitioned(warehouse, T, B)
    (warehouse.root / "s/2024/01").mkdir(parents=True)
    (warehouse.root / "link").symlink_to(warehouse.root / "s/2024/01")
    for name, location in ((T, "s/2024/01"), (B, spelling.format(warehouse.root))):
        warehouse.add_partition(name, P_1, location)
    lake.table(T).append(rows(1, p=1))
    lake.table(B).append(rows(1, p=2))  # so that the write IDs differ
    with pytest.raises(OtherOwnerError, match=f"belongs to table {T}"):
        lake.table(B).append(rows(9, p=1))
    assert ids(lake.table(T)) == [1]


@pytest.mark.parametrize(
    ("first", "second"), [("ext", "ext/inner"), ("s/2024/01", "s/2024")], ids=["below", "around"]
)
def test_a_partition_below_or_around_one_of_another_table_is_not_changed(
    warehouse: Warehouse, lake: Lake, first: str, second: str
) -> None:
    for name, path in ((T, first), (B, second)):
        _partitioned(warehouse, name)
        warehouse.add_partition(name, P_1, path)
    lake.table(T).append(rows(1, p=1))
    before = stored(warehouse.root / first)
    with pytest.raises(OtherOwnerError, match=f"belongs to table {T}"):
        lake.table(B).append(rows(9, p=1))
    assert stored(warehouse.root / first) == before
    assert not list((warehouse.root / second).glob("delta_*"))


def test_a_table_owns_its_directory_before_it_has_a_partition(
    warehouse: Warehouse, lake: Lake
) -> None:
    _partitioned(warehouse, T)
    client, twin = warehouse.client, TableRef("default", "twin")
    table = warehouse.info()
    take_ownership(client, table)
    client.create_table(
        NewTable(
            ref=twin,
            location=table.location,
            columns=COLUMNS,
            partition_columns=table.partition_columns,
        )
    )
    with pytest.raises(OtherOwnerError, match=f"belongs to table {T}"):
        lake.table(str(twin)).append(rows(9, p=1))
    assert not (warehouse.root / "s/p=1").exists()


@pytest.mark.parametrize("where", ["out/ext", "out"])
@pytest.mark.parametrize("work", ["append", "compact", "clean"])
def test_a_note_that_cannot_be_read_at_a_partition_or_is_damaged_above_stops_the_job(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str, work: str
) -> None:
    _partitioned(warehouse, T)
    place = warehouse.add_partition(T, P_1, "out/ext")
    _fill(lake, T, 1)
    if where == "out":
        (warehouse.root / "out/_hiveacid").mkdir()
        (warehouse.root / "out/_hiveacid/_owner.json").write_text("{")

    def read(location: str) -> Owner | None:
        if location == place and where != "out":
            raise StorageError(f"cannot read {location}: no answer")
        return noted_owner(location)

    monkeypatch.setattr("airflow_hiveacid.maintenance.ownership.noted_owner", read)
    before = stored(warehouse.root)
    words = "not a note" if where == "out" else "no answer"
    with pytest.raises((StorageError, PartitionsFailedError), match=words):
        OUTSIDE[work](lake, T)
    assert {path for path in stored(warehouse.root) if "_hiveacid" not in str(path)} == {
        path for path in before if "_hiveacid" not in str(path)
    }


@pytest.mark.parametrize(("kind", "work"), [one for one in KINDS if one[1] != "restore"])
def test_a_partition_outside_both_tables_belongs_to_the_first(
    warehouse: Warehouse, lake: Lake, kind: TransactionalKind, work: str
) -> None:
    _partitioned(warehouse, T, B, kind=kind)
    for name in (T, B):
        warehouse.add_partition(name, P_1, "ext")
    _fill(lake, T, 1)
    _fill(lake, B, 2)
    before = stored(warehouse.root / "ext")
    one_of_two = PartitionsFailedError if work in ("compact", "clean") else OtherOwnerError
    with pytest.raises(one_of_two, match=f"belongs to table {T}"):
        OUTSIDE[work](lake, B)
    assert stored(warehouse.root / "ext") == before
    OUTSIDE[work](lake, T)


@pytest.mark.parametrize("work", ["compact", "clean"])
def test_maintenance_notes_its_table_at_a_partition_outside(
    warehouse: Warehouse, lake: Lake, work: str
) -> None:
    _partitioned(warehouse, T)
    warehouse.add_partition(T, P_1, "ext")
    _fill(lake, T, 1)
    note = warehouse.root / "ext/_hiveacid/_owner.json"
    note.unlink()
    OUTSIDE[work](lake, T)
    assert note.exists()
    assert ids(lake.table(T)) == [0, 1, 2]


@pytest.mark.parametrize("kind", [FULL, ONLY])
def test_a_table_adds_no_partition_where_another_has_one(
    warehouse: Warehouse, lake: Lake, kind: TransactionalKind
) -> None:
    _partitioned(warehouse, T, B, kind=kind)
    lake.table(T).append(rows(1, p=2))
    warehouse.add_partition(B, P_1, "s/p=1")
    (warehouse.root / "s/p=1").mkdir()
    lake.table(B).append(rows(9, p=1))
    for write in ("append", "overwrite"):
        with pytest.raises(OtherOwnerError, match=r"belongs to table default\.b"):
            OUTSIDE[write](lake, T)
    assert warehouse.client.partition_names(warehouse.info()) == (PartitionName(("p",), ("2",)),)
    lake.table(B).append(rows(10, p=1))
    assert ids(lake.table(B)) == [9, 10]
    warehouse.client.drop_table(TableRef.parse(B), delete_data=False)
    lake.table(T).append(rows(3, p=3))


@pytest.mark.parametrize("work", ["add", "compact", "clean"])
def test_a_partition_that_another_table_has_noted_is_neither_added_nor_maintained(
    warehouse: Warehouse, lake: Lake, work: str
) -> None:
    _partitioned(warehouse, T, B)
    client = warehouse.client
    for number in range(3, 9):
        lake.table(T).append(rows(number, p=2))
    warehouse.add_partition(B, P_1, "s/p=1")
    (warehouse.root / "s/p=1").mkdir()
    _fill(lake, B, 1)
    before = stored(warehouse.root / "s/p=1")
    errors = (OtherOwnerError, PartitionsFailedError)
    if work == "add":
        new = NewPartition(values=(("p", "1"),))
        statement = AddPartitions(target=T, partitions=(new,))
        with pytest.raises(errors, match=r"belongs to table default\.b"):
            run_statement(client, statement, job_terms("add"), check_owner=check_definition)
    else:
        client.add_partitions(warehouse.info(), [P_1])  # as Hive does
        with pytest.raises(errors, match=r"belongs to table default\.b"):
            OUTSIDE[work](lake, T)
    assert stored(warehouse.root / "s/p=1") == before
    assert (P_1 in client.partition_names(warehouse.info())) is (work != "add")


@pytest.mark.parametrize("work", ["append", "compact", "clean"])
def test_a_note_that_cannot_be_written_or_read_above_hinders_no_job(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    _partitioned(warehouse, T)
    warehouse.add_partition(T, P_1, "out/ext")
    _fill(lake, T, 1)
    (warehouse.root / "out/ext/_hiveacid/_owner.json").unlink()

    def full(location: str, _: Owner) -> None:
        raise StoreFullError(location=location, action="write", reason="its quota is exceeded")

    def read(location: str) -> Owner | None:
        if location.endswith("/out"):
            raise StorageError(f"cannot read {location}: no default name space")
        return noted_owner(location)

    monkeypatch.setattr("airflow_hiveacid.maintenance.ownership.note_owner", full)
    monkeypatch.setattr("airflow_hiveacid.maintenance.ownership.noted_owner", read)
    OUTSIDE[work](lake, T)
    assert sorted(ids(lake.table(T))) == [0, 1, 2, *([9] if work == "append" else [])]


@pytest.mark.parametrize(("kind", "work"), KINDS)
def test_a_moved_table_of_a_clone_changes_no_partition_that_stayed(
    warehouse: Warehouse, lake: Lake, kind: TransactionalKind, work: str
) -> None:
    _partitioned(warehouse, T, kind=kind)
    _fill(lake, T, 1)
    client, ref = warehouse.client, TableRef.parse(T)
    table = client.get_table(ref)
    (warehouse.root / "moved").mkdir()
    warehouse.server.places[ref, P_1] = f"{table.location}/p=1"
    warehouse.server.tables[ref] = replace(table, location=f"file:{warehouse.root}/moved")
    original, warehouse.server.metastore_id = warehouse.server.metastore_id, "clone"
    take_ownership(client, client.get_table(ref))
    before = stored(warehouse.root / "s")
    with pytest.raises(OtherOwnerError, match=f"of the metastore {original}"):
        OUTSIDE[work](lake, T)
    assert stored(warehouse.root / "s") == before
    (warehouse.root / "s/_hiveacid/_owner.json").unlink()
    if work != "restore":  # whose versions the moved notes do not tell
        OUTSIDE[work](lake, T)


def test_the_partitions_of_a_noted_table_are_listed_once(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    _partitioned(warehouse, T, B)
    lake.table(T).append(rows(1, p=99))
    places = [
        warehouse.add_partition(B, PartitionName(("p",), (str(number),)), f"s/p={number}")
        for number in range(20)
    ]
    listed = _listed(monkeypatch)
    check_outside(warehouse.client, warehouse.info(B), places)
    assert listed == [TableRef.parse(T)]


@pytest.mark.parametrize("spelling", ["file://{}/s", "file:{}/alias", "{}/s"])
def test_a_partition_in_its_table_by_another_name_needs_no_note(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    _partitioned(warehouse, T)
    (warehouse.root / "s/p=1").mkdir()
    (warehouse.root / "alias").symlink_to(warehouse.root / "s")
    warehouse.add_partition(T, P_1, f"{spelling.format(warehouse.root)}/p=1")
    reads = _noted_reads(monkeypatch)
    lake.table(T).append(rows(1, p=1))
    lake.table(T).clean()
    assert set(reads) == {f"file:{warehouse.root}/s"}


@pytest.mark.parametrize("work", ["clean", "compact"])
def test_a_job_reads_each_note_once(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    _partitioned(warehouse, T)
    places = []
    for number in range(1, 6):
        name = PartitionName(("p",), (str(number),))
        places.append(warehouse.add_partition(T, name, f"out/{name}"))
        lake.table(T).append(rows(number, p=number))
    reads = _noted_reads(monkeypatch)
    OUTSIDE[work](lake, T)
    assert f"file:{warehouse.root}/out" in reads  # by several threads at once, perhaps
    assert max(reads.count(place) for place in places) == 1
    reads.clear()
    neighbours = Neighbours()
    for place in places:
        check_outside(warehouse.client, warehouse.info(), [place], neighbours)
    assert len(reads) == len(set(reads)) > len(places)


def _listed(monkeypatch: pytest.MonkeyPatch) -> list[TableRef]:
    """Return the list to which each listing of partitions adds the table."""
    listed: list[TableRef] = []
    list_partitions = FakeClient.list_partitions

    def counted(self: FakeClient, table: TableInfo) -> Sequence[PartitionInfo]:
        listed.append(table.ref)
        return list_partitions(self, table)

    monkeypatch.setattr(FakeClient, "list_partitions", counted)
    return listed


def _noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which each read of a note adds the location."""
    reads: list[str] = []

    def counted(location: str) -> Owner | None:
        reads.append(location)
        return noted_owner(location)

    monkeypatch.setattr("airflow_hiveacid.maintenance.ownership.noted_owner", counted)
    return reads


def test_a_write_after_an_exchange_of_names_renews_the_note(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    _partitioned(warehouse, T, B)
    for name in (T, B):
        lake.table(name).append(rows(1, p=1))
    one, other = TableRef.parse(T), TableRef.parse(B)
    tables = warehouse.server.tables
    tables[one], tables[other] = (
        replace(tables[other], ref=one),
        replace(tables[one], ref=other),
    )
    lake.table(T).append(rows(2, p=1))
    listed = _listed(monkeypatch)
    lake.table(T).append(rows(3, p=1))
    assert other not in listed


def test_a_stream_ends_when_another_metastore_takes_the_directory(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    writer = lake.stream_writer(T, stream="x")
    writer.write(rows(1), 1)
    warehouse.server.metastore_id = "clone"  # as if the note had another one
    before = stored(warehouse.root)
    with pytest.raises(OtherOwnerError):
        writer.write(rows(2), 2)
    assert stored(warehouse.root) == before


def test_a_table_without_a_note_is_written_and_gets_one(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    lake.table(T).append(rows(1))
    note = warehouse.root / "s/_hiveacid/_owner.json"
    note.unlink()
    lake.table(T).append(rows(2))
    assert note.exists()
    assert ids(lake.table(T)) == [1, 2]
