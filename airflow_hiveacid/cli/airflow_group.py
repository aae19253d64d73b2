"""The commands as `airflow hiveacid ...`; an Airflow connection selects the metastore.

Every `airflow` command imports this module, so it imports only the definition of our commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.cli.arguments import CONNECTION, METASTORE_NAMES
from airflow_hiveacid.cli.definition import COMMANDS, SUMMARY, Command

if TYPE_CHECKING:
    from airflow.cli.cli_config import GroupCommand

_DEFAULT_CONNECTION: Final = "hive_acid_default"


def get_commands() -> Sequence[GroupCommand]:
    """Return the group `hiveacid`, for the key `cli` of the provider's metadata."""
    # Airflow has already loaded this module. Spark's environment has no Airflow.
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand  # noqa: PLC0415

    actions = [
        ActionCommand(
            name=command.name,
            help=command.help,
            description=command.description or None,
            epilog=command.examples("airflow hiveacid"),
            func=_running(command),
            args=[
                Arg(option.names, **option.settings)  # type: ignore[no-untyped-call]
                for option in (
                    *command.arguments,
                    *((CONNECTION,) if command.calls_metastore else ()),
                )
            ],
        )
        for command in COMMANDS
    ]
    return [
        GroupCommand(
            name="hiveacid",
            help="Inspect and maintain Hive ACID tables",
            description=SUMMARY,
            subcommands=actions,
        )
    ]


def _running(command: Command) -> Callable[[argparse.Namespace], None]:
    def run_command(options: argparse.Namespace) -> None:
        from airflow.utils.cli import action_cli  # noqa: PLC0415 - only a command that runs needs it
        from airflow.utils.providers_configuration_loader import (  # noqa: PLC0415 - as above
            providers_configuration_loaded,
        )

        def run_and_exit(options: argparse.Namespace) -> None:
            from airflow_hiveacid.cli.program import run  # noqa: PLC0415 - as above

            raise SystemExit(run(command, _with_connection(command, options)))

        # Airflow's audit log shows the function's name.
        run_and_exit.__name__ = f"hiveacid_{command.name}"
        noted = action_cli(providers_configuration_loaded(run_and_exit))  # type: ignore[no-untyped-call]
        noted(options)

    return run_command


def _with_connection(command: Command, options: argparse.Namespace) -> argparse.Namespace:
    """Set the default connection, except for `--location`; the program's own options are None."""
    for name in METASTORE_NAMES if command.calls_metastore else ():
        setattr(options, name, None)
    if command.calls_metastore and getattr(options, "location", None) is None:
        options.conn_id = options.conn_id or _DEFAULT_CONNECTION
    return options
