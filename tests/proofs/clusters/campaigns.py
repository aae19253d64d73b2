"""A short campaign of kills as a combination."""

from __future__ import annotations

import subprocess
import sys


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
