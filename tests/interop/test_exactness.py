"""An UPDATE or MERGE leaves the columns that it does not name bit for bit as they were."""

from __future__ import annotations

import pytest

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from tests.judges.engine import HiveJudge
from tests.support import column_lists, merge_clauses, spark_lab

COLUMNS = column_lists.columns_of(
    "id int, n int, ts timestamp, d date, dec decimal(38,18), c char(5), vc varchar(10), "
    "f float, g double, b binary, a array<timestamp>, m map<string,decimal(10,2)>, "
    "s struct<x:int,y:char(3)>"
)
FIRST = """
    1, 0, timestamp '2020-01-01 00:00:00.123456789', date '0001-01-01',
    cast('12345678901234567890.123456789012345678' as decimal(38,18)), cast('ab' as char(5)),
    cast('é ' as varchar(10)), cast('NaN' as float), cast('-Infinity' as double), unhex('00ff'),
    array(timestamp '1969-12-31 00:00:00.000000001'), map('k', cast('1.50' as decimal(10,2))),
    named_struct('x', 1, 'y', cast('z' as char(3)))
"""
SECOND = """
    2, 0, timestamp '1600-02-03 04:05:06.000000007', date '1582-10-04',
    cast('-0.000000000000000001' as decimal(38,18)), cast('' as char(5)), cast('' as varchar(10)),
    cast(1.1 as float), cast('NaN' as double), unhex(''), array(cast(null as timestamp)),
    map('', cast('-2.25' as decimal(10,2))),
    named_struct('x', cast(null as int), 'y', cast(null as char(3)))
"""


@pytest.mark.promise("W4")
def test_columns_that_a_statement_does_not_assign_keep_hives_exact_values(
    lab4: spark_lab.Lab, hive_judge: HiveJudge, hive_judge_new_york: HiveJudge
) -> None:
    lab4.table("t", COLUMNS)
    name = f"{lab4.db}.t"
    hive_judge.execute(f"insert into {name} select {FIRST} union all select {SECOND}")
    before = {row[0]: row for row in hive_judge.rows(name)}
    assert before[1][2] == "2020-01-01 00:00:00.123456789"
    lab4.update("t", {"n": "n + 1"})
    keep = merge_clauses.matched_update({"n": "s.n"})
    lab4.merge("t", [(2, 7)], ["id", "n"], ["id"], [keep])
    after = {row[0]: row for row in hive_judge.rows(name)}
    assert after == {
        1: [1, 1, *before[1][2:]],
        2: [2, 7, *before[2][2:]],
    }
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert {row[0]: row for row in hive_judge_new_york.rows(name)} == after
