"""A reader that looks repeatedly: a process that the campaign kills, too.

With `--spark` it reads as a Spark application below spark-submit; otherwise from files alone.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.spark.engine.session import open_session
from tests.proofs.campaign.looking import Back, Look, Reader, from_files, with_spark
from tests.proofs.campaign.polls import keep
from tests.proofs.campaign.process import Box

_LONGEST_PAUSE_S: Final = 2.0


def main() -> None:
    """Look until the box says to end, and once after that."""
    options = _parser().parse_args()
    box = Box(folder=options.box)
    random = Random()  # pauses and versions do not depend on the seed
    look: Look = from_files
    look_back = None
    if options.spark:
        spark = open_session("hiveacid-campaign")
        look = with_spark(spark)
        look_back = Back(spark=spark, random=random, keep=partial(keep, options.seen)).look
    reader = Reader(
        name=options.name,
        endpoint=MetastoreEndpoint(uris=(options.uri,), call_timeout_s=30.0),
        db=options.db,
        look=look,
        folder=options.seen,
        look_back=look_back,
    )
    box.say_ready()
    is_last = False
    while not is_last:
        is_last = box.is_over
        seen = reader.poll(partial(time.sleep, random.uniform(0.0, _LONGEST_PAUSE_S)))
        with box.polls.open("a", encoding="utf-8") as file:
            file.write(seen.line())
        time.sleep(random.uniform(0.0, _LONGEST_PAUSE_S / 2))
        # A failed look does not count as the last look.
        is_last = is_last and seen.error is None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--box", type=Path, required=True)
    parser.add_argument("--seen", type=Path, required=True, help="folder for rows")
    parser.add_argument("--uri", required=True)
    parser.add_argument("--db", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--spark", action="store_true")
    return parser


if __name__ == "__main__":
    main()
