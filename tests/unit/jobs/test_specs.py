from __future__ import annotations

import json

import pytest

from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.jobs.job import JOB_KINDS, Job, JobSpec, ProgramSpec, StreamSpec
from airflow_hiveacid.jobs.maintenance import (
    ChangeFeedSpec,
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ConversionTarget,
    ConvertSpec,
    Off,
    ProveErasureSpec,
    RebalanceSpec,
    RestoreSpec,
    WhenGone,
)
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    CreateAsSpec,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    StreamBatchSpec,
    TransactionSpec,
    TruncateSpec,
    UpdateSpec,
)

ENDPOINT = MetastoreEndpoint(
    uris=("thrift://a:9083", "thrift://b:9083"),
    transport=Transport.TLS,
    ca_certificate="/etc/ca.pem",
    verify_host=False,
    user="airflow",
    call_timeout_s=7.5,
)
JOBS: dict[str, Job] = {
    "insert": InsertSpec(
        target="db.t",
        source=SourceSpec(columns=("a", "b"), values=((1, "x"), (None, True), (2.5, ""))),
        mode=InsertMode.OVERWRITE,
        columns=("b", "a"),
        partition={"month": "1", "note": None},
    ),
    "merge": MergeSpec(
        target="db.t",
        source=SourceSpec(
            format="parquet", location="/in", options={"k": "v"}, query="SELECT * FROM source"
        ),
        keys=("id",),
        clauses=(
            MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE, condition="s.op = 'U'"),
            MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT, set={"id": "s.id"}),
            MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT, values=("s.id",)),
            MergeClause(when=MergeWhen.NOT_MATCHED_BY_SOURCE, action=MergeAction.DELETE),
        ),
        condition="t.x > 0",
    ),
    "update": UpdateSpec(target="db.t", set={"a": "a + 1"}, where="id = 1"),
    "delete": DeleteSpec(target="db.t"),
    "truncate": TruncateSpec(target="db.t", partition={"p": "1", "q": None}),
    "load": LoadSpec(target="db.t", location="/in", partition={"p": "1"}, overwrite=True),
    "transaction": TransactionSpec(
        statements=(
            TruncateSpec(target="db.t"),
            LoadSpec(target="db.t", location="/in"),
            DeleteSpec(target="db.t", where="id = 1"),
            UpdateSpec(target="db.u", set={"a": "1"}),
            InsertSpec(target="db.t", source=SourceSpec(table="db.s")),
            MergeSpec(
                target="db.t",
                source=SourceSpec(table="db.s"),
                keys=("id",),
                clauses=(MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE),),
            ),
        )
    ),
    "program": ProgramSpec(
        application="a.py", arguments=("x",), digest="d", reads=("db.r",), changes=("db.t",)
    ),
    "create_as": CreateAsSpec(
        target="db.t",
        source=SourceSpec(tables={"v": "db.s"}, query="SELECT a FROM v"),
        partition_columns=("p",),
        bucket_columns=("a",),
        num_buckets=2,
        comment="c",
        properties={"a": "b"},
    ),
    "stream": StreamSpec(application="clicks.py", inserts=("db.t",), run_for_s=600.0),
    "stream_batch": StreamBatchSpec(targets=("db.t", "db.u"), offsets={"p": [1, None]}, plan="9a"),
    "restore": RestoreSpec(target="db.t", version="tag closing", plan_only=True),
    "rebalance": RebalanceSpec(
        target="db.t", partition="month=1", buckets=4, order_by=("a", "b"), plan_only=True
    ),
    "compact": CompactSpec.of_table(
        "db.t", partition="month=1", choice=CompactionChoice.MAJOR, plan_only=True
    ),
    "compact_tables": CompactSpec(
        tables=("db.t", "sales.*"),
        choice=CompactionChoice.MINOR,
        delta_count=3,
        delta_ratio=Off.OFF,
        also_when={"small_files": 200, "aborted_transactions": Off.OFF},
        max_bytes=5,
        plan_only=True,
    ),
    "clean": CleanSpec.of_table("db.t", retention_s=60.0, unknown_age_s=86400.0, plan_only=True),
    "clean_tables": CleanSpec(
        tables=("db.t", "sales.*"), retention_s=60.0, orphan_age_s=5.0, plan_only=True
    ),
    "prove_erasure": ProveErasureSpec(target="db.t", where="id = 1", locations=("/feeds/t",)),
    "convert": ConvertSpec(target="db.t", to=ConversionTarget.FLAT, plan_only=True),
    "change_feed": ChangeFeedSpec(
        target="db.t",
        location="/feeds/t",
        keys=("id",),
        is_net=True,
        columns=("id",),
        where="id > 1",
        pre_images=False,
        since="version 3",
        until="timestamp 2026-11-19T02:00:00+00:00",
        when_gone=WhenGone.WHOLE,
    ),
}


