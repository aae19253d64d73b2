"""Knows which promise was proven by which test in the last run: the project's meter.

    python tools/promises.py [--all]

Reads the lines of docs/promises.md and the JUnit files that `make test` left below build/, where
each test's promises stand as properties. Prints one line per promise that is due, then a summary.
Ends with 1 when a test of a promise that is due failed.
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ET  # the files were written by pytest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_ROW: Final = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \| ([\d.]*) ?\|$")
_WORST_FIRST: Final = ("failed", "skipped", "passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One line of docs/promises.md; `since` is empty while it is still to come."""

    id: str
    text: str
    since: str


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What the last run said about one promise. Mutable: filled test by test."""

    tests: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> str:
        """The worst outcome of its tests; skipped tests prove nothing."""
        outcomes = set(self.tests.values())
        for outcome in _WORST_FIRST:
            if outcome in outcomes:
                return outcome
        return "no test"


def read_promises(file: Path) -> list[Promise]:
    """Returns the lines of the table, in order."""
    rows = (_ROW.match(line) for line in file.read_text().splitlines())
    return [Promise(id=row[1], text=row[2], since=row[3]) for row in rows if row]


def read_evidence(files: list[Path]) -> dict[str, Evidence]:
    """Returns the evidence by promise from JUnit files; a test may prove several."""
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


def main() -> int:
    """Prints the table and returns the exit status."""
    parser = argparse.ArgumentParser(description="What was proven in the last run of the tests.")
    parser.add_argument("--all", action="store_true", help="also promises still to come")
    options = parser.parse_args()
    files = sorted((_ROOT / "build").glob("junit-*.xml"))
    if not files:
        print("no results below build/: run `make test` first", file=sys.stderr)
        return 1
    promises = read_promises(_ROOT / "docs" / "promises.md")
    evidence = read_evidence(files)
    shown = [p for p in promises if p.since or p.id in evidence or options.all]
    print(f"{'row':4} {'since':6} {'tests':>5} {'result':8} promise")
    for promise in shown:
        proof = evidence.get(promise.id, Evidence())
        count = len(proof.tests)
        print(f"{promise.id:4} {promise.since:6} {count:5} {proof.result:8} {promise.text}")
    due = [p for p in promises if p.since]
    proven = [p for p in due if evidence.get(p.id, Evidence()).result == "passed"]
    print(f"{len(proven)} of {len(due)} promises that are due are proven; {len(promises)} in all")
    open_rows = " ".join(p.id for p in due if p not in proven)
    if open_rows:
        print(f"open: {open_rows}")
    return 1 if any(evidence.get(p.id, Evidence()).result == "failed" for p in due) else 0


if __name__ == "__main__":
    sys.exit(main())
