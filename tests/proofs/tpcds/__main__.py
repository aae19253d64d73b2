"""The command that runs the queries of TPC-DS.

    python -m tests.proofs.tpcds [--scale 0.02] [--queries 3 7] [--generator build/tpcds-generator]

It runs each of the 99 over flat files and over ACID tables: after two inserts filled these, after
rows of seven of them were deleted, after a minor compaction, after a major one. It exits
with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice
from airflow_hiveacid.local.metastore.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.client.metastore_client import connect
from tests.proofs.tpcds.course import Course
from tests.support.spark_lab import Lab, small_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def generate(folder: Path, scale: float, generator: Path) -> None:
    """Generate the files with the DuckDB that is installed there."""
    subprocess.run(
        [sys.executable, "-m", "tests.proofs.tpcds.generate", str(folder), str(scale)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(generator), str(Path.cwd())])},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the queries and return the exit status."""
    asked = _parser().parse_args(argv)
    began = time.monotonic()
    wrong: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tpcds-")))
        generate(folder / "flat", asked.scale, asked.generator)
        config = LocalMetastoreConfig(
            version="4.0.1", data_dir=folder / "metastore", ends_with_parent=True
        )
        server = stack.enter_context(LocalMetastore(config))
        spark = small_session("3g")  # its joins broadcast tables, for which 1g was not enough
        stack.callback(spark.stop)
        endpoint = MetastoreEndpoint(uris=(server.uri,))
        client = stack.enter_context(connect(endpoint))
        database = f"tpcds_{uuid.uuid4().hex[:8]}"
        client.create_database(database)
        course = Course(
            lab=Lab(spark=spark, endpoint=endpoint, client=client, db=database),
            folder=folder / "flat",
        )
        stages: dict[str, Callable[[], None]] = {
            "loaded": course.load,
            "deleted": course.delete,
            "minor compaction": lambda: course.compact(CompactionChoice.MINOR),
            "major compaction": lambda: course.compact(CompactionChoice.MAJOR),
        }
        for stage, reach in stages.items():
            reach()
            found = course.compare(stage, asked.queries)
            wrong += found
            print(
                f"{time.monotonic() - began:7.1f} s  {stage}: {len(asked.queries)} queries,"
                f" {course.rows(asked.queries)} rows, {len(found)} answers differ",
                *found,
                sep="\n  ",
                flush=True,
            )
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.tpcds", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.02, help="1 is a gigabyte")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 100)))
    parser.add_argument("--generator", type=Path, default=Path("build/tpcds-generator"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
