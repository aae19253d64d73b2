"""The command that kills Airflow's components.

    python -m tests.proofs.airflow [PLAY ...] [--keep FOLDER] [--no-report]

It runs plays one after another, prints and writes rows for each, and exits with 1 if one of them
violated a promise. By default, it runs all plays but `warehouse`, which takes long. It needs
Airflow's environment with drivers for PostgreSQL.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from airflow_hiveacid.local.process import LocalServerError
from demo.errors import DemoError
from tests.proofs.airflow import examples, jobs, watches
from tests.proofs.airflow.rows import Row, keep
from tests.proofs.airflow.site import NotSeenError, Site, site
from tests.proofs.airflow.warehouse.play import warehouse
from tests.proofs.programs import clocked, refuse_unknown, working_folder

PLAYS: Final[Mapping[str, Callable[[Site], Iterator[Row]]]] = {
    "slots": jobs.slots,
    "triggerer": jobs.triggerer,
    "worker": jobs.worker,
    "scheduler": jobs.scheduler,
    "api-server": jobs.api_server,
    "dag-processor": jobs.dag_processor,
    "clear": jobs.clear,
    "watch": watches.watch,
    "watches": watches.watches,
    # The last ones, because they start Airflow again with a different Spark.
    "examples": examples.examples,
    "warehouse": warehouse,
}
_BY_DEFAULT: Final = tuple(play for play in PLAYS if play != "warehouse")


def main(argv: Sequence[str] | None = None) -> int:
    """Run plays and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.airflow")
    parser.add_argument("plays", nargs="*", metavar="PLAY", help=", ".join(PLAYS))
    parser.add_argument("--keep", help="folder for servers and logs, which stays")
    parser.add_argument("--no-report", action="store_true", help="leave the page alone")
    asked = parser.parse_args(argv)
    refuse_unknown(parser, "play", asked.plays, PLAYS)
    say, are_good = clocked(), True
    try:
        with working_folder(asked.keep, "hiveacid-airflow") as folder, site(folder, say) as servers:
            servers.launch()
            say(f"Airflow is healthy: {servers.airflow.url}")
            for play in [name for name in PLAYS if name in (asked.plays or _BY_DEFAULT)]:
                rows = []
                for row in _rows(play, servers):
                    say(f"{play}: {row.title}: {row.seen}{_mark(row)}")
                    rows.append(row)
                if not asked.no_report:
                    keep(rows, PLAYS)
                are_good &= not any(row.violation for row in rows)
    except (DemoError, LocalServerError) as error:
        say(f"FAILED: {error}")
        return 1
    say("as promised" if are_good else "FAILED")
    return 0 if are_good else 1


def _rows(play: str, servers: Site) -> Iterator[Row]:
    """Yield the rows of a play, and a violation if something that had to happen was not seen."""
    try:
        yield from PLAYS[play](servers)
    except NotSeenError as error:
        yield Row(play=play, title="the play broke off", seen="-", violation=str(error))


def _mark(row: Row) -> str:
    return f" VIOLATION: {row.violation}" if row.violation else f" ({row.seconds:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
