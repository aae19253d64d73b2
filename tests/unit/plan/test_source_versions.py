from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.plan.arguments import EarlyChecks
from airflow_hiveacid.plan.statements.arguments import check_source_early, source_spec
from airflow_hiveacid.plan.statements.dml import check_source
from tests.support.cases import changes_of


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ({"version": 12}, "version 12"),
        ({"version": "12"}, "version 12"),
        ({"timestamp": "2026-11-19T02:00:00Z"}, "timestamp 2026-11-19T02:00:00+00:00"),
        ({"tag": "closing"}, "tag closing"),
    ],
)
def test_a_version_timestamp_or_tag_beside_a_table_selects_its_version(
    asked: dict[str, object], version: str
) -> None:
    found = source_spec({"table": "db.t", **asked})
    assert found == SourceSpec(table="db.t", versions={"source": version})


def test_a_query_may_give_a_version_for_each_view() -> None:
    given = {
        "tables": {"a": "db.t", "b": "db.t"},
        "query": "SELECT * FROM a EXCEPT SELECT * FROM b",
    }
    assert source_spec({**given, "versions": {"b": "version 3"}}).versions == {"b": "version 3"}


@pytest.mark.parametrize(
    ("source", "why"), changes_of(Path(__file__).parent / "cases" / "refused_versions.txt")
)
def test_an_invalid_version_of_a_source_is_refused(source: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        source_spec(json.loads(source))


def test_a_version_with_a_template_is_not_checked_before_it_is_rendered() -> None:
    check_source_early(EarlyChecks("task"), {"table": "db.t", "version": "{{ params.version }}"})


def test_a_different_version_makes_a_different_statement() -> None:
    def digests(**versions: str) -> dict[str, str]:
        job = InsertSpec(target="db.a", source=SourceSpec(table="db.t", versions=versions))
        metastore = MetastoreEndpoint(uris=("thrift://hms:9083",))
        spec = JobSpec(job_key="k", metastore=metastore, job=job)
        assert JobSpec.parse(spec.dump()) == spec
        return spec.statement

    assert digests() != digests(source="version 1") != digests(source="version 2")


def test_the_application_checks_the_versions_of_a_spec_again() -> None:
    with pytest.raises(ConfigurationError, match="expected 'version N'"):
        check_source(SourceSpec(table="db.t", versions={"source": "then"}))
