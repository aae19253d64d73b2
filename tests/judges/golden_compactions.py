"""Knows the histories in which Hive compacts: minor and major, cleaned or not, by either engine."""

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

COMPACTIONS: Final = (
    History(
        name="minor",
        note="minor compaction by map-reduce, not cleaned: old and new directories lie together",
        steps=(*THREE_STEPS, "!compact minor"),
        snapshots=True,
    ),
    History(
        name="minor_cleaned",
        note="minor compaction, cleaned, then one more insert and delete",
        steps=(
            *THREE_STEPS,
            "!compact minor",
            "!clean",
            "insert into {t} values (4,'d')",
            "delete from {t} where a=1",
        ),
        snapshots=True,
    ),
    History(
        name="minor_by_query",
        note="query-based minor: lower-case root columns, no key index",
        steps=(*THREE_STEPS, "!compact minor by query", "!clean"),
        versions=ONLY_4,
        snapshots=True,
    ),
    History(
        name="major",
        note="major compaction by map-reduce, not cleaned, then an update",
        steps=(*THREE_STEPS, "!compact major", "update {t} set b='A' where a=1"),
        snapshots=True,
    ),
    History(
        name="major_cleaned",
        note="major compaction, cleaned: one base",
        steps=(*THREE_STEPS, "!compact major", "!clean"),
        snapshots=True,
    ),
    History(
        name="major_by_query",
        note="query-based major, then a delete from the base it wrote",
        steps=(
            *THREE_STEPS,
            "!compact major by query",
            "!clean",
            "delete from {t} where a=1",
        ),
        versions=ONLY_4,
    ),
    History(
        name="major_of_nothing",
        note="every row deleted, then major: a base without rows",
        steps=(
            AB,
            "insert into {t} values (1,'a')",
            "delete from {t}",
            "!compact major",
            "!clean",
        ),
    ),
    History(
        name="major_of_nothing_by_query",
        note="every row deleted, then query-based major",
        steps=(
            AB,
            "insert into {t} values (1,'a')",
            "delete from {t} where a = 1",
            "!compact major by query",
            "!clean",
        ),
        versions=ONLY_4,
    ),
    History(
        name="compacted_twice",
        note="minor, cleaned, writes, major, cleaned, writes, minor",
        steps=(
            *THREE_STEPS,
            "!compact minor",
            "!clean",
            "insert into {t} values (4,'d'),(5,'e')",
            "update {t} set b='D' where a=4",
            "!compact major",
            "!clean",
            "insert into {t} values (6,'f')",
            "delete from {t} where a in (1, 6)",
            "update {t} set b='E' where a=5",
            "!compact minor",
        ),
    ),
    History(
        name="merge_compacted",
        note="two MERGEs, minor compaction, cleaned",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b'),(3,'c'),(4,'d')",
            "create table {t}_src (a int, b string, op string) stored as orc",
            "insert into {t}_src values (1,'one','U'),(2,null,'D'),(7,'seven','I'),(8,'eight','I')",
            """merge into {t} t using {t}_src s on t.a = s.a
               when matched and s.op = 'U' then update set b = s.b
               when matched and s.op = 'D' then delete
               when not matched then insert values (s.a, s.b)""",
            """merge into {t} t using {t}_src s on t.a = s.a
               when matched and s.a = 7 then delete
               when matched then update set b = concat(t.b, '!')
               when not matched then insert values (s.a, 'back')""",
            "!compact minor",
            "!clean",
        ),
    ),
    History(
        name="bucketed_compacted",
        note="the same, minor compaction and more writes",
        steps=(
            transactional_table("id int, name string", "clustered by (id) into 3 buckets"),
            "insert into {t} select pos, concat('n', pos) from {rows} where pos < 20",
            "update {t} set name = upper(name) where id % 4 = 0",
            "delete from {t} where id % 5 = 0",
            "!compact minor",
            "!clean",
            "delete from {t} where id in (1, 2)",
        ),
    ),
    History(
        name="several_writers_minor",
        note="the same, minor compaction: 3.1.3 repeats every delete event in every bucket",
        steps=(
            transactional_table("id int, name string"),
            "set mapreduce.job.reduces=3",
            """insert into {t} select pos, concat('n', pos) from {rows} where pos < 20
               distribute by pos""",
            "delete from {t} where id % 3 = 0",
            "update {t} set name = 'new' where id in (1, 2, 4)",
            "set mapreduce.job.reduces=-1",
            "!expect",
            "!compact minor",
            "!clean",
        ),
    ),
    History(
        name="many_stripes_major",
        note="a base of many stripes, most of its rows deleted",
        steps=(
            transactional_table("id int, name string", properties=MANY_STRIPES),
            "insert into {t} select pos, concat('name ', pos) from {rows}",
            "delete from {t} where id % 7 = 0",
            "!compact major",
            "!clean",
            "delete from {t} where id % 40 <> 0",
        ),
    ),
    History(
        name="partitioned_compacted",
        note="one partition compacted, another not, a third dropped",
        steps=(
            transactional_table("id int, name string", "partitioned by (p string)"),
            "insert into {t} values (1,'a','x'),(2,'b','x'),(3,'c','y'),(4,'d','z')",
            "update {t} set name='B' where id=2",
            "delete from {t} where id=3",
            "!compact major p=x",
            "!clean",
            "insert into {t} values (5,'e','x'),(6,'f','y')",
            "alter table {t} drop partition (p='z')",
        ),
    ),
    History(
        name="all_types_major",
        note="the same after major compaction",
        steps=(*ALL_TYPES, "!compact major", "!clean"),
    ),
    History(
        name="ancient_major",
        note="the same after major compaction",
        steps=(*ANCIENT, "!compact major", "!clean"),
    ),
)
