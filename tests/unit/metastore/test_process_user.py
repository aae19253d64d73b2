from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore import process_user, user_path
from airflow_hiveacid.metastore.catalog import NewTable, table_struct


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


def test_a_path_begins_at_the_home_directory_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/etl")
    assert user_path("~/spark") == Path("/home/etl/spark")
    assert user_path("spark") == Path.cwd() / "spark"
    monkeypatch.delenv("HOME")

    def nobody(_: int) -> None:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert user_path("~/spark") == Path.cwd() / "~/spark"
