"""The JVM options of a driver that runs on the worker: logging, compiler and archive of classes.

Input is a submission. Output is `SPARK_SUBMIT_OPTS` for `spark-submit`. Spark reads this variable
before all other settings. So the user's settings in a connection, an operator,
`spark-defaults.conf` or the environment override our options. A driver in a cluster gets none of
our JVM options.

On two busy cores, the driver of a MERGE of two rows took 51 CPU seconds without these options, and
30 CPU seconds with these options. A small Spark job took 54 CPU seconds without the options.
Starting the C2 compiler later saved 15 seconds, the archive of classes saved 14 seconds, and both
together saved 23 seconds.

The archive contains Spark's loaded and verified classes. The archive is in a private directory of
the user. A worker's first job only leaves a note, and its second job makes the archive. So a worker
that runs only one job makes no archive. Java refuses an archive if a directory on the class path
contains files. So if Spark or Hadoop has a settings directory with files, the driver uses no
archive.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from airflow_hiveacid.java_program import find_java
from airflow_hiveacid.jobs.packager import private_directory
from airflow_hiveacid.operators.submission.java_check import is_sparks_own
from airflow_hiveacid.operators.submission.submission import SparkArguments, Submission

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
"""Log4j's settings for drivers on the worker: warnings and errors."""

