from __future__ import annotations

import getpass
import os

import pytest

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable, table_struct
from airflow_hiveacid.metastore.process_user import process_user


def test_the_process_user_is_the_login_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "etl")
    assert process_user() == "etl"


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 1234"), OSError("none")])
def test_a_user_without_a_name_is_represented_by_the_user_id(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert process_user() == str(os.getuid())
    new = NewTable(ref=TableRef("db", "t"), columns=(Column(name="id", type="int"),))
    assert table_struct(new).owner == str(os.getuid())
