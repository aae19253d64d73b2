from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import changes_of


def source_of(text: str) -> statements.SourceSpec:
    (one,) = read_script(text, "db")
    assert isinstance(one.job, statements.InsertSpec | statements.MergeSpec)
    return one.job.source


@pytest.mark.parametrize(
    ("clause", "version"),
    [
        ("FOR VERSION AS OF 12", "version 12"),
        ("for system_version as of 12", "version 12"),
        ("VERSION AS OF 12", "version 12"),
        ("FOR VERSION AS OF 'closing'", "tag closing"),
        ("FOR TIMESTAMP AS OF '2026-11-19 02:00:00Z'", "timestamp 2026-11-19T02:00:00+00:00"),
        (
            "FOR SYSTEM_TIME AS OF '2026-11-19T02:00:00+01:00'",
            "timestamp 2026-11-19T02:00:00+01:00",
        ),
        ("TIMESTAMP AS OF TIMESTAMP '2026-11-19 02:00:00Z'", "timestamp 2026-11-19T02:00:00+00:00"),
    ],
)
def test_every_form_of_the_as_of_clause_selects_a_version_of_the_table(
    clause: str, version: str
) -> None:
    whole = source_of(f"INSERT INTO a SELECT * FROM b {clause}")
    assert (whole.table, whole.versions) == ("db.b", {"source": version})
    part = source_of(f"INSERT INTO a SELECT x.id FROM b {clause} x WHERE x.id > 1")
    assert part.query == "SELECT x.id FROM `__hiveacid_1` x WHERE x.id > 1"
    assert (part.tables, part.versions) == ({"__hiveacid_1": "db.b"}, {"__hiveacid_1": version})


@pytest.mark.parametrize(
    ("text", "problem"),
    changes_of(Path(__file__).parents[1] / "cases" / "refused_as_of.txt"),
)
def test_a_misplaced_or_invalid_as_of_clause_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SqlTextError, match=problem):
        read_script(text, "db")
