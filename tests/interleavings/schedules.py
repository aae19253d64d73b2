"""Where the schedules come from: every one with a few actions, or random ones with a seed.

A schedule is told as `0 12:s1 40:k`: who begins, then what happens at which border. The same text
gives the same interleaving, always.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.interleavings.play import Play
from tests.interleavings.scene import Scene
from tests.interleavings.world import Border, Fixed, World


@dataclass(frozen=True, slots=True)
class Plan:
    """Who begins, and actions by the number of their border."""

    first: int = 0
    actions: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        return " ".join((str(self.first), *(f"{at}:{what}" for at, what in self.actions)))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read what `str` writes."""
        first, *rest = text.split()
        pairs = (part.partition(":") for part in rest)
        return cls(int(first), tuple((int(at), what) for at, _, what in pairs))


class InterleavingError(AssertionError):
    """An interleaving that was not right, with what is needed to see it again."""

    def __init__(self, scene: Scene, plan: Plan, play: Play) -> None:
        log = "\n".join(play.world.log[-400:])
        super().__init__(
            f"{play.world.violation}\n{log}\nagain:"
            f' .venv-spark/bin/python -m tests.interleavings "{scene}" "{plan}"'
        )


def perform(scene: Scene, plan: Plan) -> Play:
    """Play one interleaving that is written down."""
    play = Play(scene, Fixed(dict(plan.actions)))
    play.run(plan.first)
    if play.world.violation is not None:
        raise InterleavingError(scene, plan, play)
    return play


@dataclass
class _Exploring:
    """Follows a plan, and collects what else could be done at every border after its last action.

    Mutable: it collects.
    """

    actions: dict[int, str]
    after: int
    only_switches: bool
    found: list[tuple[int, str]] = field(default_factory=list)

    def choose(self, world: World, border: Border) -> str:
        action = self.actions.get(border.index, "")
        if border.index > self.after:
            self.found += [(border.index, a) for a in self._possible(world, border)]
        return action

    def _possible(self, world: World, border: Border) -> Iterator[str]:
        if border.actor.is_steady:
            return
        others = [a.number for a in world.actors if not a.is_over and a is not border.actor]
        if not border.is_local:
            yield from (f"s{n}" for n in others)
        if self.only_switches:
            return
        if border.is_change:
            yield "k"
            yield "K"
            yield "b"
            yield "a"
        if not border.is_local:
            yield from (f"z{n}" for n in others)
            if border.is_call and not border.is_change:
                yield "b"


def every(scene: Scene, *, depth: int, only_switches: bool = False) -> Iterator[Plan]:
    """Play every interleaving with at most `depth` actions; yields each plan played."""
    pending = [Plan(first) for first in range(len(scene.cast))]
    while pending:
        plan = pending.pop()
        after = plan.actions[-1][0] if plan.actions else 0
        exploring = _Exploring(dict(plan.actions), after, only_switches)
        play = Play(scene, exploring)
        play.run(plan.first)
        if play.world.violation is not None:
            raise InterleavingError(scene, plan, play)
        if len(plan.actions) < depth:
            pending += [Plan(plan.first, (*plan.actions, pair)) for pair in exploring.found]
        yield plan


_FAULTS: Final = ("k", "K", "b", "a", "r", "b", "a")


@dataclass
class _Random:
    """Chooses by chance, and remembers. Mutable."""

    chance: random.Random
    switching: float
    faults_left: int
    actions: list[tuple[int, str]] = field(default_factory=list)

    def choose(self, world: World, border: Border) -> str:
        if border.actor.is_steady:
            return ""
        action = self._any(world, border)
        if action:
            self.actions.append((border.index, action))
        return action

    def _any(self, world: World, border: Border) -> str:
        dice = self.chance.random()
        if dice >= self.switching:
            return ""
        others = [a for a in world.actors if not a.is_over and a is not border.actor]
        if self.faults_left and dice < self.switching / 4:
            self.faults_left -= 1
            if others and self.chance.random() < 0.3:
                return f"z{self.chance.choice(others).number}"
            return self.chance.choice(_FAULTS)
        return f"s{self.chance.choice(others).number}" if others else ""


def at_random(scene: Scene, seed: int) -> Plan:
    """Play one random interleaving; gives its plan."""
    chance = random.Random(seed)
    schedule = _Random(chance, chance.choice((0.02, 0.05, 0.1, 0.3)), chance.randrange(4))
    play = Play(scene, schedule)
    first = chance.randrange(len(scene.cast))
    play.run(first)
    plan = Plan(first, tuple(schedule.actions))
    if play.world.violation is not None:
        raise InterleavingError(scene, plan, play)
    return plan
