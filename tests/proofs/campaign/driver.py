"""A driver that runs job after job: the process that the campaign kills.

It runs below spark-submit. Its box is a folder: it reads `job.json`, and writes a file when its
answer is complete. Each job does what its application does, from the description to the answer,
but all share one session, which lets one machine survive hundreds of killed drivers.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.spark.engine.session import open_session
from airflow_hiveacid.spark.maintenance.prove_erasure import prove_erasure
from airflow_hiveacid.spark.runtime import JobFunction, run_spec
from airflow_hiveacid.spark.statements.rebalance import rebalance
from spark_apps.clean import clean
from spark_apps.compact import compact
from spark_apps.delete import delete
from spark_apps.insert import insert
from spark_apps.merge import merge
from spark_apps.update import update
from tests.proofs.campaign.process import Box

_JOB_FUNCTIONS: Final[Mapping[str, JobFunction]] = {
    "clean": clean,
    "clean_tables": clean,
    "compact": compact,
    "compact_tables": compact,
    "delete": delete,
    "insert": insert,
    "merge": merge,
    "prove_erasure": prove_erasure,
    "rebalance": rebalance,
    "update": update,
}
_POLL_S: Final = 0.02


def main() -> None:
    """Run jobs until the box says to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--box", type=Path, required=True)
    box = Box(folder=parser.parse_args().box)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("hiveacid").setLevel(logging.DEBUG)  # logs the steps
    spark = open_session("hiveacid-campaign")
    box.say_ready()
    while not box.is_over:
        taken = box.take()
        if taken is None:
            time.sleep(_POLL_S)
        else:
            _run(spark, taken, box)
    spark.stop()


def _run(spark: SparkSession, taken: Path, box: Box) -> None:
    spec = JobSpec.parse(taken.read_text(encoding="utf-8"))
    run_spec(spark, _JOB_FUNCTIONS[spec.kind], str(taken))
    box.say_answered(spec.attempt)


if __name__ == "__main__":
    main()
