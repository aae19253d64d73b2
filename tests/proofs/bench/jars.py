"""A download of a peer's jars from Maven Central into a folder."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.errors import DownloadError, MissingProgramError
from airflow_hiveacid.local.progress import tail
from airflow_hiveacid.local.releases import DEPENDENCY_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One artifact without its dependencies, which must be named, too."""

    group: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        """Maven's name of its file."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def dependency(self) -> str:
        """Its line in a pom."""
        fields = {"groupId": self.group, "artifactId": self.artifact, "version": self.version}
        inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return f"    <dependency>{inside}</dependency>"


def fetch_jars(jars: Sequence[Jar], folder: Path) -> tuple[Path, ...]:
    """Return jars in a folder, downloading missing ones.

    Raises:
        MissingProgramError: Maven is needed but not installed.
        DownloadError: Maven failed.
    """
    files = tuple(folder / jar.file_name for jar in jars)
    if all(file.is_file() for file in files):
        return files
    program = shutil.which("mvn")
    if program is None:
        raise MissingProgramError("mvn", "install Maven (Debian: apt-get install maven)")
    folder.mkdir(parents=True, exist_ok=True)
    pom, log = folder / "pom.xml", folder / "maven.log"
    pom.write_text(_POM.format(dependencies="\n".join(jar.dependency for jar in jars)))
    goal = f"{DEPENDENCY_PLUGIN}:copy-dependencies"
    options = [f"-DoutputDirectory={folder}", "-DexcludeTransitive=true"]
    with log.open("w") as output:
        status = subprocess.run(
            [program, "--batch-mode", "-f", str(pom), goal, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if status:
        raise DownloadError("the jars of a peer", log, tail(log))
    return files
