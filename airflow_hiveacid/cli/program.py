"""The program `hiveacid`; it runs a command and prints the command's output and errors.

    hiveacid explain demo.orders
    hiveacid scan demo.orders --limit 5
    hiveacid scan --location DIR --write-ids 'db.t:5:9223372036854775807::' \
        --schema 'struct<id:bigint,name:string>' -o json
    hiveacid restore demo.orders --version 1234 --dry-run

`definition` describes the commands, which `airflow hiveacid` has, too. Output is tables for people
or records for programs. An error is printed to standard error as one paragraph that begins with the
error's type.

Example:
    >>> str(parser().parse_args(["inspect", "db.t"]).table)
    'db.t'
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from textwrap import fill
from typing import Final, NoReturn, TextIO

from airflow_hiveacid import __version__
from airflow_hiveacid.cli.arguments import CONNECTION, METASTORE, Argument, option_name
from airflow_hiveacid.cli.definition import COMMANDS, SUMMARY, Command
from airflow_hiveacid.cli.exit_codes import ExitCode, did_you_mean, exit_code, suggestion
from airflow_hiveacid.format.errors import ConfigurationError, HiveAcidError
from airflow_hiveacid.format.words import printable

_WIDTH: Final = 79
_UNEXPECTED: Final = 1
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
_HELP_CONNECTION: Final = "also list the options that select the metastore and log in"
_PACKAGES: Final = {"google": "protobuf", "hdfs_native": "hdfs-native"}
"""The packages on PyPI whose modules have a different name."""


class _LogFormatter(logging.Formatter):
    """Lines of a log in which names from other clients cannot control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        record.msg, record.args = printable(record.getMessage()), None
        return printable(super().format(record), keep="\n\t")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the list of all arguments."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = [] if action.choices is None else [str(choice) for choice in action.choices]
        close = "" if value in choices else did_you_mean(str(value), choices)
        if close:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{close}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"error: {message}; `{self.prog} --help` lists the arguments\n")


def main(argv: Sequence[str] | None = None, *, prog: str = "hiveacid") -> int:
    """Run one command and return the exit status."""
    words = sys.argv[1:] if argv is None else argv
    options = parser(prog, lists_connection="--help-connection" in words).parse_args(words)
    return run(options.command, options)


def parser(prog: str = "hiveacid", *, lists_connection: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; the attribute `command` of its result is set.

    With `lists_connection`, the help of a command lists the options of the metastore, too.
    """
    top = _Parser(prog=prog, description=SUMMARY, usage=f"{prog} COMMAND [arguments]")
    top.add_argument("--version", action="version", version=f"hiveacid {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND", prog=prog)
    for command in COMMANDS:
        positional = [_shown(a) for a in command.arguments if not a.names[0].startswith("-")]
        subparser = commands.add_parser(
            command.name,
            help=command.help,
            description=fill(
                command.description or f"{command.help[0].upper()}{command.help[1:]}.", _WIDTH
            ),
            usage=" ".join((prog, command.name, *positional, "[options]")),
            epilog=command.examples(prog),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add(subparser, command.arguments)
        if command.calls_metastore:
            settings = {} if lists_connection else {"help": argparse.SUPPRESS}
            subparser.add_argument("--help-connection", action="help", help=_HELP_CONNECTION)
            group = subparser.add_argument_group("metastore, as in an Airflow connection")
            _add(group, (CONNECTION, *METASTORE), **settings)
        subparser.set_defaults(command=command)
    return top


def _add(to: argparse._ActionsContainer, arguments: Iterable[Argument], **settings: str) -> None:
    for argument in arguments:
        to.add_argument(*argument.names, **{**argument.settings, **settings})


def _shown(positional: Argument) -> str:
    name = positional.settings["metavar"]
    match positional.settings.get("nargs"):
        case "?":
            return f"[{name}]"
        case "+":
            return f"{name} [{name} ...]"
        case _:
            return str(name)


def run(command: Command, options: argparse.Namespace) -> int:
    """Print a command's output while the command produces it; return the exit status."""
    out = sys.stdout
    # Thrift's own log would repeat the error message that we print.
    logging.getLogger("thrift").addHandler(logging.NullHandler())
    if logging.lastResort is not None:  # without Airflow, it prints warnings to standard error
        logging.lastResort.setFormatter(_LogFormatter())
    try:
        # Airflow's loggers would write lines between our records.
        with redirect_stdout(sys.stderr):
            _check_output(out)
            _check_choices(command, options)
            for text in command.load()(options):
                out.write(text)
                out.flush()
    except HiveAcidError as error:
        close = suggestion(error, options) if command.calls_metastore else ""
        return _fail(f"{type(error).__name__}: {error}{close}", exit_code(error))
    except ModuleNotFoundError as error:
        return _fail(_about_missing(error.name or str(error)), ExitCode.USAGE)
    except BrokenPipeError:
        # The process that reads our output has closed the pipe. Redirect standard output, because
        # Python flushes it once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the edge of the process: show users no traceback
        return _fail(f"unexpected {type(error).__name__}: {error}", _UNEXPECTED)
    return int(getattr(options, "status", 0))


def _check_output(out: TextIO | None) -> None:
    """Raise an error if standard output is closed, before a command starts work."""
    if out is None or out.closed:
        raise ConfigurationError("standard output is closed, so nothing was done")
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # if the terminal lacks a character


def _check_choices(command: Command, options: argparse.Namespace) -> None:
    """Check mutually exclusive arguments, because Airflow's arguments cannot declare them."""
    for names, needed in ((command.at_most_one, False), (command.exactly_one, True)):
        options_given = [option_name(name) for name in names if getattr(options, name) is not None]
        if len(options_given) > 1:
            raise ConfigurationError(f"{options_given[1]} cannot be used with {options_given[0]}")
        if needed and names and not options_given:
            raise ConfigurationError(f"give one of {', '.join(map(option_name, names))}")


def _about_missing(module: str) -> str:
    """Return a message for a missing module. With pyenv or conda, the wrong Python may have run."""
    package = _PACKAGES.get(module.partition(".")[0], module.partition(".")[0])
    return (
        f"{sys.executable} runs this command, but lacks the Python package {package} (no module"
        f" {module}). Use the Python of the environment that you made for this provider, or run"
        f" `{sys.executable} -m pip install {package}`"
    )


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"error: {printable(message)}\n")
    return status
