"""The course of a run: make expressions, ask both engines in batches, trace the differences.

Hive's engine and Spark are two processes, so both are asked at the same time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.proofs.differential.cases import Case, Finding, Outcome, Pair, blamed
from tests.proofs.differential.catalogue import AGGREGATES, EXPRESSIONS, windows
from tests.proofs.differential.engines import (
    GROUPS,
    ROWS,
    WINDOWS,
    Answer,
    Engines,
    Form,
    Refusal,
    refusal,
)
from tests.proofs.differential.expressions import Dice, Line, lines
from tests.proofs.differential.known import TOGETHER, names_of

_BATCH: Final = 150
_TRIES: Final = 4
_WINDOW_SHARE: Final = 3  # since functions, orders and frames have many combinations
_DEEP: Final = (0, 1, 1, 2)
_BY_ENGINES: Final = (Outcome.REFUSED_BY_SPARK, Outcome.REFUSED_BY_HIVE)
_ENOUGH: Final = 2
_NEVER: Final = 10**6
_SKIPPED: Final = Refusal("neither engine", "it was refused here")


def made(count: int, seed: int) -> list[Case]:
    """Return `count` different expressions: every line of the catalogue, then deeper ones."""
    dice = random.Random(seed)
    plain, groups, over = lines(EXPRESSIONS), lines(AGGREGATES), lines(windows())
    taken = [line for line in plain if _is_taken(line, ROWS, dice)]
    every = (
        [(line, ROWS) for line in plain]
        + [(line, GROUPS) for line in groups]
        + [(line, WINDOWS) for line in dice.sample(over, len(over) // _WINDOW_SHARE)]
    )
    found: dict[tuple[str, Form], Case] = {}
    maker, turn = Dice(dice, taken), 0
    refused = {line.template for line in plain} - {line.template for line in taken}
    while len(found) < count:
        dice.shuffle(every)
        for line, form in every[: count - len(found)]:
            if turn and line.template in refused:
                continue  # one question is enough for a line that the reader refuses
            depth = 0 if turn == 0 else dice.choice(_DEEP)
            case = Case(maker.expression(line, depth if form is ROWS else min(depth, 1)), form)
            found.setdefault((case.text, form), case)
        turn += 1
    return list(found.values())[:count]


def _is_taken(line: Line, form: Form, dice: random.Random) -> bool:
    maker = Dice(dice, ())
    return any(refusal(maker.expression(line, 0).text, form) is None for _ in range(_TRIES))


class Course:
    """A questioner of both engines. Mutable: it remembers the answers to each piece."""

    def __init__(self, engines: Engines, say: Callable[[str], None]) -> None:
        """Set the engines to ask, and the receiver of progress messages."""
        self._engines = engines
        self._say = say
        self._pairs: dict[tuple[str, Form], Pair] = {}
        # By line of the catalogue: the number of refusals by an engine, minus a bonus per answer.
        self._hopeless: Counter[str] = Counter()
        # Groups and windows that differed only in one query with others.
        self._equal_alone: set[tuple[str, Form]] = set()

    def findings(self, cases: Sequence[Case]) -> Iterator[Finding]:
        done = 0
        for form in (ROWS, GROUPS, WINDOWS):
            left = [case for case in cases if case.form == form]
            while left:
                hopeful = [case for case in left if not self._is_hopeless(case)]
                batch = hopeful[:_BATCH]
                for case in (case for case in left if self._is_hopeless(case)):
                    done += 1
                    yield Finding(case=case, outcome=Outcome.REFUSED_LIKE_OTHERS)
                left = hopeful[_BATCH:]
                yield from self._batch(batch, form)
                done += len(batch)
                self._say(f"{done} of {len(cases)} expressions")

    def _is_hopeless(self, case: Case) -> bool:
        return any(self._hopeless[p.template] >= _ENOUGH for p in case.node.pieces())

    def _batch(self, batch: Sequence[Case], form: Form) -> Iterator[Finding]:
        self.look_at([case.text for case in batch], form)
        if form is not ROWS:
            self._look_at_each_alone(batch)
        differing = [c for c in batch if self._outcome(c) is Outcome.DIFFERENT]
        pieces = {piece.text for case in differing for piece in case.node.pieces()}
        self.look_at(sorted(pieces), ROWS)
        for case in batch:
            refused = self._outcome(case) in _BY_ENGINES
            self._hopeless[case.node.template] += 1 if refused else -_NEVER
            yield self._finding(case)

    def _look_at_each_alone(self, batch: Sequence[Case]) -> None:
        """Ask again one by one, since Hive errs on some expressions beside others."""
        for case in batch:
            if self._outcome(case) is Outcome.DIFFERENT:
                (pair,) = self._asked([case.text], case.form)
                if pair.outcome(case.node.name) is Outcome.EQUAL:
                    self._pairs[case.text, case.form] = pair
                    self._equal_alone.add((case.text, case.form))

    def look_at(self, texts: Sequence[str], form: Form) -> None:
        """Ask both engines those texts that have no answer yet."""
        left = [text for text in dict.fromkeys(texts) if (text, form) not in self._pairs]
        for start in range(0, len(left), _BATCH):
            some = left[start : start + _BATCH]
            for text, pair in zip(some, self._asked(some, form), strict=True):
                self._pairs[text, form] = pair

    def _asked(self, texts: Sequence[str], form: Form) -> list[Pair]:
        refused = {text: r for text in texts if (r := refusal(text, form))}
        taken = [text for text in texts if text not in refused]
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(self._engines.ask_hive, taken, form)
            ours: list[Answer] = self._engines.ask_us(taken, form)
            theirs: list[Answer] = asked.result()
        found = {t: Pair(a, b) for t, a, b in zip(taken, ours, theirs, strict=True)}
        return [found.get(t) or Pair(refused[t], _SKIPPED) for t in texts]

    def _outcome(self, case: Case) -> Outcome:
        return self._pairs[case.text, case.form].outcome(case.node.name)

    def _finding(self, case: Case) -> Finding:
        pair, outcome = self._pairs[case.text, case.form], self._outcome(case)
        if (case.text, case.form) in self._equal_alone:
            return Finding(case=case, outcome=Outcome.KNOWN, names=(TOGETHER,))
        if outcome is not Outcome.DIFFERENT:
            told = next((a.told for a in (pair.ours, pair.theirs) if isinstance(a, Refusal)), "")
            return Finding(case=case, outcome=outcome, told=told)
        seen = blamed(case, self._pairs)
        named = [names_of(one) for one in seen]
        names = tuple(dict.fromkeys(name for some in named for name in some[:1]))
        outcome = Outcome.KNOWN if all(named) else Outcome.DIFFERENT
        if outcome is Outcome.DIFFERENT and case.form is ROWS:
            self._look_at_each_alone([case])
            if (case.text, case.form) in self._equal_alone:
                return Finding(case=case, outcome=Outcome.KNOWN, names=(TOGETHER,))
        return Finding(case=case, outcome=outcome, seen=tuple(seen), names=names)
