"""The command `check --job-in` runs a job as operators do, and leaves nothing behind."""

from __future__ import annotations

import pytest

from airflow_hiveacid.cli.program import main
from tests.support.short_jvms import ENVIRONMENT
from tests.support.spark_lab import Lab
from tests.support.spark_submit import SPARK_HOME


def test_the_check_command_inserts_one_row_and_drops_its_table(
    lab4: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    before = lab4.client.list_tables(lab4.db)
    uri, bin_dir = lab4.endpoint.uris[0], str(SPARK_HOME / "bin")
    status = main(["check", "--metastore", uri, "--spark-bin-dir", bin_dir, "--job-in", lab4.db])
    printed = capsys.readouterr()
    assert "ok      job of one row: inserted 1 row in " in printed.out
    assert status == 0, printed
    assert lab4.client.list_tables(lab4.db) == before
