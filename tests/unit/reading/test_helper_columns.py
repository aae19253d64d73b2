"""Helper columns get names that no other column has."""

from __future__ import annotations

from airflow_hiveacid.reading import free_name


def test_a_helper_column_takes_the_first_name_that_no_column_has() -> None:
    assert free_name("clause") == "__clause"
    assert free_name("clause", ["id"], ["__CLAUSE", "___clause"]) == "____clause"
