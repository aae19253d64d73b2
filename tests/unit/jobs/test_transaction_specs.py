from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobSpec, ProgramSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.plan.reruns import differing_parts

STATEMENTS = (
    statements.DeleteSpec(target="d.t", where="id = 1"),
    statements.UpdateSpec(target="d.u", set={"a": "1"}),
    statements.DeleteSpec(target="d.t"),
)


def spec(job: Job) -> JobSpec:
    return JobSpec(job_key="k", metastore=MetastoreEndpoint(uris=("thrift://h:1",)), job=job)


def test_the_targets_of_a_transaction_contain_each_table_once() -> None:
    job = spec(statements.TransactionSpec(statements=STATEMENTS))
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
    one = spec(statements.TransactionSpec(statements=STATEMENTS)).statement
    changed = statements.DeleteSpec(target="d.t", where="id = 2")
    other = spec(statements.TransactionSpec(statements=(changed, *STATEMENTS[1:]))).statement
    assert differing_parts(one, other) == ("1.where",)
    fewer = spec(statements.TransactionSpec(statements=STATEMENTS[:1])).statement
    assert "2.set" in differing_parts(one, fewer)


def test_a_multi_insert_survives_json_and_each_of_its_inserts_has_a_number() -> None:
    inserts = tuple(
        statements.InsertSpec(
            target=t, source=statements.SourceSpec(query="SELECT 1", tables={v: "d.s"})
        )
        for t, v in (("d.t", "v1"), ("d.u", "v2"))
    )
    both = statements.MultiInsertSpec(inserts=inserts, shared={"q": "SELECT rand()"})
    whole = spec(statements.TransactionSpec(statements=(both, STATEMENTS[0])))
    assert JobSpec.parse(whole.dump()) == whole
    assert (whole.targets, both.tables) == (("d.t", "d.u"), {"v1": "d.s", "v2": "d.s"})
    other = statements.MultiInsertSpec(inserts=inserts, shared={"q": "SELECT 1"})
    parts = spec(statements.TransactionSpec(statements=(other, STATEMENTS[0]))).statement
    assert differing_parts(whole.statement, parts) == ("1.shared",)
    # Apart, each would see what the other one has done.
    apart = spec(statements.TransactionSpec(statements=(*inserts, STATEMENTS[0]))).statement
    assert differing_parts(whole.statement, apart) == ("1.shared",)
    assert "3.where" in apart
