"""Tests as combinations: each test on real servers becomes a cell; so does a campaign of kills."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.proofs.clusters.cells import FAILED, NOT_RUN, RAN, Cell, Place
from tests.support.documents import ROOT


@dataclass(frozen=True, kw_only=True)
class Lives:
    """Tests of one area.

    `version` is the version of the servers, `tests` are files whose tests all run, and
    `environment` is the environment of their Python. `place` returns where a test's job runs, given
    the test's name, or None. `modules` is a folder of packages that come before the environment's;
    empty for none. `options` are pytest's for these, and `suffix` is appended to the names of their
    cells.
    """

    area: str
    version: str
    tests: tuple[str, ...]
    environment: str = ".venv-spark"
    place: Callable[[str], Place | None] = lambda _: None
    modules: str = ""
    options: tuple[str, ...] = ()
    suffix: str = ""

    def cells(self, folder: Path, only: str) -> Iterator[Cell]:
        """Yield a cell for each test with the words in its name, after running all of them.

        Their files stay in the folder.
        """
        if not re.fullmatch(r"[\w ]*", only):
            return  # no test has such a name, and pytest would not read it as a name
        report = folder / "junit.xml"
        report.unlink(missing_ok=True)  # left by an earlier run in a kept folder
        python = ROOT / self.environment / "bin" / "python"
        options = ["-m", "", "-q", f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"]
        chosen = ["-k", only.replace(" ", "_")] if only else []
        command = [str(python), "-m", "pytest", *options, *self.options, *chosen, *self.tests]
        path = os.pathsep.join(filter(None, [self.modules, os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": path}
        subprocess.run(command, cwd=ROOT, env=variables, check=False)
        for case in ET.parse(report).iter("testcase"):
            yield self._cell(case)

    def _cell(self, case: ET.Element) -> Cell:
        troubles = [*case.iter("failure"), *case.iter("error"), *case.iter("skipped")]
        outcome, note = RAN, f"{float(case.get('time', 0)):.0f} s"
        if troubles:
            outcome = NOT_RUN if troubles[0].tag == "skipped" else FAILED
            note = troubles[0].get("message", "")
        return Cell(
            area=self.area,
            combination=case.get("name", "").removeprefix("test_").replace("_", " ") + self.suffix,
            version=self.version,
            outcome=outcome,
            note=note,
            place=self.place(case.get("name", "")),
        )


def campaign(*asked: str) -> str:
    """Run a campaign at a metastore 4.0.1, and return the last lines of its output.

    Raises:
        AssertionError: something was lost, doubled, half seen or left, or there were too few kills.
    """
    command = [sys.executable, "-m", "tests.proofs.campaign", *asked, "--versions", "4.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0:
        # A campaign prints its own findings, and a traceback only if it cannot judge.
        raise AssertionError(" / ".join([*lines[-5:], *done.stderr.strip().splitlines()[-3:]]))
    return f"{lines[-2].partition('  ')[2]}: {lines[-1].partition('  ')[2]}"
