"""Gives an interactive `pyspark` the demonstration's table: `flights`, and `table("db.name")`.

Python runs this file when it starts in the demonstration's shell; only `pyspark` has a session by
then.
"""

from __future__ import annotations

import atexit
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_open = ExitStack()


def table(name: str) -> DataFrame:
    """A frame of a table as it is now; cleaners keep its files until this PySpark ends."""
    from airflow_hiveacid.cli_metastore import metastore_text  # noqa: PLC0415 - a plain python may lack them
    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint  # noqa: PLC0415 - as above
    from airflow_hiveacid.spark.reading.tables import read_snapshot, read_table  # noqa: PLC0415 - as above

    endpoint = MetastoreEndpoint(uris=(metastore_text(None),))
    key = f"pyspark/{uuid.uuid4()}"
    snapshot = _open.enter_context(read_snapshot(endpoint, [name], job_key=key))
    return read_table(globals()["spark"], name, snapshot)


if "spark" in globals():
    atexit.register(_open.close)
    flights = table("demo.flights")
    print("flights is a frame of demo.flights as it is now; table('db.name') makes another")