# Most jobs are short, so the optimising compiler starts later: at five times Java's thresholds.
_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=25000",
    "-XX:Tier4MinInvocationThreshold=3000",
    "-XX:Tier4CompileThreshold=75000",
    "-XX:Tier4BackEdgeThreshold=200000",
)
_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
_FURTHER: Final = (_VARIABLE, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_JAVA_OPTIONS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_DEFAULT_CLASS_PATH: Final = re.compile(rf"^\s*{re.escape(_CLASS_PATH)}[\s=:]+(\S+)", re.MULTILINE)
# Each of these variables adds a directory to the class path.
_DIRECTORIES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_FIRST_WITH_ARCHIVES: Final = 13
_VERSION: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_UNUSED_S: Final = 7 * 24 * 3600
# Only these jobs load enough classes to make the archive that all jobs use.
_RECORDED: Final = ("insert", "merge", "update", "delete", "transaction")

log = logging.getLogger(__name__)


@contextmanager
def driver_jvm(submission: Submission) -> Iterator[None]:
    """Set the driver's JVM options for the `with` block, which must run `spark-submit`.

    If the block raises no error, keep the class archive that the driver made.
    """
    arguments = submission.arguments
    if submission.target.is_cluster or _VARIABLE in (arguments.env_vars or {}):
        yield
        return
    options, archive = _options(submission)
    old_options = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = " ".join(filter(None, [shlex.join(options), old_options]))
    try:
        yield
        archive.keep()
    finally:
        os.environ.pop(_VARIABLE, None)
        if old_options is not None:
            os.environ[_VARIABLE] = old_options
        archive.discard()


def _options(submission: Submission) -> tuple[list[str], _ClassArchive]:
    """Return the driver's options and its archive; an unreadable file does not fail the job."""
    arguments = submission.arguments
    options = [*(("-Dspark.ui.enabled=false",) if submission.target.is_local else ()), *_COMPILER]
    archive = _ClassArchive()
    try:
        spark = _WorkerSpark.of(submission)
        if not (arguments.verbose or spark.has_own_logging):
            options.append(f"-Dlog4j2.configurationFile={LOGGING.as_uri()}")
        archive = _ClassArchive.of(spark, arguments, is_recorded=submission.spec.kind in _RECORDED)
    except OSError as error:
        log.info("the driver starts without the archive of Spark's classes: %s", error)
    return [*options, *archive.options], archive


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkerSpark:
    """Spark on this worker; `own_options` is the text of all places where users set JVM options."""

    home: Path | None
    java: Path | None
    settings: Path | None
    further_directories: bool
    own_options: str
    class_path: str

    @classmethod
    def of(cls, submission: Submission) -> _WorkerSpark:
        arguments, environment = submission.arguments, submission.environment
        home = _spark_home(submission.binary, environment)
        configured = environment.get("SPARK_CONF_DIR")
        settings = Path(configured) if configured else home and home / "conf"
        java = find_java(environment)
        conf = arguments.conf or {}
        defaults = arguments.properties_file or (settings and settings / "spark-defaults.conf")
        default_settings = _text_of(defaults)
        own = [environment.get(name) for name in _FURTHER]
        own += [str(conf.get(name, "")) for name in _JAVA_OPTIONS]
        own.append(default_settings)
        class_path = [arguments.driver_class_path, str(conf.get(_CLASS_PATH, ""))]
        class_path += _DEFAULT_CLASS_PATH.findall(default_settings)
        class_path += [environment.get(name) for name in _DIRECTORIES]
        return cls(
            home=home,
            java=None if java is None else Path(java).resolve().parents[1],
            settings=settings,
            further_directories=any(environment.get(name) for name in _DIRECTORIES),
            own_options="\n".join(filter(None, own)),
            class_path=os.pathsep.join(filter(None, class_path)),
        )

    @property
    def has_own_logging(self) -> bool:
        """True if the user configures Log4j, or may do so in files that we cannot find."""
        if self.home is None or "configurationFile" in self.own_options:
            return True
        entries = filter(None, self.class_path.split(os.pathsep))
        on_class_path = (Path(entry).glob("log4j2*") for entry in entries)
        log_files = chain(self.files("log4j*"), *on_class_path)
        return any(file.suffix != ".template" for file in log_files)

    def files(self, pattern: str) -> list[Path]:
        return [] if self.settings is None else list(self.settings.glob(pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClassArchive:
    """The archive that a driver uses, or makes at `scratch`; none without `path`."""

    path: Path | None = None
    scratch: Path | None = None

    @classmethod
    def of(
        cls, spark: _WorkerSpark, arguments: SparkArguments, *, is_recorded: bool
    ) -> _ClassArchive:
        key = _key(spark, arguments)
        if key is None:
            return cls()
        path = private_directory() / f"spark-classes-{key}.jsa"
        if path.is_file() and path.stat().st_size:  # a full disk may leave an empty archive
            path.touch()  # see `_remove_unused`
            return cls(path=path)
        if not is_recorded or not _is_second(path.with_suffix(".first")):
            return cls()
        _remove_unused(path.parent)
        log.info("this job also makes the archive of Spark's classes that later jobs use")
        return cls(path=path, scratch=path.with_suffix(f".{uuid.uuid4().hex}"))

    @property
    def options(self) -> tuple[str, ...]:
        if self.scratch is not None:
            return (f"-XX:ArchiveClassesAtExit={self.scratch}", "-Xlog:cds*=off")
        return () if self.path is None else (f"-XX:SharedArchiveFile={self.path}",)

    def keep(self) -> None:
        if self.scratch is None or self.path is None:
            return
        try:
            self.scratch.replace(self.path)
        except OSError as error:
            log.warning("the archive of Spark's classes was not made: %s", error)

    def discard(self) -> None:
        if self.scratch is not None:
            with suppress(OSError):
                self.scratch.unlink(missing_ok=True)


def _remove_unused(directory: Path) -> None:
    """Remove files that no job has used for a week, such as the archive of an older Spark."""
    for file in directory.glob("spark-classes-*"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_S:
                file.unlink()


def _is_second(note: Path) -> bool:
    """Return true if an earlier job left a note, and remove that note; otherwise leave a note."""
    try:
        note.unlink()
    except FileNotFoundError:
        with suppress(OSError):  # on a full disk, the job makes no archive but runs
            note.touch()
        return False
    except OSError:
        return False
    return True


def _key(spark: _WorkerSpark, arguments: SparkArguments) -> str | None:
    """Return a digest of all that an archive depends on; None if Java would refuse archives."""
    if spark.home is None or spark.java is None or spark.further_directories:
        return None
    release = _text_of(spark.java / "release")
    version = _VERSION.search(release)
    if version is None or int(version[1]) < _FIRST_WITH_ARCHIVES:
        return None
    if "Archive" in spark.own_options or arguments.properties_file or spark.files("*"):
        return None
    jars = sorted((spark.home / "jars").iterdir())
    parts = [
        *(str(spark.java), release, str(spark.settings)),
        *(str(arguments.driver_class_path), str((arguments.conf or {}).get(_CLASS_PATH))),
        *(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _spark_home(binary: str, environment: Mapping[str, str]) -> Path | None:
    """Return Spark's directory, or None for a wrapper, which may use a different directory."""
    script = shutil.which(binary, path=environment.get("PATH"))
    if script is None or not is_sparks_own(Path(script)):
        return None
    places = [Path(environment["SPARK_HOME"])] if environment.get("SPARK_HOME") else []
    # In Spark's distribution, the script is bin/spark-submit; pip puts a copy beside Python.
    root = Path(script).resolve().parents[1]
    places += [root, *root.glob("lib/python3*/site-packages/pyspark")]
    return next((place for place in places if (place / "jars").is_dir()), None)


def _text_of(file: Path | str | None) -> str:
    try:
        return "" if file is None else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
