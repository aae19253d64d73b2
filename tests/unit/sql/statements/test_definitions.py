from __future__ import annotations

from typing import Any

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.metastore_statements import (
    AbortTransactions,
    AddColumns,
    AddPartitions,
    ChangeColumn,
    CreateDatabase,
    CreateTable,
    DropPartitions,
    DropTable,
    MetastoreStatement,
    NewColumn,
    NewPartition,
    RenameTable,
    SetProperties,
    ShowCompactions,
    ShowLocks,
    ShowTransactions,
    UnsetProperties,
)
from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.jobs.specs.statements import CreateAsSpec, SourceSpec
from airflow_hiveacid.sql.script import read_script


def read(text: str, database: str | None = None) -> object:
    (statement,) = read_script(text, database)
    return statement.job


def column(name: str, type_: str, comment: str | None = None) -> NewColumn:
    return NewColumn(name=name, type=type_, comment=comment)


def table(**more: Any) -> CreateTable:  # noqa: ANN401
    return CreateTable(**{"target": "db.t", "columns": (column("a", "int"),), **more})


TABLES: list[tuple[str, CreateTable]] = [
    ("CREATE TABLE db.t (a int)", table()),
    ("create table `DB`.T (`A` INTEGER)", table()),
    ("CREATE TRANSACTIONAL TABLE db.t (a int)", table()),
    ("CREATE MANAGED TABLE IF NOT EXISTS db.t (a int)", table(if_not_exists=True)),
    ("CREATE TABLE db.t (a int) TBLPROPERTIES ('transactional'='TRUE')", table()),
    (
        (
            "CREATE TABLE db.t (a int COMMENT 'its', `b c` struct<x:array<map<string,int>>,y:date>,"
            ' c decimal(10, 2), d timestamp with local time zone, e double precision) COMMENT "t"'
        ),
        table(
            columns=(
                column("a", "int", "its"),
                column("b c", "struct<x:array<map<string,int>>,y:date>"),
                column("c", "decimal(10,2)"),
                column("d", "timestamp with local time zone"),
                column("e", "double"),
            ),
            comment="t",
        ),
    ),
    (
        (
            "CREATE TABLE db.t (a int, b string) PARTITIONED BY (day date COMMENT 'd', h int)"
            " CLUSTERED BY (B, a) INTO 4 BUCKETS STORED AS orc LOCATION 's3a://x/y'"
            " TBLPROPERTIES ('transactional'='true', 'bucketing_version'='2',"
            " 'orc.compress'='ZLIB')"
        ),
        table(
            columns=(column("a", "int"), column("b", "string")),
            partition_columns=(column("day", "date", "d"), column("h", "int")),
            bucket_columns=("b", "a"),
            num_buckets=4,
            location="s3a://x/y",
            properties=(("orc.compress", "ZLIB"),),
        ),
    ),
    (
        (
            "CREATE TABLE db.t (a int) STORED AS PARQUET"
            " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
        ),
        table(insert_only=True, stored_as="parquet"),
    ),
    (
        (
            "CREATE TRANSACTIONAL TABLE db.t (a int) STORED AS TEXTFILE"
            " TBLPROPERTIES ('transactional_properties'='INSERT_ONLY')"
        ),
        table(insert_only=True, stored_as="textfile"),
    ),
    (
        (
            "CREATE TABLE db.t (a int)"
            " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='default')"
        ),
        table(),
    ),
]


@pytest.mark.parametrize(("text", "expected"), TABLES)
def test_create_table_is_read_in_hives_syntax(text: str, expected: CreateTable) -> None:
    assert read(text) == expected


