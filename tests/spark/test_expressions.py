"""Expressions become columns of a table: by the names of fields, at one time, row by row."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MergeSpec,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements.parameters import read_parameters
from airflow_hiveacid.spark.engine import jvm_of
from airflow_hiveacid.spark.engine.catalyst import Moment, is_repeatable, resolve, resolved
from airflow_hiveacid.spark.engine.parsed_sql import TextTerms
from airflow_hiveacid.spark.reading.events import partition_key
from airflow_hiveacid.spark.reading.pruning import key_ranges
from airflow_hiveacid.spark.reading.source import load_source
from airflow_hiveacid.spark.reading.target import Target, empty_target
from airflow_hiveacid.spark.statements import merge
from airflow_hiveacid.spark.statements.expressions import HelperNames, stored
from airflow_hiveacid.spark.statements.insert import new_row_events, plan_insert
from airflow_hiveacid.spark.statements.merge import plan_merge
from airflow_hiveacid.spark.statements.update_delete import plan_change
from airflow_hiveacid.writing.event_files import partition_text
from tests.support.merge_clauses import UPDATE_V, matched_delete
from tests.support.spark_lab import with_settings
from tests.support.tables import table_of


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("struct<a:int,b:int>", "named_struct('b', 2, 'a', 1)", '{"a":1,"b":2}'),
        ("struct<a:int,b:int>", "named_struct('B', 2, 'A', 1)", '{"a":1,"b":2}'),
        ("struct<a:int,b:int>", "named_struct('a', 1, 'b', 2)", '{"a":1,"b":2}'),
        (
            "array<struct<a:string,b:int>>",
            "array(named_struct('b', 2, 'a', 1), null, named_struct('b', int(null), 'a', 3))",
            '[{"a":"1","b":2},null,{"a":"3"}]',
        ),
        (
            "map<string,array<struct<a:int,b:struct<c:int,d:int>>>>",
            "map('k', array(named_struct('b', named_struct('d', 4, 'c', 3), 'a', 1)))",
            '{"k":[{"a":1,"b":{"c":3,"d":4}}]}',
        ),
        ("struct<a:struct<x:int,y:int>>", "named_struct('a', null)", "{}"),
        (
            "struct<a:struct<x:int,y:int>,b:int>",
            "if(true, null, named_struct('b', 1, 'a', named_struct('y', 1, 'x', 2)))",
            None,
        ),
    ],
)
def test_struct_values_are_stored_by_field_name(
    spark: SparkSession, column: str, value: str, text: str | None
) -> None:
    table = table_of(f"c {column}")
    frame = spark.range(1)
    (found,) = resolved(table, frame, [value], Moment.now(spark))
    row = frame.select(F.to_json(stored(spark, table, "c", found).alias("c"))).collect()[0]
    assert row[0] == text


def test_a_struct_as_a_map_key_is_stored_by_field_name(spark: SparkSession) -> None:
    table = table_of("c map<struct<a:int,b:int>,int>")
    value = "map(named_struct('b', 2, 'a', 1), 3)"
    (found,) = resolved(table, spark.range(1), [value], Moment.now(spark))
    ((row,),) = spark.range(1).select(stored(spark, table, "c", found)).collect()
    assert row == {(1, 2): 3}


def test_a_non_deterministic_struct_is_evaluated_once(spark: SparkSession) -> None:
    table = table_of("c struct<a:int,b:int>")
    value = "if(rand() < 0.5, named_struct('b', 1, 'a', 1), named_struct('b', 2, 'a', 2))"
    frame = spark.range(200)
    (found,) = resolved(table, frame, [value], Moment.now(spark))
    rows = frame.select(stored(spark, table, "c", found).alias("c")).collect()
    assert {(r.c.a, r.c.b) for r in rows} == {(1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("struct<a:int,b:int>", "named_struct('a', 1)", "'c' lacks b;"),
        ("struct<a:int>", "named_struct('a', 1, 'z', 2)", "'c' has z, unlike"),
        ("struct<a:int>", "named_struct('b', 1)", "'c' lacks a and has b, unlike"),
        ("struct<a:int>", "named_struct('a', 1, 'A', 2)", "'c' has a, a, unlike"),
        (
            "array<struct<a:map<string,struct<b:int>>>>",
            "array(named_struct('a', map('k', named_struct('x', 1))))",
            r"'c\.element\.a\.value' lacks b",
        ),
        ("map<struct<a:int>,int>", "map(named_struct('q', 1), 1)", r"'c\.key' lacks a"),
    ],
)
def test_the_error_about_wrong_struct_fields_contains_their_path(
    spark: SparkSession, column: str, value: str, message: str
) -> None:
    table = table_of(f"c {column}")
    (found,) = resolved(table, spark.range(1), [value], Moment.now(spark))
    with pytest.raises(errors.StructFieldsError, match=message):
        stored(spark, table, "c", found)


def test_a_struct_with_a_field_of_a_wrong_type_is_refused(spark: SparkSession) -> None:
    table = table_of("c struct<a:int,b:string>")
    value = "named_struct('b', 'x', 'a', 1)"
    (found,) = resolved(table, spark.range(1), [value], Moment.now(spark))
    ((row,),) = spark.range(1).select(stored(spark, table, "c", found)).collect()
    assert row == (1, "x")
    (wrong,) = resolved(
        table, spark.range(1), ["named_struct('b', 1, 'a', 'x')"], Moment.now(spark)
    )
    with pytest.raises(errors.TypeMismatchError, match="struct<b:int,a:string>"):
        stored(spark, table, "c", wrong)


@pytest.mark.parametrize(
    ("set_", "where", "error"),
    [
        ({"n": "max(n)"}, None, errors.ExpressionError),
        ({"n": "row_number() over (order by n)"}, None, errors.ExpressionError),
        ({"n": "explode(array(1, 2))"}, None, errors.ExpressionError),
        ({"n": "t.*"}, None, errors.ExpressionError),
        ({"n": "__position"}, None, errors.UnknownColumnError),
        ({"n": "1", "m": "__hiveacid_expression_0"}, None, errors.UnknownColumnError),
        ({"n": "1"}, "n", errors.ExpressionError),
        ({"n": "1"}, "count(*) > 1", errors.ExpressionError),
    ],
)
def test_an_invalid_assignment_or_condition_is_refused_during_planning(
    spark: SparkSession, set_: dict[str, str], where: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        plan_change(
            spark, table_of("n int, m int"), UpdateSpec(target="d.t", set=set_, where=where)
        )


@pytest.mark.parametrize(
    ("keys", "condition", "message"),
    [
        (("k",), "rand() < 0.5", "must be deterministic"),
        (("k",), "t.n = (SELECT max(id) FROM range(3))", "contain no subquery"),
        (("k",), "t.n", "a condition must be boolean, but this one is int"),
        (("d",), None, "ON d"),
    ],
)
def test_an_unsupported_on_condition_of_a_merge_is_refused_during_planning(
    spark: SparkSession, keys: tuple[str, ...], condition: str | None, message: str
) -> None:
    spec = MergeSpec(
        target="d.t",
        source=SourceSpec(),
        keys=keys,
        clauses=(matched_delete(),),
        condition=condition,
    )
    source = spark.sql("select 1 as k, array(1) as d")
    with pytest.raises(errors.ExpressionError, match=message):
        plan_merge(spark, table_of("k int, n int, d date"), spec, source)


TIME_TYPE = {"spark.sql.timeType.enabled": "true"}


def test_the_current_time_is_the_same_in_every_query_of_a_statement(spark: SparkSession) -> None:
    asked = [
        "current_timestamp()",
        "now()",
        "current_date()",
        "curdate()",
        "localtimestamp()",
        "unix_timestamp()",
        "current_timestamp",
        "(SELECT max(now()) FROM range(2))",
        "date_format(now(), 'yyyy')",
    ]
    moment = Moment.now(spark)
    frame = spark.range(1)
    spark.sql("select current_timestamp()").collect()
    told = [
        frame.select(*[one.column for one in resolve(frame, asked, moment)]).collect()[0]
        for _ in range(2)
    ]
    source = moment.fixed_in(spark.sql(f"select {', '.join(asked)} from range(1)"))
    assert told[0] == told[1]
    assert tuple(source.collect()[0]) == tuple(told[0])
    assert told[0][0] == told[0][1] == told[0][7]


def test_a_frame_of_another_time_zone_has_the_time_of_the_statement(spark: SparkSession) -> None:
    moment = Moment.now(spark)
    frames: list[DataFrame] = []
    for zone in ("UTC", "Asia/Tokyo"):
        with with_settings(spark, {"spark.sql.session.timeZone": zone}):
            frames.append(spark.sql("select localtimestamp(), current_date()"))
    utc, tokyo = [moment.fixed_in(frame).collect()[0] for frame in frames]
    assert tokyo[0] - utc[0] == dt.timedelta(hours=9)
    assert (utc[1], tokyo[1]) == (utc[0].date(), tokyo[0].date())


def test_the_current_time_of_day_is_that_of_the_statement(spark: SparkSession) -> None:
    texts = ["current_time()", "current_time(0)", "current_time(1 + 2)", "current_time"]
    asked = ["date_format(now(), 'HH:mm:ss.SSSSSS')", *[f"string({text})" for text in texts]]
    moment, frame = Moment.now(spark), spark.range(1)
    with with_settings(spark, TIME_TYPE):
        if not spark.catalog.functionExists("current_time"):  # before Spark 4.1
            with pytest.raises(AnalysisException, match="current_time"):
                resolve(frame, asked, moment)
            return
        values = [one.column for one in resolve(frame, asked, moment)]
        source = moment.fixed_in(spark.sql(f"select {', '.join(asked)}"))
        rows = [*frame.select(*values).collect(), *source.collect()]
    day, *times = [dt.time.fromisoformat(text) for text in rows[0]]
    assert tuple(rows[1]) == tuple(rows[0])
    assert times == [
        day,
        day.replace(microsecond=0),
        day.replace(microsecond=day.microsecond // 1000 * 1000),
        day,
    ]


def test_no_function_without_arguments_returns_a_time_of_its_own(spark: SparkSession) -> None:
    catalyst = jvm_of(spark).org.apache.spark.sql.catalyst
    patterns, identifier = catalyst.trees.TreePattern, catalyst.FunctionIdentifier
    catalog = spark._jsparkSession.sessionState().catalog()
    moment = Moment.now(spark)
    current: set[str] = set()
    left: dict[str, str] = {}
    with with_settings(spark, TIME_TYPE):
        for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
            info = catalog.lookupFunctionInfo(identifier(name))
            # An analysis that fails takes 0.1 s, and there are 500 functions with arguments.
            if info.getGroup() != "datetime_funcs" and f"{name}()" not in info.getUsage():
                continue
            try:
                frame = spark.sql(f"SELECT `{name}`() AS v")
            except (PySparkException, Py4JJavaError):
                continue  # it needs arguments
            if frame._jdf.queryExecution().analyzed().containsPattern(patterns.CURRENT_LIKE()):
                current.add(name)
                if moment.plan_of(frame).containsPattern(patterns.CURRENT_LIKE()):
                    left[name] = frame.dtypes[0][1]
    assert current >= {"current_timestamp", "now", "current_date", "curdate", "localtimestamp"}
    assert set(left.values()) <= {"string"}, left


@pytest.mark.parametrize(
    "condition",
    [
        "ts < TIMESTAMP'now'",
        'd = DATE "Today"',
        "d = 'yesterday'",
        "ts > to_timestamp('today')",
        "id IN (SELECT id FROM range(3) WHERE t.d < to_date(' TOMORROW '))",
        "d < :word",
    ],
)
def test_a_string_that_stands_for_the_current_time_is_refused(
    spark: SparkSession, condition: str
) -> None:
    table = table_of("id bigint, d date, ts timestamp, v string")
    parameters = read_parameters({"word": "today"} if ":word" in condition else {})
    with pytest.raises(errors.ExpressionError, match=r"write current_timestamp\(\)"):
        plan_change(
            spark,
            table,
            DeleteSpec(target="d.t", where=condition),
            TextTerms(parameters=parameters),
        )
    with pytest.raises(errors.SourceUnreadableError, match=r"write current_timestamp\(\)"):
        load_source(
            spark,
            SourceSpec(
                tables={"t": "d.t"},
                query=f"SELECT * FROM t WHERE {condition}",
                parameters=parameters,
            ),
            {"t": empty_target(spark, table)},
        )
    accepted = "v IN ('now', 'today') OR v = \"DATE 'today'\" OR now() > ts OR v = :word"
    terms = TextTerms(parameters=read_parameters({"word": "tomorrow"}))
    plan_change(spark, table, DeleteSpec(target="d.t", where=accepted), terms)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select id + 1 as id from files where id > 1", True),
        ("select a.id from files a join files b on a.id = b.id", True),
        ("select id from files union all select id from files", True),
        ("select id, current_timestamp() from files", True),
        ("select id, rand() as r from files", False),
        ("select id, uuid() as u from files", False),
        ("select id from files limit 3", False),
        ("select sum(cast(id as double)) as id from files group by id % 2", False),
        ("select id from files where id in (select id from files limit 1)", False),
        ("select id, row_number() over (order by id % 2) as n from files", False),
        ("select id from files tablesample (50 percent)", False),
        ("select distinct id from files", False),
        ("select explode(array(id)) as id from files", False),
    ],
)
def test_a_source_counts_as_repeatable_only_if_each_run_returns_the_same_rows(
    spark: SparkSession, tmp_path: Path, query: str, *, expected: bool
) -> None:
    spark.range(4).write.parquet((tmp_path / "files").as_uri())
    spark.read.parquet((tmp_path / "files").as_uri()).createOrReplaceTempView("files")
    assert is_repeatable(spark.sql(query)) is expected


def test_a_source_with_user_code_does_not_count_as_repeatable(spark: SparkSession) -> None:
    numbers = spark.range(4)
    assert is_repeatable(numbers, is_ours=False)
    for made in (
        numbers.rdd.map(lambda row: (row.id,)).toDF(["id"]),
        numbers.mapInArrow(lambda batches: batches, "id long"),
    ):
        assert is_repeatable(made)
        assert not is_repeatable(made, is_ours=False)


def test_data_broadcast_to_executors_is_limited_in_bytes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of("k int, v string")
    source = spark.range(100).selectExpr("int(id) as k", "repeat('x', 1000) as v")
    spec = MergeSpec(target="d.t", source=SourceSpec(), keys=("k",), clauses=(UPDATE_V,))
    program = plan_merge(spark, table, spec, source)
    names = HelperNames.beside(table.column_names, source.columns)
    kept = source.withColumn(names.source_row, F.monotonically_increasing_id())
    target = Target(
        spark=spark,
        table=table,
        write_ids=ValidWriteIdList.parse(f"d.t:0:{2**63 - 1}::"),
        txns=ValidTxnList.parse(f"0:{2**63 - 1}::"),
        partitions=(),
    )
    asked = merge._size_columns(program, kept, names.source_row)
    sizes = merge._Sizes(*key_ranges(kept, (), (), asked)[1])

    def sent(limit: int) -> tuple[bool, bool]:
        """Whether all that pairs need is sent, and whether the keys are."""
        monkeypatch.setattr(merge, "_BROADCAST_BYTES", limit)
        join = merge._Join.of(program, names, kept, target, sizes)
        return join.is_small, join.keys_are_small

    # 100 rows of a kilobyte, with keys of a few bytes.
    assert [sent(limit) for limit in (200_000, 50_000, 1_000)] == [
        (True, True),
        (False, True),
        (False, False),
    ]


def bucket_of(spark: SparkSession, source: DataFrame) -> dict[int, int]:
    table = table_of("id int, m array<map<string,int>>, f double", by="p int")
    spec = InsertSpec(target="d.t", source=SourceSpec())
    program = plan_insert(table, spec, source, Moment.now(spark))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_hiveacid.spark.statements.insert._WRITER_BYTES", 1)
        frame = new_row_events(program, source).frame()
    return {r[0]: r[1] for r in frame.select("row.id", "_bucket").collect()}


def test_the_writer_of_a_row_depends_only_on_the_values_of_the_row(spark: SparkSession) -> None:
    rows = spark.range(40).selectExpr(
        "cast(id as int) as id", "array(map('k', cast(id as int))) as m", "0.5D as f", "1 as p"
    )
    first = bucket_of(spark, rows.coalesce(1))
    second = bucket_of(spark, rows.orderBy(F.desc("id")).localCheckpoint())
    assert set(first.values()) == {0, 1}
    assert first == second


def test_spark_and_python_compute_the_same_partition_key(spark: SparkSession) -> None:
    values = [
        *[chr(i) for i in range(1, 0x250)],
        *[chr(i) for i in (0x2028, 0x2029, 0xFEFF, 0xFFFD, 0x1F600)],
        'a"b\\c/d',
        None,
    ]
    table = table_of("", by="p string")
    frame = spark.createDataFrame([(v,) for v in values], "p string")
    made = [r[0] for r in frame.select(partition_key(table, [F.col("p")])).collect()]
    assert made == [partition_text(PartitionName(columns=("p",), values=(v,))) for v in values]
    assert [json.loads(text) for text in made] == [[v] for v in values]


def test_a_source_column_can_have_any_name(spark: SparkSession) -> None:
    table = table_of("n int")
    source = spark.createDataFrame([(7,)], ["a.b `c` D"])
    spec = InsertSpec(target="d.t", source=SourceSpec(), columns=("N",))
    events = new_row_events(plan_insert(table, spec, source, Moment.now(spark)), source)
    assert [r.row.n for r in events.frame().collect()] == [7]


def test_null_is_accepted_as_a_condition(spark: SparkSession) -> None:
    plan_change(spark, table_of("n int"), DeleteSpec(target="d.t", where="NULL"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("decimal(5,2)", {"1.5BD": "1.5", "100BD": "100", "0.00BD": "0", "-0.10BD": "-0.1"}),
        ("decimal(5,0)", {"100BD": "100", "0BD": "0"}),
        ("decimal(20,12)", {"0.000000001BD": "0.000000001"}),
        ("double", {"1e10D": "1.0E10", "100D": "100.0"}),
        ("char(4)", {"'ab'": "ab  ", "'ab   '": "ab  ", "'abcd'": "abcd", "''": "    "}),
        ("string", {"''": None, "'__HIVE_DEFAULT_PARTITION__'": None, "'1.50'": "1.50"}),
        ("timestamp", {"timestamp_ntz'2020-01-01 00:00:00.120'": "2020-01-01 00:00:00.12"}),
    ],
)
def test_partition_values_are_formatted_as_in_hive(
    spark: SparkSession, kind: str, values: dict[str, str | None]
) -> None:
    table = table_of("", by=f"p {kind}")
    wanted = empty_target(spark, table).schema["p"].dataType
    made = spark.range(1).select(
        *[partition_key(table, [F.expr(value).cast(wanted)]) for value in values]
    )
    assert [json.loads(text) for text in made.collect()[0]] == [[v] for v in values.values()]
