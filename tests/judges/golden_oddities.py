"""Knows the histories that leave something odd in the directory.

Files that no statement of a transactional table wrote (converted tables, LOAD DATA), writers that
failed or are still open, several transactions in one file.
"""

from __future__ import annotations

from typing import Final

from tests.judges.golden_history import (
    AB,
    ONLY_4,
    History,
    transactional_table,
)

_STREAMED: Final = transactional_table("id bigint, name string")

ODDITIES: Final = (
    History(
        name="converted",
        note="original files and a copy in two buckets, then writes of a transactional table",
        steps=(
            "create table {t} (a int, b int) clustered by (a) into 2 buckets stored as orc",
            "insert into {t} values (1,2),(2,4)",
            "insert into {t} values (0,12),(1,5),(3,6)",
            "!convert",
            "insert into {t} values (1,17)",
            "update {t} set b = 50 where b = 5",
            "delete from {t} where b = 12",
        ),
        snapshots=True,
    ),
    History(
        name="converted_unbucketed",
        note="original files of an unbucketed table, three writers, deletes in them",
        steps=(
            "create table {t} (a int, b int) stored as orc",
            "set mapreduce.job.reduces=3",
            "insert into {t} select pos, pos * 10 from {rows} where pos < 9 distribute by pos",
            """insert into {t} select pos, pos * 10 from {rows} where pos between 9 and 14
               distribute by pos""",
            "set mapreduce.job.reduces=-1",
            "!convert",
            "delete from {t} where a % 4 = 0",
            "update {t} set b = -1 where a = 10",
        ),
    ),
    History(
        name="converted_union",
        note="original files in directories of a UNION ALL, below the table's own",
        steps=(
            "create table {t} (a int, b int) stored as orc",
            "set hive.optimize.union.remove=true",
            "set hive.merge.mapfiles=false",
            "set hive.mapred.supports.subdirectories=true",
            "set mapreduce.input.fileinputformat.input.dir.recursive=true",
            "create table {t}_src (a int, b int) stored as orc",
            "insert into {t}_src select pos, pos * 10 from {rows} where pos < 6",
            """insert into {t} select * from (
               select a, max(b) as b from {t}_src where a < 3 group by a union all
               select a + 10 as a, max(b) as b from {t}_src where a > 1 group by a) both_parts""",
            "set hive.optimize.union.remove=false",
            "insert into {t} values (4,40)",
            "!convert",
            "insert into {t} values (5,50)",
            "delete from {t} where a in (2, 12, 15)",
        ),
    ),
    History(
        name="converted_minor",
        note="originals stay beside a minor compaction",
        steps=(
            "create table {t} (a int, b int) clustered by (a) into 2 buckets stored as orc",
            "insert into {t} values (1,2),(2,4)",
            "insert into {t} values (0,12),(1,5),(3,6)",
            "!convert",
            "insert into {t} values (1,17)",
            "insert into {t} values (4,18)",
            "delete from {t} where b = 12",
            "!compact minor",
            "!clean",
        ),
    ),
    History(
        name="converted_major",
        note="originals absorbed by a major compaction, then a delete of a row of theirs",
        steps=(
            "create table {t} (a int, b int) clustered by (a) into 2 buckets stored as orc",
            "insert into {t} values (1,2),(2,4)",
            "insert into {t} values (0,12),(1,5),(3,6)",
            "!convert",
            "insert into {t} values (1,17)",
            "!compact major",
            "!clean",
            "delete from {t} where b = 12",
        ),
    ),
    History(
        name="loaded",
        note="LOAD DATA: plain ORC files inside a delta, then an update and a delete",
        steps=(
            AB,
            "create table {t}_src (a int, b string) stored as orc",
            "insert into {t}_src values (1,'a'),(2,'b'),(3,'c')",
            "!load {t}_src",
            "update {t} set b='B' where a=2",
            "insert into {t} values (4,'d')",
            "delete from {t} where a=3",
        ),
        snapshots=True,
    ),
    History(
        name="loaded_overwrite",
        note="LOAD DATA OVERWRITE: plain ORC files inside a base",
        steps=(
            AB,
            "insert into {t} values (9,'z')",
            "create table {t}_src (a int, b string) stored as orc",
            "insert into {t}_src values (1,'a'),(2,'b')",
            "insert into {t}_src values (3,'c')",
            "!load {t}_src overwrite",
            "delete from {t} where a=2",
        ),
    ),
    History(
        name="loaded_major",
        note="LOAD DATA, deletes, major compaction",
        steps=(
            AB,
            "create table {t}_src (a int, b string) stored as orc",
            "insert into {t}_src values (1,'a'),(2,'b'),(3,'c')",
            "!load {t}_src",
            "delete from {t} where a=2",
            "!compact major",
            "!clean",
        ),
    ),
    History(
        name="aborted",
        note="an insert and a delete that failed before their commit, directories left behind",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!fail insert into {t} values (3,'never')",
            "!fail delete from {t} where a=1",
            "insert into {t} values (4,'d')",
        ),
    ),
    History(
        name="aborted_overwrite",
        note="an INSERT OVERWRITE that failed before its commit",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!fail insert overwrite table {t} select 9, 'never'",
            "insert into {t} values (4,'d')",
        ),
        versions=ONLY_4,
    ),
    History(
        name="aborted_and_compacted",
        note="an aborted insert, then minor compaction of what lies around it",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!fail insert into {t} values (3,'never')",
            "insert into {t} values (4,'d')",
            "delete from {t} where a=1",
            "!compact minor",
        ),
    ),
    History(
        name="open_writer",
        note="an insert and a delete that are still open between committed neighbours",
        steps=(
            AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!begin first insert into {t} values (3,'not yet')",
            "insert into {t} values (4,'d')",
            "!begin second delete from {t} where a=2",
            "insert into {t} values (5,'e')",
            "!dump",
            "!abort second",
            "!commit first",
        ),
        versions=ONLY_4,
    ),
    History(
        name="streamed",
        note="a closed streaming batch: four transactions in one file, one aborted, one unused",
        steps=(
            _STREAMED,
            "!stream open 4",
            "!stream commit 3",
            "!stream abort 2",
            "!stream commit 2",
            "!stream close",
        ),
        versions=ONLY_4,
        snapshots=True,
    ),
    History(
        name="streaming",
        note="an open streaming batch: rows count up to the length in the side file",
        steps=(
            _STREAMED,
            "insert into {t} values (1, 'before')",
            "!stream open 3",
            "!stream commit 3",
            "!stream abort 2",
            "!dump",
            "!stream close",
        ),
        versions=ONLY_4,
    ),
    History(
        name="streamed_minor",
        note="a streaming batch with an aborted transaction, then minor compaction",
        steps=(
            _STREAMED,
            "insert into {t} values (1, 'before')",
            "!stream open 3",
            "!stream commit 3",
            "!stream abort 2",
            "!stream commit 2",
            "!stream close",
            "delete from {t} where id in (1, 201)",
            "!compact minor",
            "!clean",
        ),
        versions=ONLY_4,
    ),
)
