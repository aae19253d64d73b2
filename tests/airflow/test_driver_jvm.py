"""The JVM options of a driver on the worker; the user's settings have precedence."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.operators.submission.driver_jvm import LOGGING, driver_jvm
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments, Submission
from tests.airflow.test_submission import LOCAL, SPEC, YARN

_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
_LOGGING: Final = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
_NO_UI: Final = "-Dspark.ui.enabled=false"
_MAKES, _USES = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="
_SPARKS_OWN: Final = 'exec "$SPARK_HOME"/bin/spark-class org.apache.spark.deploy.SparkSubmit "$@"'
_STANDALONE: Final = SparkTarget(conn_id="spark", master="spark://m:7077")


def _programs(home: Path, name: str = "spark-submit", text: str = _SPARKS_OWN) -> Path:
    """Make the directory of programs of a Spark, and return it."""
    programs = home / "bin"
    programs.mkdir(parents=True)
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)
    return programs


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark and a Java of their own, and a private directory."""
    for name in (_VARIABLE, "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(_programs(tmp_path / "spark")))
    home, java = tmp_path / "spark", tmp_path / "java"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core.jar").write_bytes(b"1")
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch(mode=0o755)
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(java))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return home


def _submission(
    target: SparkTarget = LOCAL,
    job: Any = SPEC.job,  # noqa: ANN401
    **given: Any,  # noqa: ANN401
) -> Submission:
    return Submission(
        spec=replace(SPEC, job=job),
        target=target,
        application="a.py",
        arguments=SparkArguments(conn_id="spark", **given),
    )


def _options(target: SparkTarget = LOCAL, *, job: Any = SPEC.job, **given: Any) -> list[str]:  # noqa: ANN401
    """Return the driver's options; make the archive that they request, as Java does."""
    before = os.environ.get(_VARIABLE)
    with driver_jvm(_submission(target, job, **given)):
        found = shlex.split(os.environ.get(_VARIABLE, ""))
        options = [option for option in found if not option.startswith("-XX:Tier4")]
        for option in options:
            if option.startswith(_MAKES):
                Path(option.removeprefix(_MAKES)).write_bytes(b"classes")
    assert os.environ.get(_VARIABLE) == before
    return options


def _archives(*runs: list[str]) -> list[str]:
    """Return what each run does with the archive: make, use or nothing."""
    words = {_MAKES: "make", _USES: "use"}
    return [
        next((word for start, word in words.items() if any(o.startswith(start) for o in run)), "")
        for run in runs
    ]


def test_a_local_driver_logs_warnings_and_has_no_ui() -> None:
    assert _options() == [_NO_UI, _LOGGING]
    assert _options(_STANDALONE)[0] == _LOGGING
    assert _NO_UI not in _options(_STANDALONE)


def test_the_drivers_jvm_gets_a_high_threshold_for_its_optimising_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = "-XX:Tier4CompileThreshold=1"
    monkeypatch.setenv(_VARIABLE, own)
    with driver_jvm(_submission()):
        options = shlex.split(os.environ[_VARIABLE])
    assert [o for o in options if "Tier4Compile" in o] == ["-XX:Tier4CompileThreshold=75000", own]


def test_a_driver_in_the_cluster_gets_no_jvm_options() -> None:
    assert _options(replace(YARN, deploy_mode="cluster")) == []


def test_the_users_jvm_options_come_last_and_take_precedence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(_VARIABLE, "-Dspark.ui.enabled=true")
    assert _options() == [_NO_UI, _LOGGING, "-Dspark.ui.enabled=true"]
    assert _options(env_vars={_VARIABLE: "-Da=b"}) == ["-Dspark.ui.enabled=true"]


@pytest.mark.parametrize(
    "given",
    [
        {"verbose": True},
        {"conf": {"spark.driver.extraJavaOptions": "-Dlog4j.configurationFile=mine"}},
    ],
)
def test_the_users_logging_settings_are_kept(given: dict[str, Any]) -> None:
    assert _LOGGING not in _options(**given)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log4j2.xml", ""),
        ("spark-defaults.conf", "spark.driver.extraJavaOptions -Dlog4j2.configurationFile=mine"),
    ],
)
def test_logging_settings_in_sparks_configuration_are_kept(
    spark_home: Path, name: str, text: str
) -> None:
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / name).write_text(text)
    assert _LOGGING not in _options()


def test_a_log4j2_file_on_the_class_path_is_kept(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "logging"
    own.mkdir()
    (own / "log4j2.properties").touch()
    class_path = f"/s3a/*:{own}"
    assert _LOGGING not in _options(driver_class_path=class_path)
    assert _LOGGING not in _options(conf={"spark.driver.extraClassPath": class_path})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(own))
    assert _LOGGING not in _options()
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (spark_home / "conf").mkdir()
    defaults = spark_home / "conf" / "spark-defaults.conf"
    defaults.write_text(f"spark.driver.extraClassPath  {class_path}\n")
    assert _LOGGING not in _options()
    defaults.write_text("spark.driver.extraClassPath  /s3a/*\n")
    assert _LOGGING in _options()


def test_the_logging_settings_are_those_of_the_spark_whose_binary_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    programs = _programs(other, "spark3-submit")
    (other / "jars").mkdir()
    (other / "conf").mkdir()
    (other / "conf" / "log4j2.properties").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'spark' / 'bin'}:{programs}")
    monkeypatch.delenv("SPARK_HOME")
    assert _LOGGING in _options()
    assert _LOGGING not in _options(spark_binary="spark3-submit")
    by_connection = replace(LOCAL, spark_binary="spark3-submit")
    assert _LOGGING not in _options(by_connection)
    assert _LOGGING in _options(by_connection, spark_binary="spark-submit")


