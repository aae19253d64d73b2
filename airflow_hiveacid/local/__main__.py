"""The commands `up`, `down` and `status` for a real metastore on this machine.

    python -m airflow_hiveacid.local up --version 4.0.1 --port 9083
    python -m airflow_hiveacid.local status
    python -m airflow_hiveacid.local down

Progress is written to standard error. When the server answers, `up` prints the metastore's URI to
standard output and exits with 0. `status` exits with 0 if the server answers, otherwise with 3,
like `systemctl`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import LocalServerError
from airflow_hiveacid.local.releases import HIVE_4, RELEASES
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import has_postgres, postgres_below, start_on_postgres

_NOT_RUNNING: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(argv)
    try:
        status: int = options.run(options)
    except LocalServerError as error:
        _say(f"error: {error}")
        return 1
    return status


def _up(options: argparse.Namespace) -> int:
    config = _config(options)
    # Without the option for the database, a data directory keeps its original database.
    if options.database == "postgresql" or has_postgres(config):
        metastore, _ = start_on_postgres(config, _say)
    else:
        metastore = LocalMetastore(config, progress=_say)
        metastore.start()
    _say(f"warehouse {metastore.warehouse}")
    _say(f"log       {metastore.log_file}")
    sys.stdout.write(f"{metastore.uri}\n")
    return 0


def _down(options: argparse.Namespace) -> int:
    config = _config(options)
    metastore = LocalMetastore(config, progress=_say)
    if not metastore.is_running():
        _say(f"no {metastore.label} runs in {metastore.config.data_dir}")
    metastore.stop()
    if has_postgres(config):
        postgres_below(config, _say).stop()
    return 0


def _status(options: argparse.Namespace) -> int:
    metastore = LocalMetastore(_config(options), progress=_say)
    pid = metastore.pid
    if pid is None:
        sys.stdout.write(f"{metastore.label} in {metastore.config.data_dir}: not running\n")
        return _NOT_RUNNING
    state = "answers" if metastore.is_answering() else "does not answer"
    sys.stdout.write(f"{metastore.label} at {metastore.uri}: {state} (process {pid})\n")
    return 0 if state == "answers" else _NOT_RUNNING


def _config(options: argparse.Namespace) -> LocalMetastoreConfig:
    folder = options.dir or Path("build") / "local" / options.version
    return LocalMetastoreConfig(
        version=options.version,
        data_dir=folder.resolve(),
        port=getattr(options, "port", 0),
        txn_timeout_s=getattr(options, "txn_timeout", 300.0),
        extra_settings=dict(getattr(options, "set", ())),
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m airflow_hiveacid.local",
        description="A real Hive metastore on this machine.",
    )
    commands = parser.add_subparsers(required=True, metavar="up | down | status")
    up = commands.add_parser("up", help="start the server, or use the one that already runs")
    up.add_argument("--port", type=int, default=0, help="0 takes a free port (default)")
    up.add_argument(
        "--txn-timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="seconds until the transactions of dead clients are aborted (300)",
    )
    up.add_argument(
        "--database",
        choices=("derby", "postgresql"),
        default="derby",
        help="postgresql starts a private server from Debian's package",
    )
    up.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of the server; may be given several times",
    )
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop the server in this directory")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="print the address and whether the server answers")
    status.set_defaults(run=_status)
    versions = [release.version for release in RELEASES]
    for command in (up, down, status):
        command.add_argument(
            "--version",
            choices=versions,
            default=HIVE_4.version,
            help=f"of Hive ({HIVE_4.version})",
        )
        command.add_argument("--dir", type=Path, help="data directory (build/local/VERSION)")
    return parser


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