OTHERS: list[tuple[str, MetastoreStatement]] = [
    ("CREATE DATABASE IF NOT EXISTS X", CreateDatabase(target="x", if_not_exists=True)),
    ("CREATE SCHEMA x", CreateDatabase(target="x")),
    ("DROP TABLE db.t", DropTable(target="db.t")),
    ("DROP TABLE IF EXISTS db.t PURGE", DropTable(target="db.t", if_exists=True, purge=True)),
    (
        "ALTER TABLE db.t ADD COLUMNS (x int COMMENT 'y', compact array<int>) CASCADE",
        AddColumns(
            target="db.t",
            columns=(column("x", "int", "y"), column("compact", "array<int>")),
            cascade=True,
        ),
    ),
    (
        "ALTER TABLE db.t ADD COLUMNS (x int) RESTRICT",
        AddColumns(target="db.t", columns=(column("x", "int"),)),
    ),
    (
        "ALTER TABLE db.t CHANGE COLUMN a A bigint COMMENT 'x' CASCADE",
        ChangeColumn(target="db.t", column=column("a", "bigint", "x"), cascade=True),
    ),
    ("ALTER TABLE db.t CHANGE a a int", ChangeColumn(target="db.t", column=column("a", "int"))),
    ("ALTER TABLE db.t RENAME TO other.u", RenameTable(target="db.t", new_name="other.u")),
    (
        "ALTER TABLE db.t SET TBLPROPERTIES ('a'='b', \"c\"='it\\'s')",
        SetProperties(target="db.t", properties=(("a", "b"), ("c", "it's"))),
    ),
    (
        "ALTER TABLE db.t UNSET TBLPROPERTIES IF EXISTS ('a', 'b')",
        UnsetProperties(target="db.t", names=("a", "b"), if_exists=True),
    ),
    (
        (
            "ALTER TABLE db.t ADD IF NOT EXISTS PARTITION (p=1, Q='x') LOCATION 'u'"
            " PARTITION (p=2, q='y')"
        ),
        AddPartitions(
            target="db.t",
            partitions=(
                NewPartition(values=(("p", "1"), ("q", "x")), location="u"),
                NewPartition(values=(("p", "2"), ("q", "y"))),
            ),
            if_not_exists=True,
        ),
    ),
    (
        "ALTER TABLE db.t DROP IF EXISTS PARTITION (p=1), PARTITION (p='2', d=DATE '2020-01-01')",
        DropPartitions(
            target="db.t",
            partitions=((("p", "1"),), (("p", "2"), ("d", "2020-01-01"))),
            if_exists=True,
        ),
    ),
    (
        "ALTER TABLE db.t DROP PARTITION (p=true) PURGE",
        DropPartitions(target="db.t", partitions=((("p", "TRUE"),),), purge=True),
    ),
    ("SHOW COMPACTIONS", ShowCompactions()),
    (
        "SHOW COMPACTIONS db.t PARTITION (p='a;b')",
        ShowCompactions(target="db.t", partition=(("p", "a;b"),)),
    ),
    ("SHOW TRANSACTIONS", ShowTransactions()),
    ("SHOW LOCKS", ShowLocks()),
    ("show locks db.t extended", ShowLocks(target="db.t")),
    ("SHOW LOCKS db.t PARTITION (p=1)", ShowLocks(target="db.t", partition=(("p", "1"),))),
    ("ABORT TRANSACTIONS 7 8 7", AbortTransactions(txn_ids=(7, 8))),
]


@pytest.mark.parametrize(("text", "expected"), OTHERS)
def test_other_definition_show_and_abort_statements_are_read(
    text: str, expected: MetastoreStatement
) -> None:
    assert read(text) == expected


def test_create_table_as_select_is_read_as_a_job() -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS db.t COMMENT 'x' PARTITIONED BY (P) CLUSTERED BY (a) INTO 2"
        " BUCKETS STORED AS ORC TBLPROPERTIES ('a'='b') AS SELECT a, p FROM s WHERE a > 1"
    )
    assert read(text, "db") == CreateAsSpec(
        target="db.t",
        source=SourceSpec(
            query="SELECT a, p FROM `__hiveacid_1` AS `s` WHERE a > 1",
            tables={"__hiveacid_1": "db.s"},
        ),
        partition_columns=("p",),
        bucket_columns=("a",),
        num_buckets=2,
        comment="x",
        properties={"a": "b"},
        if_not_exists=True,
    )


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


INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
REFUSED: list[tuple[str, int, str]] = [
    ("CREATE EXTERNAL TABLE db.t (a int)", 8, "external tables have no transactions"),
    ("CREATE TEMPORARY TABLE db.t (a int)", 8, "temporary"),
    ("CREATE VIEW db.v AS SELECT 1", 8, "views are not tables"),
    ("CREATE MATERIALIZED VIEW db.v AS SELECT 1", 8, "materialized views"),
    ("CREATE FUNCTION f AS 'x'", 8, "TABLE is missing here"),
    ("CREATE TABLE t (a int)", 14, "'t' is not the name of a table"),
    ("CREATE TABLE db.t", 18, "the columns are missing"),
    ("CREATE TABLE db.t ()", 20, "an entry is missing here"),
    ("CREATE TABLE db.t (a int,)", 26, "an entry is missing here"),
    ("CREATE TABLE db.t (a)", 21, "the type of column 'a' is missing"),
    ("CREATE TABLE db.t (a strng)", 22, "'strng' is not a valid Hive type"),
    ("CREATE TABLE db.t (a int(5))", 22, "not a valid Hive type"),
    ("CREATE TABLE db.t (a int, A date)", 27, "'a' is named twice"),
    ("CREATE TABLE db.t (a int) PARTITIONED BY (a int)", 43, "'a' is named twice"),
    ("CREATE TABLE db.t (a int) PARTITIONED BY (b)", 44, "the type of column 'b' is missing"),
    ("CREATE TABLE db.t (a int PRIMARY KEY)", 26, "constraints are not supported"),
    ("CREATE TABLE db.t (a int NOT NULL)", 26, "constraints are not supported"),
    ("CREATE TABLE db.t (a int DEFAULT 1)", 26, "constraints are not supported"),
    ("CREATE TABLE db.t (a int COMMENT 'x' UNIQUE)", 38, "constraints are not supported"),
    ("CREATE TABLE db.t (a int, PRIMARY KEY (a) DISABLE)", 27, "constraints are not supported"),
    ("CREATE TABLE db.t (a int COMMENT x)", 34, "the comment, in quotes, is missing here"),
    (
        "CREATE TABLE db.t (a int) CLUSTERED BY (b) INTO 2 BUCKETS",
        41,
        "'b' is not one of the columns",
    ),
    ("CREATE TABLE db.t (a int) CLUSTERED BY (a) INTO 0 BUCKETS", 49, "at least one bucket"),
    ("CREATE TABLE db.t (a int) CLUSTERED BY (a) INTO x BUCKETS", 49, "a whole number"),
    (
        "CREATE TABLE db.t (a int) CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS",
        44,
        "SORTED BY is not supported",
    ),
    (
        f"CREATE TABLE db.t (a int) CLUSTERED BY (a) INTO 2 BUCKETS {INSERT_ONLY}",
        1,
        "insert-only tables with buckets",
    ),
    ("CREATE TABLE db.t (a int) SKEWED BY (a) ON (1)", 27, "SKEWED BY is not supported"),
    ("CREATE TABLE db.t (a int) ROW FORMAT DELIMITED", 27, "ROW FORMAT is not supported"),
    ("CREATE TABLE db.t (a int) STORED BY 'x'", 27, "storage handlers are not supported"),
    ("CREATE TABLE db.t (a int) STORED AS RCFILE", 37, "this format is not supported"),
    ("CREATE TABLE db.t (a int) STORED AS INPUTFORMAT 'x'", 37, "this format is not supported"),
    ("CREATE TABLE db.t (a int) STORED AS PARQUET", 37, "a full-ACID table must be ORC"),
    ("CREATE TABLE db.t (a int) STORED AS ORC COMMENT 'x'", 41, "COMMENT is in the wrong place"),
    ("CREATE TABLE db.t LIKE db.s", 19, "LIKE is not supported"),
    ("CREATE TABLE db.t (a int) AS SELECT 1 AS a", 27, "from either a list or a query"),
    ("CREATE TABLE db.t LOCATION 'x' AS SELECT 1 AS a", 19, "LOCATION is not supported with"),
    ("CREATE TABLE db.t PARTITIONED BY (p int) AS SELECT 1 AS p", 37, "'int' is not understood"),
    ("CREATE TABLE db.t AS VALUES (1)", 22, "the query is missing here"),
    ("CREATE TABLE db.t STORED AS PARQUET AS SELECT 1 AS a", 29, "a full-ACID table must be ORC"),
    (f"CREATE TABLE db.t STORED AS TEXTFILE {INSERT_ONLY} AS SELECT 1", 29, "created from a query"),
    ("CREATE TABLE db.t AS SELECT stddev(a) AS c FROM db.s", 29, "stddev()"),
    (
        "CREATE TABLE db.t (a int) TBLPROPERTIES ('transactional'='false')",
        27,
        "without transactions",
    ),
    (
        "CREATE TABLE db.t (a int) TBLPROPERTIES ('transactional_properties'='insert_only')",
        27,
        "no effect without 'transactional'",
    ),
    (
        (
            "CREATE TABLE db.t (a int)"
            " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='x')"
        ),
        27,
        "transactional_properties 'x' is not supported",
    ),
    ("CREATE TABLE db.t (a int) TBLPROPERTIES ('EXTERNAL'='TRUE')", 27, "cannot be set"),
    (
        "CREATE TABLE db.t (a int) TBLPROPERTIES ('bucketing_version'='1')",
        27,
        "cannot be set",
    ),
    ("CREATE TABLE db.t (a int) TBLPROPERTIES ('a'='b', 'a'='c')", 51, "'a' is named twice"),
    ("CREATE TABLE db.t (a int) TBLPROPERTIES ('a')", 45, "the value of property 'a' is missing"),
    ("CREATE DATABASE x LOCATION 'y'", 19, "'LOCATION' is not understood here"),
    ("DROP DATABASE x", 6, "only DROP TABLE is supported"),
    ("DROP VIEW x", 6, "only DROP TABLE is supported"),
    ("DROP TABLE db.t CASCADE", 17, "'CASCADE' is not understood here"),
    ("ALTER VIEW x AS SELECT 1", 7, "only ALTER TABLE is supported"),
    ("ALTER TABLE db.t", 17, "this kind of ALTER TABLE is not supported"),
    ("ALTER TABLE db.t SET LOCATION 'x'", 18, "this kind of ALTER TABLE is not supported"),
    ("ALTER TABLE db.t REPLACE COLUMNS (a int)", 26, "columns cannot be replaced"),
    ("ALTER TABLE db.t PARTITION (p=1) SET LOCATION 'x'", 18, "single partitions"),
    ("ALTER TABLE db.t PARTITION (p=1) ADD COLUMNS (a int)", 18, "single partitions"),
    ("ALTER TABLE db.t ADD COLUMNS (a int, a int)", 38, "'a' is named twice"),
    ("ALTER TABLE db.t ADD COLUMNS (a int) FIRST", 38, "'FIRST' is not understood here"),
    ("ALTER TABLE db.t ADD CONSTRAINT x PRIMARY KEY (a)", 22, "PARTITION is missing here"),
    ("ALTER TABLE db.t CHANGE a b int", 27, "a column cannot be renamed"),
    ("ALTER TABLE db.t CHANGE a a int FIRST", 33, "a column cannot be moved"),
    ("ALTER TABLE db.t CHANGE a a int AFTER b", 33, "a column cannot be moved"),
    ("ALTER TABLE db.t CHANGE a a int NOT NULL", 33, "constraints are not supported"),
    ("ALTER TABLE db.t RENAME COLUMN a TO b", 18, "this kind of ALTER TABLE is not supported"),
    ("ALTER TABLE db.t SET TBLPROPERTIES ('Transactional'='false')", 36, "cannot be changed"),
    ("ALTER TABLE db.t SET TBLPROPERTIES ('COLUMN_STATS_ACCURATE'='x')", 36, "count"),
    ("ALTER TABLE db.t UNSET TBLPROPERTIES ('transactional')", 38, "cannot be changed"),
    ("ALTER TABLE db.t ADD PARTITION (p)", 34, "not a valid partition value"),
    ("ALTER TABLE db.t ADD PARTITION (p=NULL)", 34, "NULL as a static partition"),
    ("ALTER TABLE db.t ADD PARTITION (p=1, p=2)", 38, "'p' is named twice"),
    ("ALTER TABLE db.t DROP PARTITION (p > 1)", 36, "not a valid partition value"),
    ("ALTER TABLE db.t DROP COLUMN a", 23, "PARTITION is missing here"),
    ("SHOW TABLES", 6, "only SHOW COMPACTIONS, TRANSACTIONS and LOCKS"),
    ("SHOW LOCKS DATABASE x", 12, "'DATABASE' is not understood here"),
    ("SHOW TRANSACTIONS 5", 19, "'5' is not understood here"),
    ("ABORT COMPACTIONS 5", 7, "TRANSACTIONS is missing here"),
    ("ABORT TRANSACTIONS", 19, "the ID of a transaction, a whole number, is missing"),
    ("ABORT TRANSACTIONS 1.5", 20, "the ID of a transaction, a whole number, is missing"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED)
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
