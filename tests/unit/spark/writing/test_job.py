"""What a job refuses before it begins a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs import DeleteSpec, JobSpec
from airflow_hiveacid.spark.writing.job import JobContext

if TYPE_CHECKING:
    from airflow_hiveacid.format.table import TableInfo
    from contract.fake_client import FakeClient
    from contract.fake_metastore import FakeMetastore


def test_a_table_on_a_store_without_renames_is_refused_before_anything_is_begun(
    server: FakeMetastore, client: FakeClient, table: TableInfo
) -> None:
    server.tables[table.ref] = replace(table, location="s3a://lake/w/t")
    spec = JobSpec(
        job_key="k",
        metastore=MetastoreEndpoint(uris=("thrift://h:1",)),
        job=DeleteSpec(target=str(table.ref)),
    )
    nothing: Any = None
    job = JobContext(spark=nothing, spec=spec, client=client, on_step=print)
    with pytest.raises(UnsupportedTableError, match="s3a://lake/w/t"):
        job.changeable_table(str(table.ref), "DELETE")
    assert server.txns == {}
