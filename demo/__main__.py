"""The commands `run`, `shell`, `stop` and `status` of the demonstration.

    python -m demo run [--days 14]
    python -m demo shell
    python -m demo status
    python -m demo stop

`run` exits with 0 if the table has the expected rows. It leaves Airflow and the metastore running,
so you can explore them. `shell` opens a shell for Airflow and the metastore, and `stop` stops both.
Ctrl-C stops everything and exits with 130. `status` exits with 0 if everything runs and 3
otherwise, like `systemctl`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.local.process import LocalServerError
from demo.errors import DemoError
from demo.layout import DemoLayout
from demo.pipeline import Pipeline, Plan
from demo.report import Report, console
from demo.servers import Servers
from demo.shell import open_shell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_FAILED: Final = 1
_NOT_RUNNING: Final = 3
_INTERRUPTED: Final = 130
_DAYS: Final = 14
_MAX_DAYS: Final = 365
_MIN_DAYS: Final = 5
"""With fewer days there would be fewer than ten deltas, the compaction's threshold."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(argv)
    report = Report(console())
    servers = Servers(DemoLayout.of(), say=report.tell)
    match options.command:
        case "run":
            return _run(
                Plan(days=options.days, compaction_cron=options.compaction_cron), servers, report
            )
        case "shell":
            return _shell(servers, report)
        case "stop":
            return _stop(servers, report)
        case _:
            return _status(servers, report)


def _run(plan: Plan, servers: Servers, report: Report) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with servers.alone():
            Pipeline(plan, servers, report).run()
    except KeyboardInterrupt:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # a second Ctrl-C must not leave anything behind
        report.say("interrupted")
        _stop(servers, report)
        return _INTERRUPTED
    except (DemoError, LocalServerError, HiveAcidError) as error:
        report.tell(f"FAILED: {error}")
        if servers.airflow.url is not None:
            report.tell(f"Airflow still runs; to see what happened, open {servers.airflow.url}")
        report.tell("stop        make demo-stop")
        return _FAILED
    return 0


def _shell(servers: Servers, report: Report) -> int:
    if not servers.are_running:
        report.tell("nothing is running; `make demo` starts the servers")
        return _NOT_RUNNING
    try:
        return open_shell(servers, report)
    except (DemoError, HiveAcidError) as error:
        report.tell(f"FAILED: {error}")
        return _FAILED


def _stop(servers: Servers, report: Report) -> int:
    with report.step("stopping Airflow and the metastore"):
        count = servers.stop()
    report.say(f"{count} processes ended" if count else "nothing was running")
    return 0


def _status(servers: Servers, report: Report) -> int:
    states = servers.states()
    for line in states.values():
        report.tell(line)
    return 0 if servers.are_running else _NOT_RUNNING


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo", description="The demonstration.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="run | shell | stop | status"
    )
    run = commands.add_parser("run", help="merge, compact, compare; a second run changes nothing")
    run.add_argument("--days", type=_days, default=_DAYS, help="days to merge (default: 14)")
    run.add_argument(
        "--compaction-cron",
        default="*/2 * * * *",
        metavar="CRON",
        help="schedule of the compaction DAG (default: every two minutes)",
    )
    commands.add_parser("shell", help="open a shell with airflow, pyspark and the table")
    commands.add_parser("stop", help="end every process of the demonstration")
    commands.add_parser("status", help="print which servers run, and where")
    return parser


def _days(text: str) -> int:
    days = int(text)
    if not _MIN_DAYS <= days <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(
            f"{_MIN_DAYS} to {_MAX_DAYS}: fewer days leave too few deltas for a compaction"
        )
    return days


if __name__ == "__main__":
    sys.exit(main())
