"""A reader whose executors die: python lost_read_tasks.py METASTORE TABLE ARCHIVE FOLDER.

Reads a table twice under one snapshot, with Spark's ORC reader and with ours. In each read, the
first task to get rows kills its executor; the task that takes its place waits until there is a
file `changed`. Leaves `begun` when both frames are made, and `rows.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine.session import open_session
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import POSITION, resolve_target

_PATIENCE_S = 120.0


def passed_on(
    batches: Iterator[pa.RecordBatch], *, folder: str, reader: str
) -> Iterator[pa.RecordBatch]:
    """Pass rows on, unless this is the first task of this reader."""
    place = Path(folder)
    for batch in batches:
        try:
            (place / f"{reader}.killed").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            executor = parent_of(os.getppid())
            for process in (executor, os.getpid()):
                os.kill(process, signal.SIGKILL)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            (place / f"{reader}.again").touch()
            wait_for(place / "changed")
        yield batch


def parent_of(process: int) -> int:
    """A Python worker's parent is its daemon, whose parent is the executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(file: Path) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not file.exists():
        if time.monotonic() > give_up_s:
            raise TimeoutError(str(file))
        time.sleep(0.05)


def main() -> None:
    uri, name, archive, folder = sys.argv[1:]
    endpoint = MetastoreEndpoint(uris=(uri,))
    spark = open_session("loses executors")
    spark.sparkContext.addPyFile(archive)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")

    def rows(frame: DataFrame, reader: str) -> list[list[object]]:
        read = partial(passed_on, folder=folder, reader=reader)
        return sorted([*row] for row in frame.mapInArrow(read, frame.schema).collect())

    with read_snapshot(endpoint, [name], job_key=f"{name}/lost") as snapshot:
        table = snapshot.tables[TableRef.parse(name)]
        target = resolve_target(spark, snapshot.client, table, snapshot.snapshot)
        names = [c.name for c in table.columns]
        frames = {
            "spark": read_table(spark, name, snapshot),
            "arrow": target.read_with_arrow(names).drop(POSITION),
        }
        (Path(folder) / "begun").touch()
        found = {reader: rows(frame, reader) for reader, frame in frames.items()}
    (Path(folder) / "rows.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
