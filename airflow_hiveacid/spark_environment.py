"""The environment that holds Spark: what belongs into it, and how one command makes it.

Never Airflow's own: its Spark provider brings pyspark-client, which overwrites half of pyspark's
files. An extra of this package could not make it either, since extras add to Airflow.

Example:
    >>> requirements("3.5.7")[0]
    'pyspark==3.5.7'
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.local.errors import LocalServerError
from airflow_hiveacid.local.s3a import SPARK_S3A

if TYPE_CHECKING:
    from collections.abc import Iterator

PYSPARK: Final = "pyspark>=3.5,<4.4"
NEWEST_TESTED: Final = "4.1.4"
"""The newest PySpark that all tests run with: what a new environment gets unless told otherwise."""

LIBRARIES: Final = (
    "fastavro[snappy]>=1.13",
    "hdfs-native>=0.14.7,<0.15",
    "hmsclient>=0.1.1",
    "pandas<3",
    "protobuf>=4.25",
    "pyarrow>=26.0.1",
    "pyorc>=0.12",
    "thrift>=0.21",
)
"""What driver and executors need beside the shipped zip; `spark-runtime` in pyproject.toml."""

S3_LIBRARIES: Final = ("boto3>=1.36",)
"""What Python needs on S3, on driver and executors."""

_S3A: Final = "s3a"
_LAST_LINES: Final = 15
# YARN's containers have Spark of its own; pip and headers run nowhere.
_NOT_PACKED: Final = ("pyspark", "py4j", "pip", "setuptools")
_FOLDERS: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_LEVEL: Final = 6


def requirements(pyspark: str | None = None) -> tuple[str, ...]:
    """What to install; `pyspark` is a version, such as the cluster's."""
    return (PYSPARK if pyspark is None else f"pyspark=={pyspark}", *LIBRARIES)


def make(
    directory: str, *, python: str, pyspark: str | None, with_s3: bool = False
) -> Iterator[str]:
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
    wanted = (*requirements(pyspark), *(S3_LIBRARIES if with_s3 else ()))
    yield f"installing {' '.join(wanted)} (some minutes the first time)\n"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    _run([*pip, "--quiet", *wanted])
    yield (
        "done. Tell Airflow, on every worker, by its configuration or the environment:\n"
        f"  export AIRFLOW__HIVEACID__SPARK_BIN_DIR={programs}\n"
        "Spark needs Java 17 too.\n"
    )


def add_s3a(directory: str) -> Iterator[str]:
    """Put the jars by which Spark speaks S3 into the environment; says how to use them.

    They have to be those of Spark's Hadoop: another release's lack what it calls.

    Raises:
        ConfigurationError: there is no Spark in it, one of another Hadoop, or Maven failed.
    """
    home = Path(directory).expanduser().absolute()
    jars = [*home.glob("lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar")]
    if not jars:
        raise ConfigurationError(f"there is no PySpark in {home} whose Hadoop could be asked for")
    hadoop = jars[0].stem.removeprefix("hadoop-client-api-")
    if hadoop != SPARK_S3A.hadoop:
        raise ConfigurationError(
            f"the PySpark in {home} has Hadoop {hadoop}, and the jars of S3A are known here for"
            f" {SPARK_S3A.hadoop} alone. Fetch org.apache.hadoop:hadoop-aws:{hadoop}, with the AWS"
            " SDK that it was built with, by Maven; docs/guides/s3.md says how they are used"
        )
    folder = home / _S3A
    yield f"fetching the S3A jars of Hadoop {hadoop} into {folder}, by Maven\n"
    try:
        folder.mkdir(exist_ok=True)
        for jar in SPARK_S3A.fetch():
            shutil.copyfile(jar, folder / jar.name)
    except (LocalServerError, OSError) as error:
        raise ConfigurationError(f"cannot fetch the S3A jars: {error}") from error
    yield (
        "done. Spark finds them, on each machine in the same place, by\n"
        f"  spark.driver.extraClassPath    {folder}/*\n"
        f"  spark.executor.extraClassPath  {folder}/*\n"
        "in spark-defaults.conf, where the fs.s3a settings of your S3 belong, too.\n"
    )


def pack(directory: str, archive: str) -> Iterator[str]:
    """Write the environment into an archive for `--archives`, without Spark; says how to use it.

    Python itself is not in it: every node needs the same one, at the same place.

    Raises:
        ConfigurationError: there is no environment, or the archive cannot be written.
    """
    home, target = Path(directory).expanduser().absolute(), Path(archive).expanduser().absolute()
    try:
        lines = (home / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        python = dict(line.split(" = ", 1) for line in lines if " = " in line)["home"]
    except (OSError, KeyError) as error:
        raise ConfigurationError(
            f"there is no environment in {home} that could be packed: {error}"
        ) from error
    yield f"packing {home} without Spark into {target}\n"
    made = target.with_name(f"{target.name}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(made, "w:gz", compresslevel=_LEVEL) as packed:
            for name in _FOLDERS:
                if (home / name).exists():
                    packed.add(home / name, arcname=name, filter=_packed)
        made.replace(target)
    except OSError as error:
        raise ConfigurationError(f"cannot write {target}: {error}") from error
    yield (
        f"done. Each node of the cluster needs this Python in {python}. Put the archive where all"
        " reach it, and give operators\n"
        f'  archives="hdfs:///apps/{target.name}#environment"\n'
        '  conf={"spark.pyspark.python": "./environment/bin/python"}\n'
        "and in client mode also\n"
        f'  conf={{..., "spark.pyspark.driver.python": "{home / "bin" / "python"}"}}\n'
    )


def _packed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(entry.name).parts
    below = parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else ()
    package = below[0].partition("-")[0] if below else ""
    is_program = parts[:1] == ("bin",) and len(parts) > 1 and not parts[1].startswith("python")
    return None if package in _NOT_PACKED or is_program or "__pycache__" in parts else entry


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
