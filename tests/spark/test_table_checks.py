"""A worker refuses a job with the same error as the driver, word for word."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.job import Job, JobError
from airflow_hiveacid.jobs.maintenance import (
    ChangeFeedSpec,
    CleanSpec,
    CompactSpec,
    ConversionTarget,
    ConvertSpec,
    RestoreSpec,
)
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    CreateAsSpec,
    DeleteSpec,
    InsertSpec,
    LoadSpec,
    MergeSpec,
    MultiInsertSpec,
    SourceSpec,
    TransactionSpec,
    TruncateSpec,
    UpdateSpec,
)
from tests.support.merge_clauses import matched_update
from tests.support.spark_lab import Lab

_ROW = SourceSpec(values=((1, "a"),), columns=("id", "name"))
_SET = matched_update({"name": "s.name"})


def _insert(target: str = "t", source: SourceSpec = _ROW, **more: Any) -> InsertSpec:  # noqa: ANN401
    return InsertSpec(target=target, source=source, **more)


def _merge(target: str = "t", source: SourceSpec = _ROW, **more: Any) -> MergeSpec:  # noqa: ANN401
    given: dict[str, Any] = {"keys": ("id",), "clauses": (_SET,), **more}
    return MergeSpec(target=target, source=source, **given)


def test_the_worker_and_the_driver_raise_the_same_error_for_an_invalid_job(lab4: Lab) -> None:
    columns = {"id": "bigint", "name": "string"}
    lab4.table("t", columns)
    lab4.table("parts", columns, partition={"day": "string", "month": "int"})
    lab4.table("plain", columns, kind=TransactionalKind.INSERT_ONLY, format_=FileFormat.PARQUET)
    lab4.table("flat", columns, kind=TransactionalKind.NONE)
    lab4.table("buckets", columns, buckets=("id", 2))
    db = lab4.db
    gone = f"{db}.gone"
    of_gone = SourceSpec(tables={"x": gone}, query="SELECT * FROM x")
    files = SourceSpec(tables={"x": f"{db}.t"}, query="SELECT id, name FROM x")
    jobs: list[Job] = [
        _insert("gone"),
        _insert("flat"),
        _insert(source=SourceSpec(table=gone)),
        _insert(source=of_gone),
        _insert(source=SourceSpec(values=((1,),))),
        _insert(source=files, columns=("id", "nmae")),
        _insert("parts", files, partition={"dya": "a"}),
        _insert("parts", files, partition={"month": "1"}, match=ColumnMatch.POSITION),
        _merge("plain"),
        _merge(keys=("idd",)),
        _merge(source=SourceSpec(table=f"{db}.flat"), keys=("idd",)),
        _merge(
            "buckets",
            clauses=(matched_update({"id": "1"}),),
        ),
        UpdateSpec(target="t", set={"nmae": "'a'"}),
        UpdateSpec(target="parts", set={"day": "'a'"}),
        DeleteSpec(target="plain", where="id = 1"),
        DeleteSpec(target="t", where="id IN (SELECT id FROM x)", tables={"x": gone}),
        TruncateSpec(target="parts", partition={"dya": "a"}),
        TruncateSpec(target="parts", partition={"day": "a", "month": "1"}),
        LoadSpec(target="buckets", location="file:/nowhere"),
        LoadSpec(target="parts", location="file:/nowhere", partition={"day": "a"}),
        LoadSpec(target="parts", location="file:/nowhere", partition={"dya": "a", "month": "1"}),
        RestoreSpec(target="flat", version="version 1"),
        CompactSpec.of_table(gone),
        CompactSpec.of_table(f"{db}.parts", partition="day=a/month=1"),
        CleanSpec.of_table(f"{db}.flat"),
        CleanSpec.of_table(f"{db}.parts", partition="day=a/month=1"),
        ChangeFeedSpec(target="gone", location="file:/nowhere"),
        CreateAsSpec(target="new", source=SourceSpec(table=gone)),
        ConvertSpec(target="gone", to=ConversionTarget.FLAT),
        ConvertSpec(target="t", to=ConversionTarget.INSERT_ONLY, plan_only=True),
        TransactionSpec(
            statements=(
                _insert(f"{db}.t"),
                MultiInsertSpec(inserts=(_insert(f"{db}.flat", files), _insert(gone, files))),
            )
        ),
    ]
    jobs = [
        job
        if isinstance(job, TransactionSpec | CompactSpec | CleanSpec)
        else dataclasses.replace(job, target=f"{db}.{job.target}")
        for job in jobs
    ]
    assert [_of_worker(lab4, job) for job in jobs] == [_of_driver(lab4, job) for job in jobs]


def _of_worker(lab: Lab, job: Job) -> JobError | None:
    refusal = lab.refusal(job)
    return None if refusal is None else JobError.of(refusal)


def _of_driver(lab: Lab, job: Job) -> JobError:
    with pytest.raises(HiveAcidError) as caught:
        lab.run(job)
    return JobError.of(caught.value)
