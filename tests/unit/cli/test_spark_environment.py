from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

from airflow_hiveacid.cli import maintain, program as cli, spark_environment
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.local.distribution import SPARK_S3A, S3aJars
from airflow_hiveacid.local.process import DownloadError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run."""
    ran: list[list[str]] = []
    monkeypatch.setattr(spark_environment, "output_of", ran.append)
    return ran


def _with_hadoop(home: Path, version: str) -> None:
    jars = home / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / f"hadoop-client-api-{version}.jar").touch()


def test_no_dependency_or_extra_of_the_provider_contains_pyspark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for packages in (
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
    ):
        assert not [p for p in packages if p.startswith("pyspark")]


def test_one_command_creates_the_environment_and_prints_the_setting_for_airflow(
    tmp_path: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "spark"
    assert cli.main(["spark-environment", str(home), "--pyspark", "3.5.7"]) == 0
    made, installed = commands
    assert made == [sys.executable, "-m", "venv", str(home)]
    assert installed[0] == str(home / "bin" / "python")
    assert "pyspark==3.5.7" in installed
    assert Path(installed[-1]).name.startswith("hiveacid_spark-")
    assert f"export AIRFLOW__HIVEACID__SPARK_BIN_DIR={home}/bin" in capsys.readouterr().out


def test_a_new_environment_gets_the_newest_tested_pyspark(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    tested = f"pyspark=={spark_environment.NEWEST_TESTED}"
    assert tested in (ROOT / "constraints.txt").read_text().splitlines()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()  # left by a try whose installation failed
    assert cli.main(["spark-environment", str(tmp_path)]) == 0
    assert tested in commands[-1]


def test_packages_are_added_to_an_existing_environment_without_recreating_it(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("python", "spark-submit"):
        (tmp_path / "bin" / program).touch()
    _with_hadoop(tmp_path, SPARK_S3A.hadoop)
    assert cli.main(["spark-environment", str(tmp_path)]) == 0
    (installed,) = commands
    assert spark_environment.PYSPARK in installed
    assert installed[-1].endswith(".whl"), "without --s3, no library of S3"
    assert not (tmp_path / "s3a").exists()


def test_airflows_own_environment_is_refused_before_anything_is_installed(
    tmp_path: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "pyspark_client-4.1.4.dist-info").mkdir(parents=True)
    assert cli.main(["spark-environment", str(tmp_path)]) == 2
    assert "give a directory of its own to Spark's environment" in capsys.readouterr().err
    assert not commands


@pytest.mark.parametrize("version", ["4.4.0", "5.0.0", "3.4.4", "5", "newest"])
def test_an_unsupported_version_of_pyspark_is_refused_before_anything_is_installed(
    tmp_path: Path, version: str, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "spark"
    assert cli.main(["spark-environment", str(home), "--pyspark", version]) == 2
    assert f"PySpark {version} is not supported" in capsys.readouterr().err
    assert not commands
    assert not home.exists()


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_a_failed_step_is_reported_as_a_configuration_error(
    tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["spark-environment", str(tmp_path / "x"), "--python", program]) == 2
    assert capsys.readouterr().err.startswith("error: ConfigurationError: ")


def test_a_packed_environment_omits_spark_and_runs_after_unpacking(
    tmp_path: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    home, archive = tmp_path / "spark", tmp_path / "apps" / "environment.tar.gz"
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python3*/site-packages")
    for name in ("mine/__init__.py", "pyspark/jars/big.jar", "pyspark-4.1.4.dist-info/METADATA"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    (home / "bin" / "spark-submit").write_text("")
    arguments = ["spark-environment", str(home), "--pyspark", "4.1.4", "--archive", str(archive)]
    assert cli.main(arguments) == 0
    assert len(commands) == 1
    said = capsys.readouterr().out
    assert f'archives="hdfs:///apps/{archive.name}#environment"' in said
    assert f"needs this Python in {Path(sys.base_prefix) / 'bin'}" in said
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        packed.extractall(tmp_path / "node", filter="fully_trusted")  # noqa: S202 - our own
    assert not [name for name in names if "pyspark" in name or "spark-submit" in name]
    program = tmp_path / "node" / "bin" / "python"
    code = "import mine, sys; print(mine.__file__, sys.prefix)"
    printed = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.split()[1] == str(tmp_path / "node")


def test_a_directory_without_an_environment_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no environment to pack in"):
        list(spark_environment.pack(str(tmp_path), str(tmp_path / "a.tar.gz")))
    assert list(tmp_path.iterdir()) == []


def test_with_s3_the_environment_gets_its_library_and_the_jars_of_sparks_hadoop(
    tmp_path: Path,
    commands: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, cache = tmp_path / "spark", tmp_path / "cache"
    _with_hadoop(home, SPARK_S3A.hadoop)
    cache.mkdir()
    (cache / "hadoop-aws.jar").write_bytes(b"jar")
    monkeypatch.setattr(S3aJars, "fetch", lambda _: tuple(cache.iterdir()))
    assert cli.main(["spark-environment", str(home), "--s3"]) == 0
    assert commands[-1][-1].endswith(".whl[s3]")
    assert (home / "s3a" / "hadoop-aws.jar").read_bytes() == b"jar"
    assert f"spark.executor.extraClassPath  {home}/s3a/*" in capsys.readouterr().out
    # Again, as for an environment that is brought up to date.
    assert cli.main(["spark-environment", str(home), "--s3"]) == 0


@pytest.mark.parametrize(
    ("hadoop", "words"),
    [("3.3.4", "has Hadoop 3.3.4.*org.apache.hadoop:hadoop-aws:3.3.4"), (None, "no PySpark in")],
)
def test_s3a_jars_are_added_only_to_a_pyspark_with_the_matching_hadoop(
    tmp_path: Path, hadoop: str | None, words: str
) -> None:
    if hadoop is not None:
        _with_hadoop(tmp_path, hadoop)
    with pytest.raises(ConfigurationError, match=words):
        list(spark_environment.add_s3a(str(tmp_path)))
    assert not (tmp_path / "s3a").exists()


def test_a_failed_download_of_the_s3a_jars_raises_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_hadoop(tmp_path, SPARK_S3A.hadoop)

    def away(_: S3aJars) -> None:
        raise DownloadError("the S3A jars", Path("maven.log"), "nobody answers")

    monkeypatch.setattr(S3aJars, "fetch", away)
    with pytest.raises(ConfigurationError, match=r"(?s)cannot fetch .*nobody answers"):
        list(spark_environment.add_s3a(str(tmp_path)))


def test_sparks_python_workers_run_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark starts the first `python3` on PATH, which may lack our libraries."""
    monkeypatch.setenv("PATH", "/elsewhere")
    paths: list[str] = []
    monkeypatch.setattr(
        "airflow_hiveacid.spark.engine.session.open_session",
        lambda _: paths.append(os.environ["PATH"]),
    )
    maintain.local_session("x")
    assert paths == [f"{Path(sys.executable).parent}:/elsewhere"]
