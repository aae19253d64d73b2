"""Knows only that `python -m airflow_hiveacid` is the command line of `cli`."""

from __future__ import annotations

import sys

from airflow_hiveacid.cli import main

if __name__ == "__main__":
    sys.exit(main())
