"""A table that we make is the table that Hive makes of the same statement."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.judges.engine import HiveJudge
from tests.support.spark_lab import Lab

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, ""),
    "partitioned": ({"partition": {"p": "int", "q": "string"}}, "partitioned by (p int, q string)"),
    "bucketed": ({"buckets": ("id", 4)}, "clustered by (id) into 4 buckets"),
    "both": (
        {"partition": {"p": "int"}, "buckets": ("id", 2)},
        "partitioned by (p int) clustered by (id) into 2 buckets",
    ),
}
# When and by whom it was made, and what Hive counts in it.
_OF_THE_MOMENT = re.compile(
    r"'(transient_lastDdlTime|last_modified_\w+|numFiles|numRows|rawDataSize|totalSize"
    r"|numPartitions|numFilesErasureCoded|COLUMN_STATS_ACCURATE)'='[^']*',?"
)


def described(judge: HiveJudge, lab: Lab, name: str) -> list[str]:
    """SHOW CREATE TABLE without the table's name and what is of the moment."""
    lines = [str(line) for (line,) in judge.execute(f"show create table {lab.db}.{name}")]
    text = _OF_THE_MOMENT.sub("", "\n".join(lines)).replace(name, "<table>")
    return [stripped for line in text.splitlines() if (stripped := line.strip().rstrip(",)"))]


@pytest.mark.promise("D3")
@pytest.mark.parametrize("case", list(CASES))
def test_a_table_created_with_defaults_has_the_same_definition_as_hives(
    lab4: Lab, hive_judge: HiveJudge, case: str
) -> None:
    options, clauses = CASES[case]
    lab4.table("mine_alone", {"id": "bigint", "name": "string"}, **options)
    hive_judge.execute(
        f"create table {lab4.db}.hives_own (id bigint, name string) {clauses} stored as orc"
        " tblproperties ('transactional'='true')"
    )
    mine, hives = lab4.info("mine_alone"), lab4.info("hives_own")
    for fact in (
        "kind",
        "storage",
        "columns",
        "partition_columns",
        "bucket_columns",
        "num_buckets",
        "bucketing_version",
        "sort_columns",
    ):
        assert getattr(mine, fact) == getattr(hives, fact), fact
    ours = described(hive_judge, lab4, "mine_alone")
    theirs = described(hive_judge, lab4, "hives_own")
    assert set(ours) == set(theirs)


@pytest.mark.promise("D3")
@pytest.mark.parametrize("clauses", ["", "PARTITIONED BY (p int) CLUSTERED BY (id) INTO 4 BUCKETS"])
def test_the_same_statement_creates_the_same_table_by_hive_and_by_us(
    lab4: Lab, hive_judge: HiveJudge, clauses: str
) -> None:
    text = (
        "CREATE TABLE {} (id bigint COMMENT 'key', name string) COMMENT 'people' "
        f"{clauses} STORED AS ORC TBLPROPERTIES ('transactional'='true', 'a'='b')"
    )
    lab4.script(text.format("mine_alone"))
    hive_judge.execute(text.format(f"{lab4.db}.hives_own"))
    ours = described(hive_judge, lab4, "mine_alone")
    assert ours == described(hive_judge, lab4, "hives_own")
    more = "ADD COLUMNS (x int COMMENT 'new')" + (" CASCADE" if clauses else "")
    lab4.script(f"ALTER TABLE mine_alone {more}")
    hive_judge.execute(f"alter table {lab4.db}.hives_own {more}")
    assert described(hive_judge, lab4, "mine_alone") == described(hive_judge, lab4, "hives_own")
    assert described(hive_judge, lab4, "mine_alone") != ours
