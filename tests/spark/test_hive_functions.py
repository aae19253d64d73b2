"""Statements as text whose functions Hive's own classes compute: the rows that Hive would leave."""

from __future__ import annotations

from base64 import b64encode

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.plan.statements.hive_functions import CLASSES, called
from airflow_hiveacid.sql.script import read_script
from tests.support.spark_lab import Lab


def run(lab: Lab, text: str) -> None:
    for statement in read_script(text, lab.db):
        lab.run(statement.job)


def rows(lab: Lab, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lab.frame(table).collect())


def test_a_session_registers_each_class_of_hives_functions(spark: SparkSession) -> None:
    for name in CLASSES:
        assert spark.catalog.functionExists(called(name)), name


def test_a_delete_evaluates_a_negative_start_of_substr_as_hive_does(lab4: Lab) -> None:
    lab4.table("t", {"id": "int", "s": "string"})
    lab4.insert("t", [(1, "12"), (2, "xx12"), (3, "abcdef12")], ["id", "s"])
    # Of a text with two letters Hive finds '' six from its end, Spark's substr all of it.
    run(lab4, "DELETE FROM t WHERE substr(s, length(s) - 6, 2) = '12' OR substr(s, -4) = 'xx12'")
    assert rows(lab4, "t") == [(1, "12"), (3, "abcdef12")]


def test_an_insert_stores_the_values_of_hives_functions(lab4: Lab) -> None:
    columns = {"id": "int", "s": "string", "y": "string", "n": "int", "d": "date"}
    lab4.table("src", columns)
    lab4.table("res", {"id": "int", "a": "string", "b": "string", "c": "int", "e": "string"})
    lab4.insert("src", [(1, "abc", "", 5, None), (2, None, "b", None, None)], list(columns))
    run(
        lab4,
        "INSERT INTO res SELECT id, replace(s, y, '-'), concat_ws(',', array(s, y)),"
        " greatest(n, 7), printf('%s', date '2020-01-31') FROM src",
    )
    assert rows(lab4, "res") == [
        (1, "-a-b-c-", "abc,", 7, "2020-01-31"),
        (2, None, "null,b", None, "2020-01-31"),
    ]


def test_an_update_and_a_merge_call_hives_functions(lab4: Lab) -> None:
    lab4.table("t", {"id": "int", "d": "date", "x": "decimal(20,10)"})
    lab4.insert("t", [(1, None, None), (2, None, None)], ["id", "d", "x"])
    run(
        lab4,
        "UPDATE t SET d = cast(add_months(date '2015-02-28', id) AS date), x = 1.00 / 7.000;"
        " MERGE INTO t USING (SELECT 1 AS id, array(1, NULL) AS a) s ON t.id = s.id"
        " WHEN MATCHED AND NOT array_contains(s.a, 2) THEN UPDATE SET x = size(s.a)",
    )
    found = [(id_, str(d), float(x)) for id_, d, x in rows(lab4, "t")]
    assert found == [(1, "2015-03-31", 2.0), (2, "2015-04-30", 0.142857)]


def test_a_cast_of_text_with_blanks_to_an_integer_is_refused(lab4: Lab) -> None:
    lab4.table("src", {"id": "int", "s": "string"})
    lab4.table("res", {"id": "int", "n": "int"})
    lab4.insert("src", [(1, "7"), (2, "\t7 ")], ["id", "s"])
    with pytest.raises((HiveAcidError, PySparkException), match=r"with trim\(x\)"):
        run(lab4, "INSERT INTO res SELECT id, cast(s AS int) FROM src")
    assert rows(lab4, "res") == []
    run(lab4, "INSERT INTO res SELECT id, cast(s AS int) FROM src WHERE id = 1")
    run(lab4, "INSERT INTO res SELECT id, cast(trim(s) AS int) FROM src WHERE s = '7'")
    assert rows(lab4, "res") == [(1, 7), (1, 7)]


@pytest.mark.parametrize("name", ["tinyint", "smallint", "int", "bigint"])
@pytest.mark.long_cases("tinyint", "smallint", "bigint")
def test_a_cast_written_as_a_function_call_refuses_text_with_blanks(lab4: Lab, name: str) -> None:
    lab4.table("src", {"id": "int", "s": "string"})
    lab4.table("res", {"id": "int", "n": name})
    lab4.insert("src", [(1, "7"), (2, " 7")], ["id", "s"])
    with pytest.raises((HiveAcidError, PySparkException), match=r"with trim\(x\)"):
        run(lab4, f"INSERT INTO res SELECT id, {name}(s) FROM src")
    assert rows(lab4, "res") == []
    run(lab4, f"INSERT INTO res SELECT id, {name}(s) FROM src WHERE id = 1")
    assert rows(lab4, "res") == [(1, 7)]


def test_base64_returns_one_line_for_text_of_any_length(lab4: Lab) -> None:
    lab4.table("src", {"id": "int", "s": "string"})
    lab4.table("res", {"id": "int", "v": "string"})
    texts = ["x" * length for length in (57, 58, 300)]
    lab4.insert("src", list(enumerate(texts)), ["id", "s"])
    run(lab4, "INSERT INTO res SELECT id, base64(cast(s AS binary)) FROM src")
    wanted = [(at, b64encode(text.encode()).decode()) for at, text in enumerate(texts)]
    assert rows(lab4, "res") == wanted


def test_width_bucket_refuses_decimal_arguments(lab4: Lab) -> None:
    """Of decimals Hive is exact: of 100 parts of 1, 0.57 is in the 58th."""
    lab4.table("src", {"id": "int", "de": "decimal(10,2)"})
    lab4.table("res", {"id": "int", "v": "int", "w": "int"})
    run(lab4, "INSERT INTO src VALUES (1, 0.57)")
    with pytest.raises((HiveAcidError, PySparkException), match=r"cast\(x AS double\)"):
        run(lab4, "INSERT INTO res SELECT id, width_bucket(de, 0, 1, 100), 0 FROM src")
    assert rows(lab4, "res") == []
    run(
        lab4,
        "INSERT INTO res SELECT id, width_bucket(cast(de AS double), 0.0, 1, 100),"
        " width_bucket(id, 0, 10, 5) FROM src",
    )
    assert rows(lab4, "res") == [(1, 57, 1)]


@pytest.mark.parametrize("value", ["12", "date '2020-01-31'", "1.5", "true"])
def test_mask_of_a_value_that_is_not_text_is_refused(lab4: Lab, value: str) -> None:
    lab4.table("res", {"v": "string"})
    with pytest.raises((HiveAcidError, PySparkException), match="mask"):
        run(lab4, f"INSERT INTO res SELECT mask({value})")
    assert rows(lab4, "res") == []
