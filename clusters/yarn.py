"""YARN: what an operator's task goes through on a real one, with tables on a real HDFS.

Its lives are tests of Airflow's environment, which this one has no part of; each is a combination.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from clusters.cells import FAILED, RAN, Cell
from contract.stores.mini_hdfs import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[1]
_TESTS: Final = ("tests/airflow/test_yarn.py",)


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Each life, once all have been tried."""
    report = folder / "junit.xml"
    command = [str(_ROOT / ".venv" / "bin" / "python"), "-m", "pytest", "-m", "", "-q"]
    options = [f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"]
    chosen = ["-k", only.replace(" ", "_")] if only else []
    tests = list(_TESTS)
    subprocess.run([*command, *options, *chosen, *tests], cwd=_ROOT, check=False)
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own
        name = case.get("name", "").removeprefix("test_").replace("_", " ")
        troubles = [*case.iter("failure"), *case.iter("error")]
        note = troubles[0].get("message", "") if troubles else f"{float(case.get('time', 0)):.0f} s"
        yield Cell(
            area="YARN",
            combination=name,
            version=VERSION,
            outcome=FAILED if troubles else RAN,
            note=note,
        )
