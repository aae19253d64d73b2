"""The command of the matrix.

    python -m tests.proofs.matrix [--kinds 0 3] [--writers ours "Hive 4.0.1"] [--no-report]

It exits with 0 if every reader had every row after every step, or was wrong for a known
reason; with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyspark

from tests.judges import bare, engine, engine3
from tests.judges.trino import TrinoJudge, why_not
from tests.proofs.matrix import records
from tests.proofs.matrix.course import Ground, lead
from tests.proofs.matrix.explanations import is_explained
from tests.proofs.matrix.kinds import ALTERNATING, HIVE_3, HIVE_4, KINDS, OURS, TRINO, WRITERS, Kind
from tests.proofs.matrix.life import Writer
from tests.proofs.matrix.readers import (
    ArrowReader,
    BareHiveReader,
    HiveReader,
    NativeReader,
    Reader,
    TrinoReader,
)
from tests.proofs.matrix.records import Life
from tests.proofs.matrix.report import write
from tests.proofs.matrix.writers import HiveWriter, OurWriter, Table, TrinoWriter, why_not_led
from tests.proofs.programs import clocked, laboratory, metastore, working_folder


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix and return the exit status."""
    asked = _parser().parse_args(argv)
    say = clocked()
    without_trino = why_not()
    record = replace(
        records.read(),
        versions=(
            f"Spark {pyspark.__version__}",
            f"{HIVE_4} (metastore, engine)",
            f"{HIVE_3} (engine, ORC reader)",
            TRINO if without_trino is None else f"no {TRINO}",
        ),
    )
    led: list[Life] = []
    with ExitStack() as stack:
        folder = stack.enter_context(working_folder(asked.keep, "matrix"))
        ground = _ground(stack, folder, with_trino=without_trino is None)
        for kind in [KINDS[i] for i in asked.kinds or range(len(KINDS))]:
            for name in asked.writers or WRITERS:
                life = _life(ground, kind, name, say)
                led.append(life)
                record = record.with_life(life)
                if not asked.no_report:
                    records.write(record)
                    write(record)
    if without_trino is not None:
        say(f"not run: {TRINO}: {without_trino}")
    bad = [life for life in led if not is_explained(life)]
    say(f"{len(led)} lives, {len(bad)} with an unexplained answer")
    return 1 if bad else 0


def _life(ground: Ground, kind: Kind, name: str, say: Callable[[str], None]) -> Life:
    why = (
        f"no {TRINO}" if name == TRINO and TRINO not in ground.writers else why_not_led(kind, name)
    )
    if why is not None:
        say(f"{kind.name}, {name}: not led: {why}")
        return Life(kind=kind.name, writer=name, not_led=why)
    life = lead(ground, kind, name, say)
    told = {reader: f"{found.right}/{len(life.taken)}" for reader, found in life.answers.items()}
    say(f"{kind.name}, {name}: {told}")
    return life


def _ground(stack: ExitStack, folder: Path, *, with_trino: bool) -> Ground:
    server = stack.enter_context(metastore(folder))
    # Trino must be told the location of managed tables.
    lab = stack.enter_context(laboratory(server, location=f"file:{folder}"))
    hive = stack.enter_context(engine.HiveJudge(server.uri))
    writers: dict[str, Callable[[Table], Writer]] = {
        OURS: lambda table: OurWriter(table=table),
        HIVE_4: lambda table: HiveWriter(table=table, engine=hive),
    }
    readers: list[Reader] = [
        NativeReader(),
        ArrowReader(),
        HiveReader(hive),
        BareHiveReader(stack.enter_context(bare.BareReader("3.1.3"))),
    ]
    if with_trino:
        trino = stack.enter_context(TrinoJudge(server.uri))
        writers[TRINO] = lambda table: TrinoWriter(table=table, engine=trino)
        readers.append(TrinoReader(trino))
    hive_3 = stack.enter_context(engine3.Hive3Engine())
    return Ground(lab=lab, hive=hive, hive_3=hive_3, writers=writers, readers=readers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.matrix", description=__doc__)
    parser.add_argument("--kinds", type=int, nargs="*", help=f"0 to {len(KINDS) - 1}")
    parser.add_argument("--writers", nargs="*", help=f"engines, or {ALTERNATING!r}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all files there")
    parser.add_argument("--no-report", action="store_true", help="leave the pages alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
