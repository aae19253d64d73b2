"""The life of tables that lie on S3: every kind of job, in the driver and in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ConnectionClosedError
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice, ConversionTarget, ConvertSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, TransactionSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.s3_fronts import lists_late
from tests.support.chosen_versions import chosen
from tests.support.merge_clauses import INSERT_ALL, UPDATE_ALL
from tests.support.s3_lab import MotoS3
from tests.support.s3_session import knowing
from tests.support.spark_lab import Lab, Row, make_lab, with_settings

pytestmark = pytest.mark.server

CLAUSES = [
    UPDATE_ALL,
    INSERT_ALL,
]
ODD = "a/b c=1 %2F#?"


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[MotoS3]:
    """An S3 that Spark's JVM, its workers and this process know; keys are in the environment."""
    with MotoS3.started() as server, knowing(spark, server):
        yield server


@pytest.fixture(scope="module")
def metastore(
    request: pytest.FixtureRequest, s3: MotoS3, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalMetastore]:
    """One whose warehouse is on S3."""
    config = LocalMetastoreConfig(
        version=chosen(request.param),
        data_dir=tmp_path_factory.mktemp("metastore"),
        access=s3.access,
        extra_settings=s3.warehouse,
        txn_timeout_s=60.0,
        ends_with_parent=True,
    )
    with LocalMetastore(config) as server:
        yield server


@pytest.fixture
def lab(spark: SparkSession, metastore: LocalMetastore) -> Iterator[Lab]:
    yield from make_lab(spark, metastore)


on_4 = pytest.mark.parametrize("metastore", ["4.0.1"], indirect=True)


@contextmanager
def _provided(api: Any, event: str, handler: Callable[..., None]) -> Iterator[None]:  # noqa: ANN401
    """Have a client of boto3's ask somebody before each request of a kind."""
    api.meta.events.register_first(event, handler)
    try:
        yield
    finally:
        api.meta.events.unregister(event, handler)


def left_over(lab: Lab, s3: MotoS3) -> list[str]:
    """What no reader has any use for."""
    staged = [key for key in s3.objects() if "_tmp_" in key]
    return [key for key in (*staged, *s3.uploads()) if f"/{lab.db}.db/" in key]


def compacted(lab: Lab, choice: CompactionChoice, name: str = "t") -> tuple[bool, str, list[str]]:
    (found,) = lab.compact(name, choice).details["compactions"]
    return found["done"], found["why"], found["outputs"]


@on_4
def test_a_table_on_s3_can_be_changed_compacted_and_cleaned(lab: Lab, s3: MotoS3) -> None:
    names = ["id", "v", "p"]
    columns = {"id": "int", "v": "string"}
    lab.table("t", columns, partition={"p": "string"}, parameters={ONLY_HIVE_4_READS: "true"})
    assert lab.info("t").location.startswith(f"s3a://{s3.bucket}/warehouse/")
    lab.insert("t", [(i, f"v{i}", ODD) for i in range(4)], names)
    lab.delete("t", "id = 0")
    lab.update("t", {"v": "'u'"}, "id = 1")
    lab.merge("t", [(2, "m", ODD), (5, "new", ODD)], names, ["id", "p"], CLAUSES)
    rows: list[Row] = [(1, "u", ODD), (2, "m", ODD), (3, "v3", ODD), (5, "new", ODD)]
    lab.check(rows)
    done, _, minor = compacted(lab, CompactionChoice.MINOR)
    assert done
    assert len(minor) == 2
    lab.clean("t")
    lab.check(rows)
    done, _, (base,) = compacted(lab, CompactionChoice.MAJOR)
    assert done
    assert "_v" in base
    lab.clean("t")
    lab.check(rows)
    lab.overwrite("t", [(7, "o", ODD)], names)
    lab.clean("t")
    lab.check([(7, "o", ODD)])
    own = SourceSpec(table=f"{lab.db}.t")
    one = InsertSpec(
        target=f"{lab.db}.t", source=SourceSpec(values=((8, "x", ODD),), columns=names)
    )
    two = InsertSpec(target=f"{lab.db}.t", source=own, columns=names)
    with pytest.raises(
        errors.UnsupportedTableError, match="run the two statements in separate transactions"
    ):
        lab.run(TransactionSpec(statements=(one, two)))
    lab.table("flat", columns, kind=TransactionalKind.NONE)
    with pytest.raises(errors.HiveAcidError, match="no renames"):
        lab.run(ConvertSpec(target=f"{lab.db}.flat", to=ConversionTarget.INSERT_ONLY))
    lab.truncate("t")
    lab.check([])
    assert left_over(lab, s3) == []


@on_4
@pytest.mark.parametrize("kind", [TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY])
@pytest.mark.long_cases("*.FULL_ACID-*")
def test_a_table_on_s3_can_be_restored_to_a_version(
    lab: Lab, s3: MotoS3, kind: TransactionalKind
) -> None:
    names = ["id", "v", "p"]
    lab.table("t", {"id": "int", "v": "string"}, partition={"p": "string"}, kind=kind)
    lab.insert("t", [(1, "a", ODD), (2, "b", "q")], names)
    lab.insert("t", [(3, "c", ODD), (4, "d", "new")], names)
    result = lab.restore("t", 1)
    assert lab.rows("t") == [(1, "a", ODD), (2, "b", "q")]
    assert len(result.partitions) == 2
    assert left_over(lab, s3) == []


