"""Tests as combinations: each life that a test leads through on real servers is a cell."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from clusters.cells import FAILED, NOT_RUN, RAN, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clusters.overview import Place

_ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Lives:
    """Tests of one area.

    `version` is that of what they stand on, `tests` are files all of whose tests are run, and
    `environment` is the one whose Python runs them. `place` says of a test, by its name, where a
    job of it runs, if that is what it shows. `modules` is a folder whose packages come before that
    one's, if there is one, `options` are pytest's for these, and `suffix` is what cells are called
    by it.
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
        """Each life whose name has the words, once all have been tried.

        What they leave lies in the folder.

        Raises:
            FileNotFoundError: pytest left no report.
        """
        if not re.fullmatch(r"[\w ]*", only):
            return  # no test is called so, and pytest would not take it for a name
        report = folder / "junit.xml"
        report.unlink(missing_ok=True)  # of an earlier run in a folder that is kept
        python = _ROOT / self.environment / "bin" / "python"
        options = ["-m", "", "-q", f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"]
        chosen = ["-k", only.replace(" ", "_")] if only else []
        command = [str(python), "-m", "pytest", *options, *self.options, *chosen, *self.tests]
        path = os.pathsep.join(filter(None, [self.modules, os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": path}
        subprocess.run(command, cwd=_ROOT, env=variables, check=False)
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own
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
