"""A test run that hangs ends, and shows where it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tools.run_deadline import END_AT, STATUS

_ROOT = Path(__file__).resolve().parents[3]
_HANGS_AFTER_ITS_LAST_TEST = """
import threading

def wait_for_nothing():
    threading.Event().wait()

def test_a():
    threading.Thread(target=wait_for_nothing).start()
"""


def _run(folder: Path, test: str, *, lasts_s: float) -> subprocess.CompletedProcess[str]:
    file = folder / "test_a.py"
    file.write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tools.run_deadline", "--rootdir", folder, file],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT), END_AT: str(time.time() + lasts_s)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_that_waits_for_a_thread_ends_and_names_the_function(tmp_path: Path) -> None:
    for lasts_s in (3, 10, 30, 90):  # a busy machine needs longer to reach the test
        ended = _run(tmp_path, _HANGS_AFTER_ITS_LAST_TEST, lasts_s=lasts_s)
        if "wait_for_nothing" in ended.stderr:
            break
    assert ended.returncode == STATUS
    assert "The tests took too long" in ended.stderr
    assert "in wait_for_nothing" in ended.stderr


def test_a_run_that_ends_in_time_is_unchanged(tmp_path: Path) -> None:
    ended = _run(tmp_path, "def test_a(): pass\n", lasts_s=3600)
    assert ended.returncode == 0
    assert ended.stderr == ""
