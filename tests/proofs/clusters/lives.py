"""Tests as combinations: each test on real servers becomes a cell."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from tests.proofs.clusters.cells import FAILED, NOT_RUN, RAN, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proofs.clusters.overview import Place

_ROOT: Final = Path(__file__).resolve().parents[3]


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

        Raises:
            FileNotFoundError: pytest left no report.
        """
        if not re.fullmatch(r"[\w ]*", only):
            return  # no test has such a name, and pytest would not read it as a name
        report = folder / "junit.xml"
        report.unlink(missing_ok=True)  # left by an earlier run in a kept folder
        python = _ROOT / self.environment / "bin" / "python"
        options = ["-m", "", "-q", f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"]
        chosen = ["-k", only.replace(" ", "_")] if only else []
        command = [str(python), "-m", "pytest", *options, *self.options, *chosen, *self.tests]
        path = os.pathsep.join(filter(None, [self.modules, os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": path}
        subprocess.run(command, cwd=_ROOT, env=variables, check=False)
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
