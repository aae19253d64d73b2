"""Do the use cases run to their end, with every check? Figures do not matter."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.proofs.bench.lab import REPOSITORY
from tests.proofs.bench.records import OURS, read_records
from tests.proofs.courses.__main__ import figures_file
from tests.proofs.courses.tables import IN_PYTHON


def run_small(*options: str) -> None:
    command = [sys.executable, "-m", "tests.proofs.courses", *options, "--small"]
    subprocess.run(command, check=True, cwd=REPOSITORY, timeout=1800)


def test_a_small_change_log_is_applied_once_in_spite_of_kills() -> None:
    run_small("W15", "--systems", OURS, IN_PYTHON)
    records = read_records(figures_file("", small=True))
    found = {(r.case, r.system) for r in records if r.part == "W15"}
    whats = ("load", "change", "maintain")
    assert found == {(f"course.W15.{w}", s) for w in whats for s in (OURS, IN_PYTHON)}
    killed = json.loads(figures_file("-killed", small=True).read_text())["W15"]
    assert [one["system"] for one in killed] == [OURS, IN_PYTHON]
    assert all(one["kills"] for one in killed)


def test_a_small_stream_shows_each_row_once_in_spite_of_kills() -> None:
    run_small("W16", "--streams", "python-files")
    found = json.loads(figures_file("-streams", small=True).read_text())["python-files"]
    assert (len(found["kills_s"]), found["wrong"]) == (2, [])
    assert found["looks"] > 10
