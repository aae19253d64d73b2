"""The entry point of `python -m airflow_hiveacid`; it runs the commands in `cli`."""

from __future__ import annotations

import sys

from airflow_hiveacid.cli.program import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m airflow_hiveacid"))
