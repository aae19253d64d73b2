"""What a restore looks up before its transaction begins."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import UnsupportedTableError, VersionGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import Constraints, FileFormat, TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.reading.target import Target, resolve_target
from airflow_hiveacid.spark.statements.restore import _comparison, _PlainComparison
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.versions.past import past_of
from airflow_hiveacid.writing.restoring import Restoring, differing
from tests.contract.fake_client import FakeClient
from tests.unit.spark.maintenance.rig import Rig, ledger_entry, put

KEY = "dag/run/restore/-1"


def restoring(client: FakeClient, table: TableInfo) -> Restoring[Target]:
    job: Any = SimpleNamespace(client=client, spec=SimpleNamespace(job_key=KEY))
    return Restoring(job=job, table=table, version=VersionSpec(number=1), compare=_comparison)


def test_a_version_that_is_gone_is_refused_unless_an_earlier_try_may_have_restored_it(
    client: FakeClient, table: TableInfo
) -> None:
    Rig(client, table).insert(1, 2)
    there = restoring(client, table)
    found = there.look()
    assert found is not None
    assert [d.high for root in found for d in root.then.live] == [1]
    assert there.touched() == Touched()  # the whole table, which has no partitions
    # As after an overwrite and a cleaning.
    root = Path(table.location.removeprefix("file:"))
    for path in root.glob("delta_*"):
        shutil.rmtree(path)
    overwrite(client, table)
    with pytest.raises(VersionGoneError):
        there.look()
    with pytest.raises(VersionGoneError):
        there.touched()
    Ledger.of(table).write(ledger_entry(table, "base_0000003", 3, KEY))
    assert there.look() is None
    assert there.touched() == Touched()


def test_a_restore_compares_only_partitions_that_were_written_since_the_version(
    client: FakeClient, table: TableInfo
) -> None:
    def compared(version: int) -> list[list[int]]:
        snapshot = snapshot_now(client, [table.ref])
        spec = VersionSpec(number=WriteId(version))
        past = past_of(client, table, spec, snapshot, taken_s=lambda: None)
        no_spark: Any = None
        now = resolve_target(no_spark, client, table, snapshot)
        then = resolve_target(no_spark, client, table, snapshot, past=past)
        return [[d.high for d in state.live] for state in differing(now, then)[0].states]

    Rig(client, table).insert(1, 2)
    assert compared(1) == [[1, 2]]
    assert compared(2) == []


def test_each_copied_file_of_a_partition_gets_its_own_bucket_id(
    client: FakeClient, table: TableInfo
) -> None:
    (whole,) = client.list_partitions(table)
    root, files = Path(table.location.removeprefix("file:")), list[tuple[int, PlainFile]]()
    for number, name in enumerate(("one", "other")):
        (root / name).write_text(name)
        found = PlainFile(
            store="file:", path=str(root / name), key=name, length=len(name), format=FileFormat.TEXT
        )
        files.append((number, found))
    copies = comparison(table, files).copies(plan_of(table), [whole])
    assert [(copy.bucket, copy.size_bytes) for copy in copies] == [(0, 3), (1, 5)]


def test_compressed_text_is_refused_as_the_name_of_its_copy_would_hide_the_codec(
    client: FakeClient, table: TableInfo
) -> None:
    (whole,) = client.list_partitions(table)
    file = PlainFile(store="file:", path="x", key="x.gz", length=1, format=FileFormat.TEXT)
    with pytest.raises(UnsupportedTableError, match=r"compressed text file x\.gz"):
        comparison(table, [(0, file)]).copies(plan_of(table), [whole])


def test_a_constraint_is_checked_against_the_rows_before_files_are_copied(
    client: FakeClient, table: TableInfo
) -> None:
    class Asked(Exception):  # noqa: N818 - no failure, but where the test ends
        """Spark would compute the rows now."""

    def rows(names: tuple[str, ...]) -> None:
        raise Asked(*names)

    (whole,) = client.list_partitions(table)
    demanding = dataclasses.replace(table, constraints=Constraints(not_null={"id": "nn"}))
    found = comparison(demanding, [])
    found.then.rows = rows  # type: ignore[method-assign,assignment]
    with pytest.raises(Asked, match="id"):
        found.copies(plan_of(demanding), [whole])


def comparison(table: TableInfo, files: list[tuple[int, PlainFile]]) -> _PlainComparison:
    """A comparison with a version that has these files, none of which has rows."""
    then: Any = SimpleNamespace(plain_files=files, partitions=())
    then.of_partitions = lambda _: then
    now: Any = SimpleNamespace(spark=None, table=table)
    return _PlainComparison(now=now, then=then)


def plan_of(table: TableInfo) -> Any:  # noqa: ANN401 - the parts of a plan that a copy needs
    return SimpleNamespace(
        insert_directory="base_0000002",
        staging=lambda _: Staging(location=table.location, token="1"),
    )


def overwrite(client: FakeClient, table: TableInfo) -> None:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.add_dynamic_partitions(txn_id, write_id, table.ref, (), DataOperation.UPDATE)
    put(table, f"base_{write_id:07d}", [(write_id, 3)])
    client.commit_txn(txn_id)
