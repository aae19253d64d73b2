"""A pytest plugin that adds the results of earlier runs to the summary of this run.

The tests run in several environments, so in several pytest processes. With this plugin, the last
line of the last process summarises the results of all processes. With `-p tools.earlier_results
--earlier NAME=FILE`, this run's summary includes the results in that JUnit file: failures and skips
with their reasons, and counts in the last line. `--earlier` may be repeated. If an earlier run
failed, this run fails.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET  # pytest wrote the file a moment ago
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_EARLIER: Final = pytest.StashKey["dict[str, EarlierRun]"]()
_SKIP_LOCATIONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The results of an earlier run.

    The reports have the categories that pytest's last line counts.
    """

    reports: dict[str, list[pytest.TestReport]]
    seconds: float

    @property
    def is_bad(self) -> bool:
        """True if a test failed or had an error."""
        return bool(self.reports["failed"] or self.reports["error"])

    @property
    def summary(self) -> str:
        """The counts of test results as a text."""
        counts = (f"{kind} {len(found)}" for kind, found in self.reports.items() if found)
        return f"{', '.join(counts) or 'no tests'}; {self.seconds:.0f} s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--earlier`."""
    parser.addoption(
        "--earlier",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="JUnit file of an earlier run to include",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the files before the first test runs, so that a missing file is an error at once."""
    runs = config.stash[_EARLIER] = {}
    for given in config.getoption("--earlier"):
        name, _, path = given.partition("=")
        if not Path(path).is_file():
            raise pytest.UsageError(f"{path} is missing: the earlier run did not finish")
        runs[name] = read(Path(path))


def read(file: Path) -> EarlierRun:
    """Return the results in a JUnit file that pytest wrote."""
    reports: dict[str, list[pytest.TestReport]] = {
        kind: [] for kind in ("failed", "error", "passed", "skipped", "xfailed")
    }
    suites = ET.parse(file).getroot()  # noqa: S314 -- see the import
    for case in suites.iter("testcase"):
        kind, detail = _outcome(case)
        reports[kind].append(_report(case, kind, detail))
    seconds = sum(float(suite.get("time", "0")) for suite in suites.iter("testsuite"))
    return EarlierRun(reports=reports, seconds=seconds)


def _outcome(case: ET.Element) -> tuple[str, str]:
    for tag, kind in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        child = case.find(tag)
        if child is not None:
            detail = child.get("message") or (child.text or "")
            expected = child.get("type") == "pytest.xfail"
            return ("xfailed" if expected else kind), detail
    return "passed", ""


def _report(case: ET.Element, kind: str, detail: str) -> pytest.TestReport:
    where = str(case.get("classname") or "").replace(".", "/")
    # A module that could not be collected has a name but no class name.
    nodeid = f"{where}.py::{case.get('name')}" if where else str(case.get("name"))
    skipped = kind in {"skipped", "xfailed"}
    report = pytest.TestReport(
        nodeid=nodeid,
        location=(nodeid.partition("::")[0], None, str(case.get("name"))),
        keywords={},
        outcome="failed" if kind in {"failed", "error"} else "skipped" if skipped else "passed",
        longrepr=(nodeid, 0, f"Skipped: {detail}") if skipped else (detail or None),
        when="call",
    )
    if kind == "xfailed":
        report.wasxfail = detail
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Add the earlier reports to this run's summary."""
    runs = config.stash.get(_EARLIER, {})
    if not runs:
        return
    kinds = next(iter(runs.values())).reports
    here = sum(len(terminalreporter.stats.get(kind, ())) for kind in kinds)
    terminalreporter.section("all environments")
    for name, earlier in runs.items():
        for kind, reports in earlier.reports.items():
            if reports:
                terminalreporter.stats.setdefault(kind, []).extend(reports)
        terminalreporter.line(f"{name}: {earlier.summary}")
    terminalreporter.line(f"this run: {here} tests; the last line counts all runs")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail this run if an earlier run failed."""
    runs = session.config.stash.get(_EARLIER, {})
    is_bad = any(earlier.is_bad for earlier in runs.values())
    if is_bad and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
