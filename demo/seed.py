"""A command that prepares the flights DAGs: it writes the batches and creates the table.

    python -m demo.seed --metastore thrift://metastore:9083 --changes /warehouse/changes --days 31

docker-compose.yml runs this command, and an Airflow that runs the DAGs. `python -m demo run` does
not need it. Safe to repeat.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.errors import HiveAcidError
from demo.changes import cut, read_flights
from demo.flights_table import FLIGHTS, ensure_table

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Write the batches, create the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo.seed", description="Batches and table.")
    parser.add_argument("--metastore", required=True, metavar="URI")
    parser.add_argument("--changes", required=True, type=Path, metavar="DIR")
    parser.add_argument("--days", type=int, default=31)
    options = parser.parse_args(argv)
    try:
        batches = cut(read_flights(), options.changes, days=options.days)
        is_new = ensure_table(options.metastore)
    except (HiveAcidError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"{len(batches)} batches in {options.changes}; {FLIGHTS} {'is new' if is_new else 'exists'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
