"""Knows the histories behind the golden directories: what Hive was told to do, case by case.

A step is a HiveQL statement with `{t}` for the case's table, or one of

    !compact minor|major [p=x/q=y] [by query]    !clean    !dump (default: at the end)
    !begin NAME statement    !commit NAME    !abort NAME       a writer beside the others
    !fail statement                                            aborts, its files stay
    !stream open TXNS | commit ROWS | abort ROWS | close       several transactions in one file
    !load SOURCE_TABLE [overwrite]                             LOAD DATA of another table's files
    !convert                                                   make the table transactional
    !expect          the rows are those of now: what follows does not change them, and Hive's own
                     reader may not be able to read it

A statement may make one more table, `{t}_src`. `{rows}` stands for a source of 12000 rows,
0 to 11999 in its column `pos`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL: Final = ("4.0.1", "3.1.3")
_ONLY_4: Final = ("4.0.1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One case.

    Attributes:
        name: Of its folder.
        note: What is special about the directory.
        steps: See the module.
        versions: Of Hive that it is made with.
        snapshots: Whether the case also says what other readers see: every lower high watermark,
            and every single write ID aborted.
    """

    name: str
    note: str
    steps: tuple[str, ...]
    versions: tuple[str, ...] = ALL
    snapshots: bool = False

    def steps_for(self, table: str) -> tuple[str, ...]:
        """Returns the steps with the names filled in, white space as single blanks."""
        return tuple(
            " ".join(step.replace("{t}", table).replace("{rows}", _ROWS).split())
            for step in self.steps
        )


def _table(columns: str, layout: str = "", properties: str = "") -> str:
    return (
        f"create table {{t}} ({columns}) {layout} stored as orc "
        f"tblproperties ('transactional'='true'{properties})"
    )


_AB: Final = _table("a int, b string")
_THREE_STEPS: Final = (
    _AB,
    "insert into {t} values (1,'a'),(2,'b'),(3,'c')",
    "update {t} set b='B' where a=2",
    "delete from {t} where a=3",
)
_PARTITIONED: Final = _table("id int, name string", "partitioned by (p string, q int)")
_STREAMED: Final = _table("id bigint, name string")
_ROWS: Final = "(select 1) one lateral view posexplode(split(space(11999), ' ')) r as pos, nothing"
# A stripe may end after each batch of 1024 rows (4.0.1) or after 5000 rows (3.1.3).
_MANY_STRIPES: Final = (
    ", 'orc.stripe.size'='2048', 'orc.stripe.row.count'='1000', 'orc.compress.size'='1024',"
    " 'orc.row.index.stride'='1000'"
)
_TYPES: Final = (
    "id int, bo boolean, ti tinyint, si smallint, bi bigint, fl float, do double, "
    "de decimal(38,18), dm decimal(7,2), st string, vc varchar(10), ch char(6), bn binary, "
    "da date, ts timestamp, ar array<int>, ma map<string,int>, sr struct<x:int,y:string>, "
    "ne array<struct<k:string,m:map<int,array<decimal(5,1)>>>>, un uniontype<int,string>"
)
_ALL_TYPES: Final = (
    _table(_TYPES),
    """insert into {t} select 1, true, cast(127 as tinyint), cast(32767 as smallint),
       9223372036854775807L, cast(1.5 as float),
       -2.25D, cast('12345678901234567890.123456789012345678' as decimal(38,18)),
       cast('-12345.60' as decimal(7,2)), 'text', cast('vary' as varchar(10)),
       cast('pad' as char(6)), unhex('00ff10'), date '2020-02-29',
       timestamp '2020-02-29 12:34:56.123456789', array(1, 2, 3), map('b', 2, 'a', 1),
       named_struct('x', 7, 'y', 'seven'),
       array(named_struct('k', 'one', 'm', map(1, array(cast(1.5 as decimal(5,1)))))),
       create_union(0, 42, 'no')""",
    """insert into {t} select 2, false, cast(-128 as tinyint), cast(-32768 as smallint),
       cast(-9223372036854775808 as bigint),
       cast('NaN' as float), cast('NaN' as double),
       cast('-99999999999999999999.999999999999999999' as decimal(38,18)),
       cast('0' as decimal(7,2)), 'Grüße, 世界 \\u0001 "quoted"', cast('äöü' as varchar(10)),
       cast('' as char(6)), unhex(''), date '1970-01-01', timestamp '1970-01-01 00:00:00',
       array(cast(null as int), 5), map('only', cast(null as int)),
       named_struct('x', cast(null as int), 'y', cast(null as string)),
       array(named_struct('k', cast(null as string), 'm',
             map(2, array(cast(null as decimal(5,1)))))),
       create_union(1, 42, 'yes')""",
    """insert into {t} select 3, null, null, null, null, cast('Infinity' as float),
       cast('-Infinity' as double), cast('0.000000000000000001' as decimal(38,18)),
       cast('0.10' as decimal(7,2)), '', cast('' as varchar(10)), cast('sixsix' as char(6)),
       null, date '9999-12-31', timestamp '9999-12-31 23:59:59.999999999',
       if(false, array(1), null), if(false, map('a', 1), null),
       if(false, named_struct('x', 1, 'y', 'z'), null),
       if(false, array(named_struct('k', 'one', 'm',
                       map(1, array(cast(1.5 as decimal(5,1)))))), null), create_union(1, 0, '')""",
    "update {t} set st='changed' where id in (1, 2)",
)
_ANCIENT: Final = (
    _table("id int, da date, ts timestamp"),
    """insert into {t} values
       (1, date '0001-01-01', timestamp '0001-01-01 00:00:00'),
       (2, date '1500-02-28', timestamp '1500-02-28 12:00:00.5'),
       (3, date '1582-10-04', timestamp '1582-10-04 23:59:59.999999999'),
       (4, date '1582-10-15', timestamp '1582-10-15 00:00:00.000000001'),
       (5, date '1900-01-01', timestamp '1900-01-01 00:00:00.123'),
       (6, date '1969-12-31', timestamp '1969-12-31 23:59:58.000000001'),
       (7, date '1969-12-30', timestamp '1969-12-30 00:00:00.0001'),
       (8, date '1970-01-01', timestamp '1970-01-01 00:00:00.999999999'),
       (9, null, null)""",
    "delete from {t} where id = 4",
)

