"""A check, before `spark-submit` starts, that it will find Java on this worker.

Spark's own `spark-submit` runs `$JAVA_HOME/bin/java`, or the `java` on PATH if JAVA_HOME is not
set. A vendor's wrapper script or Spark's `spark-env.sh` may set JAVA_HOME. If a script may set
JAVA_HOME, this module raises no error, because only the script knows the path of Java.

Example:
    >>> check_java("spark-submit", {"PATH": "/nowhere", "JAVA_HOME": "/opt/java"})
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.java_program import find_java

# The class that Spark's own script starts; a wrapper script does not contain this name.
_MAIN_CLASS: Final = b"org.apache.spark.deploy.SparkSubmit"


def check_java(binary: str, environment: Mapping[str, str]) -> None:
    """Raise an error if `spark-submit`, of this name or path, cannot find Java."""
    if find_java(environment) is not None:
        return
    script = shutil.which(binary, path=environment.get("PATH", os.defpath))
    if script is None or _may_set_java_home(Path(script), environment):
        return
    home = environment.get("JAVA_HOME")
    reason = f"JAVA_HOME is {home}, where there is no bin/java" if home else "it is not on PATH"
    raise ConfigurationError(
        f"{script} cannot run java: {reason}. Install Java 17 on each worker, or set JAVA_HOME to"
        " its directory (environment of the worker, or argument env_vars of the task)"
    )


def is_sparks_own(script: Path) -> bool:
    """Return true if a script is Spark's own; a wrapper script may set variables for Spark."""
    return _MAIN_CLASS in script.read_bytes()


def _may_set_java_home(script: Path, environment: Mapping[str, str]) -> bool:
    if not is_sparks_own(script):
        return True
    return any((folder / "spark-env.sh").exists() for folder in _settings(script, environment))


def _settings(script: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    if folder := environment.get("SPARK_CONF_DIR"):
        yield Path(folder)
    if home := environment.get("SPARK_HOME"):
        yield Path(home) / "conf"
    yield script.resolve().parents[1] / "conf"
    yield from script.parents[1].glob("lib/python*/*/pyspark/conf")
