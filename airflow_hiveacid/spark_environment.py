"""The environment that holds Spark: what belongs into it, and how one command makes it.

Never Airflow's own: its Spark provider brings pyspark-client, which overwrites half of pyspark's
files. An extra of this package could not make it either, since extras add to Airflow.

Example:
    >>> requirements("3.5.7")[0]
    'pyspark==3.5.7'
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

PYSPARK: Final = "pyspark>=3.5,<4.4"
NEWEST_TESTED: Final = "4.1.4"
"""The newest PySpark that all tests run with: what a new environment gets unless told otherwise."""

LIBRARIES: Final = (
    "fastavro[snappy]>=1.13",
    "hmsclient>=0.1.1",
    "pandas<3",
    "protobuf>=4.25",
    "pyarrow>=26.0.1",
    "pyorc>=0.12",
    "thrift>=0.21",
)
"""What driver and executors need beside the shipped zip; `spark-runtime` in pyproject.toml."""

_LAST_LINES: Final = 15


def requirements(pyspark: str | None = None) -> tuple[str, ...]:
    """What to install; `pyspark` is a version, such as the cluster's."""
    return (PYSPARK if pyspark is None else f"pyspark=={pyspark}", *LIBRARIES)


def make(directory: str, *, python: str, pyspark: str | None) -> Iterator[str]:
    """Make the environment, or add what an existing one lacks; says what it does, and what to set.

    Raises:
        ConfigurationError: a step failed; the message ends with its last words.
    """
    home = Path(directory).expanduser().absolute()
    programs = home / "bin"
    if not (programs / "python").exists():
        yield f"making {home} with {python}\n"
        _run([python, "-m", "venv", str(home)])
    if pyspark is None and not (programs / "spark-submit").exists():
        pyspark = NEWEST_TESTED
    wanted = requirements(pyspark)
    yield f"installing {' '.join(wanted)} (some minutes the first time)\n"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    _run([*pip, "--quiet", *wanted])
    yield (
        "done. Tell Airflow, on every worker, by its configuration or the environment:\n"
        f"  export AIRFLOW__HIVEACID__SPARK_BIN_DIR={programs}\n"
        "Spark needs Java 17 too.\n"
    )


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a list of our own, and the user's own program
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except OSError as error:
        raise ConfigurationError(f"cannot run {command[0]}: {error}") from error
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise ConfigurationError(f"`{' '.join(command)}` ended with {done.returncode}:\n{end}")
