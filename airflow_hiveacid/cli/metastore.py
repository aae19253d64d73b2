"""Options for the metastore, which have the same names and checks as the connection's fields.

Input is parsed options. Output is an endpoint. An option never contains a secret, only its
location, because other users can list the arguments of processes.

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
    "transport": (("plain", "tls", "http", "https"), "how messages are sent (plain)"),
    "authentication": (
        ("none", "kerberos", "token", "password", "bearer", "header"),
        "how the client logs in (none)",
    ),
    "protection": (
        ("authentication", "integrity", "privacy"),
        "the minimum protection, with kerberos or token (integrity for a token without TLS)",
    ),
}
NAMES: Final = ("metastore", "user", "secret_in_clear", *_CHOICES, *_TEXTS)
"""The attribute names of these options in the parsed result; a missing option is None."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the metastore's options to a command."""
    group = command.add_argument_group(
        "metastore", "how to reach it; options are named like the connection's fields"
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
        group.add_argument(option_name(name), choices=choices, help=text)
    group.add_argument("--user", help="the user name, for a login with a password or a header")
    for name, (form, text) in _TEXTS.items():
        group.add_argument(option_name(name), metavar=form, help=text)
    group.add_argument(
        "--secret-in-clear",
        action="store_const",
        const=True,
        help="send the password or JWT without TLS: only on trusted networks",
    )


def endpoint_of(options: argparse.Namespace) -> MetastoreEndpoint:
    """Return the metastore from the options, else from the environment, else on this machine.

    Raises:
        ConfigurationError: options are invalid or mutually exclusive.
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
    """Return the metastore's servers, separated by commas.

    Raises:
        ConfigurationError: the list of servers is empty.
    """
    text = given or os.environ.get(METASTORE_VARIABLE) or DEFAULT_METASTORE
    if not text.replace(",", " ").split():
        raise ConfigurationError(f"{text!r} contains no metastore address; give thrift://host:port")
    return text


def option_name(name: str) -> str:
    """Return the option with this attribute's name: `readable_for` is `--readable-for`."""
    return f"--{name.replace('_', '-')}"
