from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from demo.environment import airflow_environment
from demo.errors import SetupError
from demo.layout import DemoLayout
from demo.spark_settings import spark_home


@pytest.fixture
def layout(tmp_path: Path) -> DemoLayout:
    packages = tmp_path / ".venv-spark" / "lib" / "python3.11" / "site-packages"
    (packages / "pyspark").mkdir(parents=True)
    found = DemoLayout.of(tmp_path)
    found.home.mkdir(parents=True)
    found.prepare()
    return found


def environment_of(layout: DemoLayout) -> dict[str, str]:
    return airflow_environment(
        layout, port=18080, metastore_uri="thrift://127.0.0.1:9083", compaction_cron="* * * * *"
    )


def test_every_address_of_the_demo_is_a_loopback_address(layout: DemoLayout) -> None:
    text = json.dumps(environment_of(layout))
    assert set(re.findall(r"\d+\.\d+\.\d+\.\d+", text)) == {"127.0.0.1"}
    assert environment_of(layout)["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"


def test_variables_of_a_different_airflow_or_spark_are_not_inherited(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://elsewhere")
    monkeypatch.setenv("SPARK_MASTER_HOST", "elsewhere")
    monkeypatch.setenv("HIVEACID_UNRELATED", "kept")
    environment = environment_of(layout)
    assert "elsewhere" not in json.dumps(environment)
    assert environment["HIVEACID_UNRELATED"] == "kept"


def test_a_missing_spark_raises_an_error_that_names_make_setup(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="make setup"):
        spark_home(DemoLayout.of(tmp_path))


def test_only_the_owner_can_read_the_folder_with_the_password(layout: DemoLayout) -> None:
    assert layout.passwords.parent == layout.airflow
    assert layout.airflow.stat().st_mode & 0o077 == 0
