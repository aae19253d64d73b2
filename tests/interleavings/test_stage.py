"""The stage itself: actors share no more than processes do, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from tests.interleavings import world
from tests.interleavings.scene import Scene
from tests.interleavings.schedules import every


def test_readers_of_past_versions_can_be_interleaved_in_over_a_hundred_ways() -> None:
    played = list(every(Scene.parse("v3 : changes past changes"), depth=1, only_switches=True))
    assert len(played) > 100


def test_an_actor_that_hangs_between_two_switching_points_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "_PATIENCE_S", 0.1)
    here, never = world.World(MetastoreGeneration.V3, world.Fixed()), threading.Event()
    here.actors.append(world.Actor(0, "waits", lambda: never.wait(60)))
    here.run()
    never.set()
    assert "nobody goes on" in (here.violation or "")


def test_a_call_from_a_thread_that_belongs_to_no_actor_ends_the_run() -> None:
    here = world.World(MetastoreGeneration.V3, world.Fixed())

    def meet_a_border_elsewhere() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(here.before_call, "get_table").result()

    here.actors.append(world.Actor(0, "strays", meet_a_border_elsewhere))
    here.run()
    assert "a thread pool without a stand-in" in (here.violation or "")
