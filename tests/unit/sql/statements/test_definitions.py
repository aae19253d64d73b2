from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.jobs.metastore_statements import (
    CreateTable,
    MetastoreStatement,
    NewColumn,
    RenameTable,
    ShowLocks,
)
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import jobs_of, refusals_of

CASES = Path(__file__).parents[1] / "cases"


def read(text: str, database: str | None = None) -> object:
    (statement,) = read_script(text, database)
    return statement.job


def column(name: str, type_: str, comment: str | None = None) -> NewColumn:
    return NewColumn(name=name, type=type_, comment=comment)


def table(**more: Any) -> CreateTable:  # noqa: ANN401
    return CreateTable(**{"target": "db.t", "columns": (column("a", "int"),), **more})


@pytest.mark.parametrize(("text", "expected"), jobs_of(CASES / "tables.txt"))
def test_create_table_is_read_in_hives_syntax(text: str, expected: CreateTable) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(("text", "expected"), jobs_of(CASES / "other_definitions.txt"))
def test_other_definition_show_and_abort_statements_are_read(
    text: str, expected: MetastoreStatement
) -> None:
    assert read(text) == expected


def test_the_default_database_is_added_to_names_without_one() -> None:
    assert read("ALTER TABLE t RENAME TO u", "db") == RenameTable(target="db.t", new_name="db.u")
    assert read("SHOW LOCKS t", "db") == ShowLocks(target="db.t")


def test_alter_table_compact_is_read_as_a_job() -> None:
    assert isinstance(read("ALTER TABLE db.t PARTITION (compact = 1) COMPACT 'minor'"), CompactSpec)


def test_a_script_may_mix_definitions_row_changes_and_show_statements() -> None:
    found = read_script(
        "SHOW LOCKS; CREATE TABLE db.t (a int);\n  DELETE FROM db.t; SHOW LOCKS db.t;"
    )
    assert [(s.number, s.line, s.column) for s in found] == [
        (1, 1, 1),
        (2, 1, 13),
        (3, 2, 3),
        (4, 2, 21),
    ]


@pytest.mark.parametrize(
    ("text", "place", "message"), refusals_of(CASES / "refused_definitions.txt")
)
def test_an_unsupported_definition_is_refused_with_its_line_and_column(
    text: str, place: int, message: str
) -> None:
    with pytest.raises(SqlTextError) as caught:
        read(text)
    assert message in caught.value.problem
    assert (caught.value.line, caught.value.column) == (1, place)
    assert caught.value.remedy


@pytest.mark.promise("D2")
@pytest.mark.parametrize("format_", ["PARQUET", "TEXTFILE", "AVRO"])
def test_a_full_acid_table_must_be_orc(format_: str) -> None:
    text = f"CREATE TABLE db.t (a int) STORED AS {format_} TBLPROPERTIES ('transactional'='true')"
    with pytest.raises(
        SqlTextError, match=r"a full-ACID table must be ORC|format is not supported"
    ):
        read(text)
    assert read(text.replace(format_, "ORC")) == table()
