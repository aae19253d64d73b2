"""Knows how the judges get onto this machine: jars through Maven, classes through javac.

Gives an `Installation`: a class path that is ready to run. Jars stay in Maven's own repository; the
class paths and the compiled classes stay in the cache folder that the local metastore uses as well
(`$HIVEACID_CACHE`, else the user's cache folder), in folders named after a digest of what they were
made from. A second call costs nothing; several processes may call at once.

Example:
    python -m tests.judges.installation
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.distribution import cache_dir
from airflow_hiveacid.local.releases import DEPENDENCY_PLUGIN

if TYPE_CHECKING:
    Progress = Callable[[str], None]

_HERE: Final = Path(__file__).resolve().parent
_REPORT_EVERY_S: Final = 5.0
_USUAL_JAVA: Final = 17
_DEBIAN: Final = "apt-get install maven openjdk-17-jdk-headless"
_JVMS: Final = Path("/usr/lib/jvm")


class Judge(Enum):
    """What can be installed: the pom's name, the folders of Java sources, the version of Java."""

    HIVE_4 = ("hive4", ("line", "shared", "hive4"), 17)
    READER_3 = ("reader3", ("line", "shared", "hive3"), 17)
    ENGINE_3 = ("engine3", ("line", "shared", "hive3", "engine3"), 17)
    TRINO = ("trino", ("line", "trino"), 25)

    @property
    def pom(self) -> Path:
        """The Maven project whose class path this is."""
        return _HERE / "poms" / f"{self.value[0]}.xml"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The Java files, sorted."""
        folders = (_HERE / "java" / name for name in self.value[1])
        return tuple(sorted(file for folder in folders for file in folder.rglob("*.java")))

    @property
    def java_version(self) -> int:
        """Of the JDK that compiles it and of the JVM that it runs in, at least."""
        return self.value[2]

    def tool(self, name: str) -> str:
        """Where `java` or `javac` is.

        Raises:
            InstallationError: It is not installed; the message says how it is found.
        """
        newer = self.java_version > _USUAL_JAVA
        found = shutil.which(name, path=_newer_java(self.java_version) if newer else _usual_java())
        if found is None:
            hint = f"set JAVA{self.java_version}_HOME" if newer else f"Debian: {_DEBIAN}"
            raise InstallationError(f"{name} {self.java_version} was not found ({hint})")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A judge that is ready to run.

    The folder of the compiled classes goes before the jars, which are in Maven's order.
    """

    classes: Path
    jars: tuple[Path, ...]

    def class_path(self, *first: Path, last: Sequence[Path] = ()) -> str:
        """Joins the given folders, the classes, the jars and further ones."""
        return os.pathsep.join(str(entry) for entry in (*first, self.classes, *self.jars, *last))


class InstallationError(Exception):
    """Maven or javac failed, or is not installed; the message ends with what it said."""


def prepare(*judges: Judge, progress: Progress = lambda _line: None) -> None:
    """Installs the judges that are not there yet; without arguments the two that tests need.

    The first time this downloads some 300 MB. Errors: see `installation`.
    """
    for judge in judges or (Judge.READER_3, Judge.HIVE_4):
        installation(judge, progress=progress)


def installation(judge: Judge, *, progress: Progress = lambda _line: None) -> Installation:
    """Returns a judge's class path, resolving and compiling what is missing.

    Raises:
        InstallationError: Maven or javac is missing or failed.
    """
    folder = cache_dir() / f"judge-{judge.value[0]}-{_digest((judge.pom, *judge.sources))}"
    found = _ready(folder)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            found = _ready(folder) or _install(judge, folder, progress)
    return found


def _digest(files: Sequence[Path]) -> str:
    content = hashlib.sha256()
    for file in files:
        content.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _ready(folder: Path) -> Installation | None:
    listing = folder / "classpath"
    if not listing.is_file():
        return None
    jars = tuple(Path(entry) for entry in listing.read_text().strip().split(os.pathsep))
    # Maven's repository is not ours: whoever empties it makes the cached class path void.
    if not all(jar.is_file() for jar in jars):
        return None
    return Installation(classes=folder / "classes", jars=jars)


def _install(judge: Judge, folder: Path, progress: Progress) -> Installation:
    scratch = folder / "classpath.new"
    progress(f"{judge.value[0]}: resolving its jars with Maven")
    _run(
        (
            *("mvn", "--batch-mode", "-f", str(judge.pom)),
            *(f"{DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={scratch}"),
        ),
        log=folder / "maven.log",
        progress=lambda: _count_downloads(folder / "maven.log", judge, progress),
    )
    progress(f"{judge.value[0]}: compiling")
    classes = folder / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    jars = scratch.read_text().strip()
    _run(
        (
            *(judge.tool("javac"), "-nowarn", "--release", str(judge.java_version)),
            *("-d", str(classes), "-cp", jars),
            *map(str, judge.sources),
        ),
        log=folder / "javac.log",
        progress=lambda: None,
    )
    scratch.replace(folder / "classpath")  # the last step: its presence means all is there
    found = _ready(folder)
    if found is None:
        raise InstallationError(f"Maven named jars that are not there: see {folder}")
    return found


def _run(arguments: Sequence[str], *, log: Path, progress: Callable[[], None]) -> None:
    program = shutil.which(arguments[0])
    if program is None:
        raise InstallationError(f"{arguments[0]} was not found (Debian: {_DEBIAN})")
    with log.open("wb") as output:
        process = subprocess.Popen(
            (program, *arguments[1:]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while True:
            try:
                status = process.wait(timeout=_REPORT_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                progress()
            except BaseException:
                process.terminate()
                process.wait()
                raise
    if status != 0:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise InstallationError(f"{arguments[0]} failed; its output is in {log} and ends:\n{end}")


def _usual_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin" if home else None


def _newer_java(version: int) -> str:
    home = os.environ.get(f"JAVA{version}_HOME")
    folders = [Path(home)] if home else sorted(_JVMS.glob(f"*-{version}-*"))
    return os.pathsep.join(str(folder / "bin") for folder in folders)


def _count_downloads(log: Path, judge: Judge, progress: Progress) -> None:
    count = log.read_text(errors="replace").count("Downloaded from ")
    progress(f"{judge.value[0]}: {count} files downloaded")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    prepare(progress=_say)
