"""A session set up for something else reads the same rows, and statements mean the same in it."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine.progress import StageState, active_stages
from airflow_hiveacid.spark.engine.session import _check_tasks_run_once, open_session
from airflow_hiveacid.spark.reading.tables import read_table
from tests.support.column_lists import columns_of
from tests.support.merge_clauses import UPSERT_V
from tests.support.short_jvms import ENVIRONMENT
from tests.support.spark_lab import Lab, make_lab

COLUMNS = columns_of(
    "id bigint, flag char(4), vc varchar(5), de decimal(10,2), da date, ts timestamp, "
    "fl double, ma map<string,int>, sr struct<x:int,c:char(3)>"
)
PLAIN = {"id": "bigint", "v": "int", "da": "date", "sr": "struct<x:int,y:string>"}
PARTITION = {"p": "char(3)", "d": "date"}

# What a cluster's spark-defaults.conf may hold.
SETTINGS: tuple[Mapping[str, str], ...] = (
    {
        "spark.sql.caseSensitive": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    },
    {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "0",
        "spark.sql.optimizer.excludedRules": (
            "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates,"
            "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"
        ),
    },
    {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
    },
    {"spark.sql.orc.impl": "hive"},
    {"spark.sql.sources.useV1SourceList": "parquet,csv", "spark.sql.orc.aggregatePushdown": "true"},
    {
        "spark.sql.orc.filterPushdown": "true",
        "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet,orc",
        "spark.sql.orc.enableVectorizedReader": "false",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
    },
    {
        "orc.force.positional.evolution": "true",
        "orc.skip.corrupt.data": "true",
        "orc.sarg.to.filter": "true",
        "orc.filter.use.selected": "true",
        "spark.sql.orc.mergeSchema": "true",
        "spark.sql.orc.enableNestedColumnVectorizedReader": "false",
    },
    {
        "spark.sql.legacy.charVarcharAsString": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.legacy.noCharPaddingInPredicate": "true",
        "spark.sql.readSideCharPadding": "true",
        "spark.sql.preserveCharVarcharTypeInfo": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    },
)
DAY = dt.date(2020, 1, 2)
MOMENT = dt.datetime.fromisoformat("2020-03-08 02:30:00.123456")


@contextmanager
def set_to(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, then as our applications have it."""
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
        open_session("hiveacid-tests")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """`wide` goes through our reader, `plain` through Spark's; both are partitioned."""
    for lab in make_lab(spark, hive_metastore):
        lab.table("wide", COLUMNS, partition=PARTITION)
        fill = """
            select cast(id as bigint) id, flag, 'ab ' vc, cast(1.5 as decimal(10,2)) de,
              date'2020-03-08' da, timestamp_ntz'2020-03-08 02:30:00.123456' ts,
              cast('NaN' as double) fl, map('k', 1) ma, named_struct('x', 7, 'c', 'z') sr,
              'ab' p, date'2020-01-02' d
            from source
        """
        source = SourceSpec(values=((1, "k3"), (2, "k4")), columns=("id", "flag"), query=fill)
        lab.run(InsertSpec(target=f"{lab.db}.wide", source=source))
        lab.table("plain", PLAIN, partition=PARTITION)
        fill = """
            select id, 0 v, date'1600-02-29' da, named_struct('x', 7, 'y', 'z') sr,
              'ab' p, date'2020-01-02' d
            from (select explode(sequence(1L, 20L)) id from source)
        """
        source = SourceSpec(values=((1,),), columns=("one",), query=fill)
        lab.run(InsertSpec(target=f"{lab.db}.plain", source=source))
        lab.delete("plain", "id > 10")
        yield lab


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: next(iter(s)).removeprefix("spark."))
@pytest.mark.long_cases(
    "sql.sources.useV1SourceList",
    "sql.orc.impl",
    "sql.orc.filterPushdown",
    "orc.force.positional.evolution",
)
def test_reads_and_statements_are_correct_under_unusual_session_settings(
    tables: Lab, settings: Mapping[str, str]
) -> None:
    names = [f"{tables.db}.wide", f"{tables.db}.plain"]
    with (
        set_to(tables.spark, settings),
        read_snapshot(tables.endpoint, names, job_key=f"{tables.db}/r") as snapshot,
    ):
        wide, plain = (read_table(tables.spark, name, snapshot) for name in names)
        found = [
            (r.id, r.flag, r.de, r.da, r.ts, str(r.fl), r.ma, tuple(r.sr), r.p, r.d)
            for r in wide.where("flag = 'k3' and sr.c = 'z' and p = 'ab'").collect()
        ]
        first = (1, "k3", Decimal("1.50"), dt.date(2020, 3, 8), MOMENT, "nan", {"k": 1})
        assert found == [(*first, (7, "z"), "ab", DAY)]
        every = [(r[0], r[2], tuple(r[3]), *r[4:]) for r in plain.where("id < 11").collect()]
        ancient = dt.date(1600, 2, 29)
        assert sorted(every) == [(i, ancient, (7, "z"), "ab", DAY) for i in range(1, 11)]
        assert plain.count() == len(plain.collect())
        assert plain.where("id between 3 and 5 and sr.y = 'z' and p = 'ab'").count() == 3
        days = plain.where("id = 2").select("da").collect()
        assert [tuple(r) for r in days] == [(ancient,)]

    number = SETTINGS.index(settings)
    with set_to(tables.spark, settings):
        # As an application does; what the session had is then no more.
        open_session("hiveacid-tests")
        text = f"case FLAG when 'k3  ' then \"p{number}\" else 'no' end"
        tables.update("wide", {"vc": text}, "P = 'ab ' and d = '2020-01-02'")
        tables.delete("plain", "id > 99")
        merged = [(1, number, "ab", "2020-01-02"), (100 + number, number, "x", None)]
        tables.merge("plain", merged, ["id", "v", "p", "d"], ["id"], UPSERT_V)
    rows = [(r[0], r[1], r[2], r[5]) for r in tables.rows("wide")]
    assert rows == [(1, "k3", f"p{number}", MOMENT), (2, "k4", "no", MOMENT)]
    assert [(r[0], r[1], r[4], r[5]) for r in tables.rows("plain")] == [
        (1, number, "ab", DAY),
        *[(i, 0, "ab", DAY) for i in range(2, 11)],
        (100 + number, number, "x", None),
    ]


