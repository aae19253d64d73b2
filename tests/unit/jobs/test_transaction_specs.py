from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import ContractVersionError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs import (
    DeleteSpec,
    InsertSpec,
    Job,
    JobSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    ProgramSpec,
    SourceSpec,
    TransactionSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.reruns import differing_parts

ENDPOINT = MetastoreEndpoint(uris=("thrift://h:1",))
SOURCE = SourceSpec(values=((1, "a"),), columns=("id", "name"))
STATEMENTS = (
    DeleteSpec(target="d.t", where="id = 1"),
    UpdateSpec(target="d.t", set={"a": "1"}),
    InsertSpec(target="d.u", source=SOURCE),
    MergeSpec(
        target="d.t",
        source=SOURCE,
        keys=("id",),
        clauses=(MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE),),
    ),
)


def spec(job: Job) -> JobSpec:
    return JobSpec(job_key="k", metastore=ENDPOINT, job=job)


def test_statements_of_every_kind_cross_the_seam_as_they_are() -> None:
    job = spec(TransactionSpec(statements=STATEMENTS))
    assert JobSpec.parse(job.dump()) == job
    assert (job.kind, job.targets, job.job.target) == ("transaction", ("d.t", "d.u"), "d.t, d.u")
    assert job.has_statements


def test_a_program_crosses_the_seam_with_its_tables() -> None:
    job = spec(ProgramSpec(application="a.py", arguments=("x",), reads=("d.r",), changes=("d.t",)))
    assert JobSpec.parse(job.dump()) == job
    assert (job.kind, job.targets) == ("program", ("d.t",))


def test_a_statement_that_is_none_is_an_error_of_the_contract() -> None:
    text = spec(TransactionSpec(statements=STATEMENTS)).dump().replace('"where"', '"were"')
    with pytest.raises(ContractVersionError):
        JobSpec.parse(text)


def test_what_differs_between_two_transactions_is_named_by_statement() -> None:
    one = spec(TransactionSpec(statements=STATEMENTS)).statement
    changed = DeleteSpec(target="d.t", where="id = 2")
    other = spec(TransactionSpec(statements=(changed, *STATEMENTS[1:]))).statement
    assert differing_parts(one, other) == ("1.where",)
    fewer = spec(TransactionSpec(statements=STATEMENTS[:1])).statement
    assert "2.set" in differing_parts(one, fewer)
