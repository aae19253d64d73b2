"""Arguments of commands as values; argparse's and Airflow's arguments are made from them.

Every `airflow` command imports this module, so it imports only the standard library; a parser of
values imports its function late. An invalid value is an error before a server is called.

Example:
    >>> one = argument("--limit", type=at_least(0), metavar="N")
    >>> one.names, one.settings["type"]("5")
    (('--limit',), 5)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.provider_info import get_provider_info

METASTORE_VARIABLE: Final = "HIVE_METASTORE_URIS"
DEFAULT_METASTORE: Final = "thrift://localhost:9083"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument's names, and its keyword arguments for argparse's `add_argument`."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


def argument(*names: str, **settings: Any) -> Argument:  # noqa: ANN401 - as in argparse
    """Return an argument."""
    return Argument(names, settings)


def option_name(name: str) -> str:
    """Return the option with this attribute's name: `readable_for` is `--readable-for`."""
    return f"--{name.replace('_', '-')}"


# ---- parsers of values ---------------------------------------------------------------------------


def named(path: str) -> Any:  # noqa: ANN401 - any function
    """Import and return an object, such as `airflow_hiveacid.format.table:TableRef.parse`."""
    from pkgutil import resolve_name  # noqa: PLC0415 - only a command that runs needs it

    return resolve_name(path)


def by(path: str, prefix: str = "", **settings: str) -> Callable[[str], object]:
    """Return a parser that calls the function at `path`, with `prefix` before the value."""

    def parse(text: str) -> object:
        from airflow_hiveacid.format.errors import HiveAcidError  # noqa: PLC0415 - as above

        try:
            return named(path)(f"{prefix}{text}", **settings)
        except HiveAcidError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def at_least(lowest: int) -> Callable[[str], int]:
    """Return a parser of integers that are not below `lowest`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < lowest:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of {lowest} or more")
        return int(text)

    return parse


def read_by(reader: str, argument: str = "value") -> Callable[[str], object]:
    """Return a parser that calls a reader of operators' arguments, of `plan.arguments`.

    Errors call the value `argument`.
    """
    return by("airflow_hiveacid.plan.arguments:" + reader, argument=argument)


# ---- arguments of several commands ---------------------------------------------------------------

_TABLE_PARSER: Final = by("airflow_hiveacid.format.table:TableRef.parse")
TABLE: Final = argument("table", metavar="TABLE", type=_TABLE_PARSER, help="such as demo.orders")
MAYBE_TABLE: Final = argument(
    "table", metavar="TABLE", nargs="?", type=_TABLE_PARSER, help="such as demo.orders"
)
_PATTERN_PARSER: Final = by("airflow_hiveacid.cli.values:table_or_pattern")
TABLES: Final = argument(
    "table",
    metavar="TABLES",
    type=_PATTERN_PARSER,
    help="a table such as demo.orders, or all tables of a pattern such as 'demo.*' or '*'",
)
MAYBE_TABLES: Final = argument(
    "table",
    metavar="TABLES",
    nargs="?",
    type=_PATTERN_PARSER,
    default="*",
    help="a table such as demo.orders, or a pattern such as 'demo.*' (default: all tables)",
)
PARTITION: Final = argument(
    "--partition",
    metavar="NAME",
    type=by("airflow_hiveacid.format.table:PartitionName.parse"),
    help="only this partition, such as month=1/day=2",
)
OUTPUT: Final = argument(
    "-o",
    "--output",
    metavar="FORM",
    choices=("table", "json", "yaml", "csv", "plain"),
    default="table",
    help=(
        "table (default), for people; json, yaml or csv, one record for each row; or plain,"
        " columns without borders or summary"
    ),
)
DRY_RUN: Final = argument("--dry-run", action="store_true", help="report, and change nothing")


def version_arguments(of: str) -> tuple[Argument, ...]:
    """Return the arguments that select a version of a table; `of` begins each help text."""
    parse = "airflow_hiveacid.format.versions:VersionSpec.parse"
    return (
        argument(
            "--version",
            metavar="N",
            type=by(parse, "version "),
            help=f"{of} with this number, as listed by `history`",
        ),
        argument(
            "--timestamp",
            metavar="TIME",
            type=by("airflow_hiveacid.cli.values:version_at"),
            help=f"{of} at this time, such as 2026-11-19T02:00Z, today or '2 days ago'",
        ),
        argument("--tag", metavar="NAME", type=by(parse, "tag "), help=f"{of} with this tag"),
    )


# ---- the metastore -------------------------------------------------------------------------------

CONNECTION: Final = argument(
    "--conn-id", metavar="ID", help="the Airflow connection of the metastore"
)
_TEXTS: Final = {
    "secret_from": ("file:/PATH or env:NAME", "where the password, JWT or delegation token is"),
    "kerberos_service": ("PRINCIPAL", "the metastore's principal, such as hive/_HOST@REALM"),
    "kerberos_client": ("PRINCIPAL", "the principal of the keytab"),
    "kerberos_keytab": ("FILE", "the client's keytab; without it, existing tickets are used"),
    "kerberos_cache": ("CACHE", "a ticket cache, such as FILE:/path; default: that of the process"),
    "ca_certificate": ("FILE", "with TLS: the CA that signed the metastore's certificate (PEM)"),
    "client_certificate": (
        "FILE",
        "with TLS: our certificate, if the metastore requires one (PEM)",
    ),
    "client_key": ("FILE", "the key of that certificate (PEM)"),
}
_CHOICES: Final = {
    "transport": "how messages are sent (plain)",
    "authentication": "how the client logs in (none)",
    "protection": (
        "the minimum protection, with kerberos or token (integrity for a token without TLS)"
    ),
}
_FORM: Final = get_provider_info()["connection-types"][0]["conn-fields"]
METASTORE: Final = (
    argument(
        "--metastore",
        metavar="URI",
        help=(
            "thrift://host:port, over HTTP http(s)://host:port/path; several separated by commas"
            f" (default: ${METASTORE_VARIABLE}, else {DEFAULT_METASTORE})"
        ),
    ),
    *(
        argument(
            option_name(name),
            choices=[choice for choice in _FORM[name]["schema"]["enum"] if choice != "default"],
            help=text,
        )
        for name, text in _CHOICES.items()
    ),
    argument("--user", help="the user name, for a login with a password or a header"),
    *(
        argument(option_name(name), metavar=form, help=text)
        for name, (form, text) in _TEXTS.items()
    ),
    argument(
        "--secret-in-clear",
        action="store_true",
        default=None,
        help="send the password or JWT without TLS: only on trusted networks",
    ),
)
"""The metastore's arguments outside of Airflow, with the names of the connection's fields."""

METASTORE_NAMES: Final = ("metastore", "user", "secret_in_clear", *_CHOICES, *_TEXTS)