def test_a_wrapper_of_spark_submit_keeps_its_own_logging_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may set SPARK_HOME, and only `spark-submit` knows to what."""
    wrapper = 'export SPARK_HOME=/opt/spark\nexec /opt/spark/bin/spark-submit "$@"'
    monkeypatch.setenv("PATH", str(_programs(tmp_path / "usr", text=wrapper)))
    assert _options() == _options() == [_NO_UI]


def test_template_files_in_sparks_configuration_are_ignored(spark_home: Path) -> None:
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / "log4j2.properties.template").touch()
    assert _LOGGING in _options()


def test_the_second_job_creates_the_class_archive_that_later_jobs_use() -> None:
    assert _archives(_options(), _options(), _options(), _options()) == ["", "make", "use", "use"]


def test_only_jobs_that_change_rows_create_the_class_archive_and_all_jobs_use_it() -> None:
    clean = CleanSpec.of_table("db.t")
    assert _archives(_options(), _options(job=clean), _options()) == ["", "", "make"]
    assert _archives(_options(job=clean)) == ["use"]


def test_only_one_of_two_concurrent_jobs_creates_the_class_archive() -> None:
    _options()
    with driver_jvm(_submission()):
        # The second job is on the same worker, in its own process.
        first = shlex.split(os.environ.pop(_VARIABLE))
        assert _archives(first, _options()) == ["make", ""]


def test_the_class_archive_of_a_failed_driver_is_not_kept(tmp_path: Path) -> None:
    def failing() -> None:
        with driver_jvm(_submission()):
            made = next(o for o in shlex.split(os.environ[_VARIABLE]) if o.startswith(_MAKES))
            Path(made.removeprefix(_MAKES)).write_bytes(b"incomplete")
            raise RuntimeError

    _options()
    with pytest.raises(RuntimeError):
        failing()
    assert list(tmp_path.glob("*/spark-classes-*")) == []
    assert _archives(_options(), _options(), _options()) == ["", "make", "use"]


def test_an_empty_class_archive_is_created_again(tmp_path: Path) -> None:
    assert _archives(_options(), _options(), _options()) == ["", "make", "use"]
    (archive,) = tmp_path.glob("*/*.jsa")
    archive.write_bytes(b"")
    assert _archives(_options(), _options(), _options()) == ["", "make", "use"]


def test_class_archive_files_that_no_job_used_for_a_week_are_removed(
    spark_home: Path, tmp_path: Path
) -> None:
    assert _archives(_options(), _options()) == ["", "make"]
    (old,) = tmp_path.glob("*/*.jsa")
    left = old.with_suffix(".0123")
    left.touch()
    for file in (old, left):
        os.utime(file, (1, 1))
    assert _archives(_options()) == ["use"]
    os.utime(spark_home / "jars" / "spark-core.jar", (1, 1))
    assert _archives(_options(), _options()) == ["", "make"]
    assert old.exists()  # a job has used it just now
    assert not left.exists()


def test_a_pip_installed_spark_has_one_class_archive_for_all_links_to_it(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = _programs(tmp_path / "venv")
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    spark_home.rename(packages / "pyspark")
    (tmp_path / "link").symlink_to(tmp_path / "venv")
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PATH", str(programs))
    assert _archives(_options(), _options()) == ["", "make"]
    monkeypatch.setenv("PATH", str(tmp_path / "link" / "bin"))
    assert _archives(_options()) == ["use"]


def test_a_changed_spark_does_not_use_the_existing_class_archive(spark_home: Path) -> None:
    assert _archives(_options(), _options(), _options()) == ["", "make", "use"]
    (spark_home / "jars" / "spark-core.jar").write_bytes(b"22")
    assert _archives(_options(), _options(driver_class_path="/s3a/*")) == ["", ""]


@pytest.mark.parametrize("changed", ["release of Java", "time of a jar", "class path"])
def test_a_class_archive_is_used_only_with_the_same_java_jars_and_class_path(
    spark_home: Path, tmp_path: Path, changed: str
) -> None:
    assert _archives(_options(), _options(), _options()) == ["", "make", "use"]
    conf = {}
    if changed == "release of Java":
        (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.16"\n')
    elif changed == "time of a jar":
        os.utime(spark_home / "jars" / "spark-core.jar", (1, 1))
    else:
        conf = {"spark.driver.extraClassPath": "/s3a/*"}
    assert _archives(_options(conf=conf)) == [""]


def test_a_dangling_link_among_sparks_jars_does_not_fail_a_job(spark_home: Path) -> None:
    (spark_home / "jars" / "old.jar").symlink_to("/nowhere.jar")
    assert _options() == _options() == [_NO_UI, _LOGGING]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HADOOP_CONF_DIR", "/etc/hadoop"), (_VARIABLE, "-XX:SharedArchiveFile=mine")],
)
def test_no_class_archive_is_created_if_java_could_not_use_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert "make" not in _archives(_options(), _options(), _options())


def test_no_class_archive_is_created_for_a_java_that_does_not_support_it(tmp_path: Path) -> None:
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    assert _archives(_options(), _options(), _options()) == ["", "", ""]
