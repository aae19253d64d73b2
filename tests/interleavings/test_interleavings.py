"""Every pair of actors with every single mishap at every border; pairs and larger casts by chance.

Actors are copies of a job, second writers, overwriters, compactors, cleaners, readers, Hive, and a
metastore that forgets. About 4,000 interleavings: single mishaps of every 24th scene, and some
chances. `make interleavings` plays every scene, and 280 times the chances
(`HIVEACID_INTERLEAVINGS=280`); `HIVEACID_SEED` chooses others, and
`python -m tests.interleavings --more 1000` plays each cast of `MORE` so often. What goes wrong
prints a command that plays it again, border by border.

What is checked is told in `watching` and `play`; that it would be noticed, in
`test_faults_are_noticed`.
"""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.interleavings.scene import JOBS, Scene
from tests.interleavings.schedules import InterleavingError, at_random, every
from tests.interleavings.stand_ins import installed

pytestmark = pytest.mark.timeout(0)  # minutes of two processors, which may be busy

_PROCESSES: Final = 2
_SERVICES: Final = ("minor", "major", "clean", "truncate", "drop", "read")
# Hive 3 by libhdfs, Hive 4 by hdfs-native: the one has nothing to do with the other.
_STORES: Final = {"3": "v3", "4": "v4 native"}
_PAIRS: Final = tuple(
    f"{_STORES[generation]} : {one} {other}"
    for one, other in itertools.combinations_with_replacement((*JOBS, *_SERVICES), 2)
    if (one, other) != ("truncate", "drop")  # both are Hive's
    for generation in "34"
)
_COPIES: Final = tuple(
    f"{_STORES[generation]} : {kind} {kind}/{attempt}"
    for kind in ("insert", "update", "overwrite")
    for attempt in "12"
    for generation in "34"
)
_CASTS, _STRICT, MORE = (
    tuple(line for line in block.splitlines() if not line.startswith("#"))
    for block in Path(__file__).with_name("casts.txt").read_text().split("\n\n")[1:]
)
"""`MORE` are casts of Hive and its queue, of readers that stay and of tags.

`python -m tests.interleavings --more 1000` plays each of them so often.
"""
_TIMES: Final = int(os.environ.get("HIVEACID_INTERLEAVINGS", "1"))
_FIRST: Final = int(os.environ.get("HIVEACID_SEED", "0"))
_SEEDS: Final = 8
_SEEDS_OF_STRICT: Final = 5
_SEEDS_OF_MORE: Final = 2
_AT_ONCE: Final = 15
_SEEDS_OF_PAIRS: Final = 6  # whose plays cost a quarter


def _explore(text: str, depth: int) -> tuple[int, str]:
    """Play every schedule of a scene with so many mishaps; how many, and what was not right."""
    logging.disable(logging.CRITICAL)
    count = 0
    with installed():
        try:
            for _ in every(Scene.parse(text), depth=depth):
                count += 1
        except InterleavingError as error:
            return count, str(error)
    return count, ""


def _wander(text: str, seeds: range) -> tuple[int, str]:
    """Play a scene at random, once for each seed."""
    logging.disable(logging.CRITICAL)
    scene = Scene.parse(text)
    with installed():
        for seed in seeds:
            try:
                at_random(scene, seed)
            except InterleavingError as error:
                return seed - seeds.start, f"seed {seed}: {error}"
    return len(seeds), ""


def _count(results: Iterable[tuple[int, str]]) -> int:
    found = list(results)
    wrong = [text for _, text in found if text]
    assert not wrong, f"{len(wrong)} are wrong, the first: {wrong[0]}"
    return sum(count for count, _ in found)


def _rarely_collect() -> None:
    # Each interleaving leaves a world of cycles; looking through them all the time costs a sixth.
    gc.freeze()
    gc.set_threshold(200_000, 50, 50)


def _pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(_PROCESSES, mp_context=context, initializer=_rarely_collect)


def test_every_pair_of_jobs_is_correct_after_any_single_fault_at_any_point() -> None:
    every_scene = (*_PAIRS, *_COPIES)
    # Neighbours differ only in Hive's generation; a short run has as many scenes of each.
    scenes = every_scene if _TIMES > 1 else [*every_scene[::48], *every_scene[27::48]]
    with _pool() as pool:
        found = _count(pool.map(_explore, scenes, [1] * len(scenes)))
    assert found >= 420 * len(scenes)


def test_larger_groups_of_jobs_are_correct_under_random_faults() -> None:
    assert wander_through(_CASTS, seeds=_SEEDS) == len(_CASTS) * _SEEDS * _TIMES


def test_jobs_beside_hive_and_long_readers_are_correct_under_random_faults() -> None:
    assert wander_through(MORE, seeds=_SEEDS_OF_MORE) == len(MORE) * _SEEDS_OF_MORE * _TIMES


def test_the_strict_policy_is_correct_under_random_faults() -> None:
    seeds = range(_FIRST, _FIRST + _SEEDS_OF_STRICT * _TIMES)
    assert _count(_wander(scene, seeds) for scene in _STRICT) == len(_STRICT) * len(seeds)


def test_pairs_of_jobs_are_correct_under_several_random_faults() -> None:
    scenes = (*_PAIRS, *_COPIES)
    assert wander_through(scenes, seeds=_SEEDS_OF_PAIRS) == len(scenes) * _SEEDS_OF_PAIRS * _TIMES


def wander_through(scenes: Sequence[str], *, seeds: int) -> int:
    """Play scenes by chance, so many times each; return how often."""
    end = _FIRST + seeds * _TIMES
    pieces = [
        (scene, range(start, min(start + _AT_ONCE, end)))
        for start in range(_FIRST, end, _AT_ONCE)
        for scene in scenes
    ]
    with _pool() as pool:
        return _count(pool.map(_wander, *zip(*pieces, strict=True)))
