"""Knows the histories of plain writes: every statement, type and layout, nothing compacted."""

from __future__ import annotations

from typing import Final

from tests.judges.golden_history import (
    AB,
    ALL_TYPES,
    ANCIENT,
    MANY_STRIPES,
    ONLY_4,
    THREE_STEPS,
    History,
    transactional_table,
)

_PARTITIONED: Final = transactional_table("id int, name string", "partitioned by (p string, q int)")

WRITES: Final = (
    History(
        name="insert_update_delete",
        note="one statement of each kind, nothing compacted",
        steps=THREE_STEPS,
        snapshots=True,
    ),
    History(
        name="updated_again",
        note="rows updated three times, then some deleted",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b'),(3,'c')",
            "update {t} set b='x'",
            "update {t} set b='y' where a<3",
            "update {t} set b='z' where a=1",
            "delete from {t} where a=2",
        ),
        snapshots=True,
    ),
    History(
        name="merge",
        note="a MERGE of three clauses: several statements under one write ID",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b'),(3,'c'),(4,'d')",
            "create table {t}_src (a int, b string, op string) stored as orc",
            "insert into {t}_src values (1,'one','U'),(2,null,'D'),(7,'seven','I'),(8,'eight','I')",
            """merge into {t} t using {t}_src s on t.a = s.a
               when matched and s.op = 'U' then update set b = s.b
               when matched and s.op = 'D' then delete
               when not matched then insert values (s.a, s.b)""",
        ),
        snapshots=True,
    ),
    History(
        name="statements",
        note="one transaction, two insert statements in two partitions",
        steps=(
            transactional_table("a int, b string", "partitioned by (p string)"),
            "create table {t}_src (a int, b string) stored as orc",
            "insert into {t}_src values (1,'a'),(2,'b'),(3,'c')",
            """from {t}_src insert into {t} partition (p='x') select a, b where a < 3
                            insert into {t} partition (p='y') select a, upper(b) where a > 1""",
            "delete from {t} where a=2",
        ),
    ),
    History(
        name="bucketed",
        note="three buckets, bucketing version 2, updates and deletes",
        steps=(
            transactional_table("id int, name string", "clustered by (id) into 3 buckets"),
            "insert into {t} select pos, concat('n', pos) from {rows} where pos < 20",
            "update {t} set name = upper(name) where id % 4 = 0",
            "delete from {t} where id % 5 = 0",
        ),
    ),
    History(
        name="bucketed_version_1",
        note="four buckets by string under bucketing version 1",
        steps=(
            transactional_table(
                "id string, n int",
                "clustered by (id) into 4 buckets",
                ", 'bucketing_version'='1'",
            ),
            "insert into {t} select concat('k', pos), pos from {rows} where pos < 16",
            "delete from {t} where n % 3 = 0",
        ),
    ),
    History(
        name="several_writers",
        note="an unbucketed table with three writers: buckets that mean nothing",
        steps=(
            transactional_table("id int, name string"),
            "set mapreduce.job.reduces=3",
            """insert into {t} select pos, concat('n', pos) from {rows} where pos < 20
               distribute by pos""",
            "delete from {t} where id % 3 = 0",
            "update {t} set name = 'new' where id in (1, 2, 4)",
            "set mapreduce.job.reduces=-1",
        ),
    ),
    History(
        name="many_stripes",
        note="data and delete files of many stripes; most rows deleted",
        steps=(
            transactional_table("id int, name string", properties=MANY_STRIPES),
            "insert into {t} select pos, concat('name ', pos) from {rows}",
            "delete from {t} where id % 40 <> 0",
            "update {t} set name = 'new' where id % 1000 = 0",
        ),
    ),
    History(
        name="compressed_none",
        note="orc.compress is NONE",
        steps=(
            transactional_table("a int, b string", properties=", 'orc.compress'='NONE'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_snappy",
        note="orc.compress is SNAPPY",
        steps=(
            transactional_table("a int, b string", properties=", 'orc.compress'='SNAPPY'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_lz4",
        note="orc.compress is LZ4",
        steps=(
            transactional_table("a int, b string", properties=", 'orc.compress'='LZ4'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_zstd",
        note="orc.compress is ZSTD",
        steps=(
            transactional_table("a int, b string", properties=", 'orc.compress'='ZSTD'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
        versions=ONLY_4,
    ),
    History(
        name="partitioned",
        note="two partition columns, values that must be escaped, and NULL",
        steps=(
            _PARTITIONED,
            """insert into {t} values (1,'a','plain',1), (2,'b','with space',1), (3,'c','a/b',2),
               (4,'d','x=y:z%',2), (5,'e','Grüße',3), (6,'f',null,null), (7,'g','plain',2),
               (8,'h','[brackets]{}#?',4)""",
            "update {t} set name='B' where p='with space'",
            "delete from {t} where id=3",
            "insert into {t} partition (p='plain', q=1) values (9,'i')",
            "update {t} set name='F' where id = 6",
        ),
    ),
    History(
        name="all_types",
        note="every type, nested too; NaN, infinities, extremes, nulls",
        steps=ALL_TYPES,
    ),
    History(
        name="ancient",
        note="dates before 1582 and timestamps before 1970, with nanoseconds",
        steps=ANCIENT,
    ),
    History(
        name="nulls",
        note="columns of nothing but nulls, and a row of nothing but nulls",
        steps=(
            transactional_table("a int, b string, c array<int>"),
            "insert into {t} select 1, null, if(false, array(1), null)",
            "insert into {t} select null, null, if(false, array(1), null)",
            "delete from {t} where a = 1",
        ),
    ),
    History(
        name="overwrite",
        note="INSERT OVERWRITE between two inserts",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "insert overwrite table {t} select a + 10, b from {t} where a = 2",
            "insert into {t} values (5,'e')",
            "delete from {t} where a = 12",
        ),
        snapshots=True,
    ),
    History(
        name="overwrite_with_nothing",
        note="INSERT OVERWRITE that selects no row",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "insert overwrite table {t} select a, b from {t} where a = 99",
        ),
        snapshots=True,
    ),
    History(
        name="overwritten_partition",
        note="INSERT OVERWRITE of one partition",
        steps=(
            transactional_table("id int, name string", "partitioned by (p string)"),
            "insert into {t} values (1,'a','x'),(2,'b','y')",
            "insert overwrite table {t} partition (p='x') select 10, 'new'",
            "delete from {t} where id = 2",
        ),
    ),
    History(
        name="truncated",
        note="TRUNCATE: 4.0.1 leaves a base that holds nothing but its metadata file",
        steps=(AB, "insert into {t} values (1,'a'),(2,'b')", "truncate table {t}"),
        snapshots=True,
    ),
    History(
        name="deleted_without_where",
        note="DELETE of everything: 4.0.1 makes a TRUNCATE of it",
        steps=(AB, "insert into {t} values (1,'a'),(2,'b')", "delete from {t}"),
    ),
    History(
        name="truncated_and_filled",
        note="TRUNCATE, then an insert",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "truncate table {t}",
            "insert into {t} values (3,'c')",
        ),
    ),
    History(
        name="added_column",
        note="a column added between two inserts",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "alter table {t} add columns (c decimal(5,2))",
            "insert into {t} values (3,'c',1.5)",
            "update {t} set c = 2.25 where a = 1",
        ),
    ),
    History(
        name="widened_column",
        note="int became bigint between two inserts",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "alter table {t} change column a a bigint",
            "insert into {t} values (5000000000,'big')",
            "delete from {t} where a = 1",
        ),
    ),
    History(
        name="empty",
        note="a table that nobody wrote to",
        steps=(AB,),
    ),
)
