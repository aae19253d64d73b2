"""Insert-only tables between Hive and us, both ways: what one writes the other reads."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from tests.judges.engine import HiveJudge
from tests.judges.engine3 import Hive3Engine
from tests.support.column_lists import columns_of
from tests.support.spark_lab import Lab

FORMATS: Final = {
    "orc": FileFormat.ORC,
    "parquet": FileFormat.PARQUET,
    "avro": FileFormat.AVRO,
    "textfile": FileFormat.TEXT,
}
AB: Final = {"a": "int", "b": "string"}
TYPES: Final = columns_of(
    "id int, bo boolean, ti tinyint, si smallint, bi bigint, fl float, do double, "
    "de decimal(38,18), dm decimal(7,2), st string, vc varchar(10), ch char(6), bn binary, "
    "da date, ts timestamp, ar array<int>, ma map<string,int>, sr struct<x:int,y:string>, "
    "ne array<struct<k:string,m:map<int,array<decimal(5,1)>>>>"
)
EMPTY: Final = (None,) * (len(TYPES) - 1)


def rows_of() -> list[tuple[Any, ...]]:
    """Rows of every type; what Hive shows of them is in `SHOWN`."""
    return [
        (
            *(1, True, 127, -32768, 1 << 62, 1.5, -2.25),
            *(Decimal("12345678901234567890.123456789012345678"), Decimal("-12345.60")),
            *("Grüße, 世界", "äöü", "pad", bytearray(b"\x00\xff\x10")),
            *(dt.date(1582, 10, 15), dt.datetime(1969, 7, 20, 20, 17, 40, 500_000)),  # noqa: DTZ001
            *([1, None, 3], {"b": 2}, (7, "seven"), [("one", {1: [Decimal("1.5"), None]})]),
        ),
        (
            *(2, False, -128, 32767, -1, float("inf"), 0.0),
            *(Decimal("0E-18"), Decimal("0.10"), "", "", "sixsix", bytearray()),
            *(dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),  # noqa: DTZ001
            *([], {}, (None, None), [None, (None, None)]),
        ),
        (3, *EMPTY),
    ]


SHOWN: Final = [
    [
        *(1, True, 127, -32768, 1 << 62, 1.5, -2.25),
        *("12345678901234567890.123456789012345678", "-12345.6", "Grüße, 世界", "äöü", "pad   "),
        *("00ff10", "1582-10-15", "1969-07-20 20:17:40.5", [1, None, 3], [["b", 2]]),
        *({"x": 7, "y": "seven"}, [{"k": "one", "m": [[1, ["1.5", None]]]}]),
    ],
    [
        *(2, False, -128, 32767, -1, "Infinity", 0.0, "0", "0.1", "", "", "sixsix", ""),
        *("9999-12-31", "9999-12-31 23:59:59.999999", [], [], {"x": None, "y": None}),
        [None, {"k": None, "m": None}],
    ],
    [3, *EMPTY],
]


def made(lab: Lab, name: str, columns: dict[str, str], format_: str, **options: Any) -> None:  # noqa: ANN401
    lab.table(
        name, columns, kind=TransactionalKind.INSERT_ONLY, format_=FORMATS[format_], **options
    )


TABLES: Final = {
    "by_rows": ("orc", ()),
    "flat": ("orc", ("ma", "ne")),
    "parquet": ("parquet", ()),
    "lines": ("textfile", ("bn", "ar", "ma", "sr", "ne")),
    # Milliseconds, and maps of texts.
    "blocks": ("avro", ("ts", "ne")),
}
"""Formats, and columns left out: without maps, Spark writes ORC itself and we copy it."""


def test_hive_reads_every_type_as_we_wrote_it(
    lab4: Lab,
    hive_judge: HiveJudge,
    hive_judge_new_york: HiveJudge,
    hive_3_new_york: Hive3Engine,
    tmp_path: Path,
) -> None:
    shown: dict[str, list[list[object]]] = {}
    for name, (format_, without) in TABLES.items():
        kept = [at for at, column in enumerate(TYPES) if column not in without]
        columns = {column: kind for column, kind in TYPES.items() if column not in without}
        # ZSTD is nothing for Hive 3.1.
        made(lab4, name, columns, format_, parameters={"orc.compress": "ZLIB"})
        place = str(tmp_path / name)
        rows = [tuple(row[at] for at in kept) for row in rows_of()]
        schema = lab4.frame(name).schema
        lab4.spark.createDataFrame(rows, schema).coalesce(1).write.parquet(place)
        source = SourceSpec(format="parquet", location=place)
        lab4.run(InsertSpec(target=f"{lab4.db}.{name}", source=source))
        shown[name] = [[row[at] for at in kept] for row in SHOWN]
        kinds = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        hive_3_new_york.execute(
            f"create external table default.{name} ({kinds}) stored as {format_}"
            f" location '{lab4.info(name).location}/delta_0000001_0000001_0000'"
        )
    assert {name: hive_3_new_york.rows(f"default.{name}") for name in shown} == shown
    timed = [name for name, (_, without) in TABLES.items() if "ts" not in without]
    times = " union all ".join(f"select ts from {lab4.db}.{name}" for name in timed)
    for engine in (hive_judge, hive_judge_new_york):
        assert {name: engine.rows(f"{lab4.db}.{name}") for name in shown} == shown
        # Through a task, with its own reader.
        count = f"select count(*) from ({times}) t where ts is not null"
        assert engine.execute(count) == [[2 * len(timed)]]


def shared(lab: Lab, hive: HiveJudge, format_: str) -> tuple[str, Callable[[], int]]:
    """A table of two partitions, and what counts its rows, on which Hive and we agree."""
    parameters = {ONLY_HIVE_4_READS: "true"}
    made(lab, "t", AB, format_, partition={"p": "string"}, parameters=parameters)
    name = f"{lab.db}.t"

    def agreed() -> int:
        ours = [[*row] for row in lab.rows("t")]
        assert sorted(ours, key=json.dumps) == hive.rows(name)
        return len(ours)

    lab.insert("t", [(1, "a", "x"), (2, "b", "y/ 1")], ["a", "b", "p"])
    assert agreed() == 2
    return name, agreed


@pytest.mark.parametrize("format_", ["orc", "parquet"])
@pytest.mark.long_cases("parquet")
def test_hive_and_we_can_compact_rows_that_both_wrote(
    lab4: Lab, hive_judge: HiveJudge, format_: str
) -> None:
    name, agreed = shared(lab4, hive_judge, format_)
    hive_judge.execute(f"insert into {name} partition (p) values (3,'c','x'),(4,null,'y/ 1')")
    assert agreed() == 4
    lab4.compact("t", CompactionChoice.MINOR)
    assert agreed() == 4
    lab4.insert("t", [(5, "e", "x")], ["a", "b", "p"])
    hive_judge.compact(name, "p=x", "minor")
    assert agreed() == 5
    lab4.insert("t", [(6, "f", "x")], ["a", "b", "p"])
    hive_judge.compact(name, "p=x", "major")
    assert agreed() == 6
    lab4.insert("t", [(7, "g", "x")], ["a", "b", "p"])
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert agreed() == 7


def test_hive_and_we_can_overwrite_each_others_rows(lab4: Lab, hive_judge: HiveJudge) -> None:
    name, agreed = shared(lab4, hive_judge, "parquet")
    hive_judge.begin("dead", f"insert into {name} partition (p) values (99,'dead','x')")
    hive_judge.end("dead", commit=False)
    assert agreed() == 2
    hive_judge.execute(f"insert overwrite table {name} partition (p='x') values (3,'c')")
    lab4.insert("t", [(4, "d", "x")], ["a", "b", "p"])
    assert agreed() == 3
    lab4.overwrite("t", [(5, "e")], ["a", "b"], partition={"p": "x"})
    lab4.overwrite("t", [], ["a", "b"], partition={"p": "y/ 1"})
    assert agreed() == 1
    lab4.clean("t")
    assert agreed() == 1
    hive_judge.execute(f"truncate table {name}")
    assert agreed() == 0


def test_a_column_that_is_missing_in_a_partition_is_read_as_null(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    name = f"{lab4.db}.t"
    hive_judge.execute(
        f"create table {name} (a int) partitioned by (p string) stored as parquet tblproperties"
        " ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    hive_judge.execute(f"insert into {name} partition (p='x') values (1)")
    hive_judge.execute(f"alter table {name} add columns (b int)")  # without CASCADE
    hive_judge.execute(f"insert into {name} partition (p) values (2,22,'x'),(3,33,'y')")
    shown = [[1, None, "x"], [2, None, "x"], [3, 33, "y"]]
    assert hive_judge.rows(name) == shown
    assert [[*row] for row in lab4.rows("t")] == shown


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_that_we_create_has_the_same_definition_as_hives(
    lab4: Lab, hive_judge: HiveJudge, format_: str
) -> None:
    made(lab4, "mine", AB, format_)
    hive_judge.execute(
        f"create table {lab4.db}.hives (a int, b string) stored as {format_} tblproperties"
        " ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    mine, hives = lab4.info("mine"), lab4.info("hives")
    for fact in ("kind", "storage", "columns", "bucketing_version", "num_buckets"):
        assert getattr(mine, fact) == getattr(hives, fact), fact


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        (TransactionalKind.FULL_ACID, "orc"),
        (TransactionalKind.INSERT_ONLY, "orc"),
        (TransactionalKind.INSERT_ONLY, "parquet"),
    ],
)
@pytest.mark.long_cases("*.INSERT_ONLY-orc")
def test_a_filter_of_hive_hides_no_row_after_our_compaction(
    lab4: Lab, hive_judge: HiveJudge, kind: TransactionalKind, format_: str
) -> None:
    columns = {"id": "int", "s": "string", "c": "char(4)", "d": "double", "n": "decimal(20,3)"}
    lab4.table("odd", columns, kind=kind, format_=FORMATS[format_])
    wide, smile = "\uff21\u793e", "\U0001f600 x"
    lab4.insert("odd", [(1, "a", "a", -0.0, "-0.5"), (2, smile, "b", 0.0, "7")], list(columns))
    lab4.insert("odd", [(3, wide, "\uff21", float("nan"), "0.001")], list(columns))
    filters = {
        f"s = '{wide}'": [3],
        f"s = '{smile}'": [2],
        f"s >= '{wide}'": [2, 3],
        f"s < '{smile}'": [1, 3],
        "c = '\uff21'": [3],
        "d = 0.0D": [1, 2],
        "d <= -0.0D": [1, 2],
        "n = cast('-0.5' as decimal(20,3))": [1],
    }

    def answers(*, is_pushed: bool) -> dict[str, list[object]]:
        hive_judge.execute(f"set hive.optimize.index.filter={str(is_pushed).lower()}")
        return {
            where: sorted(
                row[0] for row in hive_judge.execute(f"select id from {lab4.db}.odd where {where}")
            )
            for where in filters
        }

    before = answers(is_pushed=True)
    lab4.compact("odd", CompactionChoice.MAJOR)
    assert answers(is_pushed=False) == filters
    after = answers(is_pushed=True)
    assert after == before
    # For each row of a Parquet file, Hive's filter itself takes 0.0 and -0.0 for different values.
    if format_ == "orc":
        assert after == filters
