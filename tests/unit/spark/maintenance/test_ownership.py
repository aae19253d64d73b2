"""Two tables or metastores with one directory: maintenance removes nothing of the other one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    HiveAcidError,
    LocationPermissionError,
    MetastoreCallError,
    OtherOwnerError,
    PartitionsFailedError,
    TableChangedError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import CommitNote, Owner, Tag
from airflow_hiveacid.format.table import (
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.metastore_statements import (
    DropPartitions,
    DropTable,
    MetastoreStatement,
    RenameTable,
)
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.maintenance.ownership import (
    Neighbours,
    check_definition,
    check_owner,
    note_outside,
    take_ownership,
)
from airflow_hiveacid.metastore.catalog import TableChange
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.storage.stores.table_notes import note_owner, noted_owner
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_after, act_before, raises
from tests.support.tables import id_table
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import plan

PROD, STAG = TableRef("default", "prod"), TableRef("default", "stag")
P_1, P_2 = (PartitionName(("p",), (value,)) for value in ("1", "2"))
DAY = 86400.0


@pytest.fixture(params=list(MetastoreGeneration), ids=lambda one: one.name)
def client(request: pytest.FixtureRequest) -> FakeClient:
    return FakeClient(FakeMetastore(request.param, ManualClock()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "w"


@pytest.fixture(autouse=True)
def _one_connection(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all threads of a job use the client itself, whose calls the tests change."""
    monkeypatch.setattr(client, "clone", lambda **_: client)


def table(
    client: FakeClient,
    ref: TableRef,
    location: Path,
    *,
    is_partitioned: bool = False,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
) -> TableInfo:
    location.mkdir(parents=True, exist_ok=True)
    return id_table(client, ref, location, by="p int" if is_partitioned else "", kind=kind)


def put(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "bucket_00000").write_text("rows")


def write(client: FakeClient, table: TableInfo, place: Path, *, aborts: bool = False) -> WriteId:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    if aborts:
        client.abort_txn(txn_id)
    else:
        directory = place / f"delta_{write_id:07d}_{write_id:07d}_0000"
        put(directory)
        client.commit_txn(txn_id)
    return write_id


def clean(client: FakeClient, ref: TableRef, *, unknown_age_s: float | None = None) -> list[str]:
    spec = CleanSpec.of_table(str(ref), orphan_age_s=0.0, unknown_age_s=unknown_age_s)
    outcomes = clean_tables(client, spec, lambda _: None).outcomes
    return [removal.path for outcome in outcomes for removal in outcome.removed]


def files(root: Path) -> list[str]:
    found = (str(p.relative_to(root)) for p in sorted(root.rglob("*")) if p.is_file())
    return [name for name in found if "_hiveacid" not in name]


def twins(client: FakeClient, root: Path) -> tuple[TableInfo, TableInfo]:
    """Two tables in one directory; write 2 is committed in the one, aborted in the other."""
    prod, stag = table(client, PROD, root), table(client, STAG, root)
    for _ in range(2):
        write(client, prod, root)
    write(client, stag, root / "elsewhere")
    write(client, stag, root, aborts=True)
    return prod, stag


def test_neither_of_two_tables_on_one_location_is_cleaned(client: FakeClient, root: Path) -> None:
    prod, stag = twins(client, root)
    there = files(root)
    for one, other in ((stag, prod), (prod, stag)):
        with pytest.raises(OtherOwnerError, match=rf"{other.ref} has the same location") as caught:
            clean(client, one.ref)
        assert f"own {one.ref}" in str(caught.value)
        with pytest.raises(OtherOwnerError):
            plan(client, CompactSpec.of_table(str(one.ref), choice=CompactionChoice.MAJOR))
    assert files(root) == there


def test_a_table_that_a_link_leads_to_is_the_same(client: FakeClient, root: Path) -> None:
    prod = table(client, PROD, root)
    (root.parent / "alias").symlink_to(root.parent)
    table(client, STAG, root.parent / "alias" / "w")
    write(client, prod, root)
    with pytest.raises(OtherOwnerError, match="has the same location"):
        clean(client, STAG)


