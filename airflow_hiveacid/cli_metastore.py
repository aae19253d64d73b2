"""How the command line reaches a metastore: options named and checked like a connection's fields.

Takes parsed options, gives an endpoint. A secret is never an option, only where it lies: whoever
lists processes sees their arguments.

Example:
    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add_options(parser)
    >>> given = "--metastore hms-1 --authentication kerberos --kerberos-service hive/_HOST@EXAMPLE"
    >>> endpoint_of(parser.parse_args(given.split())).login.service
    'hive/_HOST@EXAMPLE'
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

METASTORE_VARIABLE: Final = "HIVE_METASTORE_URIS"
DEFAULT_METASTORE: Final = "thrift://localhost:9083"
_TEXTS: Final = {
    "secret_from": ("file:/PATH or env:NAME", "where password, JWT or delegation token lies"),
    "kerberos_service": ("PRINCIPAL", "the metastore's, as hive/_HOST@REALM"),
    "kerberos_client": ("PRINCIPAL", "whose key the keytab holds"),
    "kerberos_keytab": ("FILE", "with that key; without it the tickets that are there"),
    "kerberos_cache": ("CACHE", "of tickets, as FILE:/path; default: the process's own"),
    "ca_certificate": ("FILE", "with TLS: who vouches for the metastore (PEM)"),
    "client_certificate": ("FILE", "with TLS: who we are, if it asks (PEM)"),
    "client_key": ("FILE", "of that certificate (PEM)"),
}
_CHOICES: Final = {
    "transport": (("plain", "tls", "http", "https"), "what carries the bytes (plain)"),
    "authentication": (
        ("none", "kerberos", "token", "password", "bearer", "header"),
        "how one logs in (none)",
    ),
    "protection": (
        ("authentication", "integrity", "privacy"),
        "the least that will do after kerberos or token (authentication)",
    ),
}
NAMES: Final = ("metastore", "user", "secret_in_clear", *_CHOICES, *_TEXTS)
"""Of the options, as attributes of what was parsed; None where one was not given."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    group = command.add_argument_group(
        "metastore", "how it is reached; the names are those of a connection's fields"
    )
    group.add_argument(
        "--metastore",
        metavar="URI",
        help=(
            "thrift://host:port, over HTTP http(s)://host:port/path; several separated by commas"
            f" (default: ${METASTORE_VARIABLE}, else {DEFAULT_METASTORE})"
        ),
    )
    for name, (choices, text) in _CHOICES.items():
        group.add_argument(_option(name), choices=choices, help=text)
    group.add_argument("--user", help="who logs in with a password or a header")
    for name, (form, text) in _TEXTS.items():
        group.add_argument(_option(name), metavar=form, help=text)
    group.add_argument(
        "--secret-in-clear",
        action="store_const",
        const=True,
        help="send password or JWT without TLS: on trusted networks only",
    )


def endpoint_of(options: argparse.Namespace) -> MetastoreEndpoint:
    """The metastore that the options name, else the environment's, else the one of this machine.

    Raises:
        ConfigurationError: options are wrong or do not go together.
    """
    from airflow_hiveacid.hooks.connection import (  # noqa: PLC0415 - needs Thrift
        ConnectionFields,
        parse_settings,
    )

    given = {name: getattr(options, name) for name in NAMES}
    fields = ConnectionFields(
        conn_id="command line",
        host=metastore_text(given.pop("metastore")),
        login=given.pop("user"),
        extra={name: value for name, value in given.items() if value is not None},
    )
    return parse_settings(fields).endpoint


def metastore_text(given: str | None) -> str:
    """The servers to ask, separated by commas.

    Raises:
        ConfigurationError: there are none in it.
    """
    text = given or os.environ.get(METASTORE_VARIABLE) or DEFAULT_METASTORE
    if not text.replace(",", " ").split():
        raise ConfigurationError(f"{text!r} names no metastore; give thrift://host:port")
    return text


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
