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


def test_one_table_may_be_read_at_several_versions() -> None:
    found = source_of(
        "INSERT INTO a SELECT n.* FROM b n LEFT ANTI JOIN b FOR VERSION AS OF 3 o ON n.id = o.id"
        " JOIN b FOR VERSION AS OF 4 p ON n.id = p.id"
    )
    assert found.tables == {f"__hiveacid_{n}": "db.b" for n in (1, 2, 3)}
    assert found.versions == {"__hiveacid_2": "version 3", "__hiveacid_3": "version 4"}


def test_the_source_of_a_merge_may_be_an_older_version() -> None:
    found = source_of(
        "MERGE INTO a USING b FOR VERSION AS OF 3 s ON a.id = s.id WHEN MATCHED THEN DELETE"
    )
    assert (found.table, found.versions) == ("db.b", {"source": "version 3"})
    query = source_of(
        "MERGE INTO a USING (SELECT id FROM b FOR VERSION AS OF 3) s ON a.id = s.id"
        " WHEN MATCHED THEN DELETE"
    )
    assert query.versions == {"__hiveacid_1": "version 3"}


def test_inserts_of_one_from_clause_share_a_version() -> None:
    (one,) = read_script(
        "FROM b FOR VERSION AS OF 3 s INSERT INTO a SELECT s.id INSERT INTO c SELECT s.id", "db"
    )
    assert isinstance(one.job, statements.TransactionSpec)
    (multi,) = one.job.statements
    assert multi.versions == {"__hiveacid_1": "version 3"}


@pytest.mark.parametrize(
    ("text", "problem"),
    changes_of(Path(__file__).parents[1] / "cases" / "refused_as_of.txt"),
)
def test_a_misplaced_or_invalid_as_of_clause_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SqlTextError, match=problem):
        read_script(text, "db")


def test_version_and_of_are_still_names_outside_an_as_of_clause() -> None:
    found = source_of("INSERT INTO a SELECT version, x AS of FROM b WHERE version = 5")
    assert found.query == "SELECT version, x AS of FROM `__hiveacid_1` AS `b` WHERE version = 5"