def spec(job: Job) -> JobSpec:
    return JobSpec(
        job_key="dag/run/task/-1",
        metastore=ENDPOINT,
        job=job,
        lock_timeout_s=5.0,
        heartbeat_s=1.5,
        result_uri="file:///r.json",
    )


def changed(**changes: object) -> str:
    return json.dumps(json.loads(spec(JOBS["delete"]).dump()) | changes)


def test_these_tests_contain_an_example_of_every_kind_of_job() -> None:
    assert JOBS.keys() == JOB_KINDS.keys()


@pytest.mark.parametrize("kind", list(JOBS))
def test_a_spec_survives_a_round_trip_through_json(kind: str) -> None:
    sent = spec(JOBS[kind])
    assert sent.kind == kind
    assert JobSpec.parse(sent.dump()) == sent


def test_a_spec_with_defaults_survives_a_round_trip_through_json() -> None:
    sent = JobSpec(
        job_key="k",
        metastore=MetastoreEndpoint(uris=("thrift://a:1",)),
        job=InsertSpec(target="db.t", source=SourceSpec(table="db.s")),
    )
    assert JobSpec.parse(sent.dump()) == sent


@pytest.mark.parametrize("tables", [{}, {"a": "db.x", "b": "db.y"}])
def test_a_query_over_tables_survives_a_round_trip_through_json(tables: dict[str, str]) -> None:
    job = InsertSpec(
        target="db.t",
        source=SourceSpec(tables=tables, query="SELECT 1"),
        match=ColumnMatch.POSITION,
        dynamic_partition=("p",),
    )
    assert JobSpec.parse(spec(job).dump()).job == job


@pytest.mark.parametrize(
    ("changes", "older"),
    [
        ({"version": 0}, "operator"),
        ({"version": 99}, "application"),
        ({"colour": "red"}, "application"),
        ({"kind": "vacuum"}, "application"),
        ({"job": {"target": "db.t", "where": None, "limit": 1}}, "application"),
        ({"job": {}}, "operator"),
        ({"metastore": {}}, "operator"),
    ],
)
def test_a_spec_of_a_different_release_names_the_older_side(
    changes: dict[str, object], older: str
) -> None:
    with pytest.raises(ContractVersionError) as caught:
        JobSpec.parse(changed(**changes))
    assert caught.value.side == older


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}'])
def test_a_damaged_spec_raises_a_typed_error(text: str) -> None:
    with pytest.raises(ContractVersionError):
        JobSpec.parse(text)


@pytest.mark.parametrize("kind", [{}, [], 7, None])
def test_a_kind_that_is_not_a_string_is_refused(kind: object) -> None:
    with pytest.raises(ContractVersionError):
        JobSpec.parse(changed(kind=kind))


def test_a_too_deeply_nested_document_is_refused() -> None:
    with pytest.raises(ContractVersionError, match="JSON"):
        JobSpec.parse("[" * 100_000)
