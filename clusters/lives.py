"""Tests as combinations: each life that a test leads through on real servers is a cell."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from clusters.cells import FAILED, RAN, Cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOT: Final = Path(__file__).resolve().parents[1]
_SKIPPED: Final = "not run"


def lives(
    folder: Path,
    only: str,
    *,
    area: str,
    version: str,
    tests: Sequence[str],
    environment: str = ".venv-spark",
) -> Iterator[Cell]:
    """Each life, once all have been tried.

    Args:
        folder: of this area; its files stay there.
        only: words of a combination's name, if not all are wanted.
        area: of the cells.
        version: of what is stood on.
        tests: files or folders, all of whose tests are run.
        environment: whose Python runs them.
    """
    report = folder / "junit.xml"
    command = [str(_ROOT / environment / "bin" / "python"), "-m", "pytest", "-m", "", "-q"]
    options = [f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"]
    chosen = ["-k", only.replace(" ", "_")] if only else []
    subprocess.run([*command, *options, *chosen, *tests], cwd=_ROOT, check=False)
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own
        name = case.get("name", "").removeprefix("test_").replace("_", " ")
        troubles = [*case.iter("failure"), *case.iter("error")]
        outcome = FAILED if troubles else _SKIPPED if case.find("skipped") is not None else RAN
        note = troubles[0].get("message", "") if troubles else f"{float(case.get('time', 0)):.0f} s"
        yield Cell(area=area, combination=name, version=version, outcome=outcome, note=note)