def test_a_table_inside_another_table_is_found_from_both(client: FakeClient, root: Path) -> None:
    table(client, PROD, root)
    table(client, STAG, root / "inner")
    with pytest.raises(OtherOwnerError, match=r"default\.stag lies in it"):
        clean(client, PROD)
    with pytest.raises(OtherOwnerError, match=r"it lies in the directory of default\.prod"):
        clean(client, STAG)


def test_a_flat_table_around_the_directories_of_others_hinders_nobody(
    client: FakeClient, root: Path
) -> None:
    table(client, PROD, root, kind=TransactionalKind.NONE)
    table(client, STAG, root / "inner")
    assert clean(client, STAG) == []


def test_a_partition_with_the_directory_of_another_table_is_found(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    client.add_partitions(prod, [P_1])
    table(client, STAG, root / "prod" / "p=1")
    with pytest.raises(OtherOwnerError, match=r"partition p=1 of default\.prod has the same"):
        clean(client, STAG)


def test_a_partition_of_another_table_inside_a_table_is_found(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    table(client, STAG, root / "prod" / "stag")
    place = f"file:{root / 'prod' / 'stag' / 'inner'}"
    client.add_partitions(prod, [P_1], locations={P_1: place})
    with pytest.raises(OtherOwnerError, match=r"partition p=1 of default\.prod has the same"):
        clean(client, STAG)


def test_another_table_that_is_dropped_meanwhile_hinders_nobody(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(client, PROD, root / "prod", is_partitioned=True)
    table(client, STAG, root / "prod" / "stag")

    def drop(one: TableInfo) -> None:
        if one.ref == PROD:
            client.drop_table(PROD, delete_data=False)

    act_before(monkeypatch, client, "list_partitions", drop)
    assert clean(client, STAG) == []


def test_an_aborted_directory_that_a_partition_of_another_table_reads_stays(
    client: FakeClient, root: Path
) -> None:
    stag = table(client, STAG, root / "stag")
    clean(client, STAG)
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    client.add_partitions(prod, [P_1], locations={P_1: stag.location})
    write(client, prod, root / "stag")
    write(client, stag, root / "stag", aborts=True)
    with pytest.raises(OtherOwnerError, match=r"partition p=1 of default\.prod has it") as caught:
        clean(client, STAG)
    assert "airflow_hiveacid own" not in str(caught.value)
    assert files(root) == ["stag/delta_0000001_0000001_0000/bucket_00000"]


def test_a_second_table_on_an_owned_directory_is_refused_by_the_note(
    client: FakeClient, root: Path
) -> None:
    table(client, PROD, root)
    clean(client, PROD)
    table(client, STAG, root)
    with pytest.raises(OtherOwnerError, match=r"says that it belongs to table default\.prod"):
        clean(client, STAG)
    assert clean(client, PROD) == []


def test_the_directory_of_a_renamed_or_dropped_table_is_taken_over(
    client: FakeClient, root: Path
) -> None:
    table(client, PROD, root)
    clean(client, PROD)
    client.change_table(PROD, TableChange(name=STAG))
    clean(client, STAG)
    assert str(noted_owner(f"file:{root}")).startswith("table default.stag")
    client.drop_table(STAG, delete_data=False)
    table(client, PROD, root)
    clean(client, PROD)
    assert str(noted_owner(f"file:{root}")).startswith("table default.prod")


def clone_of(client: FakeClient, *tables: TableInfo, new_id: bool = False) -> FakeClient:
    """A metastore that was restored from a dump: the same tables, and transactions of its own."""
    server = FakeMetastore(client.generation, ManualClock())
    if not new_id:
        server.metastore_id = client.metastore_id
    for one in tables:
        server.put_table(one)
    return FakeClient(server)


def note_commit(client: FakeClient, table: TableInfo, write_id: WriteId) -> None:
    note = CommitNote(
        table_id=table.table_id,
        write_id=write_id,
        txn_id=client.open_txn(),
        job_key="j",
        attempt="1-0",
        kind="insert",
    )
    client.abort_txn(note.txn_id)
    VersionNotes.of(table).note_commit(note)


def test_a_clone_with_an_id_of_its_own_removes_nothing_until_it_takes_the_directory(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    clean(client, PROD)
    clone = clone_of(client, prod, new_id=True)
    with pytest.raises(OtherOwnerError, match=r"belongs to table default\.prod of the metastore"):
        clean(clone, PROD)
    before = take_ownership(clone, prod)
    assert before is not None
    assert before.metastore == client.metastore_id
    assert clean(clone, PROD) == []
    with pytest.raises(OtherOwnerError):
        clean(client, PROD)


@pytest.mark.parametrize("parameters", [{}, {"NO_CLEANUP": "true"}], ids=["on", "off"])
def test_a_refused_cleaning_leaves_the_notes_of_the_original(
    client: FakeClient, root: Path, parameters: dict[str, str]
) -> None:
    prod = table(client, PROD, root)
    clean(client, PROD)
    clone = clone_of(client, replace(prod, parameters=parameters), new_id=True)
    VersionNotes.of(prod).note_tag(
        Tag(name="closing", table_id=prod.table_id, write_ids="", made_s=1.0, expires_s=2.0)
    )
    with pytest.raises(OtherOwnerError):
        clean(clone, PROD)
    assert [tag.name for tag in VersionNotes.of(prod).noted_tags()] == ["closing"]
    clean(client, PROD)
    assert VersionNotes.of(prod).noted_tags() == ()


def test_a_table_that_is_made_again_while_its_cleaning_begins_is_not_cleaned(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listed partitions are of the dropped table, so its write IDs say nothing of them."""
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1])
    (root / "p=1").mkdir()

    def made_again(*arguments: Any, **terms: Any) -> Any:  # noqa: ANN401 - as of `with_past`
        client.server.tables[PROD] = replace(prod, table_id="another")
        _, overview = with_past(*arguments, **terms)
        return client.get_table(PROD), overview

    monkeypatch.setattr("airflow_hiveacid.maintenance.clean_tables.with_past", made_again)
    with pytest.raises(TableChangedError, match="table_id"):
        clean(client, PROD)


CHANGES = {
    "drop": DropTable(target=str(PROD), purge=True),
    "drop partition": DropPartitions(target=str(PROD), partitions=((("p", "1"),),)),
    "rename": RenameTable(target=str(PROD), new_name=str(STAG)),
}


def define(client: FakeClient, statement: MetastoreStatement) -> bool:
    terms = job_terms(None, lock_timeout_s=1.0, clock=client.server.clock)
    return run_statement(client, statement, terms, check_owner=check_definition).has_changed


@pytest.mark.parametrize("change", CHANGES)
def test_a_clone_drops_and_renames_nothing_of_the_original(
    client: FakeClient, root: Path, change: str
) -> None:
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1])
    take_ownership(client, prod)
    clone = clone_of(client, prod, new_id=True)
    clone.add_partitions(prod, [P_1])
    there = list(root.rglob("*"))
    with pytest.raises(OtherOwnerError, match="delete_data=False") as caught:
        define(clone, CHANGES[change])
    assert "airflow_hiveacid own" not in str(caught.value)  # which would give the files away
    assert clone.get_table(PROD) == prod
    assert clone.partition_names(prod) == (P_1,)
    clone.drop_table(PROD, delete_data=False)
    assert list(root.rglob("*")) == there
    assert define(client, CHANGES[change])


@pytest.mark.parametrize("change", ["drop", "drop partition"])
def test_a_partition_in_the_directory_of_another_table_is_not_dropped(
    client: FakeClient, root: Path, change: str
) -> None:
    stag = table(client, STAG, root / "stag", is_partitioned=True)
    client.add_partitions(stag, [P_1])
    take_ownership(client, stag)
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    client.add_partitions(prod, [P_1], locations={P_1: f"{stag.location}/p=1"})
    with pytest.raises(OtherOwnerError, match=r"belongs to table default\.stag"):
        define(client, CHANGES[change])
    assert client.partition_names(prod) == (P_1,)


def test_a_table_whose_files_cannot_be_read_is_dropped(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod = table(client, PROD, root)
    denied = LocationPermissionError(location="/prod", action="read", reason="denied")
    monkeypatch.setattr("airflow_hiveacid.maintenance.ownership.noted_owner", raises(denied))
    assert define(client, CHANGES["drop"])
    assert prod.ref not in client.server.tables


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_note_of_the_owner_prevents_drops_and_renames(
    client: FakeClient, root: Path, change: str
) -> None:
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1])
    take_ownership(client, prod)
    (root / "_hiveacid/_owner.json").write_text("{")
    with pytest.raises(CorruptFileError, match="says whose directory this is"):
        define(client, CHANGES[change])
    assert (client.get_table(PROD), client.partition_names(prod)) == (prod, (P_1,))


@pytest.mark.parametrize("store", ["gs://bucket", "abfss://c@account.dfs.core.windows.net"])
@pytest.mark.parametrize("is_partition", [False, True])
def test_a_table_is_dropped_without_a_look_at_a_store_that_no_job_changes(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch, store: str, is_partition: bool
) -> None:
    prod = table(client, PROD, root, is_partitioned=is_partition)
    if is_partition:
        client.add_partitions(prod, [P_1], locations={P_1: f"{store}/w/p=1"})
    else:
        client.server.tables[PROD] = replace(prod, location=f"{store}/w")
    opened: list[tuple[str, str]] = []

    def open_store(scheme: str, authority: str) -> None:
        opened.append((scheme, authority))
        raise AssertionError

    monkeypatch.setattr("airflow_hiveacid.storage.stores.locations._object_store", open_store)
    assert define(client, CHANGES["drop"])
    assert not opened


@pytest.mark.parametrize("change", CHANGES)
def test_the_owner_is_looked_up_before_the_lock(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A store that does not answer must not keep everyone from the table."""
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1])
    calls: list[str] = []

    def owned(*_: object) -> None:
        calls.append("owner")

    act_before(monkeypatch, client, "lock", lambda _: calls.append("lock"))
    terms = job_terms(None, lock_timeout_s=1.0, clock=client.server.clock)
    run_statement(client, CHANGES[change], terms, check_owner=owned)
    assert calls == ["owner", "lock"]


def test_a_clone_with_the_same_id_meets_writes_that_it_did_not_allocate(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    clone = clone_of(client, prod)
    for _ in range(2):
        write(client, prod, root)
    write(clone, prod, root, aborts=True)
    with pytest.raises(OtherOwnerError, match="only up to 1") as caught:
        clean(clone, PROD)
    assert "delta_0000002_0000002_0000 is newer" in str(caught.value)
    take_ownership(clone, prod)  # does not help, so the error must not say so
    assert "airflow_hiveacid own" not in str(caught.value)
    assert "move the named directory away" in str(caught.value)
    with pytest.raises(HiveAcidError, match="delta_0000002_0000002_0000 is newer"):
        plan(clone, CompactSpec.of_table(str(PROD), choice=CompactionChoice.MAJOR))
    assert len(files(root)) == 2


def test_writes_and_compactions_that_begin_during_a_job_are_this_metastores(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are listed after the write IDs, so there may be later ones."""
    prod = table(client, PROD, root)
    write(client, prod, root)
    late: list[str] = []

    def begin(*_: object) -> None:
        if not late:
            write_id, txn_id = write(client, prod, root), client.open_txn()
            late.extend(
                [f"delta_{write_id:07d}_{write_id:07d}_0000", f"base_0000001_v{txn_id:07d}"]
            )
            (root / late[1]).mkdir()
            (root / late[1] / "bucket_00000").write_text("rows")
            client.commit_txn(txn_id)

    act_after(monkeypatch, client, "valid_write_ids", begin)
    clean(client, PROD)
    assert late
    assert {f"{name}/bucket_00000" for name in late} <= {*files(root)}


def test_a_compaction_of_an_unknown_transaction_is_another_metastores(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    write(client, prod, root)
    put(root / "base_0000001_v0000099")
    with pytest.raises(OtherOwnerError, match="base_0000001_v0000099 is newer"):
        clean(client, PROD)


def test_a_noted_commit_of_an_aborted_write_is_another_metastores(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    write_id = write(client, prod, root, aborts=True)
    put(root / "delta_0000001_0000001_0000")
    note_commit(client, prod, write_id)
    with pytest.raises(OtherOwnerError, match="another one committed it") as caught:
        clean(client, PROD)
    assert "airflow_hiveacid own" not in str(caught.value)
    assert files(root) == ["delta_0000001_0000001_0000/bucket_00000"]


def test_the_result_of_an_aborted_compaction_of_noted_commits_is_removed(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    for _ in range(2):
        note_commit(client, prod, write(client, prod, root))
    txn_id = client.open_txn()
    client.abort_txn(txn_id)
    left = f"delta_0000001_0000002_v{txn_id:07d}"
    put(root / left)
    assert clean(client, PROD) == [left]
    assert len(files(root)) == 2


def test_a_damaged_note_of_the_owner_is_named_and_can_be_replaced(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    (root / "_hiveacid").mkdir()
    (root / "_hiveacid" / "_owner.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(CorruptFileError, match=r"_owner\.json"):
        clean(client, PROD)
    assert take_ownership(client, prod) is None
    assert clean(client, PROD) == []


def test_a_job_of_many_tables_names_the_shared_ones_and_cleans_the_others(
    client: FakeClient, root: Path
) -> None:
    twins(client, root / "shared")
    other = TableRef("default", "other")
    good = table(client, other, root / "good")
    write(client, good, root / "good")
    put(root / "good" / "base_0000001")
    with pytest.raises(PartitionsFailedError) as caught:
        clean_tables(client, CleanSpec(tables=("default.*",)), lambda _: None)
    assert sorted(caught.value.failed) == [str(PROD), str(STAG)]
    assert files(root / "good") == ["base_0000001/bucket_00000"]


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("alias", [False, True])
def test_an_unknown_file_that_a_flat_table_reads_stays(
    client: FakeClient,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_partitioned: bool,
    alias: bool,
) -> None:
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    clean(client, PROD)
    place = root / "prod"
    if alias:
        (root / "alias").symlink_to(root / "prod")
        place = root / "alias"
    if is_partitioned:
        flat = table(client, STAG, root / "flat", is_partitioned=True, kind=TransactionalKind.NONE)
        client.add_partitions(flat, [P_1], locations={P_1: f"file:{place}"})
    else:
        table(client, STAG, place, kind=TransactionalKind.NONE)
    live = root / "prod" / "000000_0"
    live.write_text("7\n")
    os.utime(live, (1.0, 1.0))
    assert clean(client, prod.ref, unknown_age_s=DAY) == []
    monkeypatch.setattr("airflow_hiveacid.plan.cleaning.SHORTEST_UNKNOWN_AGE_S", 0.0)
    assert clean(client, prod.ref, unknown_age_s=DAY) == []
    assert live.exists()


def test_the_tables_of_a_metastore_are_listed_once_for_a_job(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [table(client, TableRef("default", f"t{n}"), root / f"t{n}") for n in range(4)]
    listed: list[str] = []
    list_tables = client.list_tables
    monkeypatch.setattr(client, "list_tables", lambda db: (listed.append(db), list_tables(db))[1])
    neighbours = Neighbours()
    for one in tables:
        assert neighbours.why_shared(client, one, [one.location]) is None
    assert listed == ["default"]


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_replaced_original_file_is_removed_although_its_own_partition_has_it(
    client: FakeClient, root: Path, *, is_partitioned: bool
) -> None:
    prod = table(client, PROD, root, is_partitioned=is_partitioned)
    place = root / "p=1" if is_partitioned else root
    if is_partitioned:
        client.add_partitions(prod, [P_1])
    original(client, prod, place)
    assert sorted(clean(client, PROD)) == ["000000_0", "delta_0000001_0000001_0000"]


def test_a_replaced_original_file_stays_if_another_partition_has_its_directory(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1, P_2], locations={P_2: f"file:{root / 'p=1'}"})
    original(client, prod, root / "p=1")
    assert "000000_0" not in clean(client, PROD)
    assert (root / "p=1" / "000000_0").exists()


def test_an_aborted_directory_of_two_partitions_in_one_directory_is_removed(
    client: FakeClient, root: Path
) -> None:
    """The write is the table's own, so no partition of it reads the directory."""
    prod = table(client, PROD, root, is_partitioned=True)
    client.add_partitions(prod, [P_1, P_2], locations={P_2: f"file:{root / 'p=1'}"})
    write_id = write(client, prod, root / "p=1", aborts=True)
    left = root / "p=1" / f"delta_{write_id:07d}_{write_id:07d}_0000"
    put(left)
    assert left.name in clean(client, PROD)
    assert files(root) == []


def original(client: FakeClient, table: TableInfo, place: Path) -> None:
    """An original file and a delta, and the base that has replaced both."""
    write_id = write(client, table, place)
    (place / "000000_0").write_text("rows")
    put(place / f"base_{write_id:07d}")


def test_a_link_into_the_middle_of_another_table_leads_into_that_table(
    client: FakeClient, root: Path
) -> None:
    table(client, PROD, root / "prod")
    (root / "prod" / "inner").mkdir()
    (root / "alias").symlink_to(root / "prod" / "inner")
    table(client, STAG, root / "alias" / "stag")
    for ref in (PROD, STAG):
        with pytest.raises(OtherOwnerError):
            clean(client, ref)


def test_a_view_with_the_earlier_name_of_a_table_does_not_own_its_directory(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(client, PROD, root)
    clean(client, PROD)
    client.change_table(PROD, TableChange(name=STAG))

    def refuse_view(ref: TableRef) -> None:
        if ref == PROD:
            raise UnsupportedTableError(table=ref, detail="is a view")

    act_before(monkeypatch, client, "get_table", refuse_view)
    assert clean(client, STAG) == []
    assert str(noted_owner(f"file:{root}")).startswith("table default.stag")


def refuse(
    monkeypatch: pytest.MonkeyPatch, client: FakeClient, method: str, refused: object
) -> None:
    """Let a call about one database or table be refused."""

    def fail(asked: object) -> None:
        if asked == refused:
            raise MetastoreCallError(method=method, reason="not permitted")

    act_before(monkeypatch, client, method, fail)


def test_a_database_that_the_user_may_not_list_does_not_hinder_maintenance(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_database("secret")
    table(client, PROD, root)
    refuse(monkeypatch, client, "list_tables", "secret")
    assert clean(client, PROD) == []
    table(client, STAG, root / "inner")
    with pytest.raises(OtherOwnerError, match="it lies in the directory of"):
        clean(client, STAG)


@pytest.mark.parametrize(
    "place", ["file:/a\0b", "kudu://host", "", "s3a://bucket", "file:relative"]
)
def test_a_table_at_a_place_that_does_not_exist_hinders_no_other_table(
    client: FakeClient, root: Path, place: str
) -> None:
    prod = table(client, PROD, root)
    client.server.put_table(replace(prod, ref=STAG, location=place))
    assert clean(client, PROD) == []


def test_the_note_of_the_table_itself_is_renewed_without_a_refusal(
    client: FakeClient, root: Path
) -> None:
    """A writer's note is unchecked; a table that was dropped and created again has another ID."""
    prod = table(client, PROD, root)
    mine = Owner(metastore=client.metastore_id, table=PROD, table_id=prod.table_id)
    for earlier in (mine, replace(mine, table_id="earlier", is_checked=True)):
        note_owner(prod.location, earlier)
        assert clean(client, PROD) == []
        assert noted_owner(prod.location) == replace(mine, is_checked=True)


def test_a_note_does_not_create_the_directory_of_a_table_or_partition_that_was_dropped(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root, is_partitioned=True)
    note_outside(client, prod, [f"file:{root.parent}/ext"], Neighbours())
    root.rmdir()
    check_owner(client, prod, Neighbours())
    assert list(root.parent.iterdir()) == []


@pytest.mark.parametrize("work", ["clean", "compact"])
def test_a_plan_writes_no_note(client: FakeClient, root: Path, work: str) -> None:
    prod = table(client, PROD, root / "prod", is_partitioned=True)
    client.add_partitions(prod, [P_1], locations={P_1: f"file:{root}/ext"})
    write(client, prod, root / "ext")
    if work == "clean":
        spec = CleanSpec.of_table(str(PROD), plan_only=True)
        clean_tables(client, spec, lambda _: None)
    else:
        plan(client, CompactSpec.of_table(str(PROD), plan_only=True))
    assert not list(root.rglob("_owner.json"))


def test_an_unchecked_note_of_the_table_itself_does_not_end_the_search_for_others(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    note_owner(
        prod.location,
        Owner(metastore=client.metastore_id, table=PROD, table_id=prod.table_id),
    )
    table(client, STAG, root)
    with pytest.raises(OtherOwnerError, match=r"default\.stag has the same location"):
        clean(client, PROD)


def test_a_partition_that_lies_in_another_table_is_found(client: FakeClient, root: Path) -> None:
    table(client, PROD, root / "prod")
    stag = table(client, STAG, root / "stag", is_partitioned=True)
    client.add_partitions(stag, [P_1], locations={P_1: f"file:{root / 'prod' / 'inner'}"})
    with pytest.raises(OtherOwnerError, match=r"it lies in the directory of default\.prod"):
        clean(client, STAG)


def test_a_noted_commit_within_an_aborted_range_is_another_metastores(
    client: FakeClient, root: Path
) -> None:
    prod = table(client, PROD, root)
    first, second, third = (write(client, prod, root, aborts=True) for _ in range(3))
    directory = root / f"delta_{first:07d}_{third:07d}"
    put(directory)
    note_commit(client, prod, second)
    write(client, prod, root)
    with pytest.raises(OtherOwnerError, match="another one committed it"):
        clean(client, PROD)
    assert len(files(root)) == 2


@pytest.mark.parametrize("is_unread", ["database", "table"])
def test_an_unknown_file_stays_if_it_is_unknown_where_another_table_lies(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch, is_unread: str
) -> None:
    prod = table(client, PROD, root, is_partitioned=True)
    clean(client, PROD)
    client.create_database("secret")
    other = TableRef("secret", "flat")
    table(client, other, root, kind=TransactionalKind.NONE)
    if is_unread == "database":
        refuse(monkeypatch, client, "list_tables", "secret")
    else:
        refuse(monkeypatch, client, "get_table", other)
    file = root / "000000_0"
    file.write_text("rows")
    os.utime(file, (1.0, 1.0))
    assert clean(client, prod.ref, unknown_age_s=DAY) == []
    monkeypatch.setattr("airflow_hiveacid.plan.cleaning.SHORTEST_UNKNOWN_AGE_S", 0.0)
    assert clean(client, prod.ref, unknown_age_s=DAY) == []
    assert file.exists()
