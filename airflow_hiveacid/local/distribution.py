"""The files of a metastore release and the jars for S3 (S3A), fetched with Maven.

The class path and the unpacked schema scripts are stored in a cache folder outside of all data
directories, so later starts need neither Maven nor a network. The name of the cache folder contains
a digest of the generated pom, so each version of the pom has its own folder.

Metastore and Spark use different Hadoop versions, and these versions need different jars. AWS's
bundles are large (641 MB for Spark). So this module fetches only the modules that S3A uses (11 and
13 MB).

Example:
    >>> "aws-java-sdk-bundle" in METASTORE_S3A.pom
    True
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from airflow_hiveacid.local.process import (
    DownloadError,
    MissingProgramError,
    Progress,
    log_progress,
    tail,
)
from airflow_hiveacid.local.releases import (
    DEPENDENCY_PLUGIN,
    HADOOP_VERSION,
    HiveRelease,
    newer_script,
    pom,
    project,
    scripts_coordinates,
)

CACHE_VARIABLE: Final = "HIVEACID_CACHE"
_REPORT_EVERY_S: Final = 5.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A release that is ready to run.

    Attributes:
        class_path: Existing jars, in Maven's order.
        home: The folder that contains `scripts/metastore`, for the server's variable
            METASTORE_HOME.
    """

    release: HiveRelease
    class_path: tuple[Path, ...]
    home: Path


def cache_dir() -> Path:
    """Return the cache folder: $HIVEACID_CACHE, else the user's cache folder."""
    cache_variable = os.environ.get(CACHE_VARIABLE)
    of_user = f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/airflow_hiveacid"
    # Unlike `Path.expanduser`, this raises no error for a user ID that has no name.
    return Path(os.path.expanduser(cache_variable or of_user)).resolve()  # noqa: PTH111


def fetch(
    release: HiveRelease, *, cache: Path | None = None, progress: Progress = log_progress
) -> Distribution:
    """Return the release's files; download missing files (about 150 MB the first time).

    Several processes may call this function at the same time: one downloads, and the others wait.

    Raises:
        MissingProgramError: Maven is needed but not installed.
        DownloadError: Maven failed.
    """
    digest = hashlib.sha256(pom(release).encode()).hexdigest()[:12]
    folder = (cache or cache_dir()) / f"metastore-{release.version}-{digest}"

    def download() -> None:
        _resolve(pom(release), folder, f"the jars of Hive metastore {release.version}", progress)
        _unpack_scripts(release, folder, progress)

    what = f"Hive metastore {release.version}"
    return _fetched(lambda: _ready(release, folder), download, folder, what, progress)


def fetch_class_path(
    folder: Path, project: str, what: str, *, progress: Progress = log_progress
) -> tuple[Path, ...]:
    """Return the jars of a Maven project (its pom as XML); download missing jars.

    As with `fetch`, several processes may call this function at the same time, and the errors are
    the same. Each project needs its own `folder`. `what` names the jars in messages.
    """

    def download() -> None:
        _resolve(project, folder, what, progress)

    return _fetched(lambda: _class_path(folder), download, folder, what, progress)


def _fetched(
    ready: Callable[[], _T | None],
    download: Callable[[], None],
    folder: Path,
    what: str,
    progress: Progress,
) -> _T:
    """Return files that are ready, or download them; one process downloads, the others wait."""
    files = ready()
    if files is None:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder, progress):
            files = ready()  # a different process may have fetched the files meanwhile
            if files is None:
                download()
                files = ready()
    if files is None:
        log = folder / "maven.log"
        raise DownloadError(what, log, tail(log))
    return files


def _ready(release: HiveRelease, folder: Path) -> Distribution | None:
    jars, home = _class_path(folder), folder / "home"
    if jars is None or not (home / "scripts" / "metastore").is_dir():
        return None
    return Distribution(release=release, class_path=jars, home=home)


def _class_path(folder: Path) -> tuple[Path, ...] | None:
    listing = folder / "classpath"
    if not listing.is_file():
        return None
    jars = tuple(Path(entry) for entry in listing.read_text().strip().split(os.pathsep))
    # The class path is invalid if other programs have removed files from Maven's repository.
    return jars if all(jar.is_file() for jar in jars) else None


def _resolve(project: str, folder: Path, what: str, progress: Progress) -> None:
    (folder / "pom.xml").write_text(project)
    scratch = folder / "classpath.new"
    _maven(
        folder,
        [f"{DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={scratch}"],
        what,
        progress,
    )
    scratch.replace(folder / "classpath")


