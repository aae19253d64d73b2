from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_hiveacid.format.errors import ContractVersionError, InvalidNameError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.jobs.job import JOB_KINDS, Job, JobSpec, ProgramSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec, Off
from airflow_hiveacid.jobs.metastore_statements import AddColumns, NewColumn
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    DeleteSpec,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    MultiInsertSpec,
    SourceSpec,
    StreamBatchSpec,
    TransactionSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.reruns import differing_parts
from tests.support.cases import jobs_of

ENDPOINT = MetastoreEndpoint(
    uris=("thrift://a:9083", "thrift://b:9083"),
    transport=Transport.TLS,
    ca_certificate="/etc/ca.pem",
    verify_host=False,
    user="airflow",
    call_timeout_s=7.5,
)
JOBS: dict[str, Job] = {}
DIGESTS: dict[str, str] = {}
for text, job in jobs_of(Path(__file__).with_name("specs.txt")):
    name, digest = text.split()
    JOBS[name], DIGESTS[name] = cast("Job", job), digest
# Users give integers, of which the codec makes floats, as it may for this field.
JOBS["compact_tables"] = dataclasses.replace(
    JOBS["compact_tables"], also_when={"small_files": 200, "aborted_transactions": Off.OFF}
)


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


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 1}', *(changed(kind=kind) for kind in ({}, [], 7, None))]
)
def test_a_damaged_spec_raises_a_typed_error(text: str) -> None:
    with pytest.raises(ContractVersionError):
        JobSpec.parse(text)


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


# ---- transactions --------------------------------------------------------------------------------

STATEMENTS = (
    DeleteSpec(target="d.t", where="id = 1"),
    UpdateSpec(target="d.u", set={"a": "1"}),
    DeleteSpec(target="d.t"),
)


def test_the_targets_of_a_transaction_contain_each_table_once() -> None:
    job = spec(TransactionSpec(statements=STATEMENTS))
    assert (job.targets, job.job.target, job.has_statements) == (("d.t", "d.u"), "d.t, d.u", True)


def test_the_targets_of_a_program_are_the_tables_that_it_writes() -> None:
    program = ProgramSpec(application="a.py", reads=("d.r",), inserts=("d.i",), changes=("d.t",))
    assert spec(program).targets == ("d.i", "d.t")
    assert (spec(CleanSpec.of_table("d.t")).targets, spec(STATEMENTS[0]).has_statements) == (
        ("d.t",),
        False,
    )


@pytest.mark.parametrize("name", ["d.*", "d.t?", "d.[ab]"])
def test_a_pattern_is_no_name_of_the_only_table(name: str) -> None:
    for kind in (CleanSpec, CompactSpec):
        with pytest.raises(InvalidNameError):
            kind.of_table(name)
    assert CleanSpec(tables=(name,)).tables == (name,)


def test_differences_between_two_transactions_are_named_by_statement() -> None:
    one = spec(TransactionSpec(statements=STATEMENTS)).statement
    changed = DeleteSpec(target="d.t", where="id = 2")
    other = spec(TransactionSpec(statements=(changed, *STATEMENTS[1:]))).statement
    assert differing_parts(one, other) == ("1.where",)
    fewer = spec(TransactionSpec(statements=STATEMENTS[:1])).statement
    assert "2.set" in differing_parts(one, fewer)


def test_a_multi_insert_survives_json_and_each_of_its_inserts_has_a_number() -> None:
    inserts = tuple(
        InsertSpec(target=t, source=SourceSpec(query="SELECT 1", tables={v: "d.s"}))
        for t, v in (("d.t", "v1"), ("d.u", "v2"))
    )
    both = MultiInsertSpec(inserts=inserts, shared={"q": "SELECT rand()"})
    whole = spec(TransactionSpec(statements=(both, STATEMENTS[0])))
    assert JobSpec.parse(whole.dump()) == whole
    assert (whole.targets, both.tables) == (("d.t", "d.u"), {"v1": "d.s", "v2": "d.s"})
    other = MultiInsertSpec(inserts=inserts, shared={"q": "SELECT 1"})
    parts = spec(TransactionSpec(statements=(other, STATEMENTS[0]))).statement
    assert differing_parts(whole.statement, parts) == ("1.shared",)
    # Apart, each would see what the other one has done.
    apart = spec(TransactionSpec(statements=(*inserts, STATEMENTS[0]))).statement
    assert differing_parts(whole.statement, apart) == ("1.shared",)
    assert "3.where" in apart
