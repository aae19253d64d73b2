"""A job that compacts many partitions lists the table's hidden directory only twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation, MetastoreGeneration
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.storage.stores import json_files
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_files, metadata_text
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import keep
from spark_apps.compact import compact
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.rig import leave_unconfirmed, ledger_entry, put

PLACES = tuple(f"p={number}" for number in range(6))


@pytest.fixture
def parted(server: FakeMetastore, table: TableInfo) -> TableInfo:
    """A table whose partitions all have two deltas."""
    client = FakeClient(server)
    parted = dataclasses.replace(table, partition_columns=(Column(name="p", type="int"),))
    server.tables[table.ref] = parted
    client.add_partitions(parted, [PartitionName.parse(place) for place in PLACES])
    for _ in range(2):
        write(client, parted, *PLACES)
    return parted


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists how often the hidden directory is listed."""
    found: list[str] = []

    def listing(fs: pafs.FileSystem, directory: str, prefix: str = "") -> tuple[FileEntry, ...]:
        found.append(directory)
        return list_files(fs, directory, prefix)

    monkeypatch.setattr(json_files, "list_files", listing)
    return found


def write(client: FakeClient, table: TableInfo, *places: str) -> tuple[WriteId, TxnId]:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    names = tuple(PartitionName.parse(place) for place in places)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, names, DataOperation.INSERT)
    for place in places:
        root = Path(table.location.removeprefix("file:")) / place
        root.mkdir(exist_ok=True)
        put(table, f"{place}/delta_{write_id:07d}_{write_id:07d}_0000", [(write_id, 1)])
    client.commit_txn(txn_id)
    return write_id, txn_id


def run(
    client: FakeClient,
    table: TableInfo,
    *,
    at_once: int = 1,
    on_step: Callable[[str], None] = lambda _: None,
    key: str = "dag/run/compact/-1",
) -> JobResult:
    """The job, as the application runs it."""
    job: Any = SimpleNamespace(
        client=client,
        job_of=lambda _: CompactSpec.of_table(str(table.ref), choice=CompactionChoice.MAJOR),
        policy_of=lambda _: ConflictPolicy.HIVE,
        terms=job_terms(key, on_step=on_step),
        spark=SimpleNamespace(
            sparkContext=SimpleNamespace(applicationId="app_1", defaultParallelism=at_once)
        ),
        spec=SimpleNamespace(
            kind="compact",
            job_key=key,
            conflict_policy=None,
            default_conflict_policy=ConflictPolicy.HIVE,
        ),
    )
    return compact(job)


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_job_lists_the_hidden_directory_at_most_twice_for_any_number_of_partitions(
    server: FakeMetastore,
    parted: TableInfo,
    listings: list[str],
    *,
    is_kept: bool,
    at_once: int,
) -> None:
    client = FakeClient(server)
    if is_kept:
        keep(client, parted)
        write(client, parted, *PLACES)
    is_confirmed = leave_unconfirmed(parted, "p=5/delta_0000001_0000001_0000")
    listings.clear()
    result = run(client, parted, at_once=at_once)
    assert sorted(result.partitions) == sorted(PLACES)
    assert set(listings) == {f"{parted.location.removeprefix('file:')}/{HIDDEN_DIRECTORY}"}
    assert len(listings) <= 2
    assert is_confirmed()


def test_the_ledger_entry_of_a_writer_killed_after_the_listing_is_confirmed(
    server: FakeMetastore, parted: TableInfo, listings: list[str]
) -> None:
    """The snapshot of a later partition contains its write; the snapshot at the listing did not."""
    client, entries = FakeClient(server), []

    def killed(step: str) -> None:
        if step == "published" and not entries:
            entries.append(_unconfirmed(parted, "p=3", *write(client, parted, "p=3")))

    result = run(client, parted, on_step=killed)
    assert sorted(result.partitions) == sorted(PLACES)
    found = Ledger.of(parted).entries(entries[0].job_key)
    assert [e.is_confirmed for e in found] == [False, True]
    assert len(listings) <= 4  # that of the test, and once more for the write


def test_a_base_named_after_an_aborted_write_id_causes_no_further_listing(
    server: FakeMetastore, parted: TableInfo, listings: list[str]
) -> None:
    """Hive's worker names its base after the highest write ID, whatever became of that write."""
    client = FakeClient(server)
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, parted.ref)
    client.abort_txn(txn_id)
    for place in PLACES:
        put(parted, f"{place}/base_0000003", [(1, 1), (2, 1)])
        root = Path(parted.location.removeprefix("file:")) / place
        (root / "base_0000003" / METADATA_FILE).write_bytes(metadata_text("compacted"))
    write(client, parted, *PLACES)
    result = run(client, parted)
    assert sorted(result.partitions) == sorted(PLACES)
    assert len(listings) <= 2


def test_a_ledger_entry_of_many_partitions_is_confirmed_only_once(
    server: FakeMetastore, parted: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = _unconfirmed(parted, "p=0", WriteId(1), TxnId(1))
    everywhere = tuple(f"{parted.location}/{place}/{_delta(WriteId(1))}" for place in PLACES)
    Ledger.of(parted).write(dataclasses.replace(entry, directories=everywhere))
    written: list[LedgerEntry] = []
    monkeypatch.setattr(Ledger, "write", lambda _, one: written.append(one))
    run(FakeClient(server), parted)
    assert [one.is_confirmed for one in written] == [True]


def test_a_kept_table_stays_kept_during_many_simultaneous_compactions_of_ours(
    server: FakeMetastore, parted: TableInfo
) -> None:
    """Each compaction finds the queue entries of the others."""
    client = FakeClient(server)
    keep(client, parted)
    for number in range(2):
        write(client, parted, *PLACES)
        run(client, parted, at_once=4, key=f"dag/run/compact{number}/-1")
    promises = VersionNotes.of(parted).promises()
    assert not promises.has_ended
    assert not promises.is_broken([e.entry_id for e in client.show_compactions(parted.ref)])


def test_a_foreign_compaction_during_a_job_ends_the_guarantee_of_a_kept_table(
    server: FakeMetastore, parted: TableInfo, listings: list[str]
) -> None:
    if server.generation is MetastoreGeneration.V3:
        return  # no entry of ours in its queue
    client, asked, late = FakeClient(server), [], PartitionName.parse("p=9")
    keep(client, parted)
    write(client, parted, *PLACES)

    def compacted(step: str) -> None:
        if step == "published" and not asked:
            entry = client.request_compaction(parted.ref, late, CompactionType.MAJOR)
            asked.append(entry.entry_id)
            theirs = client.find_next_compaction("hive", worker_version="4.0.1")
            assert theirs is not None
            client.mark_compacted(theirs)

    listings.clear()
    run(client, parted, on_step=compacted)
    assert VersionNotes.of(parted).has_ended()
    assert len(listings) <= 5  # two, two looks at whether it is so, and that of the test


def _delta(write_id: WriteId) -> str:
    return f"delta_{write_id:07d}_{write_id:07d}_0000"


def _unconfirmed(table: TableInfo, place: str, write_id: WriteId, txn_id: TxnId) -> LedgerEntry:
    """What a driver leaves that is killed right after it has committed this write."""
    entry = ledger_entry(table, f"{place}/{_delta(write_id)}", write_id)
    Ledger.of(table).write(entry := dataclasses.replace(entry, txn_id=txn_id))
    return entry
