"""Values are values: whatever a parameter holds, it is a literal of its own type, and never text.

And texts reach no further than the tables: no Java, no files of the driver, no commands.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.plan.statements.parameters import job_with, read_parameters
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine import parsed_sql
from airflow_hiveacid.spark.engine.catalyst import Moment, conjuncts, query, resolve
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.sql.script import read_script
from tests.support.cases import texts_of
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab, make_lab

CASES = Path(__file__).parent / "cases"
HOSTILE = "zz' OR '1'='1"
CLOCK = dt.datetime(2026, 1, 31, 2, 3, 4, 5)  # noqa: DTZ001 - a wall clock
HALF_PAST = dt.datetime(2026, 1, 2, 12, 30, 0, 500_000)  # noqa: DTZ001 - as above
TEXTS = [HOSTILE, "a\\' OR 1=1 -- ", 'q"; DROP TABLE t', ":v", "${env:HOME}", "é\n\x00`", ""]


def terms(**values: object) -> parsed_sql.TextTerms:
    return parsed_sql.TextTerms(parameters=read_parameters(values))


def one(spark: SparkSession, text: str, **values: object) -> tuple[str, Any]:
    """The type of an expression, and what it says."""
    frame = spark.range(1)
    (found,) = resolve(frame, [text], Moment.now(spark, terms(**values)))
    return found.type.simpleString(), frame.select(found.column).collect()[0][0]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, "int"),
        (5_000_000_000, "bigint"),
        (10**25, "decimal(26,0)"),
        (Decimal("-1.50"), "decimal(2,1)"),
        (1.5, "double"),
        (True, "boolean"),
        (dt.date(1500, 1, 31), "date"),
        (CLOCK, "timestamp_ntz"),
        (None, "void"),
        *[(text, "string") for text in TEXTS],
    ],
)
def test_a_parameter_is_bound_as_a_literal_of_its_own_type(
    spark: SparkSession, value: object, kind: str
) -> None:
    assert one(spark, ":v", v=value) == (kind, value)
    assert one(spark, "(SELECT max(x) FROM (SELECT :v AS x))", v=value)[1] == value
    found = query(spark, "WITH w AS (SELECT :v AS x) SELECT x FROM w", terms(v=value))
    assert [tuple(row) for row in found.collect()] == [(value,)]


def test_a_timestamp_parameter_with_a_time_zone_keeps_its_instant(spark: SparkSession) -> None:
    value = {"type": "timestamp with local time zone", "value": "2026-01-31T02:00:00+02:00"}
    assert one(spark, "unix_timestamp(:v)", v=value)[1] == 1769817600


def test_a_list_parameter_becomes_the_values_of_an_in_predicate(spark: SparkSession) -> None:
    ids = [1, Decimal("2.5"), None]
    assert one(spark, "1 IN (:ids)", ids=ids) == ("boolean", True)
    assert one(spark, "7 IN (:ids, 7)", ids=ids) == ("boolean", True)
    assert one(spark, "7 NOT IN (:ids)", ids=ids) == ("boolean", None)
    assert one(spark, "(:a IN (:ids)) IN (:b)", ids=[1], a=1, b=True) == ("boolean", True)
    inner = "1 IN (SELECT id + 1 FROM range(3) WHERE id IN (:ids))"
    assert one(spark, inner, ids=[0, 5]) == ("boolean", True)
    rows = query(spark, "SELECT id FROM range(9) WHERE id IN (:ids)", terms(ids=[3, 8, 99]))
    assert [row[0] for row in rows.collect()] == [3, 8]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3 IN (WITH w AS (SELECT :n AS x) SELECT x FROM w)", True),
        ("(WITH w AS (SELECT :n AS x), v AS (SELECT x + :n AS y FROM w) SELECT y FROM v)", 6),
        ("(SELECT max(y) FROM (WITH w AS (SELECT :n AS x) SELECT x AS y FROM w))", 3),
        ("EXISTS (WITH w AS (SELECT 3 AS x) SELECT 1 FROM w WHERE x IN (:ns))", True),
        (("(SELECT max(x) FROM (SELECT sum(id) OVER w x FROM range(4) WINDOW w AS ("
         "PARTITION BY id % :n)))"), 3),
        (("(SELECT max(x) FROM (SELECT sum(id) OVER w x FROM range(4) WINDOW w AS ("
         "PARTITION BY id + (WITH v AS (SELECT :n AS z) SELECT z FROM v))))"), 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("allows_unsafe", [False, True])
def test_markers_are_bound_in_every_subquery_of_an_expression(
    spark: SparkSession, text: str, found: object, *, allows_unsafe: bool
) -> None:
    given = parsed_sql.TextTerms(
        parameters=read_parameters({"n": 3, "ns": [3, 4]}), allows_unsafe=allows_unsafe
    )
    frame = spark.range(1)
    (one_,) = resolve(frame, [text], Moment.now(spark, given))
    assert frame.select(one_.column).collect()[0][0] == found
    rows = query(spark, f"SELECT {text} FROM range(1)", given).collect()
    assert [row[0] for row in rows] == [found]


def test_the_error_names_an_unbound_marker_in_a_with_or_window_clause(spark: SparkSession) -> None:
    for text in (
        "1 IN (WITH w AS (SELECT :no AS x) SELECT x FROM w)",
        "(SELECT sum(id) OVER w FROM range(1) WINDOW w AS (ORDER BY :no)) = 1",
    ):
        with pytest.raises(parsed_sql.UnboundParameterError, match="no value for :no"):
            resolve(spark.range(1), [text], Moment.now(spark, terms(n=1)))


def test_markers_are_bound_in_windows_limits_and_values(spark: SparkSession) -> None:
    text = (
        "SELECT id, count(*) OVER w FROM range(4) WINDOW w AS (PARTITION BY id % :n)"
        " ORDER BY id LIMIT :most"
    )
    found = query(spark, text, terms(n=2, most=3)).collect()
    assert [tuple(row) for row in found] == [(0, 2), (1, 2), (2, 2)]
    found = query(spark, "SELECT * FROM VALUES (:a), (:b)", terms(a=HOSTILE, b="x")).collect()
    assert sorted(row[0] for row in found) == ["x", HOSTILE]


@pytest.fixture
def t(lab4: Lab) -> Lab:
    return filled(lab4)


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """One for all statements that are refused and change nothing."""
    for lab in make_lab(spark, hive_metastore):
        yield filled(lab)


def filled(lab: Lab) -> Lab:
    lab.table(
        "t",
        {"id": "bigint", "v": "string", "n": "decimal(9,2)", "d": "date", "ts": "timestamp"},
    )
    lab.insert(
        "t",
        [
            (1, "one", "1.50", "2026-01-01", "2026-01-01 00:00:00"),
            (2, HOSTILE, "2.50", "2026-01-02", "2026-01-02 12:30:00.5"),
            (3, None, None, None, None),
        ],
        ["id", "v", "n", "d", "ts"],
    )
    return lab


def ids(lab: Lab) -> list[object]:
    return [row[0] for row in lab.rows("t")]


@pytest.mark.parametrize(
    ("where", "value", "left"),
    [
        ("v = :v", HOSTILE, [1, 3]),
        ("v = :v", "' OR true -- ", [1, 2, 3]),
        ("v <=> :v", None, [1, 2]),
        ("v = :v", None, [1, 2, 3]),
        ("n = :v", Decimal("1.5"), [2, 3]),
        ("d < :v", dt.date(2026, 1, 2), [2, 3]),
        ("ts = :v", HALF_PAST, [1, 3]),
        ("nullif(id, 3) < :v", Decimal("99999999999999999999.5"), [3]),
        ("nullif(id, 3) > :v", -99_999_999_999_999_999_999, [3]),
        ("id IN (:v)", [1, 3, 99], [2]),
        ("v IN (:v)", [HOSTILE, "') OR (true"], [1, 3]),
        ("EXISTS (SELECT 1 WHERE t.v = :v)", HOSTILE, [1, 3]),
    ],
)
@pytest.mark.long_cases(
    "v = :v-None-*", "v = :v-' OR true*", "n = *", "d < *", "ts = *", "nullif(id, 3) > *", "id IN*"
)
def test_a_delete_with_a_parameter_deletes_only_the_matching_rows(
    t: Lab, where: str, value: object, left: list[int]
) -> None:
    t.run(job_with(statements.DeleteSpec(target=f"{t.db}.t", where=where), {"v": value}))
    assert ids(t) == left


@pytest.mark.parametrize(
    "where",
    [
        "nullif(id, 3) < 99999999999999999999",
        "NOT nullif(id, 3) >= 99999999999999999999.5",
        "-99999999999999999999 <= nullif(id, 3)",
        "EXISTS (SELECT 1 WHERE nullif(t.id, 3) < 99999999999999999999)",
        "nullif(id, 3) < 1E20BD",
        "nullif(id, 3) > -0.1e+21bd",
        "nullif(id, 3) < 9223372036854775807.5",
        "nullif(id, 3) < 9223372036854775807.0000000000000000001",
    ],
)
@pytest.mark.long_cases("-9*", "*BD", "*bd", "*807.5")
def test_null_is_not_less_than_a_number_beyond_bigint(t: Lab, where: str) -> None:
    t.run(statements.DeleteSpec(target=f"{t.db}.t", where=where))
    assert ids(t) == [3]


def test_a_number_beyond_bigint_does_not_change_the_name_of_its_column(spark: SparkSession) -> None:
    large = "99999999999999999999"
    assert query(spark, f"SELECT {large}, 1 - {large}", terms()).columns == [
        large,
        f"(1 - {large})",
    ]


def test_the_expression_tree_is_not_searched_for_numbers_within_bigint(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_sql._Binder, "_with_large_numbers", None)
    within = f"{2**63 - 2}, 1234567890123456789, 0{10**18}, 1e20"
    text = f"SELECT id FROM range(1) WHERE id NOT IN ({within})"
    assert query(spark, text, terms()).count() == 1


def test_assignments_clauses_and_queries_accept_parameters(t: Lab) -> None:
    target = f"{t.db}.t"
    update = statements.UpdateSpec(target=target, set={"v": ":new", "n": ":n"}, where="id = :id")
    t.run(job_with(update, {"new": HOSTILE, "n": Decimal("9.75"), "id": 1}))
    merge = statements.MergeSpec(
        target=target,
        source=statements.SourceSpec(
            tables={}, query="SELECT 2L AS id, :text AS v UNION ALL SELECT 9L, :x"
        ),
        keys=("id",),
        condition="t.v = :was",
        clauses=(
            matched_update({"v": "concat(s.v, :tail)", "d": ":day"}, "s.v <> :not"),
            INSERT_ALL,
        ),
    )
    values = {
        "text": "'a' || 'b'", "x": "new", "was": HOSTILE, "not": "no'", "tail": "\\",
        "day": dt.date(2026, 5, 5),
    }  # fmt: skip
    t.run(job_with(merge, values))
    found = {row[0]: row[1:4] for row in t.rows("t")}
    assert found[1] == (HOSTILE, Decimal("9.75"), dt.date(2026, 1, 1))
    assert found[2] == ("'a' || 'b'\\", Decimal("2.50"), dt.date(2026, 5, 5))
    assert found[9] == ("new", None, None)


def test_statements_in_hives_dialect_accept_parameters(t: Lab) -> None:
    t.table("p", {"id": "bigint", "v": "string"}, partition={"day": "date"})
    values = {
        "day": dt.date(2026, 1, 2), "v": HOSTILE, "id": 4, "ids": [1, 3], "part": "2026-01-02",
    }  # fmt: skip
    text = """
        INSERT INTO t (id, v, d) VALUES (:id, :v, :day), (5, ':no', NULL);
        INSERT INTO t (id, v) VALUES (6, concat(:v, '!'));
        INSERT INTO p PARTITION (day = :part) SELECT t.id, t.v FROM t WHERE t.v = :v;
        UPDATE t SET v = :v WHERE id IN (:ids);
        MERGE INTO t USING (SELECT :id AS k) s ON t.id = s.k WHEN MATCHED AND t.v = :v THEN DELETE;
        DELETE FROM t WHERE d = :day AND v = :v;
    """
    given = read_parameters(values)
    for statement in read_script(text, t.db, given):
        t.run(statement.job)  # type: ignore[arg-type]
    assert [row[:2] for row in t.rows("t")] == [
        (1, HOSTILE), (3, HOSTILE), (5, ":no"), (6, f"{HOSTILE}!"),
    ]  # fmt: skip
    assert t.rows("p") == [(2, HOSTILE, dt.date(2026, 1, 2)), (4, HOSTILE, dt.date(2026, 1, 2))]
    for statement in read_script("TRUNCATE TABLE p PARTITION (day = :day)", t.db, given):
        t.run(statement.job)  # type: ignore[arg-type]
    assert t.rows("p") == []


def test_create_table_as_select_accepts_only_timestamp_parameters_without_a_zone(t: Lab) -> None:
    text = "CREATE TABLE {} STORED AS ORC AS SELECT :at AS c, id FROM t WHERE id = 1"
    moment = {"type": "timestamp with local time zone", "value": "2026-01-31T02:00:00+01:00"}
    for statement in read_script(text.format("clocks"), t.db, read_parameters({"at": CLOCK})):
        t.run(statement.job)  # type: ignore[arg-type]
    assert t.info("clocks").columns[0].type == "timestamp"
    assert t.rows("clocks") == [(CLOCK, 1)]
    (statement,) = read_script(text.format("moments"), t.db, read_parameters({"at": moment}))
    with pytest.raises(errors.HiveAcidError, match="create the table first"):
        t.run(statement.job)  # type: ignore[arg-type]
    with pytest.raises(errors.HiveAcidError, match=r"does not exist|no such table|not found"):
        t.info("moments")


def test_a_parameter_prunes_partitions_like_a_literal(t: Lab) -> None:
    table = t.table("q", {"id": "bigint"}, partition={"day": "date", "k": "int"})
    names = tuple(
        table.partition_name([day, k]) for day in ("2026-01-01", "2026-01-02") for k in ("1", "2")
    )
    bound = partitions_where(
        t.spark,
        table,
        names,
        "day = :day AND k IN (:ks)",
        Moment.now(t.spark, terms(day=dt.date(2026, 1, 2), ks=[2, 7])),
    )
    written = partitions_where(
        t.spark, table, names, "day = DATE'2026-01-02' AND k IN (2, 7)", Moment.now(t.spark)
    )
    assert bound == written == (names[3],)
    (part,) = conjuncts(t.spark.range(3), "id = :id", Moment.now(t.spark, terms(id=2)))
    assert part.uses == {0}
    with read_snapshot(t.endpoint, [f"{t.db}.t"], job_key=t.db) as snapshot:
        rows = read_table(
            t.spark, f"{t.db}.t", snapshot, where="v = :v", parameters={"v": HOSTILE}
        ).collect()
    assert [row.id for row in rows] == [2]


def test_an_invalid_filter_on_a_partition_column_raises_a_typed_error(lab4: Lab) -> None:
    lab4.table("q", {"id": "bigint"}, partition={"p": "int"})
    lab4.insert("q", [(1, 1), (2, 2)], ["id", "p"])
    name = f"{lab4.db}.q"
    with read_snapshot(lab4.endpoint, [name], job_key=lab4.db) as snapshot:
        with pytest.raises(errors.UnsafeTextError, match="reflect and java_method call Java"):
            read_table(
                lab4.spark,
                name,
                snapshot,
                where="p = length(reflect('java.lang.String', 'valueOf', p))",
            )
        with pytest.raises(errors.ExpressionError, match=":p is a list"):
            read_table(lab4.spark, name, snapshot, where="p = :p", parameters={"p": [1]})


def test_the_error_names_a_marker_without_a_value_or_with_a_misplaced_list(unchanged: Lab) -> None:
    target = f"{unchanged.db}.t"
    with pytest.raises(errors.ExpressionError, match=r"no value for :v"):
        unchanged.run(statements.DeleteSpec(target=target, where="v = :v"))
    with pytest.raises(
        errors.ExpressionError, match=r":v is a list, and a list is allowed only in IN"
    ):
        unchanged.run(job_with(statements.DeleteSpec(target=target, where="v = :v"), {"v": ["a"]}))
    with pytest.raises(errors.SourceUnreadableError, match=r"no value for :v"):
        unchanged.run(
            statements.InsertSpec(
                target=target, source=statements.SourceSpec(tables={}, query="SELECT :v AS id")
            )
        )
    assert ids(unchanged) == [1, 2, 3]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.keys"
    file.write_text("key of the driver")
    return file


@pytest.mark.parametrize("where", texts_of(CASES / "refused_expressions.txt"))
def test_sql_text_cannot_call_java_or_read_files(unchanged: Lab, secret: Path, where: str) -> None:
    text = where.format(secret=secret)
    target = f"{unchanged.db}.t"
    system = unchanged.spark._jvm.java.lang.System  # type: ignore[union-attr]
    with pytest.raises(errors.HiveAcidError) as refused:
        unchanged.run(statements.DeleteSpec(target=target, where=text))
    assert isinstance(refused.value, errors.UnsafeTextError | errors.ExpressionError)
    assert system.getProperty("hiveacid.seen") is None
    with pytest.raises(errors.HiveAcidError):
        unchanged.run(
            statements.UpdateSpec(target=target, set={"v": f"CASE WHEN {text} THEN 'x' END"})
        )
    source = statements.SourceSpec(table=target, query=f"SELECT id FROM source t WHERE {text}")
    with pytest.raises(errors.HiveAcidError):
        unchanged.run(statements.InsertSpec(target=target, source=source))
    assert ids(unchanged) == [1, 2, 3]
    assert unchanged.directories("t") == ["delta_0000001_0000001_0000"]


@pytest.mark.parametrize(
    "text",
    texts_of(CASES / "refused_queries.txt"),
)
def test_a_query_that_reads_files_calls_java_or_writes_is_refused(
    spark: SparkSession, secret: Path, text: str
) -> None:
    with pytest.raises(parsed_sql.RefusedTextError):
        query(spark, text.format(secret=secret), parsed_sql.TextTerms())
    assert not secret.with_suffix(".keys.d").exists()


def test_all_supported_clauses_of_a_query_are_accepted(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("some_rows")
    for text in texts_of(CASES / "accepted_queries.txt"):
        query(spark, text, parsed_sql.TextTerms()).collect()


@pytest.mark.parametrize(
    "text",
    [
        "from_avro(v, '\"int\"', map_from_arrays(array('avroSchemaUrl'), array('/a')))",
        "from_avro(v, '\"int\"', map_concat(map('avroSchemaUrl', '/a')))",
        "from_avro(v, '\"int\"', CASE WHEN true THEN map('avroSchemaUrl', '/a') END)",
        "from_avro(data => v, options => map_concat(map('avroSchemaUrl', '/a')))",
        "from_avro(options => map_concat(map('avroSchemaUrl', '/a')), data => v)",
        "from_xml(v, 'a INT', str_to_map('rowValidationXSDPath=/a', ',', '='))",
    ],
)
def test_function_options_that_may_name_files_are_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(parsed_sql.RefusedTextError, match=r"may name files|opens files"):
        one(spark, text)


def test_function_options_that_open_no_file_are_accepted(spark: SparkSession) -> None:
    assert one(spark, "from_json('{}', 'a INT', map('mode', 'FAILFAST')).a")[1] is None
    text = "from_xml('<r><a>7</a></r>', 'a INT', map('columnNameOfCorruptRecord', 'c')).a"
    schema = "from_xml('<r><a>7</a></r>', schema_of_xml('<r><a>1</a></r>')).a"
    if spark.catalog.functionExists("from_xml"):
        assert one(spark, text)[1] == 7
        assert one(spark, schema)[1] == 7
    else:  # Spark 3.5
        with pytest.raises(AnalysisException, match="from_xml"):
            one(spark, text)


def test_the_connection_can_allow_unsafe_text(spark: SparkSession, secret: Path) -> None:
    allowed = parsed_sql.TextTerms(allows_unsafe=True)
    rows = query(spark, f"SELECT value FROM text.`{secret}`", allowed).collect()
    assert [row[0] for row in rows] == ["key of the driver"]
    frame = spark.range(1)
    (found,) = resolve(
        frame,
        ["reflect('java.lang.String', 'valueOf', 5)"],
        Moment.now(spark, allowed),
    )
    assert frame.select(found.column).collect()[0][0] == "5"


def test_spark_variables_in_string_literals_are_not_substituted(spark: SparkSession) -> None:
    assert one(spark, "'${env:HOME}'")[1] == "${env:HOME}"
    found = query(spark, "SELECT '${env:HOME}'", parsed_sql.TextTerms()).collect()
    assert found[0][0] == "${env:HOME}"
