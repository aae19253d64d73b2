"""A driver that dies while it publishes: python killed_between_renames.py SPEC RENAMES.

Runs the UPDATE of a job description in a Spark of its own, and ends by SIGKILL when so many
directories have been renamed into place.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from pathlib import Path

from pyarrow import fs as pafs

from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.spark.engine.session import open_session
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores import filesystem
from spark_apps.update import update


def die_after(renames: int) -> None:
    """Let so many renames happen, one at a time, and no other."""
    done = itertools.count()
    guard = threading.Lock()
    rename = filesystem.rename_directory

    def rename_or_die(fs: pafs.FileSystem, source: str, target: str) -> None:
        with guard:
            if next(done) == renames:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(fs, source, target)

    filesystem.rename_directory = rename_or_die


def main() -> None:
    spec = JobSpec.parse(Path(sys.argv[1]).read_text(encoding="utf-8"))
    die_after(int(sys.argv[2]))
    spark = open_session("dies")
    with connect(spec.metastore) as client:
        update(JobContext.of(spark, spec, client))


if __name__ == "__main__":
    main()
