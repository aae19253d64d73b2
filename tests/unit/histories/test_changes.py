"""Changes between versions of random histories: exactly the model's, or refused."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import ChangesGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.storage.stores.listing import list_table
from tests.proofs.histories import changes, readers
from tests.proofs.histories.life import Life
from tests.proofs.histories.world import Fate, World

PROPERTY = 536870912  # of bucket 0, statement 0


def seeds(first: int, end: int, some: int = 3) -> list[Any]:
    """Some of them always, the others in long runs."""
    more = [pytest.param(seed, marks=pytest.mark.long) for seed in range(first + some, end)]
    return [*range(first, first + some), *more]


class LifeWithoutCleaning(Life):
    def _clean(self) -> None:
        pass


class LifeWithDyingCleaners(Life):
    """Whose cleaners stop somewhere, in any order of directories."""

    def _clean(self) -> None:
        world = self.world
        state = resolve(list_table(str(world.root)), world.write_ids, world.txns)
        for directory in state.obsolete_directories:
            if self._dice.randrange(2):
                shutil.rmtree(world.root / directory.text)


def some_ranges(world: World, seed: int) -> list[tuple[int, int]]:
    newest = changes.newest(world)
    every = list(itertools.combinations(range(newest + 1), 2))
    return random.Random(seed).sample(every, min(len(every), 12))


def allowed(world: World, since: int, until: int) -> int:
    """The version since which changes can be told, if not since the one that is asked for."""
    try:
        changes.told(world, since, until)
    except ChangesGoneError as refused:
        assert refused.oldest > since  # noqa: PT017 - it is what it says that is looked at
        return refused.oldest
    return since


@pytest.mark.promise("V5")
@pytest.mark.parametrize("seed", seeds(0, 25))
def test_the_changes_of_a_kept_range_match_the_model(tmp_path: Path, seed: int) -> None:
    life = LifeWithoutCleaning(tmp_path / "t", seed)
    done = list(life.steps())
    kept = Guarantee(floor=WriteId(0))
    for since, until in some_ranges(life.world, seed):
        found = changes.told(life.world, since, until, kept=kept)
        assert found == changes.expected(life.world, since, until), (since, until, done)
        before, after = (changes.state(life.world, v) for v in (since, until))
        assert changes.replayed(before, found) == after
        net = changes.told(life.world, since, until, kept=kept, is_net=True)
        assert net == changes.expected(life.world, since, until, is_net=True)
        assert changes.replayed(before, net) == after


@pytest.mark.promise("V8")
@pytest.mark.parametrize("kind", [Life, LifeWithDyingCleaners])
@pytest.mark.parametrize("seed", seeds(100, 125))
def test_the_changes_of_a_range_match_the_model_or_are_refused(
    tmp_path: Path, seed: int, kind: type[Life]
) -> None:
    life = kind(tmp_path / "t", seed)
    done = []
    for step in life.steps():
        done.append(step)
        newest = changes.newest(life.world)
        for since, until in [*some_ranges(life.world, seed)[:3], (newest - 1, newest)]:
            begin = allowed(life.world, max(since, 0), until)
            end = until if begin == since else newest
            if begin <= end:
                found = changes.told(life.world, begin, end)
                assert found == changes.expected(life.world, begin, end), (begin, end, done)


@pytest.mark.promise("V4")
@pytest.mark.parametrize("seed", seeds(200, 215))
def test_a_minor_compaction_does_not_alter_the_change_feed(tmp_path: Path, seed: int) -> None:
    kept = Guarantee(floor=WriteId(0))
    before: dict[tuple[int, int], list[Any]] = {}
    for number in itertools.count():  # until a life has changed a row
        life = LifeWithoutCleaning(tmp_path / str(number), seed + 1000 * number)
        list(life.steps())
        world = life.world
        spans = list(itertools.combinations(range(changes.newest(world) + 1), 2))
        before = {span: changes.told(world, *span, kept=kept) for span in spans}
        if any(before.values()):
            break
    told = {span for span in spans if allowed(world, *span) == span[0]}
    world.compact(major=False, fate=Fate.COMMITTED, named=False)
    assert {span: changes.told(world, *span, kept=kept) for span in spans} == before
    world.clean()
    assert all(changes.told(world, *span) == before[span] for span in told)


def test_changes_before_a_major_compaction_are_refused_unless_they_are_kept(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    for _ in range(3):
        world.insert(world.begin(), rows=2, bucket=0, statement=0)
    world.compact(major=True, fate=Fate.COMMITTED, named=False)
    world.insert(world.begin(), rows=1, bucket=0, statement=0)
    with pytest.raises(ChangesGoneError) as refused:
        changes.told(world, 2, 4)
    assert refused.value.oldest == 3
    assert [c.version for c in changes.told(world, 3, 4)] == [4]
    kept = Guarantee(floor=WriteId(2))
    assert [c.version for c in changes.told(world, 2, 4, kept=kept)] == [3, 3, 4]
    with pytest.raises(ChangesGoneError):
        changes.told(world, 1, 4, kept=kept)


def test_changes_of_a_kept_range_are_refused_if_a_recorded_directory_is_missing(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "t")
    for _ in range(3):
        world.insert(world.begin(), rows=2, bucket=0, statement=0)
    kept = Guarantee(floor=WriteId(0), evidence=frozenset({"delta_0000001_0000001_0000"}))
    world.compact(major=True, fate=Fate.COMMITTED, named=False)
    assert len(changes.told(world, 0, 3, kept=kept)) == 6
    shutil.rmtree(world.root / "delta_0000001_0000001_0000")
    with pytest.raises(ChangesGoneError):
        changes.told(world, 0, 3, kept=kept)


def test_an_overwrite_deletes_every_row_that_existed_before(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.insert(world.begin(), rows=2, bucket=0, statement=0)
    world.delete(world.begin(), [(1, PROPERTY, 0)], statement=0)
    world.overwrite(world.begin(), rows=1, bucket=0)
    world.insert(world.begin(), rows=1, bucket=0, statement=0)
    kept = Guarantee(floor=WriteId(0))
    told = [(c.version, c.what, c.row) for c in changes.told(world, 1, 4, kept=kept)]
    assert told == [
        (2, changes.DEAD, (1, PROPERTY, 0)),
        (3, changes.BORN, (3, PROPERTY, 0)),
        (3, changes.DEAD, (1, PROPERTY, 1)),
        (4, changes.BORN, (4, PROPERTY, 0)),
    ]
    with pytest.raises(ChangesGoneError) as refused:
        changes.told(world, 1, 4)
    assert refused.value.oldest == 3


def test_a_row_deleted_by_a_lower_write_id_is_in_no_change(tmp_path: Path) -> None:
    # Write ID 2 was given out first, and waited for its locks until 3 was committed.
    world = World(tmp_path / "t")
    world.insert(world.begin(), rows=1, bucket=0, statement=0)
    late, early = world.begin(), world.begin()
    world.insert(early, rows=2, bucket=0, statement=0)
    world.delete(late, [(3, PROPERTY, 0)], statement=0)
    for since in range(3):
        found = changes.told(world, since, 3)
        assert found == changes.expected(world, since, 3)
        assert all(c.row != (3, PROPERTY, 0) for c in found)
    assert len(changes.told(world, 0, 3)) == 2


def test_a_row_that_is_deleted_twice_is_one_change(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.insert(world.begin(), rows=2, bucket=0, statement=0)
    for _ in range(2):
        world.delete(world.begin(), [(1, PROPERTY, 0)], statement=0)
    assert [(c.version, c.what) for c in changes.told(world, 1, 3)] == [(2, changes.DEAD)]
    assert changes.told(world, 2, 3) == []


def test_a_row_inserted_and_deleted_by_one_write_is_in_no_change(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    write_id = world.begin()
    world.insert(write_id, rows=3, bucket=0, statement=0)
    world.delete(write_id, [(1, PROPERTY, 1)], statement=1)
    assert [c.row for c in changes.told(world, 0, 1)] == [(1, PROPERTY, 0), (1, PROPERTY, 2)]


def test_a_row_inserted_and_deleted_within_a_range_is_not_a_net_change(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.insert(world.begin(), rows=2, bucket=0, statement=0)
    world.insert(world.begin(), rows=2, bucket=0, statement=0)
    world.delete(world.begin(), [(1, PROPERTY, 0), (2, PROPERTY, 0)], statement=0)
    told = [(c.what, c.row) for c in changes.told(world, 1, 3, is_net=True)]
    assert told == [(changes.BORN, (2, PROPERTY, 1)), (changes.DEAD, (1, PROPERTY, 0))]


def test_an_overwrite_deletes_the_live_rows_but_no_rows_of_aborted_writes(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "t")
    batch = [world.begin(), world.begin(Fate.ABORTED), world.begin()]
    world.stream(batch, rows=1, bucket=0)
    world.overwrite(world.begin(), rows=0, bucket=0)
    found = changes.told(world, 3, 4, kept=Guarantee(floor=WriteId(0)))
    assert [(c.what, c.row) for c in found] == [
        (changes.DEAD, (1, PROPERTY, 0)),
        (changes.DEAD, (3, PROPERTY, 0)),
    ]


def test_a_later_delete_in_a_compacted_delta_is_outside_an_earlier_range(tmp_path: Path) -> None:
    world = World(tmp_path / "t")
    world.insert(world.begin(), rows=3, bucket=0, statement=0)
    for row in range(2):
        world.delete(world.begin(), [(1, PROPERTY, row)], statement=0)
    world.compact(major=False, fate=Fate.COMMITTED, named=False)
    world.clean()
    assert [c.row for c in changes.told(world, 1, 2)] == [(1, PROPERTY, 0)]
    assert [c.row for c in changes.told(world, 2, 3)] == [(1, PROPERTY, 1)]


@pytest.mark.promise("R1")
@pytest.mark.parametrize("seed", seeds(0, 40, some=15))
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