HISTORIES: Final = (
    History(
        name="insert_update_delete",
        note="one statement of each kind, nothing compacted",
        steps=_THREE_STEPS,
        snapshots=True,
    ),
    History(
        name="minor",
        note="minor compaction by map-reduce, not cleaned: old and new directories lie together",
        steps=(*_THREE_STEPS, "!compact minor"),
        snapshots=True,
    ),
    History(
        name="minor_cleaned",
        note="minor compaction, cleaned, then one more insert and delete",
        steps=(
            *_THREE_STEPS,
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
        steps=(*_THREE_STEPS, "!compact minor by query", "!clean"),
        versions=_ONLY_4,
        snapshots=True,
    ),
    History(
        name="major",
        note="major compaction by map-reduce, not cleaned, then an update",
        steps=(*_THREE_STEPS, "!compact major", "update {t} set b='A' where a=1"),
        snapshots=True,
    ),
    History(
        name="major_cleaned",
        note="major compaction, cleaned: one base",
        steps=(*_THREE_STEPS, "!compact major", "!clean"),
        snapshots=True,
    ),
    History(
        name="major_by_query",
        note="query-based major, then a delete from the base it wrote",
        steps=(
            *_THREE_STEPS,
            "!compact major by query",
            "!clean",
            "delete from {t} where a=1",
        ),
        versions=_ONLY_4,
    ),
    History(
        name="major_of_nothing",
        note="every row deleted, then major: a base without rows",
        steps=(
            _AB,
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
            _AB,
            "insert into {t} values (1,'a')",
            "delete from {t} where a = 1",
            "!compact major by query",
            "!clean",
        ),
        versions=_ONLY_4,
    ),
    History(
        name="compacted_twice",
        note="minor, cleaned, writes, major, cleaned, writes, minor",
        steps=(
            *_THREE_STEPS,
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
        name="updated_again",
        note="rows updated three times, then some deleted",
        steps=(
            _AB,
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
            _AB,
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
        name="merge_compacted",
        note="two MERGEs, minor compaction, cleaned",
        steps=(
            _AB,
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
        name="statements",
        note="one transaction, two insert statements in two partitions",
        steps=(
            _table("a int, b string", "partitioned by (p string)"),
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
            _table("id int, name string", "clustered by (id) into 3 buckets"),
            "insert into {t} select pos, concat('n', pos) from {rows} where pos < 20",
            "update {t} set name = upper(name) where id % 4 = 0",
            "delete from {t} where id % 5 = 0",
        ),
    ),
    History(
        name="bucketed_compacted",
        note="the same, minor compaction and more writes",
        steps=(
            _table("id int, name string", "clustered by (id) into 3 buckets"),
            "insert into {t} select pos, concat('n', pos) from {rows} where pos < 20",
            "update {t} set name = upper(name) where id % 4 = 0",
            "delete from {t} where id % 5 = 0",
            "!compact minor",
            "!clean",
            "delete from {t} where id in (1, 2)",
        ),
    ),
    History(
        name="bucketed_version_1",
        note="four buckets by string under bucketing version 1",
        steps=(
            _table(
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
            _table("id int, name string"),
            "set mapreduce.job.reduces=3",
            """insert into {t} select pos, concat('n', pos) from {rows} where pos < 20
               distribute by pos""",
            "delete from {t} where id % 3 = 0",
            "update {t} set name = 'new' where id in (1, 2, 4)",
            "set mapreduce.job.reduces=-1",
        ),
    ),
    History(
        name="several_writers_minor",
        note="the same, minor compaction: 3.1.3 repeats every delete event in every bucket",
        steps=(
            _table("id int, name string"),
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
        name="many_stripes",
        note="data and delete files of many stripes; most rows deleted",
        steps=(
            _table("id int, name string", properties=_MANY_STRIPES),
            "insert into {t} select pos, concat('name ', pos) from {rows}",
            "delete from {t} where id % 40 <> 0",
            "update {t} set name = 'new' where id % 1000 = 0",
        ),
    ),
    History(
        name="many_stripes_major",
        note="a base of many stripes, most of its rows deleted",
        steps=(
            _table("id int, name string", properties=_MANY_STRIPES),
            "insert into {t} select pos, concat('name ', pos) from {rows}",
            "delete from {t} where id % 7 = 0",
            "!compact major",
            "!clean",
            "delete from {t} where id % 40 <> 0",
        ),
    ),
    History(
        name="compressed_none",
        note="orc.compress is NONE",
        steps=(
            _table("a int, b string", properties=", 'orc.compress'='NONE'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_snappy",
        note="orc.compress is SNAPPY",
        steps=(
            _table("a int, b string", properties=", 'orc.compress'='SNAPPY'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_lz4",
        note="orc.compress is LZ4",
        steps=(
            _table("a int, b string", properties=", 'orc.compress'='LZ4'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
    ),
    History(
        name="compressed_zstd",
        note="orc.compress is ZSTD",
        steps=(
            _table("a int, b string", properties=", 'orc.compress'='ZSTD'"),
            "insert into {t} select pos, concat('name ', pos) from {rows} where pos < 100",
            "delete from {t} where a % 3 = 0",
            "update {t} set b = 'new' where a < 10",
        ),
        versions=_ONLY_4,
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
        name="partitioned_compacted",
        note="one partition compacted, another not, a third dropped",
        steps=(
            _table("id int, name string", "partitioned by (p string)"),
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
        name="all_types",
        note="every type, nested too; NaN, infinities, extremes, nulls",
        steps=_ALL_TYPES,
    ),
    History(
        name="all_types_major",
        note="the same after major compaction",
        steps=(*_ALL_TYPES, "!compact major", "!clean"),
    ),
    History(
        name="ancient",
        note="dates before 1582 and timestamps before 1970, with nanoseconds",
        steps=_ANCIENT,
    ),
    History(
        name="ancient_major",
        note="the same after major compaction",
        steps=(*_ANCIENT, "!compact major", "!clean"),
    ),
    History(
        name="nulls",
        note="columns of nothing but nulls, and a row of nothing but nulls",
        steps=(
            _table("a int, b string, c array<int>"),
            "insert into {t} select 1, null, if(false, array(1), null)",
            "insert into {t} select null, null, if(false, array(1), null)",
            "delete from {t} where a = 1",
        ),
    ),
    History(
        name="overwrite",
        note="INSERT OVERWRITE between two inserts",
        steps=(
            _AB,
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
            _AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "insert overwrite table {t} select a, b from {t} where a = 99",
        ),
        snapshots=True,
    ),
    History(
        name="overwritten_partition",
        note="INSERT OVERWRITE of one partition",
        steps=(
            _table("id int, name string", "partitioned by (p string)"),
            "insert into {t} values (1,'a','x'),(2,'b','y')",
            "insert overwrite table {t} partition (p='x') select 10, 'new'",
            "delete from {t} where id = 2",
        ),
    ),
    History(
        name="truncated",
        note="TRUNCATE: 4.0.1 leaves a base that holds nothing but its metadata file",
        steps=(_AB, "insert into {t} values (1,'a'),(2,'b')", "truncate table {t}"),
        snapshots=True,
    ),
    History(
        name="deleted_without_where",
        note="DELETE of everything: 4.0.1 makes a TRUNCATE of it",
        steps=(_AB, "insert into {t} values (1,'a'),(2,'b')", "delete from {t}"),
    ),
    History(
        name="truncated_and_filled",
        note="TRUNCATE, then an insert",
        steps=(
            _AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "truncate table {t}",
            "insert into {t} values (3,'c')",
        ),
    ),
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
            _AB,
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
            _AB,
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
            _AB,
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
            _AB,
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
            _AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!fail insert overwrite table {t} select 9, 'never'",
            "insert into {t} values (4,'d')",
        ),
        versions=_ONLY_4,
    ),
    History(
        name="aborted_and_compacted",
        note="an aborted insert, then minor compaction of what lies around it",
        steps=(
            _AB,
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
            _AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "!begin first insert into {t} values (3,'not yet')",
            "insert into {t} values (4,'d')",
            "!begin second delete from {t} where a=2",
            "insert into {t} values (5,'e')",
            "!dump",
            "!abort second",
            "!commit first",
        ),
        versions=_ONLY_4,
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
        versions=_ONLY_4,
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
        versions=_ONLY_4,
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
        versions=_ONLY_4,
    ),
    History(
        name="added_column",
        note="a column added between two inserts",
        steps=(
            _AB,
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
            _AB,
            "insert into {t} values (1,'a'),(2,'b')",
            "alter table {t} change column a a bigint",
            "insert into {t} values (5000000000,'big')",
            "delete from {t} where a = 1",
        ),
    ),
    History(
        name="empty",
        note="a table that nobody wrote to",
        steps=(_AB,),
    ),
)
