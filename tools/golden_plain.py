"""The recorder of Hive's insert-only golden directories: `tests/golden_plain/VERSION/CASE`.

    python -m tools.golden_plain [--version 4.0.1] [--zone America/New_York]
        [--format avro]

A step is a HiveQL statement, in which `{t}` stands for the case's table, or one of these:

    !fail statement         aborts, its files stay
    !compact minor|major
    !convert                make the table insert-only
    !stray                  copy a file to the table's root, and to a second name beside it
    !load SOURCE_TABLE      LOAD DATA of another table's files
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tests.judges.golden_history import ALL
from tests.judges.golden_plain import FORMATS, GOLDEN_PLAIN, NEW_YORK
from tools.golden import convert, copy_table, engine_of, fail, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.golden import Engine

_DATABASE: Final = "g"
_INSERT_ONLY: Final = "'transactional'='true', 'transactional_properties'='insert_only'"
_FLAT: Final = "tblproperties ('transactional'='false')"
_TYPES: Final = (
    "id int, bo boolean, ti tinyint, si smallint, bi bigint, fl float, do double, "
    "de decimal(38,18), dm decimal(7,2), dd decimal(15,3), st string, vc varchar(10), "
    "ch char(6), bn binary, da date, ts timestamp, ar array<int>, ma map<string,int>, "
    "sr struct<x:int,y:string>, ne array<struct<k:string,m:map<int,array<decimal(5,1)>>>>"
)
_ROWS: Final = (
    """insert into {t} select 1, true, cast(127 as tinyint), cast(32767 as smallint),
       9223372036854775807L, cast(1.5 as float), -2.25D,
       cast('12345678901234567890.123456789012345678' as decimal(38,18)),
       cast('-12345.60' as decimal(7,2)), cast('-123456.789' as decimal(15,3)), 'text',
       cast('vary' as varchar(10)), cast('pad' as char(6)), unhex('00ff10'), date '2020-02-29',
       timestamp '2020-02-29 12:34:56.123456789', array(1, 2, 3), map('b', 2, 'a', 1),
       named_struct('x', 7, 'y', 'seven'),
       array(named_struct('k', 'one', 'm', map(1, array(cast(1.5 as decimal(5,1))))))""",
    """insert into {t} select 2, false, cast(-128 as tinyint), cast(-32768 as smallint),
       cast(-9223372036854775808 as bigint), cast('NaN' as float), cast('NaN' as double),
       cast('-99999999999999999999.999999999999999999' as decimal(38,18)),
       cast('0' as decimal(7,2)), cast('0' as decimal(15,3)), 'Grüße, 世界 "quoted"',
       cast('äöü' as varchar(10)), cast('' as char(6)), unhex(''), date '1970-01-01',
       timestamp '1970-01-01 00:00:00', array(cast(null as int), 5),
       map('only', cast(null as int)),
       named_struct('x', cast(null as int), 'y', cast(null as string)),
       array(named_struct('k', cast(null as string), 'm',
             map(2, array(cast(null as decimal(5,1))))))""",
    """insert into {t} select 3, null, null, null, null, cast('Infinity' as float),
       cast('-Infinity' as double), cast('0.000000000000000001' as decimal(38,18)),
       cast('0.10' as decimal(7,2)), null, '', cast('' as varchar(10)), cast('sixsix' as char(6)),
       null, date '9999-12-31', timestamp '2200-12-31 23:59:59.999999999',
       if(false, array(1), null), if(false, map('a', 1), null),
       if(false, named_struct('x', 1, 'y', 'z'), null),
       if(false, array(named_struct('k', 'one', 'm',
                       map(1, array(cast(1.5 as decimal(5,1)))))), null)""",
)
_OLD_ROWS: Final = """insert into {t} values
    (1, date '0001-01-01', timestamp '0001-01-01 00:00:00'),
    (2, date '1500-02-28', timestamp '1500-02-28 12:00:00.5'),
    (3, date '1582-10-04', timestamp '1582-10-04 23:59:59.999999999'),
    (4, date '1582-10-15', timestamp '1582-10-15 00:00:00.000000001'),
    (5, date '1900-01-01', timestamp '1900-01-01 00:00:00.123'),
    (6, date '1969-12-31', timestamp '1969-12-31 23:59:58.000000001'),
    (7, date '2024-03-10', timestamp '2024-03-10 02:30:00.25'),
    (8, date '2024-11-03', timestamp '2024-11-03 01:30:00.75'),
    (9, null, null), (10, date '9999-12-31', timestamp '9999-12-31 23:59:59.999999')"""
_OF_AVRO: Final = frozenset(
    {"life", "minor", "major", "overwrite", "part", "added", "renamed", "trunc"}
)
_FIRST: Final = (
    "insert into {t} values (1,'a'),(2,'b')",
    "insert into {t} values (3,'c')",
    "!fail insert into {t} values (99,'dead')",
)


_FOURTH: Final = ("insert into {t} values (4,'d')",)


def _histories(stored: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the cases of one format that do not depend on a time zone."""
    made = f"create table {{t}} (a int, b string) {stored} tblproperties ({_INSERT_ONLY})"
    flat = f"create table {{t}} (a int, b string) {stored} {_FLAT}"
    one, two = "insert into {t} values (1,'a')", "insert into {t} values (1,'a'),(2,'b')"
    yield "life", (made, *_FIRST, "insert into {t} values (4,null)")
    yield (
        "minor",
        (
            *(made, *_FIRST, "insert into {t} values (4,null)"),
            *("!compact minor", "insert into {t} values (5,'e')"),
        ),
    )
    yield "major", (made, *_FIRST, "!compact major", "insert into {t} values (5,'e')")
    yield (
        "overwrite",
        (
            *(made, two, "insert overwrite table {t} values (7,'g')"),
            "insert into {t} values (8,'h')",
        ),
    )
    yield "nothing", (made, two, "insert overwrite table {t} select * from {t} where a > 100")
    yield (
        "part",
        (
            made.replace("(a int, b string)", "(a int, b string) partitioned by (p string)"),
            "insert into {t} partition (p) values (1,'a','x'),(2,'b','y/ 1'),(3,'c',null)",
            "insert overwrite table {t} partition (p='x') values (4,'d')",
            "insert into {t} partition (p) values (5,'e','x'),(6,'f','y/ 1')",
        ),
    )
    yield (
        "added",
        (made, two, "alter table {t} add columns (c int)", "insert into {t} values (3,'c',33)"),
    )
    yield (
        "renamed",
        (made, one, "alter table {t} change column b bb string", "insert into {t} values (3,'c')"),
    )
    yield (
        "buckets",
        (
            made.replace("b string)", "b string) clustered by (a) into 2 buckets"),
            "insert into {t} values (1,'a'),(2,'b'),(3,'c')",
        ),
    )
    yield "conv", (flat, two, "insert into {t} values (3,'c')", "!convert", *_FOURTH)
    yield "stray", (made, one, "insert into {t} values (2,'b')", "!stray")
    yield "trunc", (made, one, "truncate table {t}", "insert into {t} values (2,'b')")
    source = (flat.replace("{t}", "{t}_src"), two.replace("{t}", "{t}_src"))
    yield "loaded", (*source, made, "!load {t}_src")


