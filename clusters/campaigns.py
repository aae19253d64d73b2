"""A short campaign of kills as a combination."""

from __future__ import annotations

import subprocess
import sys


def campaign(*asked: str) -> str:
    """Run one at a metastore 4.0.1; what it says at its end.

    Raises:
        AssertionError: something was lost, doubled, half seen or left, or too few were killed.
    """
    command = [sys.executable, "-m", "campaign", *asked, "--versions", "4.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0:
        raise AssertionError(" / ".join(lines[-5:]) or done.stderr[-500:])
    return f"{lines[-2].partition('  ')[2]}: {lines[-1].partition('  ')[2]}"
