"""What a cleaner removes if the table changes in the meantime."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import PartitionNotFoundError, StorageError, TableChangedError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import READS_ORIGINALS, TableRef, TransactionalKind
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import Cleaner, CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.storage.stores.listing import metadata_text
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import at
from tests.support.tables import id_table

REF = TableRef("d", "t")
INSERTS = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


@pytest.fixture
def client() -> FakeClient:
    return FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))


@pytest.fixture
def root(client: FakeClient, tmp_path: Path) -> Path:
    """A table with two inserts and a base that holds both."""
    root = tmp_path / "t"
    make(client, root)
    put_base(root, "base_0000002")
    return root


def make(
    client: FakeClient,
    root: Path,
    *inserts: str,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
    parameters: Mapping[str, str] | None = None,
) -> None:
    id_table(client, REF, root, kind=kind, parameters=parameters or {})
    for name in inserts or INSERTS:
        txn_id = client.open_txn()
        client.allocate_write_id(txn_id, REF)
        put(root, name)
        client.commit_txn(txn_id)


def put(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "bucket_00000").write_text("rows")


def put_base(root: Path, name: str) -> None:
    put(root, name)
    (root / name / METADATA_FILE).write_bytes(metadata_text("compacted"))


def clean(client: FakeClient, on_step: Callable[[str], None]) -> CleaningOutcome:
    table = client.get_table(REF)
    spec = CleanSpec.of_table(str(REF), retention_s=0.0, orphan_age_s=0.0)
    (whole,) = client.list_partitions(table)
    overview = Overview.of(client, table)
    cleaner = Cleaner(client=client, table=table, spec=spec, on_step=on_step, overview=overview)
    return cleaner.clean(whole)


def there(root: Path) -> set[str]:
    return {p.name for p in root.iterdir() if not p.name.startswith("_")}


def test_a_partition_of_an_unpartitioned_table_is_not_cleaned(
    client: FakeClient, root: Path
) -> None:
    before = sorted(path.name for path in root.iterdir())
    for plan_only in (True, False):
        spec = CleanSpec.of_table(str(REF), partition="month=1", plan_only=plan_only)
        with pytest.raises(PartitionNotFoundError, match=r"d\.t: has no partition month=1"):
            clean_tables(client, spec, lambda _: None)
    assert sorted(path.name for path in root.iterdir()) == before


def test_a_table_recreated_at_its_location_keeps_directories_with_the_old_names(
    client: FakeClient, root: Path
) -> None:
    def meanwhile() -> None:
        client.drop_table(REF)
        shutil.rmtree(root)
        make(client, root)

    found = clean(client, at("noted", meanwhile))
    assert there(root) == set(INSERTS)
    assert found.removed == ()


def test_cleaning_fails_if_the_table_is_recreated_while_its_write_ids_are_read(
    client: FakeClient, root: Path
) -> None:
    client.abort_txn(late := client.open_txn())
    client.server.write_ids[REF][late] = WriteId(3)

    class Slow(FakeClient):
        def valid_write_ids(
            self, refs: Iterable[TableRef], txns: ValidTxnList
        ) -> dict[TableRef, ValidWriteIdList]:
            found = super().valid_write_ids(refs, txns)
            if (root / "base_0000002").exists():  # the first time
                self.drop_table(REF)
                shutil.rmtree(root)
                make(client, root, *INSERTS, "delta_0000003_0000003_0000")
            return found

    with pytest.raises(TableChangedError):
        clean(Slow(client.server), lambda _: None)
    assert there(root) == {*INSERTS, "delta_0000003_0000003_0000"}


def test_deltas_are_kept_if_an_old_base_cannot_be_removed(
    client: FakeClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outdated reader would read the old base, and silently miss the rows of the deltas."""
    put_base(root, "base_0000001")

    def delete(_: object, path: str) -> None:
        if path.endswith("base_0000001"):
            raise StorageError("the disk is read-only")
        shutil.rmtree(path)

    monkeypatch.setattr("airflow_hiveacid.maintenance.removal.delete_directory", delete)
    with pytest.raises(StorageError):
        clean(client, lambda _: None)
    assert there(root) == {"base_0000001", "base_0000002", *INSERTS}


def test_a_directory_that_a_second_cleaner_has_removed_causes_no_error(
    client: FakeClient, root: Path
) -> None:
    clean(client, at("noted", lambda: shutil.rmtree(root / INSERTS[0])))
    assert there(root) == {"base_0000002"}


@pytest.mark.parametrize("are_rows", ["true", "false"])
def test_a_root_file_of_an_insert_only_table_is_removed_only_if_it_counts_as_rows(
    client: FakeClient, tmp_path: Path, are_rows: str
) -> None:
    root = tmp_path / "t"
    kind = TransactionalKind.INSERT_ONLY
    make(client, root, kind=kind, parameters={READS_ORIGINALS: are_rows})
    put_base(root, "base_0000002")
    (root / "000000_0").write_text("rows?")
    clean(client, lambda _: None)
    left = set() if are_rows == "true" else {"000000_0"}
    assert there(root) == {"base_0000002", *left}