def _typed(stored: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the cases that store instants."""
    properties = f"tblproperties ({_INSERT_ONLY})"
    yield "types", (f"create table {{t}} ({_TYPES}) {stored} {properties}", *_ROWS)
    old = f"create table {{t}} (id int, da date, ts timestamp) {stored} {properties}"
    yield "ancient", (old, _OLD_ROWS)


def _texts() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the cases for text files only; we do not read their nested and binary columns."""
    stored, properties = FORMATS["text"], f"tblproperties ({_INSERT_ONLY})"
    old = f"create table {{t}} (id int, da date, ts timestamp) {stored} {properties}"
    yield "ancient", (old, _OLD_ROWS)
    lines = "row format delimited fields terminated by ','"
    skipping = properties.replace("(", "('skip.header.line.count'='1', ")
    yield (
        "header",
        (
            f"create table {{t}} (a int, b string) {lines} {stored} {skipping}",
            *("insert into {t} values (1,'a'),(2,'b')", "insert into {t} values (3,'c')"),
        ),
    )


def _avros() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield cases in which Avro may differ from other formats; Avro's map keys must be strings."""
    stored = FORMATS["avro"]
    yield from ((name, steps) for name, steps in _histories(stored) if name in _OF_AVRO)
    for name, steps in _typed(stored):
        texts = (
            step.replace("map<int,", "map<string,").replace("map(1,", "map('1',") for step in steps
        )
        yield name, tuple(step.replace("map(2,", "map('2',") for step in texts)


def _cases(format_: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    stored = FORMATS[format_]
    match format_:
        case "avro":
            yield from _avros()
        case "text":
            yield from (*_histories(stored), *_texts())
        case _:
            yield from (*_histories(stored), *_typed(stored))


def _run(engine: Engine, table: str, steps: Sequence[str]) -> None:
    for step in steps:
        word, _, rest = step.partition(" ")
        match word:
            case "!fail":
                fail(engine, rest)
            case "!compact":
                kind: Literal["minor", "major"] = "minor" if rest == "minor" else "major"
                engine.compact(table, None, kind)
            case "!convert":
                convert(engine, table, _INSERT_ONLY)
            case "!stray":
                root = Path(engine.describe(table)["location"])
                file = next(p for p in sorted(root.rglob("0*")) if p.is_file())
                shutil.copy(file, root / "000005_0")
                shutil.copy(file, file.parent / "named_otherwise.bin")
            case "!load":
                load(engine, rest, f"into table {table}")
            case _:
                engine.execute(step)


def _record(engine: Engine, version: str, name: str, steps: Sequence[str]) -> None:
    table = f"{_DATABASE}.of_{name}"
    filled = [" ".join(step.replace("{t}", table).split()) for step in steps]
    _run(engine, table, filled)
    facts, rows = engine.describe(table), engine.rows(table)
    folder = GOLDEN_PLAIN / version / name
    partitions = copy_table(facts, folder)
    case = {
        "columns": facts["columns"],
        "partitions": partitions,
        "valid_write_id_list": facts["valid_write_id_list"],
        "valid_txn_list": facts["valid_txn_list"],
        "steps": [" ".join(step.split()) for step in steps],
        "rows": rows,
    }
    text = json.dumps(case, indent=1, ensure_ascii=False)
    (folder / "case.json").write_text(f"{text}\n")
    print(f"{version}/{name}: {len(rows)} rows", flush=True)


def main() -> None:
    """Record all cases of a version in a time zone."""
    parser = argparse.ArgumentParser(description="Make golden insert-only tables with real Hive.")
    parser.add_argument("--version", choices=ALL, default=ALL[0])
    parser.add_argument("--zone", choices=("UTC", NEW_YORK), default="UTC")
    parser.add_argument("--format", choices=FORMATS, action="append", help="all by default")
    options = parser.parse_args()
    with engine_of(options.version, _DATABASE, options.zone) as engine:
        if options.zone != "UTC":
            # ORC needs no case with a zone, because it stores wall-clock times.
            for name, steps in _typed(FORMATS["parquet"]):
                _record(engine, options.version, f"{name}_parquet_new_york", steps)
            return
        for format_ in options.format or FORMATS:
            for name, steps in _cases(format_):
                _record(engine, options.version, f"{name}_{format_}", steps)


if __name__ == "__main__":
    main()
