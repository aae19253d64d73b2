from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from airflow_hiveacid import cli, spark_environment

ROOT = Path(__file__).parents[3]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run."""
    ran: list[list[str]] = []
    monkeypatch.setattr(spark_environment, "_run", ran.append)
    return ran


def test_it_holds_what_the_projects_own_spark_environment_holds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(spark_environment.requirements()) == sorted(
        project["dependency-groups"]["spark-runtime"]
    )


def test_no_extra_mixes_spark_with_airflow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for packages in (
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
    ):
        assert not [p for p in packages if p.startswith("pyspark")]


def test_one_command_makes_it_and_says_what_to_set(
    tmp_path: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "spark"
    assert cli.main(["spark-environment", str(home), "--pyspark", "3.5.7"]) == 0
    made, installed = commands
    assert made == [sys.executable, "-m", "venv", str(home)]
    assert installed[0] == str(home / "bin" / "python")
    assert {"pyspark==3.5.7", "pyorc>=0.12"} <= set(installed)
    assert f"export AIRFLOW__HIVEACID__SPARK_BIN_DIR={home}/bin" in capsys.readouterr().out


def test_a_new_one_gets_the_newest_pyspark_that_the_tests_run_with(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    tested = f"pyspark=={spark_environment.NEWEST_TESTED}"
    assert tested in (ROOT / "constraints.txt").read_text().splitlines()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()  # left by a try whose installation failed
    assert cli.main(["spark-environment", str(tmp_path)]) == 0
    assert tested in commands[-1]


def test_an_environment_that_is_there_is_only_added_to(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("python", "spark-submit"):
        (tmp_path / "bin" / program).touch()
    assert cli.main(["spark-environment", str(tmp_path)]) == 0
    (installed,) = commands
    assert spark_environment.PYSPARK in installed


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_a_step_that_fails_is_one_typed_error(
    tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["spark-environment", str(tmp_path / "x"), "--python", program]) == 2
    assert capsys.readouterr().err.startswith("error: ConfigurationError: ")
