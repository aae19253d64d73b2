"""Which job created an existing table, and which unfinished tables a job may remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import DefinitionError
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.statements import CreateAsSpec, SourceSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.spark.statements import creation
from airflow_hiveacid.spark.writing.context import JobContext
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_spec

KEY, NAMED = "dag/run/task/-1", "dag/run/task/-1@blue"
SPEC = CreateAsSpec(target="default.t", source=SourceSpec(table="default.s"))


def job(client: FakeClient) -> JobContext:
    no_spark: Any = None
    spec = job_spec(SPEC, NAMED)
    return JobContext.of(no_spark, spec, client)


def maker(key: str) -> str:
    """What the parameter says of a table that a job made."""
    digest = SPEC.hidden_prefix(key).removeprefix(SPEC.target).strip("_")
    return f"{digest}#0"


def make(client: FakeClient, root: Path, name: str, made_by: str) -> None:
    (root / name).mkdir()
    client.create_table(
        NewTable(
            ref=TableRef.parse(name),
            columns=(Column(name="a", type="int"),),
            location=f"file:{root}/{name}",
            parameters={creation.MADE_BY: made_by},
        )
    )


def test_a_table_that_this_job_created_is_not_created_again(
    client: FakeClient, tmp_path: Path
) -> None:
    make(client, tmp_path, "default.t", maker(NAMED))
    assert creation.create_and_fill(job(client)).status is JobStatus.ALREADY_DONE


@pytest.mark.parametrize("key", [KEY, f"{KEY}@green", f"{KEY}0"])
def test_a_table_that_a_different_job_created_is_refused(
    client: FakeClient, tmp_path: Path, key: str
) -> None:
    """An installation without a name has the same key, but is a different one."""
    make(client, tmp_path, "default.t", maker(key))
    with pytest.raises(DefinitionError, match="already exists"):
        creation.create_and_fill(job(client))


def test_a_table_property_names_the_job_that_created_the_table(
    client: FakeClient, tmp_path: Path
) -> None:
    make(client, tmp_path, "default.s", "")
    made = creation._new_table(job(client), SPEC, TableRef("default", "hidden"))
    assert made.parameters[creation.MADE_BY] == maker(NAMED)


def test_unfinished_tables_of_this_job_are_removed_and_no_others(
    client: FakeClient, tmp_path: Path
) -> None:
    tries = {
        f"{SPEC.hidden_prefix(NAMED)}1": maker(NAMED),
        f"{SPEC.hidden_prefix(KEY)}2": maker(KEY),
        f"{SPEC.hidden_prefix(KEY + '0')}3": maker(KEY + "0"),
    }
    for name, made_by in tries.items():
        make(client, tmp_path, name, made_by)
    creation._remove_leftovers(job(client), SPEC)
    assert sorted(f"default.{n}" for n in client.list_tables("default")) == sorted(
        name for name in tries if name.endswith(("2", "3"))
    )
