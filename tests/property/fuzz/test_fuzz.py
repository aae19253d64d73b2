"""A hundred thousand damaged things: no crash, no hang, no gigabyte, no silent wrong answer.

Each part of a target runs in a process of its own, under a limit of memory and of time. `make test`
runs the first of ten parts, `make long` the others. `FUZZ_FACTOR=20` runs twenty times as many,
`FUZZ_SEED` others. A finding names its seed and number:

    python -m tests.property.fuzz.child SEED TARGET NUMBER 1
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[3]
SEED = os.environ.get("FUZZ_SEED", "20261120")
FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
# A hang, on however slow a machine: a part of a target takes some seconds.
TIMEOUT_S = 300
PARTS = 10


def test_one_run_makes_a_hundred_thousand_mutations() -> None:
    assert sum(count for _, count in TARGETS.values()) == 100_000


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.long_cases(*(f"{part}-*" for part in range(1, PARTS)))
def test_damaged_input_is_refused_or_harmless(name: str, part: int, tmp_path: Path) -> None:
    progress = tmp_path / "number"
    count = TARGETS[name][1] * FACTOR // PARTS
    print(f"seed {SEED}")  # noqa: T201 - shown where it fails
    numbers = (str(part * count), str(count))
    command = [sys.executable, "-m", "tests.property.fuzz.child", SEED, name, *numbers]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FUZZ_PROGRESS": str(progress),
        # Others take addresses by the gigabyte and use few of them, which the limit cannot tell.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
    }
    try:
        child = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S * FACTOR,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"seed {SEED}, {name} {progress.read_text()}: it hangs")
    where = f"seed {SEED}, {name} {progress.read_text()}: {child.stderr[-2000:]}"
    assert child.stdout == "", f"{child.stdout}\n{where}"
    assert child.returncode == 0, f"ended with {child.returncode} at {where}"
