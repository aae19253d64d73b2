"""The steps of a try: commands with an end, and the last words of what they printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping

from tests.support.documents import ROOT


class StepError(Exception):
    """A step failed; the text is the last line that it printed."""


def run(*command: str, given: str = "", variables: Mapping[str, str] | None = None) -> str:
    """Return what a command printed.

    Raises:
        StepError: it failed.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
    environment.pop("VIRTUAL_ENV", None)
    environment |= variables or {}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        last = last_line(done.stderr) or last_line(done.stdout)
        raise StepError(counts(last_line(done.stdout)) or last)
    return done.stdout


def last_line(text: str) -> str:
    """Return the last line of a text that is not blank."""
    return text.strip().rpartition("\n")[2]


def counts(line: str) -> str:
    """Return the counts in pytest's last line.

    Example:
        >>> counts("5 passed, 2 skipped in 1.20s (0:00:01)")
        '5 passed, 2 skipped'
    """
    return ", ".join(re.findall(r"\d+ (?:passed|failed|skipped|errors?)", line))
