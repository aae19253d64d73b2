"""A metastore on this machine with its own PostgreSQL database.

Derby's files show whether the metastore's schema is complete, but a PostgreSQL database does not.
So a database without a complete schema is dropped and created again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.postgres import LocalPostgres
from airflow_hiveacid.local.process import Progress, ServerConfig, log_progress
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig

_DATABASE: Final = "metastore"
_FOLDER: Final = "postgres"


def postgres_below(
    config: LocalMetastoreConfig, progress: Progress = log_progress
) -> LocalPostgres:
    """Return the PostgreSQL server inside the metastore's data directory."""
    return LocalPostgres(
        ServerConfig(data_dir=_folder(config), ends_with_parent=config.ends_with_parent),
        progress=progress,
    )


def has_postgres(config: LocalMetastoreConfig) -> bool:
    """Return True if the data directory contains a PostgreSQL server."""
    return _folder(config).is_dir()


def start_on_postgres(
    config: LocalMetastoreConfig, progress: Progress = log_progress
) -> tuple[LocalMetastore, LocalPostgres]:
    """Start PostgreSQL, then a metastore that uses it; `config.database` is replaced.

    Raises:
        LocalServerError: See `LocalPostgres.start` and `LocalMetastore.start`.
    """
    postgres = postgres_below(config, progress)
    postgres.start()
    try:
        metastore = LocalMetastore(
            replace(config, database=postgres.database(_DATABASE)), progress=progress
        )
        if not metastore.is_running():
            _prepare_database(postgres, metastore)
        metastore.start()
    except BaseException:
        postgres.stop()
        raise
    return metastore, postgres


@contextmanager
def metastore_on_postgres(
    config: LocalMetastoreConfig, progress: Progress = log_progress
) -> Iterator[LocalMetastore]:
    """Run both servers during the `with` block, then remove PostgreSQL's files."""
    metastore, postgres = start_on_postgres(config, progress)
    try:
        yield metastore
    finally:
        metastore.stop()
        postgres.destroy()


def _prepare_database(postgres: LocalPostgres, metastore: LocalMetastore) -> None:
    if metastore.is_schema_ready and postgres.has_database(_DATABASE):
        return
    metastore.discard_schema_marker()
    postgres.create_database(_DATABASE, fresh=True)


def _folder(config: LocalMetastoreConfig) -> Path:
    return config.data_dir / _FOLDER
