"""The daily statements of ETL (`etl_cases`): how many are read, and what is said of the others."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.sql.script import read_script
from tests.support.etl_cases import READ, REFUSED


def test_of_a_hundred_daily_statements_these_are_read_as_they_are() -> None:
    assert (len(set(READ)), len(REFUSED)) == (89, 11)
    for statement in READ:
        assert len(read_script(statement)) == 1


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_refused_of_them_has_a_remedy_that_is_read(statement: str) -> None:
    with pytest.raises(SqlTextError) as raised:
        read_script(statement)
    assert raised.value.remedy
    assert len(read_script(REFUSED[statement])) == 1
