"""Daily ETL statements (`etl_cases`): most are read, and each refusal names an alternative."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.sql.script import read_script
from tests.support.etl_cases import READ, REFUSED


def test_most_of_a_hundred_daily_etl_statements_are_read_unchanged() -> None:
    assert (len(set(READ)), len(REFUSED)) == (89, 11)
    for statement in READ:
        assert len(read_script(statement)) == 1


@pytest.mark.parametrize("statement", REFUSED)
def test_each_refused_daily_statement_has_a_remedy_and_an_accepted_alternative(
    statement: str,
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read_script(statement)
    assert raised.value.remedy
    assert len(read_script(REFUSED[statement])) == 1
