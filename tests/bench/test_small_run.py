"""Does the measurement run to its end, with every case and every check? Figures do not matter."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bench.figures import pairs
from bench.lab import REPOSITORY
from bench.queries import QUERIES
from bench.records import OURS, read_records

if TYPE_CHECKING:
    from pathlib import Path

STATES = ("base", "changed", "merged", "compacted")


def test_a_small_run_measures_every_case_beside_its_yardstick(tmp_path: Path) -> None:
    records = tmp_path / "bench.json"
    command = [sys.executable, "-m", "bench", "--small", "--records", str(records)]
    subprocess.run([*command, "--driver-memory", "1g"], check=True, cwd=REPOSITORY, timeout=1800)
    found = pairs(read_records(records))
    scans = {f"scan.{state}.{query}" for state in STATES for query in QUERIES}
    steps = {"create", "append", "delete", "merge", "compact.minor", "compact.major"}
    assert {pair.figure.case for pair in found} == scans | steps
    assert {pair.figure.system for pair in found} == {OURS}
    assert all(pair.yardstick is not None for pair in found)
    assert all(pair.figure.cpu_seconds > 0 for pair in found)
    assert all(pair.figure.worker_peak_bytes > 0 for pair in found)
