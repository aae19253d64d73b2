"""The command of the histories.

    python -m tests.proofs.histories [--count 10000] [--seed 0] [--share 100] [--keep FOLDER]

It runs that many histories from that seed on, and compares our reader's rows with the model after
every step. Spark's reader and those of Hive 4.0.1 and 3.1.3, row by row and vectorised, also read
the end of each `share`th. It exits with 1 at the first wrong answer, and leaves its directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import track

from tests.judges.bare import BareReader
from tests.proofs.histories import readers
from tests.proofs.histories.life import Life
from tests.proofs.histories.world import Fate, World
from tests.support.spark_lab import small_session


class WrongAnswerError(Exception):
    """A reader saw other rows than the model's."""


@dataclass(kw_only=True)
class Judges:
    """The judges of some histories' ends; `asked` counts their answers."""

    hive_4: BareReader
    hive_3: BareReader
    spark: Callable[[World], list[int]]
    asked: Counter[str] = field(default_factory=Counter)

    def judge(self, life: Life) -> None:
        """Raise WrongAnswerError if a judge sees other rows."""
        expected = life.world.expected()
        # Hive 3.1.3 does not know directories named after a compactor's transaction, and reads
        # nothing if an overwrite failed before there was another base.
        asked = {"4.0.1": self.hive_4}
        failed = any(w.overwrites and w.fate is Fate.ABORTED for w in life.world.writes.values())
        if not life.world.compactions and not failed:
            asked["3.1.3"] = self.hive_3
        for version, reader in asked.items():
            for vectorized in (False, True):
                name = f"Hive {version}, {'vectorised' if vectorized else 'row by row'}"
                compare(name, readers.hive(reader, life.world, vectorized=vectorized), expected)
                self.asked[name] += 1
        values = self.spark(life.world)
        compare("Spark", dict(enumerate(values)), dict(enumerate(sorted(expected.values()))))
        self.asked["Spark"] += 1


def compare(reader: str, found: Mapping[Any, int], expected: Mapping[Any, int]) -> None:
    """Raise WrongAnswerError unless they are equal."""
    if found != expected:
        raise WrongAnswerError(f"{reader}: {readers.difference(found, expected)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the histories and return the exit status."""
    asked = _parser().parse_args(argv)
    began = time.monotonic()
    steps: Counter[str] = Counter()
    with ExitStack() as stack:
        session = small_session()
        stack.callback(session.stop)
        judges = Judges(
            hive_4=stack.enter_context(BareReader("4.0.1")),
            hive_3=stack.enter_context(BareReader("3.1.3")),
            spark=lambda world: readers.spark(session, world),
        )
        folder = asked.keep or Path(tempfile.mkdtemp(prefix="histories-"))
        for seed in track(range(asked.seed, asked.seed + asked.count), "histories"):
            life = Life(folder / str(seed), seed)
            done: list[str] = []
            try:
                for step in life.steps():
                    done.append(step)
                    compare("ours", readers.arrow(life.world), life.world.expected())
                if seed % asked.share == 0:
                    judges.judge(life)
            except Exception as error:  # noqa: BLE001 - any error is reported with its history
                print(f"seed {seed}, {folder / str(seed)}: {done}: {type(error).__name__}: {error}")
                return 1
            steps.update(done)
            shutil.rmtree(folder / str(seed))
    print(f"{asked.count} histories from seed {asked.seed}, {time.monotonic() - began:.0f} s")
    print("steps:", dict(steps.most_common()))
    print("answers beside ours:", dict(judges.asked))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.histories", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first history; counts up")
    parser.add_argument("--share", type=int, default=100, help="judges see one in this many")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder of the histories")
    return parser


if __name__ == "__main__":
    sys.exit(main())
