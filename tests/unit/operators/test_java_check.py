"""When a worker certainly has no Java for Spark's own `spark-submit`, and when it cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.submission.java_check import check_java

_SPARKS_OWN = 'exec "${SPARK_HOME}"/bin/spark-class org.apache.spark.deploy.SparkSubmit "$@"\n'


def _program(folder: Path, name: str, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)
    return program


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """Spark's own script, in a directory without Java."""
    return _program(tmp_path / "spark" / "bin", "spark-submit", _SPARKS_OWN)


def test_without_java_the_error_names_path_or_java_home(spark: Path) -> None:
    found = {"PATH": str(spark.parent)}
    with pytest.raises(ConfigurationError, match=rf"{spark} cannot run java: it is not on PATH"):
        check_java("spark-submit", found)
    with pytest.raises(ConfigurationError, match="JAVA_HOME is /nowhere, where there is no bin/"):
        check_java("spark-submit", {**found, "JAVA_HOME": "/nowhere"})


def test_java_home_takes_precedence_over_path_as_in_spark(spark: Path, tmp_path: Path) -> None:
    java = _program(tmp_path / "jdk" / "bin", "java")
    path = f"{spark.parent}:{java.parent}"
    check_java("spark-submit", {"PATH": path})
    check_java("spark-submit", {"PATH": str(spark.parent), "JAVA_HOME": str(tmp_path / "jdk")})
    with pytest.raises(ConfigurationError, match="JAVA_HOME is /nowhere"):
        check_java("spark-submit", {"PATH": path, "JAVA_HOME": "/nowhere"})


@pytest.mark.parametrize(
    "folder", ["spark/conf", "spark/lib/python3.11/site-packages/pyspark/conf", "home/conf", "own"]
)
def test_java_is_not_checked_if_a_spark_env_file_may_set_java_home(
    spark: Path, tmp_path: Path, folder: str
) -> None:
    _program(tmp_path / folder, "spark-env.sh")
    homes = {"SPARK_HOME": str(tmp_path / "home"), "SPARK_CONF_DIR": str(tmp_path / "own")}
    check_java("spark-submit", {"PATH": str(spark.parent), **homes})


def test_java_is_not_checked_for_a_wrapper_of_spark_submit(tmp_path: Path) -> None:
    wrapper = _program(tmp_path, "spark3-submit", "exec /opt/spark/bin/spark-submit\n")
    check_java("spark3-submit", {"PATH": str(wrapper.parent)})
