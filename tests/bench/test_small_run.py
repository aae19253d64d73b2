"""Does the measurement run to its end, with every case and every check? Figures do not matter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.proofs.bench.courses import COMPACTIONS as PARTS
from tests.proofs.bench.ground import QUESTIONS
from tests.proofs.bench.lab import REPOSITORY
from tests.proofs.bench.queries import QUERIES, STAMPED
from tests.proofs.bench.records import OURS, Pair, pairs, read_findings, read_records

STATES = ("base", "changed", "merged", "compacted")
STAMPED_STATES = ("plain", "stamped", "plain-changed", "stamped-changed")
# Nothing of them is read, or we are our own yardstick.
WITHOUT_YARDSTICK = ("cliff.planning.", "cliff.merge.")


def run_small(records: Path, *options: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.proofs.bench",
        "--small",
        "--records",
        str(records),
        *options,
    ]
    subprocess.run([*command, "--driver-memory", "1g"], check=True, cwd=REPOSITORY, timeout=1800)


def test_a_small_run_measures_every_case_and_its_yardstick(tmp_path: Path) -> None:
    run_small(tmp_path / "bench.json")
    found = pairs(read_records(tmp_path / "bench.json"))
    scans = {f"scan.{state}.{query}" for state in STATES for query in QUERIES}
    scans |= {f"scan.{state}.{query}" for state in STAMPED_STATES for query in STAMPED}
    steps = {"create", "append", "delete", "update", "merge", "compact.minor", "compact.major"}
    steps |= {"changes.append", "changes.update", "changes.keys"}
    assert {pair.figure.case for pair in found} == scans | steps
    assert all(pair.yardstick is not None for pair in found)
    check_figures(found)


def test_a_small_run_with_cliffs_measures_every_cliff(tmp_path: Path) -> None:
    run_small(tmp_path / "cliffs.json", "--cliffs")
    found = pairs(read_records(tmp_path / "cliffs.json"))
    whats: dict[str, set[str]] = {}
    for pair in found:
        _, part, _, what = pair.figure.case.split(".")
        whats.setdefault(part, set()).add(what)
    scans = {*QUESTIONS, "one"}
    assert whats == {
        "partitions": {*scans, *(f"deleted-{what}" for what in scans)},
        "merge": {"merge"},
        "deltas": {*QUESTIONS, "delete", "deleted-all"},
        "columns": {"create", *QUESTIONS, "update", "updated-all"},
        "texts": {"create", *QUESTIONS, "update", "updated-all"},
        "aborted": {*QUESTIONS, *(f"base-{what}" for what in QUESTIONS)},
        "planning": {"partitions", "files", "deltas"},
        "past": {*QUESTIONS},
    }
    alone = {p.figure.case for p in found if p.yardstick is None}
    assert alone == {p.figure.case for p in found if p.figure.case.startswith(WITHOUT_YARDSTICK)}
    check_figures(found)


def test_a_small_run_with_compactions_measures_everything_that_is_asked(tmp_path: Path) -> None:
    run_small(tmp_path / "compaction.json", "--compaction")
    found = read_findings(tmp_path / "compaction.json")
    asked = {part: [f.limit for f in found if f.part == part and f.limit] for part in PARTS}
    assert asked == {
        "minor": [0.2, 2],
        "major": [0.125, 0.06],
        "peers": [],  # only with `--peers`
        "partitions": [0.1],
        "tables": [0.1],
        "planning": [20, 1024],
        "readers": [1.2, 1.2],
        "hours": [1.1],
        "large": [0.2, 0.2, 1.2],
    }
    assert sum(f.limit == 0 for f in found if f.part == "hours") == 3
    assert all(f.runs for f in found)


def check_figures(found: Sequence[Pair]) -> None:
    assert {pair.figure.system for pair in found} == {OURS}
    assert all(pair.figure.cpu_seconds > 0 for pair in found)
    assert all(pair.figure.driver_peak_bytes > 0 for pair in found)
    assert any(pair.figure.worker_peak_bytes > 0 for pair in found)
