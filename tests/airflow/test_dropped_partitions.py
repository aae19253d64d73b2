"""What the hook leaves in a table's notes when it drops partitions."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import OtherOwnerError
from airflow_hiveacid.format.records import Owner
from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.metastore_statements import DropPartitions, DropTable
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.storage.stores.table_notes import note_owner
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms


def test_the_hook_records_dropped_partitions_in_the_notes_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    client = FakeClient(FakeMetastore(MetastoreGeneration.V4, clock))
    table = client.create_table(
        NewTable(
            ref=TableRef("default", "t"),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=(Column(name="p", type="int"),),
            location=f"file:{tmp_path}",
        )
    )
    client.add_partitions(table, [PartitionName.parse("p=1")])
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, table.ref)
    (tmp_path / "p=1/delta_0000001_0000001_0000").mkdir(parents=True)
    client.commit_txn(txn_id)
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: nullcontext(client))
    asked = DropPartitions(target="default.t", partitions=((("p", "1"),),))
    outcome = HiveAcidHook().run(asked, terms=job_terms(None, lock_timeout_s=10.0, clock=clock))
    assert outcome.has_changed
    (reset,) = VersionNotes.of(table).resets()
    assert (str(reset.partition), reset.lowest, reset.write_id) == ("p=1", 1, 1)


def test_the_hook_changes_no_table_of_another_metastore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    client = FakeClient(FakeMetastore(MetastoreGeneration.V4, clock))
    new = NewTable(
        ref=TableRef("default", "t"),
        columns=(Column(name="id", type="bigint"),),
        location=f"file:{tmp_path}",
    )
    table = client.create_table(new)
    owner = Owner(metastore="original", table=table.ref, table_id=table.table_id)
    note_owner(table.location, owner)
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: nullcontext(client))
    hook, terms = HiveAcidHook(), job_terms(None, lock_timeout_s=10.0, clock=clock)
    for change in (
        lambda: hook.run(DropTable(target="default.t"), terms=terms),
        lambda: hook.make_tag("default.t", "closing", VersionSpec()),
        lambda: hook.drop_tag("default.t", "closing"),
    ):
        with pytest.raises(OtherOwnerError, match="of the metastore original"):
            change()
    assert client.get_table(table.ref) == table
