"""Which jobs a worker refuses before Spark starts, and which it must leave to the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.errors import NotTransactionalError
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionName,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import ConversionTarget, ConvertSpec
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MultiInsertSpec,
    SourceSpec,
    TransactionSpec,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.operators.submission.table_checks import check_tables
from tests.contract.fake_client import FakeClient
from tests.support.cases import cases_of, job_of

T, FLAT, GONE = "default.t", "default.flat", "default.gone"
CASES = Path(__file__).parent / "cases"


@pytest.fixture(autouse=True)
def _tables(client: FakeClient) -> None:
    """One table of each kind; `parts` has the partitions a/1 and b/2, and `odd` has one."""
    more: dict[str, dict[str, Any]] = {
        T: {},
        "default.parts": {
            "partition_columns": (
                Column(name="day", type="string"),
                Column(name="month", type="int"),
            )
        },
        "default.odd": {
            "partition_columns": (
                Column(name="moment", type="timestamp"),
                Column(name="ratio", type="double"),
                Column(name="small", type="tinyint"),
                Column(name="unread", type="interval_year_month"),
            )
        },
        "default.plain": {"kind": TransactionalKind.INSERT_ONLY, "format": FileFormat.PARQUET},
        FLAT: {"kind": TransactionalKind.NONE},
        "default.stuck": {
            "kind": TransactionalKind.INSERT_ONLY,
            "bucket_columns": ("id",),
            "num_buckets": 2,
        },
        "default.buckets": {"bucket_columns": ("id",), "num_buckets": 2},
        "default.off": {
            "partition_columns": (Column(name="day", type="string"),),
            "parameters": {"NO_AUTO_COMPACTION": "true"},
        },
    }
    columns = (Column(name="id", type="bigint"), Column(name="name", type="string"))
    made = {
        name: client.create_table(NewTable(ref=TableRef.parse(name), columns=columns, **given))
        for name, given in more.items()
    }
    names = [PartitionName.parse(name) for name in ("day=a/month=1", "day=b/month=2")]
    client.add_partitions(made["default.parts"], names)
    odd = PartitionName.parse("moment=2024-01-01/ratio=0.0/small=257/unread=1")
    client.add_partitions(made["default.odd"], [odd])


@pytest.mark.parametrize(("job", "refusal"), cases_of(CASES / "refused_jobs.txt"))
def test_a_job_that_its_driver_would_refuse_is_refused_before_spark_starts(
    client: FakeClient, job: str, refusal: str
) -> None:
    error, _, says = refusal.strip().partition(" ")
    with pytest.raises(getattr(errors, error), match=says):
        check_tables(client, job_of(job))


@pytest.mark.parametrize(("job", "_"), cases_of(CASES / "accepted_jobs.txt"))
def test_a_job_that_its_driver_may_accept_passes_the_checks(
    client: FakeClient, job: str, _: str
) -> None:
    check_tables(client, job_of(job))


def test_a_table_that_an_interrupted_conversion_renamed_passes_the_checks(
    client: FakeClient,
) -> None:
    columns = (Column(name="id", type="bigint"),)
    client.create_table(NewTable(ref=TableRef("default", "gone__acid"), columns=columns))
    check_tables(client, ConvertSpec(target=GONE, to=ConversionTarget.FLAT))


def test_an_error_in_a_transaction_names_the_statement(client: FakeClient) -> None:
    row = SourceSpec(values=((1, "a"),), columns=("id", "name"))
    of_table = SourceSpec(tables={"x": T}, query="SELECT * FROM x")
    both = MultiInsertSpec(inserts=(InsertSpec(target=FLAT, source=of_table),))
    insert = InsertSpec(target=T, source=row)
    job = TransactionSpec(statements=(insert, both, DeleteSpec(target=T)))
    with pytest.raises(NotTransactionalError) as caught:
        check_tables(client, job)
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
