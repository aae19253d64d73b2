"""The wheel for Spark's environment, in an environment without Airflow and without our checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import airflow_hiveacid
from airflow_hiveacid.cli import spark_wheel

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spark_wheel.build_spark_wheel(tmp_path_factory.mktemp("wheel"))


def pip(environment: Path, *arguments: str) -> str:
    program = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, check=True, cwd=environment
    ).stdout


def create_environment(home: Path, wheel: Path) -> Path:
    """Create an environment that has the wheel, and finds the libraries of this one behind it."""
    venv.create(home, symlinks=True)
    pip(home, "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    return home


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment for tests that change none of its packages."""
    return create_environment(tmp_path_factory.mktemp("shared") / "environment", wheel)


def site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def run(environment: Path, *arguments: str) -> str:
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    return subprocess.run(
        [environment / "bin" / "python", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=environment,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": libraries},
    ).stdout


def test_the_wheel_has_the_same_requirements_as_the_projects_own_environment(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
        metadata = Parser().parsestr(opened.read(name).decode())
    extra = "; extra == 's3'"
    required = metadata.get_all("Requires-Dist") or []
    assert (
        sorted(r.removesuffix(extra) for r in required if r.endswith(extra))
        == (project["project"]["optional-dependencies"]["s3"])
    )
    own = {r for r in required if not r.endswith(extra)}
    assert own == {*groups["spark-runtime"], *spark_wheel.FOR_COMMANDS}
    assert all(library in groups["spark-environment"] for library in spark_wheel.FOR_COMMANDS)
    assert metadata["Requires-Python"] == project["project"]["requires-python"]
    assert metadata["License-Expression"] == project["project"]["license"]
    assert metadata.get_all("License-File") == project["project"]["license-files"]


def test_programs_and_commands_run_in_an_environment_without_airflow(environment: Path) -> None:
    assert run(environment, "-m", "airflow_hiveacid", "--version") == (
        f"hiveacid {airflow_hiveacid.__version__}\n"
    )
    program = (
        "import airflow_hiveacid, sys; from airflow_hiveacid import acid, errors;"
        "from airflow_hiveacid.cli.definition import COMMANDS;"
        "[command.load() for command in COMMANDS]; [getattr(acid, name) for name in dir(acid)];"
        "print(airflow_hiveacid.__file__, 'airflow' in sys.modules)"
    )
    path, has_airflow = run(environment, "-c", program).split()
    assert Path(path).is_relative_to(site_packages(environment) / "hiveacid_spark")
    assert has_airflow == "False"


def test_the_zip_for_executors_can_be_built_from_the_wheel(environment: Path) -> None:
    program = "import pathlib; from airflow_hiveacid.jobs.packager import cached_archive;"
    path = run(environment, "-c", f"{program}print(cached_archive(pathlib.Path().resolve()))")
    with zipfile.ZipFile(path.strip()) as opened:
        assert {"airflow_hiveacid/acid.py", "spark_apps/merge.py"} <= {*opened.namelist()}


def test_beside_the_provider_the_provider_is_used_and_survives_the_wheels_removal(
    wheel: Path, tmp_path: Path
) -> None:
    environment = create_environment(tmp_path / "environment", wheel)
    provider = site_packages(environment) / "airflow_hiveacid" / "__init__.py"
    provider.parent.mkdir()
    provider.write_text("")
    program = "import airflow_hiveacid; print(airflow_hiveacid.__file__)"
    assert Path(run(environment, "-c", program).strip()) == provider
    pip(environment, "uninstall", "--yes", spark_wheel.NAME)
    assert Path(run(environment, "-c", program).strip()) == provider
    files = {path for path in site_packages(environment).rglob("*.py*") if path.suffix != ".pyc"}
    assert files == {provider}


def test_the_wheel_installs_no_program_and_no_file_outside_its_own_folder(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    tops = {name.partition("/")[0] for name in names}
    info = next(top for top in tops if top.endswith(".dist-info"))
    assert tops == {"hiveacid_spark", "hiveacid_spark.pth", info}
    assert f"{info}/entry_points.txt" not in names
    assert not [name for name in names if "__pycache__" in name or "example_dags" in name]


def test_equal_code_gives_the_same_wheel_and_a_release_has_the_plain_version(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = spark_wheel.build_spark_wheel(tmp_path)
    assert (again.name, again.read_bytes()) == (wheel.name, wheel.read_bytes())
    assert spark_wheel.main([str(tmp_path)]) == 0
    released = tmp_path / spark_wheel.wheel_name(airflow_hiveacid.__version__)
    assert capsys.readouterr().out == f"{released}\n"
    assert released.is_file()
    assert spark_wheel.main([]) == 2
