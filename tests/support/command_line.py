"""The command line as tests call it: the exit status of a call, and rows of its output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from airflow_hiveacid.cli import program as commands


def status_of(argv: Sequence[str]) -> int:
    """The exit status of the program, also if it ends before a command runs."""
    try:
        return commands.main(argv)
    except SystemExit as ended:
        return int(str(ended.code))


def rows_in(text: str) -> list[list[Any]]:
    """The rows of `scan -o json`, each as a list of values."""
    return [list(row.values()) for row in json.loads(text)]
