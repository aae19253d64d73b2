"""The command of the differences.

    python -m tests.proofs.differential [--expressions 10000] [--statements 1000]
                                        [--simple 1000] [--seed 7] [--stores 15]

It asks Hive 4.0.1's own engine and us the same questions and compares the answers. Simple
statements are run by three engines: Hive's, Spark's, and ours in one process. The seed is
`HIVEACID_SEED`, if it is set. It exits with 1 if an answer differs in a way that
docs/evidence/differences.json does not name.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyspark

from tests.judges.engine import HiveJudge
from tests.proofs.differential import cases, course, examples, report, stores, triplets, twins
from tests.proofs.differential.engines import Engines
from tests.proofs.programs import Say, clocked, laboratory, metastore, working_folder

_LARGEST_SEED: Final = 10**6
_HEAP_OF_HIVE_MB: Final = 3072  # Hive keeps some 100 KB of each question


def main(argv: Sequence[str] | None = None) -> int:
    """Ask everything, and return the exit status."""
    asked = _parser().parse_args(argv)
    say, began = clocked(), time.monotonic()
    print(f"HIVEACID_SEED={asked.seed} repeats this run", flush=True)

    tally = report.Tally()
    facts: dict[str, Any] = {}
    if asked.named_again:
        tally, facts = report.kept()
    else:
        with engines() as both:
            say("both engines are up")
            facts = {"seed": asked.seed, "Hive": "4.0.1", "PySpark": pyspark.__version__}
            for _ in run(both, tally, asked, say):
                facts["seconds"] = round(time.monotonic() - began)
                report.write_values(tally, facts)
    if not asked.no_report:
        report.write(tally, facts)
    for what, counts in tally.counts.items():
        print(f"{what}: {dict(counts)}")
    for one in tally.wrong:
        print(f"NOT NAMED: {one}")
    return 1 if tally.wrong else 0


def run(both: Engines, tally: report.Tally, asked: argparse.Namespace, say: Say) -> Iterator[None]:
    """Ask both engines and count the answers; yield now and then to keep them."""
    both.prepare()
    tally.wrong += examples.missed(both)
    say("the examples of the known differences")
    for finding in course.Course(both, say).findings(course.made(asked.expressions, asked.seed)):
        tally.add(report.EXPRESSIONS, finding)
        if finding.outcome is cases.Outcome.DIFFERENT:
            say(f"NOT NAMED: {tally.wrong[-1]}")
            yield
    yield
    if asked.stores:
        for done in stores.stored(
            both, list(dict.fromkeys(stores.SOURCES.values()))[: asked.stores]
        ):
            tally.add(report.STORES, done)
            yield
        say("types into columns of types")
    theirs = f"hive_{uuid.uuid4().hex[:12]}"
    both.lab.client.create_database(theirs)
    for done in twins.Twins(both, theirs, asked.seed).done(asked.statements, say):
        tally.add(report.STATEMENTS, done)
        if done.outcome is cases.Outcome.DIFFERENT:
            say(f"NOT NAMED: {tally.wrong[-1]}")
        yield
    yield from simple(both, tally, asked, say)


def simple(
    both: Engines, tally: report.Tally, asked: argparse.Namespace, say: Say
) -> Iterator[None]:
    """Run simple statements by three engines and count the results."""
    databases = (f"hive3_{uuid.uuid4().hex[:12]}", f"worker_{uuid.uuid4().hex[:12]}")
    for db in databases:
        both.lab.client.create_database(db)
    for done in map(
        report.named, triplets.Triplets(both, databases, asked.seed).done(asked.simple, say)
    ):
        tally.add(report.SIMPLE, done)
        if done.outcome is cases.Outcome.DIFFERENT:
            say(f"NOT NAMED: {tally.wrong[-1]}")
            yield
    yield


@contextmanager
def engines() -> Iterator[Engines]:
    """Start both engines over a separate metastore, with a database."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # refusals are answers
    with (
        working_folder(None, "differential") as folder,
        metastore(folder, on_postgres=True) as server,
        HiveJudge(server.uri, heap_mb=_HEAP_OF_HIVE_MB) as judge,
        laboratory(server, heap="2g") as lab,
    ):
        lab.spark.sparkContext.setLogLevel("OFF")
        yield Engines(lab=lab, judge=judge)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.differential", description=__doc__
    )
    seed = int(os.environ.get("HIVEACID_SEED") or random.randrange(_LARGEST_SEED))
    parser.add_argument("--expressions", type=int, default=10_000)
    parser.add_argument("--statements", type=int, default=1_000)
    parser.add_argument("--simple", type=int, default=1_000, help="statements of three engines")
    parser.add_argument("--stores", type=int, default=15, help="number of types of columns")
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument(
        "--named-again",
        action="store_true",
        help="ask nothing: name the last run's differences by the current entries",
    )
    parser.add_argument("--no-report", action="store_true", help="leave the page alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
