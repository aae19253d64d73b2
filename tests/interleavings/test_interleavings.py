"""Every pair of actors with every single mishap at every border; pairs and larger casts by chance.

Actors are copies of a job, second writers, overwriters, compactors, cleaners, readers, Hive, and a
metastore that forgets. At least 100,000 interleavings a run; `HIVEACID_INTERLEAVINGS=10` plays ten
times as many of those by chance, `HIVEACID_SEED` others. What goes wrong prints a command that
plays it again, border by border. What is checked is told in `watching` and `play`; that it would be
noticed, in `test_faults_are_noticed`.
"""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final

from interleavings.scene import JOBS, Scene
from interleavings.schedules import InterleavingError, at_random, every
from interleavings.stand_ins import installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
_CASTS: Final = (
    "v3 : insert insert/2 overwrite clean",
    "v4 native : insert insert/1 overwrite major",
    "v4 : update update/2 insert kill",
    "v3 : overwrite truncate overwrite kill",
    "v4 native : insert overwrite kill",
    "v3 : update update/1 major clean",
    "v4 native : insert insert/2 insert/2/1 kill",
    "v3 : delete delete/2 forget clean",
    "v4 : insert update forget clean",
    "v4 native : merge overwrite forget insert",
    "v4 has_deletes native : update insert forget major",
    "v4 : update update/2 forget read",
    "v4 local : merge merge/2 delete minor",
    "v3 has_deletes native : minor major insert insert",
    "v4 has_deletes : minor major update clean",
    "v4 only_hive_4 has_deletes native : minor minor clean",
    "v4 only_hive_4 has_deletes local : minor major insert clean read",
    "v4 has_base native : read overwrite clean clean",
    "v3 has_base : read update major clean",
    "v4 : truncate insert update minor",
    "v3 native : truncate overwrite insert insert/2",
    "v4 : drop insert insert/2 clean",
    "v3 : drop update major",
    "v4 has_strangers : insert update overwrite",
    "v3 is_partitioned native : insert update@a overwrite@b",
    "v4 is_partitioned native : insert insert/2 minor",
    "v3 is_partitioned : insert forget clean insert/2",
    "v4 is_partitioned local : merge delete@a overwrite@b clean",
    "v4 is_partitioned only_hive_4 local : update minor clean read",
    "v4 native only_hive_4 : insert update minor changes past clean",
    "v3 : insert major changes changes past",
    "v3 has_deletes is_partitioned : insert@a update@b changes changes overwrite@a",
)
_STRICT: Final = (
    "v3 is_strict : insert insert/2 update major",
    "v4 native is_strict : update delete overwrite clean",
    "v4 is_strict : minor major insert forget",
    "v3 is_partitioned native is_strict : update@a insert merge@b",
    "v4 has_deletes is_strict : truncate insert minor read",
)
_SEEDS: Final = 270
_SEEDS_OF_STRICT: Final = 30
_AT_ONCE: Final = 90
_SEEDS_OF_PAIRS: Final = 270  # whose plays cost a quarter


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


def test_every_pair_bears_every_single_mishap_at_every_border() -> None:
    scenes = (*_PAIRS, *_COPIES)
    with _pool() as pool:
        assert _count(pool.map(_explore, scenes, [1] * len(scenes))) >= 56_500


def test_larger_casts_bear_mishaps_by_chance() -> None:
    assert _wander_through(_CASTS, seeds=_SEEDS) >= 8_100


def test_the_strict_policy_bears_mishaps_by_chance() -> None:
    times = int(os.environ.get("HIVEACID_INTERLEAVINGS", "1"))
    first = int(os.environ.get("HIVEACID_SEED", "0"))
    seeds = range(first, first + _SEEDS_OF_STRICT * times)
    assert _count(_wander(scene, seeds) for scene in _STRICT) >= 150


def test_pairs_bear_several_mishaps_by_chance() -> None:
    assert _wander_through((*_PAIRS, *_COPIES), seeds=_SEEDS_OF_PAIRS) >= 38_000


def _wander_through(scenes: Sequence[str], *, seeds: int) -> int:
    times = int(os.environ.get("HIVEACID_INTERLEAVINGS", "1"))
    first = int(os.environ.get("HIVEACID_SEED", "0"))
    pieces = [
        (scene, range(start, start + _AT_ONCE))
        for start in range(first, first + seeds * times, _AT_ONCE)
        for scene in scenes
    ]
    with _pool() as pool:
        return _count(pool.map(_wander, *zip(*pieces, strict=True)))
