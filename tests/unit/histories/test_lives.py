from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.histories import readers
from tests.proofs.histories.life import Life
from tests.proofs.histories.world import Fate, World


@pytest.mark.promise("R1")
@pytest.mark.parametrize("seed", range(40))
def test_our_reader_returns_the_rows_of_the_model_after_every_step(
    tmp_path: Path, seed: int
) -> None:
    life = Life(tmp_path / "t", seed)
    done = []
    for step in life.steps():
        done.append(step)
        found, expected = readers.arrow(life.world), life.world.expected()
        assert found == expected, f"{done}: {readers.difference(found, expected)}"


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    one, other = Life(tmp_path / "one", 7), Life(tmp_path / "other", 7)
    assert list(one.steps()) == list(other.steps())
    assert one.world.expected() == other.world.expected()
    assert one.world.expected() != {}


def test_the_model_shows_only_rows_of_committed_writes(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.originals([(0, 0, 2), (0, 1, 1)])
    for fate in (Fate.COMMITTED, Fate.ABORTED, Fate.OPEN):
        world.insert(world.begin(fate), rows=1, bucket=0, statement=0)
    world.delete(world.begin(), [(0, 536870912, 2)], statement=0)
    world.delete(world.begin(Fate.ABORTED), [(0, 536870912, 0)], statement=0)
    seen = [(0, 536870912, 0), (0, 536870912, 1), (1, 536870912, 0)]
    assert sorted(world.expected()) == seen
    assert readers.arrow(world) == world.expected()
    world.writes[3].fate = Fate.COMMITTED
    assert sorted(world.expected()) == [*seen, (3, 536870912, 0)]
    world.overwrite(world.begin(), rows=1, bucket=2)
    assert sorted(world.expected()) == [(6, 537001984, 0)]
