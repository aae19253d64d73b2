"""The metastore that a command calls, from an Airflow connection or from the command's options.

No option contains a secret, because other users can list the arguments of a process; it contains
the secret's location.

Example:
    >>> from argparse import Namespace
    >>> from airflow_hiveacid.cli.arguments import METASTORE_NAMES
    >>> options = dict.fromkeys(METASTORE_NAMES) | {"metastore": "hms-1", "conn_id": None}
    >>> endpoint_of(Namespace(**options)).uris
    ('thrift://hms-1:9083',)
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from airflow_hiveacid.cli import arguments
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.connection import ConnectionFields, MetastoreSettings, parse_settings
from airflow_hiveacid.hooks.settings import settings_of as settings_of_connection
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.client import MetastoreClient


def connected(options: argparse.Namespace) -> MetastoreClient:
    """Return a metastore client; it connects when its first method is called."""
    from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - needs Thrift

    return connect(endpoint_of(options))


def endpoint_of(options: argparse.Namespace) -> MetastoreEndpoint:
    """Return the metastore's addresses and login."""
    return settings_of(options).endpoint


def settings_of(options: argparse.Namespace) -> MetastoreSettings:
    """Return the settings of the connection or, without a connection, those of the other options.

    Without options, use the addresses in the environment variable, or a metastore on this machine.
    """
    values = {name: getattr(options, name) for name in arguments.METASTORE_NAMES}
    values = {name: value for name, value in values.items() if value is not None}
    if options.conn_id is not None:
        if values:
            raise ConfigurationError(
                f"--conn-id cannot be used with {arguments.option_name(min(values))}"
            )
        return settings_of_connection(
            options.conn_id, remedy="give --metastore instead of --conn-id"
        )
    variable = os.environ.get(arguments.METASTORE_VARIABLE)
    uris = values.pop("metastore", None) or variable or arguments.DEFAULT_METASTORE
    if not uris.replace(",", " ").split():
        raise ConfigurationError(f"{uris!r} contains no metastore address; give thrift://host:port")
    return parse_settings(
        ConnectionFields(
            conn_id="command line", host=uris, login=values.pop("user", None), extra=values
        )
    )