def _unpack_scripts(release: HiveRelease, folder: Path, progress: Progress) -> None:
    scratch = folder / "unpacked"
    shutil.rmtree(scratch, ignore_errors=True)
    _maven(
        folder,
        [
            f"{DEPENDENCY_PLUGIN}:unpack",
            f"-Dartifact={scripts_coordinates(release)}",
            f"-DoutputDirectory={scratch}",
            "-Dmdep.unpack.includes=**/scripts/**",
            # The plugin's markers record which files it has already unpacked. If other programs
            # remove the scripts, markers in the default folder would stop the plugin from unpacking
            # them again.
            f"-DmarkersDirectory={scratch / 'markers'}",
        ],
        f"the schema scripts of Hive metastore {release.version}",
        progress,
    )
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    for scripts in scratch.glob("*/scripts/metastore"):
        for database, statements in release.newer_schema.items():
            folder_of_scripts = scripts / "upgrade" / database
            script = folder_of_scripts / f"hive-schema-4.0.0.{database}.sql"
            newer = newer_script(script.read_text(), release.version, statements)
            (folder_of_scripts / f"hive-schema-{release.version}.{database}.sql").write_text(newer)
        scripts.parent.parent.rename(home)
        break
    shutil.rmtree(scratch, ignore_errors=True)


def _maven(folder: Path, arguments: list[str], what: str, progress: Progress) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise MissingProgramError("mvn", "install Maven (Debian: apt-get install maven)")
    log = folder / "maven.log"
    progress(f"fetching {what} with Maven")
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, "--batch-mode", "-f", str(folder / "pom.xml"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            status = _wait(process, log, what, progress)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status != 0:
        raise DownloadError(what, log, tail(log))


def _wait(process: subprocess.Popen[bytes], log: Path, what: str, progress: Progress) -> int:
    reported = 0
    while True:
        try:
            return process.wait(timeout=_REPORT_EVERY_S)
        except subprocess.TimeoutExpired:
            files = log.read_text(errors="replace").count("Downloaded from ")
            if files != reported:
                reported = files
                progress(f"fetching {what}: {files} files downloaded")


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that fetches the same files")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class S3aJars:
    """The S3A jars for one Hadoop version.

    Attributes:
        group: The Maven group of AWS's modules.
        bundle: AWS's jar with all modules. It is excluded.
        version: The version of AWS's modules with which this Hadoop version was built.
        left_to_host: Substrings of jar paths. Jars with such paths are excluded, because the host
            program brings its own versions of these jars.
    """

    hadoop: str
    group: str
    bundle: str
    modules: tuple[str, ...]
    version: str
    left_to_host: tuple[str, ...] = ()

    @property
    def pom(self) -> str:
        """The pom of a Maven project whose class path is these jars."""
        modules = "\n".join(
            f"    <dependency><groupId>{self.group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
            for name in self.modules
        )
        hadoop = f"""\
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId>
      <version>{self.hadoop}</version>
      <exclusions>
        <exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>{self.group}</groupId><artifactId>{self.bundle}</artifactId></exclusion>
      </exclusions>
    </dependency>
"""
        return project("s3a", self.hadoop, hadoop + modules)

    def fetch(
        self, *, cache: Path | None = None, progress: Progress = log_progress
    ) -> tuple[Path, ...]:
        """Return the jars; download missing jars, as `fetch_class_path` does."""
        digest = hashlib.sha256(self.pom.encode()).hexdigest()[:12]
        folder = (cache or cache_dir()) / f"s3a-{self.hadoop}-{digest}"
        jar_names = f"the S3A jars of Hadoop {self.hadoop}"
        jars = fetch_class_path(folder, self.pom, jar_names, progress=progress)
        return tuple(j for j in jars if not any(part in str(j) for part in self.left_to_host))


METASTORE_S3A: Final = S3aJars(
    hadoop=HADOOP_VERSION,
    group="com.amazonaws",
    bundle="aws-java-sdk-bundle",
    # The third module of the list is needed, because S3A refers to one of its classes.
    modules=("aws-java-sdk-s3", "aws-java-sdk-sts", "aws-java-sdk-dynamodb"),
    version="1.12.367",
)
SPARK_S3A: Final = S3aJars(
    hadoop="3.4.2",
    group="software.amazon.awssdk",
    bundle="bundle",
    modules=("s3", "s3-transfer-manager", "sts"),
    version="2.29.52",
    # Spark would load this netty instead of its own, but this netty lacks methods.
    left_to_host=("/io/netty/", "/slf4j/", "commons-logging", "commons-codec", "/httpcomponents/"),
)