@on_4
def test_an_outdated_listing_loses_no_rows(lab: Lab, s3: MotoS3, tmp_path: Path) -> None:
    """Spark's committer moves a task's files by a list of them, and what this lacks is gone."""
    ids = list(range(2_000))
    for number in range(2):  # a task each
        half = pa.table({"id": ids[number::2], "p": [i % 3 for i in ids[number::2]]})
        pq.write_table(half, tmp_path / f"{number}.parquet")
    source = SourceSpec(format="parquet", location=str(tmp_path))
    lab.table("t", {"id": "bigint"}, partition={"p": "int"})
    for name in ("u", "v"):
        lab.table(name, {"id": "bigint", "p": "int"})
    hidden: set[str] = set()

    def is_late(key: str) -> bool:
        is_staged = "/_tmp_hiveacid_" in key and "part-00001" in key
        hidden.update({key} if is_staged else ())
        return is_staged or ("/_tmp_hiveacid_" in key and "/bucket_00001" in key)

    with s3.behind(lists_late(is_late)):
        for name in ("t", "u"):
            lab.run(InsertSpec(target=f"{lab.db}.{name}", source=source))
        with with_settings(lab.spark, {"spark.sql.adaptive.enabled": "false"}):
            lab.run(InsertSpec(target=f"{lab.db}.v", source=source))
    for name in ("t", "u", "v"):
        assert lab.rows(name) == [(i, i % 3) for i in ids]
    assert not hidden, "a task's rows went through Spark's committer"
    for name in ("u", "v"):  # or they could not be compacted for Trino
        assert len(lab.frame(name).inputFiles()) == 1


@on_4
def test_a_file_that_s3_completes_after_the_abort_is_invisible_and_cleaning_removes_it(
    lab: Lab, s3: MotoS3
) -> None:
    """S3 may work on at a completion whose answer nobody waits for any more."""
    lab.table("t", {"id": "int", "v": "string"})
    lab.insert("t", [(1, "a")], ["id", "v"])
    api = open_location(lab.info("t").location)[0].handler._bucket._api
    late: list[dict[str, object]] = []

    def lose(params: dict[str, object], **_: object) -> None:
        late.append(params)
        upload = {name: params[name] for name in ("Bucket", "Key", "UploadId")}
        parts = s3.client().list_parts(**upload)["Parts"]
        assert [part["PartNumber"] for part in parts] == [1]
        raise ConnectionClosedError(endpoint_url=s3.endpoint)

    completes = "provide-client-params.s3.CompleteMultipartUpload"
    with _provided(api, completes, lose), pytest.raises(errors.StoreUnavailableError):
        lab.insert("t", [(2, "late")], ["id", "v"])
    key = str(late[0]["Key"])
    assert s3.uploads() == []
    (whole,) = [k for k in s3.objects() if f"/{lab.db}.db/t/delta" in k and "/bucket_" in k]
    # What S3 would show at last: the file, under the name, of the upload that was given up.
    s3.client().copy_object(
        Bucket=s3.bucket, Key=key, CopySource={"Bucket": s3.bucket, "Key": whole}
    )
    assert key in s3.objects()
    rows: list[Row] = [(1, "a")]
    lab.check(rows)
    lab.insert("t", [(3, "c")], ["id", "v"])
    rows.append((3, "c"))
    lab.check(rows)
    # As it is cleaned at any time, also before a compaction lets the metastore forget the abort.
    removed = lab.clean("t").details["cleanings"]
    assert key.split("/")[-2] in str(removed)
    assert key not in s3.objects()
    lab.check(rows)


@pytest.mark.clusters
@pytest.mark.parametrize("metastore", ["3.1.3"], indirect=True)
def test_with_a_hive_3_metastore_only_compactions_with_a_single_result_file_run(
    lab: Lab, s3: MotoS3
) -> None:
    names = ["id", "v"]
    lab.table("t", {"id": "int", "v": "string"})
    lab.table("b", {"id": "int", "v": "string"}, buckets=("id", 2))
    for name in ("t", "b"):
        lab.insert(name, [(i, f"v{i}") for i in range(4)], names)
        lab.delete(name, "id = 0")
    rows: list[Row] = [(i, f"v{i}") for i in range(1, 4)]
    with pytest.raises(errors.CompactionNotDoneError, match=r"Hive 3\.1 cannot hide them"):
        compacted(lab, CompactionChoice.MAJOR, "b")
    other = lab.client.open_txn()
    with pytest.raises(errors.CompactionNotDoneError, match=f"transaction {other} is open"):
        compacted(lab, CompactionChoice.MAJOR)
    lab.client.abort_txn(other)
    assert compacted(lab, CompactionChoice.MAJOR)[::2] == (True, ["base_0000002"])
    lab.clean("t")
    lab.check(rows)
    assert lab.rows("b") == rows
    assert left_over(lab, s3) == []
