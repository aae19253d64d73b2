"""The Python environment for Spark: a virtual environment with the wheel of `cli.spark_wheel`.

Never use Airflow's own environment: Airflow's Spark provider installs pyspark-client, which
overwrites half of pyspark's files.

Example:
    >>> pyspark_requirement("3.5.7")
    'pyspark==3.5.7'
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from airflow_hiveacid import supported_versions
from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.spark_wheel import NAME, PYSPARK, build_spark_wheel
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.packager import scratch_errors
from airflow_hiveacid.local.distribution import SPARK_S3A
from airflow_hiveacid.local.process import LocalServerError
from airflow_hiveacid.metastore import user_path

NEWEST_TESTED: Final = "4.1.4"
"""The PySpark version that all tests run with; new environments get it by default."""

_BIN_DIR_VARIABLE: Final = "AIRFLOW__HIVEACID__SPARK_BIN_DIR"
_S3A: Final = "s3a"
_LAST_LINES: Final = 15
# YARN's containers have their own Spark, and pip is not needed at run time.
_NOT_PACKED: Final = ("pyspark", "py4j", "pip", "setuptools")
_FOLDERS: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_LEVEL: Final = 6


def spark_environment(options: argparse.Namespace) -> Iterator[str]:
    """Create the Spark environment, and yield the Airflow settings that make operators use it."""
    python = options.python or sys.executable
    yield from make(options.directory, python=python, pyspark=options.pyspark, with_s3=options.s3)
    if options.s3:
        yield from add_s3a(options.directory)
    if options.archive is not None:
        yield from pack(options.directory, options.archive)


def spark_bin_dir(directory: str | None, conn_id: str | None) -> str | None:
    """Return `directory`, or the directory of spark-submit that operators use; None for PATH."""
    if not directory and conn_id is None:
        # Without Airflow, only this setting can be read.
        directory = os.environ.get(_BIN_DIR_VARIABLE)
    elif not directory:
        from airflow_hiveacid.airflow_names import conf  # noqa: PLC0415 - only with a connection of Airflow

        directory = conf.get("hiveacid", "spark_bin_dir", fallback=None)
    return str(user_path(directory)) if directory else None


def other_environment(name: str, options: argparse.Namespace) -> str:
    """Return advice to run the command `name` in the environment for Spark, or to create one."""
    directory = spark_bin_dir(None, options.conn_id)
    python = Path(directory or "DIR/bin") / "python"
    command = f"{python} -m airflow_hiveacid {name} {options.table}"
    if options.conn_id is not None:  # Spark's environment has no Airflow connections
        command += f" --metastore {','.join(cli_metastore.endpoint_of(options).uris)}"
    run = f"run `{command}` with the same other options"
    is_ready = directory is not None and python.exists()
    return run if is_ready else f"create an environment with `spark-environment DIR` and {run}"


def pyspark_requirement(pyspark: str | None) -> str:
    """Return the requirement of a version of PySpark, usually that of the cluster; None for any."""
    if pyspark is None:
        return PYSPARK
    is_version = re.match(r"\d+\.\d+(\.|$)", pyspark)
    if not is_version or supported_versions.PYSPARK.fault(pyspark):
        raise ConfigurationError(
            f"PySpark {pyspark} is not supported: give --pyspark a version of {PYSPARK}."
            f" {supported_versions.PAGE} lists all supported versions"
        )
    return f"pyspark=={pyspark}"


def make(
    directory: str, *, python: str, pyspark: str | None, with_s3: bool = False
) -> Iterator[str]:
    """Create the environment, or complete an existing environment; yield the steps and settings."""
    home = user_path(directory)
    if any(home.glob("lib/python3*/site-packages/pyspark_client-*.dist-info")):
        raise ConfigurationError(
            f"{home} is an environment with pyspark-client, such as Airflow's own, and PySpark"
            " would overwrite its files; give a directory of its own to Spark's environment"
        )
    programs = home / "bin"
    # An existing environment keeps its PySpark, if this release supports it.
    if pyspark is None and not (programs / "spark-submit").exists():
        pyspark = NEWEST_TESTED
    requirement = pyspark_requirement(pyspark)
    if not (programs / "python").exists():
        yield f"creating {home} with {python}\n"
        output_of([python, "-m", "venv", str(home)])
    yield f"installing {requirement} and {NAME} (takes some minutes the first time)\n"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    with scratch_errors(), tempfile.TemporaryDirectory() as scratch:
        wheel = build_spark_wheel(Path(scratch))
        output_of([*pip, "--quiet", requirement, f"{wheel}[s3]" if with_s3 else str(wheel)])
    yield (
        "done. Set on every Airflow worker, in its configuration or environment:\n"
        f"  export {_BIN_DIR_VARIABLE}={programs}\n"
        "Spark also needs Java 17.\n"
    )


def add_s3a(directory: str) -> Iterator[str]:
    """Download Spark's S3 jars into the environment; yield the settings that use them.

    Other jars than for this Spark's Hadoop lack classes or methods that it calls.
    """
    home = user_path(directory)
    jars = [*home.glob("lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar")]
    if not jars:
        raise ConfigurationError(f"there is no PySpark in {home}, so its Hadoop version is unknown")
    hadoop = jars[0].stem.removeprefix("hadoop-client-api-")
    if hadoop != SPARK_S3A.hadoop:
        raise ConfigurationError(
            f"the PySpark in {home} has Hadoop {hadoop}, but this release knows the S3A jars only"
            f" for Hadoop {SPARK_S3A.hadoop}. With Maven, fetch org.apache.hadoop:hadoop-aws:"
            f"{hadoop} and the AWS SDK that it was built with; see docs/guides/s3-store.md"
        )
    folder = home / _S3A
    yield f"fetching the S3A jars of Hadoop {hadoop} into {folder} with Maven\n"
    try:
        folder.mkdir(exist_ok=True)
        for jar in SPARK_S3A.fetch():
            shutil.copyfile(jar, folder / jar.name)
    except (LocalServerError, OSError) as error:
        raise ConfigurationError(f"cannot fetch the S3A jars: {error}") from error
    yield (
        "done. Set these in Spark, with the same path on each machine:\n"
        f"  spark.driver.extraClassPath    {folder}/*\n"
        f"  spark.executor.extraClassPath  {folder}/*\n"
        "in spark-defaults.conf, and set the fs.s3a settings of your S3 there, too.\n"
    )


def pack(directory: str, archive: str) -> Iterator[str]:
    """Pack the environment, without Spark, for `--archives`; yield the settings that use it.

    It lacks Python itself, so every node needs the same Python at the same path.
    """
    home, target = user_path(directory), user_path(archive)
    try:
        lines = (home / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        python = dict(line.split(" = ", 1) for line in lines if " = " in line)["home"]
    except (OSError, KeyError) as error:
        raise ConfigurationError(f"there is no environment to pack in {home}: {error}") from error
    yield f"packing {home} without Spark into {target}\n"
    scratch = target.with_name(f"{target.name}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(scratch, "w:gz", compresslevel=_LEVEL) as packed:
            for name in _FOLDERS:
                if (home / name).exists():
                    packed.add(home / name, arcname=name, filter=_packed)
        scratch.replace(target)
    except OSError as error:
        raise ConfigurationError(f"cannot write {target}: {error}") from error
    yield (
        f"done. Each node of the cluster needs this Python in {python}. Put the archive where all"
        " nodes can read it, and give operators\n"
        f'  archives="hdfs:///apps/{target.name}#environment"\n'
        '  conf={"spark.pyspark.python": "./environment/bin/python"}\n'
        "and in client mode also\n"
        f'  conf={{..., "spark.pyspark.driver.python": "{home / "bin" / "python"}"}}\n'
    )


def _packed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return an entry of the archive, or None to leave it out; of programs, keep only Python."""
    parts = Path(entry.name).parts
    module_path = parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else ()
    package = module_path[0].partition("-")[0] if module_path else ""
    is_program = parts[:1] == ("bin",) and len(parts) > 1 and not parts[1].startswith("python")
    return None if package in _NOT_PACKED or is_program or "__pycache__" in parts else entry


def output_of(
    command: Sequence[str],
    *,
    path: str | None = None,
    timeout_s: float | None = None,
    most_lines: int = _LAST_LINES,
) -> str:
    """Return what a program prints; if it fails, raise an error with the last lines of that."""
    try:
        process = subprocess.run(  # noqa: S603 - a list of our own, and the user's own program
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
            env=None if path is None else {**os.environ, "PATH": path},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"cannot run {command[0]}: {error}") from error
    if process.returncode:
        end = " | ".join(process.stdout.strip().splitlines()[-most_lines:]) or "no output"
        raise ConfigurationError(f"`{' '.join(command)}` ended with {process.returncode}: {end}")
    return process.stdout
