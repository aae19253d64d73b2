"""Knows what a history of a golden directory is, and what several of them begin with.

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
ONLY_4: Final = ("4.0.1",)
_ROWS: Final = "(select 1) one lateral view posexplode(split(space(11999), ' ')) r as pos, nothing"


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


def transactional_table(columns: str, layout: str = "", properties: str = "") -> str:
    return (
        f"create table {{t}} ({columns}) {layout} stored as orc "
        f"tblproperties ('transactional'='true'{properties})"
    )


AB: Final = transactional_table("a int, b string")
THREE_STEPS: Final = (
    AB,
    "insert into {t} values (1,'a'),(2,'b'),(3,'c')",
    "update {t} set b='B' where a=2",
    "delete from {t} where a=3",
)
# A stripe may end after each batch of 1024 rows (4.0.1) or after 5000 rows (3.1.3).
MANY_STRIPES: Final = (
    ", 'orc.stripe.size'='2048', 'orc.stripe.row.count'='1000', 'orc.compress.size'='1024',"
    " 'orc.row.index.stride'='1000'"
)
_TYPES: Final = (
    "id int, bo boolean, ti tinyint, si smallint, bi bigint, fl float, do double, "
    "de decimal(38,18), dm decimal(7,2), st string, vc varchar(10), ch char(6), bn binary, "
    "da date, ts timestamp, ar array<int>, ma map<string,int>, sr struct<x:int,y:string>, "
    "ne array<struct<k:string,m:map<int,array<decimal(5,1)>>>>, un uniontype<int,string>"
)
ALL_TYPES: Final = (
    transactional_table(_TYPES),
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
    "update {t} set st='changed' where id = 1",
)
ANCIENT: Final = (
    transactional_table("id int, da date, ts timestamp"),
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