def test_char_columns_equal_literals_without_padding_in_an_ordinary_session(tables: Lab) -> None:
    with set_to(tables.spark, {"spark.sql.readSideCharPadding": "true"}):
        frame = tables.frame("wide")
        for condition in ("flag = 'k3'", "flag in ('k3')", "flag like 'k3'", "length(flag) = 2"):
            assert frame.where(condition).count() >= 1, condition
        other = tables.spark.createDataFrame([("k3",)], "flag string")
        assert frame.join(other, "flag").count() == 1
        assert frame.where("p = 'ab'").count() == 2


@pytest.mark.parametrize(
    ("given", "driver", "executors"),
    [
        ("-Dkept=1", "UTC", "-Dkept=1 -Duser.timezone=UTC"),
        ("-Duser.timezone=Asia/Tokyo", "Asia/Tokyo", "-Duser.timezone=Asia/Tokyo"),
    ],
)
def test_applications_run_in_utc_unless_a_time_zone_is_configured(
    given: str, driver: str, executors: str
) -> None:
    options = " ".join(
        f'--conf "spark.{side}.extraJavaOptions={given}"' for side in ("driver", "executor")
    )
    options += " --conf spark.speculation=true"
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "TZ": "Europe/Berlin",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[1] --name mine {options} pyspark-shell",
    }
    script = Path(__file__).parents[1] / "drivers" / "time_zones.py"
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, check=True, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    # Spark puts options of its own before them.
    assert found.pop("executors").endswith(f" {executors}")
    # Of a task that runs twice, either copy of what is kept would be met
    # (docs/decisions/writing.md).
    assert found.pop("speculation") == "false"
    assert found == {"driver": driver, "name": "mine", "is_utc": driver == "UTC"}


def test_a_spark_context_with_speculation_is_refused() -> None:
    given = {"spark.speculation": "True"}
    stub: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: given))
    with pytest.raises(ConfigurationError, match="speculation"):
        _check_tasks_run_once(stub)
    given.clear()
    _check_tasks_run_once(stub)


def test_a_running_stage_reports_the_number_of_its_completed_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def wait(rows: Iterator[int]) -> Iterator[int]:
        while not gate.exists():
            time.sleep(0.05)
        return rows

    tasks = 7  # no other test's stage, which may just have ended, has so many
    numbers = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(wait)
    counting = InheritableThread(target=numbers.count, session=spark)
    counting.start()
    try:
        deadline = time.monotonic() + 120
        found: list[StageState] = []
        while not found and time.monotonic() < deadline:
            found = [stage for stage in active_stages(spark) if stage.tasks == tasks]
            time.sleep(0.05)
    finally:
        gate.touch()
        counting.join()
    assert [stage.done for stage in found] == [0]
