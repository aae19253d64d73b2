"""The settings of an Airflow connection, for commands and programs that are no tasks."""

from __future__ import annotations

import os

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.connection import MetastoreSettings


def settings_of(conn_id: str, *, remedy: str) -> MetastoreSettings:
    """Return the settings of an Airflow connection, for a process that is no task.

    `remedy` says what to do without Airflow.

    Raises:
        ConfigurationError: Airflow is not installed, or the connection is missing or invalid.
    """
    # Outside of tasks, Airflow needs this setting to look up connections in its database.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        from airflow_hiveacid.hooks.hive_acid import HiveAcidHook  # noqa: PLC0415 - needs Airflow
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "airflow":
            raise
        raise ConfigurationError(
            f"connection {conn_id!r} needs Airflow, which this Python does not have; {remedy}"
        ) from error
    return HiveAcidHook(conn_id).settings
