"""One version of the metastore: its contract tests, and the life of a table with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.releases import RELEASES_VARIABLE
from airflow_hiveacid.supported_versions import METASTORE
from tests.proofs.programs import Say
from tests.proofs.versions.steps import StepError, counts, last_line, run
from tests.support.documents import DOCS, ROOT, put_between, table_line

PAGE: Final = DOCS / "reference" / "versions.md"
MARK: Final = "metastores: written by `make versions`"

_PYTHON: Final = str(ROOT / ".venv-spark" / "bin" / "python")
_TITLES: Final = ("metastore", "contract tests", "life of a table, with Spark")
_CONTRACT: Final = ("-m", "server and not spark and not long", "tests/contract/metastore")
_LIFE: Final = ("-m", "spark", "tests/spark/test_life.py")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one version gave: the counts of each step, or its failure."""

    version: str
    cells: tuple[str, ...]
    is_good: bool


def tried(version: str, say: Say) -> Outcome:
    """Run the tests of one version and return what became of it."""
    cells: list[str] = []
    is_good = True
    for tests in (_CONTRACT, _LIFE):
        say(f"metastore {version}: {tests[-1]}")
        try:
            words = run(
                _PYTHON,
                "-m",
                "pytest",
                "--quiet",
                *tests,
                *_of_its_major(version),
                variables={RELEASES_VARIABLE: version},
            )
            cells.append(counts(last_line(words)))
        except StepError as error:
            cells.append(f"failed: {error}")
            is_good = False
        say(f"metastore {version}: {cells[-1]}")
    return Outcome(version, tuple(cells), is_good)


def _of_its_major(version: str) -> Sequence[str]:
    """Return the choice of the tests that start this version.

    The ids of tests name the servers' defaults, 3.1.3 and 4.0.1. A test without one starts 4.
    """
    return ("-k", "not 3.1.3") if version.startswith("4") else ("-k", "3.1.3")


def write(outcomes: Iterable[Outcome], page: Path = PAGE) -> None:
    """Put the table into the page."""
    lines = [table_line(*_TITLES), table_line(*["---"] * len(_TITLES))]
    lines += [table_line(outcome.version, *outcome.cells) for outcome in outcomes]
    page.write_text(put_between(page.read_text(), MARK, "\n".join(lines)))


VERSIONS: Final = METASTORE.versions
