"""Report which promises the last test run proved, and with which tests.

    python tools/promises.py [--all]

The program reads docs/evidence/promises.md, and the JUnit files of `make test` below build/, in
which each test has its promises as properties. The program prints every due promise with the tests
that prove the promise, then a summary. The exit status is 0 only if each due promise has a passed
test and no failed test.
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ET  # pytest wrote the files
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ROOT: Final = Path(__file__).resolve().parent.parent
_ROW: Final = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| ([\d.]*) ?\|$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One line of docs/evidence/promises.md; `since` is empty for a promise that is not due yet."""

    id: str
    text: str
    since: str


@dataclass(slots=True, kw_only=True)
class Evidence:
    """The last run's results for one promise. Mutable, because results are added test by test."""

    tests: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> str:
        """The promise's result: a failed test disproves it; else, a passed test proves it."""
        outcomes = set(self.tests.values())
        for outcome in ("failed", "passed", "skipped"):
            if outcome in outcomes:
                return outcome
        return "no test"

    @property
    def lines(self) -> Iterator[str]:
        """One line for each test: its name, and the number of its cases."""
        cases: dict[tuple[str, str], int] = {}
        for name, outcome in sorted(self.tests.items()):
            key = (name.partition("[")[0], outcome)
            cases[key] = cases.get(key, 0) + 1
        for (name, outcome), count in cases.items():
            more = f" ({count} cases)" if count > 1 else ""
            yield name + more + ("" if outcome == "passed" else f" {outcome.upper()}")


def read_promises(file: Path) -> list[Promise]:
    """Return the lines of the table, in order."""
    rows = (_ROW.match(line) for line in file.read_text().splitlines())
    return [Promise(id=row[1], text=row[2], since=row[3]) for row in rows if row]


def read_evidence(files: Iterable[Path]) -> dict[str, Evidence]:
    """Return the evidence for each promise in JUnit files; one test may prove several promises."""
    found: dict[str, Evidence] = {}
    for file in files:
        for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314 -- see the import
            name = f"{case.get('classname')}::{case.get('name')}"
            for entry in case.iter("property"):
                if entry.get("name") == "promise":
                    evidence = found.setdefault(str(entry.get("value")), Evidence())
                    evidence.tests[name] = _outcome(case)
    return found


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def unproven(promises: Iterable[Promise], evidence: Mapping[str, Evidence]) -> list[Promise]:
    """Return the promises that are due but not proven."""
    due = (p for p in promises if p.since)
    return [p for p in due if evidence.get(p.id, Evidence()).result != "passed"]


def report(
    promises: Sequence[Promise], evidence: Mapping[str, Evidence], *, everything: bool = False
) -> Iterator[str]:
    """Yield lines for promises that are due or have tests, or for all; then yield the summary."""
    for promise in promises:
        proof = evidence.get(promise.id, Evidence())
        if promise.since or proof.tests or everything:
            yield f"{promise.id:4} {promise.since or 'later':6} {proof.result:8} {promise.text}"
            yield from (f"{'':21}{line}" for line in proof.lines)
    due = [p for p in promises if p.since]
    missing = unproven(promises, evidence)
    yield (
        f"{len(due) - len(missing)} of {len(due)} due promises are proven; {len(promises)} in all"
    )
    if missing:
        yield f"open: {' '.join(p.id for p in missing)}"


def main(arguments: Sequence[str] | None = None, *, root: Path = _ROOT) -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description="Promises proven in the last run of the tests.")
    parser.add_argument("--all", action="store_true", help="also promises that are not due yet")
    options = parser.parse_args(arguments)
    files = sorted((root / "build").glob("junit-*.xml"))
    if not files:
        print("no results below build/: run `make test` first", file=sys.stderr)
        return 1
    promises = read_promises(root / "docs" / "evidence" / "promises.md")
    evidence = read_evidence(files)
    for line in report(promises, evidence, everything=options.all):
        print(line)
    return 1 if unproven(promises, evidence) else 0


if __name__ == "__main__":
    sys.exit(main())
