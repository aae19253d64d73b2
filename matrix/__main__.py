"""Knows the command of the matrix.

    python -m matrix [--kinds 0 3] [--writers ours "Hive 4.0.1"] [--no-report]

Wants the tests' judges on PYTHONPATH, as `make judge` has them. Ends with 0 when every reader had
every row after every step, or was wrong for a reason that is known; with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.client import connect
from judges.bare import BareReader
from judges.engine import HiveJudge
from judges.engine3 import Hive3Engine
from judges.trino import TrinoJudge, why_not
from matrix.course import ALTERNATING, Course, Ground, lead
from matrix.kinds import KINDS
from matrix.life import NotHereError
from matrix.readers import (
    ArrowReader,
    BareHiveReader,
    HiveReader,
    NativeReader,
    Reader,
    TrinoReader,
)
from matrix.report import write
from matrix.writers import HIVE_3, HIVE_4, OURS, TRINO, HiveWriter, OurWriter, Table, TrinoWriter
from spark_lab import Lab, small_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matrix.life import Writer


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix and return the exit status."""
    asked = _parser().parse_args(argv)
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    without_trino = why_not()
    courses: list[Course] = []
    versions = [
        f"Spark {pyspark.__version__}",
        f"{HIVE_4} (metastore, engine)",
        f"{HIVE_3} (engine, ORC reader)",
        TRINO if without_trino is None else f"no {TRINO}",
    ]
    with ExitStack() as stack:
        folder = asked.keep and asked.keep.resolve()
        folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="matrix-")))
        ground = _ground(stack, folder, with_trino=without_trino is None)
        writers = [w for w in (*ground.writers, HIVE_3, ALTERNATING) if w in (asked.writers or [w])]
        for kind in [KINDS[i] for i in asked.kinds or range(len(KINDS))]:
            for name in writers:
                try:
                    course = lead(ground, kind, name, say)
                except NotHereError as error:
                    say(f"{kind.name}, {name}: not led: {error}")
                    continue
                cells = {r: f"{c.read}/{course.steps}" for r, c in course.cells.items()}
                say(f"{kind.name}, {name}: {cells}")
                courses.append(course)
                if not asked.no_report:
                    write(courses, versions)
    if without_trino is not None:
        say(f"not run: {TRINO}: {without_trino}")
    bad = [course for course in courses if not course.is_good]
    say(f"{len(courses)} lives, {len(bad)} with an answer that nobody can explain")
    return 1 if bad else 0


def _ground(stack: ExitStack, folder: Path, *, with_trino: bool) -> Ground:
    server = stack.enter_context(
        LocalMetastore(
            LocalMetastoreConfig(
                version="4.0.1", data_dir=folder / "metastore", ends_with_parent=True
            )
        )
    )
    spark = small_session()
    stack.callback(spark.stop)
    hive = stack.enter_context(HiveJudge(server.uri))
    endpoint = MetastoreEndpoint(uris=(server.uri,))
    client = stack.enter_context(connect(endpoint))
    database = f"matrix_{uuid.uuid4().hex[:8]}"
    # Trino wants to be told where managed tables go.
    client.create_database(database, f"file:{folder}/{database}")
    lab = Lab(spark=spark, endpoint=endpoint, client=client, db=database)
    writers: dict[str, Callable[[Table], Writer]] = {
        OURS: lambda table: OurWriter(table=table),
        HIVE_4: lambda table: HiveWriter(table=table, engine=hive),
    }
    readers: list[Reader] = [
        NativeReader(),
        ArrowReader(),
        HiveReader(hive),
        BareHiveReader(stack.enter_context(BareReader("3.1.3"))),
    ]
    if with_trino:
        trino = stack.enter_context(TrinoJudge(server.uri))
        writers[TRINO] = lambda table: TrinoWriter(table=table, engine=trino)
        readers.append(TrinoReader(trino))
    hive_3 = stack.enter_context(Hive3Engine())
    return Ground(lab=lab, hive=hive, hive_3=hive_3, writers=writers, readers=readers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    parser.add_argument("--kinds", type=int, nargs="*", help=f"0 to {len(KINDS) - 1}")
    parser.add_argument("--writers", nargs="*", help=f"of them, or {ALTERNATING!r}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave all files there")
    parser.add_argument("--no-report", action="store_true", help="leave docs/interop.md alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
