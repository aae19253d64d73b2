"""The common parts of proof programs: clock, orderly end, folders and laboratories."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from airflow_hiveacid.metastore.client import connect

if TYPE_CHECKING:
    from tests.support.spark_lab import Lab

Say = Callable[[str], None]


def clocked(write: Say | None = None) -> Say:
    """Return a function that prints a line after the seconds that have passed since this call."""
    began = time.monotonic()

    def say(line: str) -> None:
        text = f"{time.monotonic() - began:7.1f} s  {line}"
        if write is None:
            print(text, flush=True)
        else:
            write(text)

    return say


def end_orderly() -> None:
    """Let SIGTERM end this program by an exception, which removes servers, mounts and folders."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def refuse_unknown(
    parser: argparse.ArgumentParser, what: str, names: Collection[str], known: Collection[str]
) -> None:
    """End with an error if a name is unknown.

    With `choices`, Python 3.11 refuses an empty list.
    """
    if unknown := set(names) - set(known):
        listed = ", ".join(sorted(unknown))
        parser.error(f"no such {what}: {listed}; there are {', '.join(known)}")


@contextmanager
def working_folder(kept: Path | str | None, name: str) -> Iterator[Path]:
    """Yield the folder that is kept, or else a new one with this name, removed at the end."""
    folder = Path(kept or tempfile.mkdtemp(prefix=f"{name}-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def metastore(
    folder: Path, version: str = "4.0.1", *, on_postgres: bool = False
) -> Iterator[LocalMetastore]:
    """Start a metastore below a folder.

    Its database is Derby by default, in which a commit and a query about a lock can lock each other
    out.
    """
    config = LocalMetastoreConfig(
        version=version, data_dir=folder / "metastore", ends_with_parent=True
    )
    with metastore_on_postgres(config) if on_postgres else LocalMetastore(config) as server:
        yield server


@contextmanager
def laboratory(
    server: LocalMetastore, *, heap: str = "1g", location: str | None = None
) -> Iterator[Lab]:
    """Start a Spark session, with a database of its own in the metastore.

    `location` is the parent of the database's folder; None uses the metastore's warehouse.
    """
    # Programs in Airflow's environment, which has no Spark, use this module, too.
    from tests.support.spark_lab import Lab, small_session  # noqa: PLC0415

    endpoint = MetastoreEndpoint(uris=(server.uri,))
    database = f"lab_{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        spark = small_session(heap)
        stack.callback(spark.stop)
        client = stack.enter_context(connect(endpoint))
        client.create_database(database, location and f"{location}/{database}")
        yield Lab(spark=spark, endpoint=endpoint, client=client, db=database)
