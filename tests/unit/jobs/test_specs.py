from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any, cast

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
from airflow_hiveacid.jobs.metastore_statements import AddColumns, NewColumn
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
    MultiInsertSpec,
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


def test_an_unknown_field_of_the_same_version_is_named_first() -> None:
    with pytest.raises(ContractVersionError) as caught:
        JobSpec.parse(changed(job={"target": "db.t", "where": None, "limit": 1}))
    assert str(caught.value).startswith(
        "the field job.limit is unknown: Airflow and the driver have different releases, and the"
        " application is older. Install the same release"
    )


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


DIGESTS = {
    "insert": "7bf1da91b5d86355",
    "merge": "44f8b25c19a896e2",
    "update": "7bd75d63141014e8",
    "delete": "45c7b7e5c5475408",
    "truncate": "85a8daeaeef5d404",
    "load": "36ffc9d1d6284bdf",
    "transaction": "74b7f4f417adeff6",
    "program": "18c834e3fad0993f",
    "create_as": "21297e152aca0f72",
    "stream": "33878786886ddc80",
    "stream_batch": "4c359279a0394298",
    "restore": "79f55a7a07b90f59",
    "rebalance": "4872367ffb2e2b16",
    "compact": "3627b255a1d070fd",
    "compact_tables": "4e27b6cee176de38",
    "clean": "10a69525fd334a6b",
    "clean_tables": "2b8c9f488c023983",
    "prove_erasure": "ab833b54e496137b",
    "convert": "b314817d7519f620",
    "change_feed": "ed877c33fee0c519",
}


@pytest.mark.parametrize("kind", JOBS)
def test_the_digests_of_a_statement_are_those_of_earlier_releases(kind: str) -> None:
    # The ledgers of tables contain them. If they change, a retry after an upgrade fails.
    text = json.dumps(spec(JOBS[kind]).statement, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[kind]


def later(cls: type, **given: Any) -> Any:  # noqa: ANN401
    """Return an instance of a class as in a later release, with one more field."""
    new = [("new", bool, dataclasses.field(default=False))]
    made: Any = dataclasses.make_dataclass(
        cls.__name__, new, bases=(cls,), frozen=True, kw_only=True, slots=True
    )
    return made(**given)


def test_a_new_field_with_its_default_changes_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def digests(made: Callable[..., Any], **new: bool) -> list[dict[str, str]]:
        delete = made(DeleteSpec, target="d.t", **new)
        monkeypatch.setitem(cast("dict[str, type]", JOB_KINDS), "delete", type(delete))
        clause = made(MergeClause, when=MergeWhen.MATCHED, action=MergeAction.DELETE, **new)
        source = made(SourceSpec, table="d.s", **new)
        inserts = (InsertSpec(target="d.t", source=source),)
        jobs = (
            delete,
            MergeSpec(target="d.t", source=source, keys=("id",), clauses=(clause,)),
            TransactionSpec(statements=(made(MultiInsertSpec, inserts=inserts, **new), delete)),
            made(StreamBatchSpec, targets=("d.t",), **new),
        )
        monkeypatch.setitem(cast("dict[str, type]", JOB_KINDS), "stream_batch", type(jobs[-1]))
        return [spec(job).statement for job in jobs]

    now = digests(lambda cls, **given: cls(**given))
    assert digests(later) == now
    assert all(one != other for one, other in zip(digests(later, new=True), now, strict=True))
    column = NewColumn(name="a", type="int")
    of_column = AddColumns(target="d.t", columns=(column,)).digest
    assert later(AddColumns, target="d.t", columns=(column,)).digest == of_column
    other = later(NewColumn, name="a", type="int", new=True)
    assert AddColumns(target="d.t", columns=(other,)).digest != of_column
