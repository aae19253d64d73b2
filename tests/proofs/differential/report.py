"""A run's counts in docs/evidence/differential.json and .md, and its values in build/."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.proofs.differential.cases import Finding, Outcome
from tests.proofs.differential.known import entries, names_of, statement_names
from tests.proofs.differential.twins import Done
from tests.proofs.differential.values import RULES
from tests.support.documents import EVIDENCE, ROOT

FILE: Final = EVIDENCE / "differential.json"
PAGE: Final = EVIDENCE / "differential.md"
RUN: Final = ROOT / "build" / "differential.pickle"
VALUES: Final = ROOT / "build" / "differential.jsonl"
EXPRESSIONS: Final = "expressions"
STATEMENTS: Final = "statements"
STORES: Final = "types into columns of types"
SIMPLE: Final = "simple statements, by three engines"
_MOST_VALUES: Final = 8


@dataclass(slots=True)
class Tally:
    """The counts of a run, and its differences. Mutable: it grows during the run."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    named: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    found: list[tuple[str, Finding | Done]] = field(default_factory=list)

    def add(self, what: str, one: Finding | Done) -> None:
        self.counts.setdefault(what, Counter())[one.outcome.value] += 1
        self.named.update(one.names)
        self.found.append((what, one))
        if one.outcome is Outcome.DIFFERENT:
            self.wrong.append(_told(one))


def _told(one: Finding | Done) -> str:
    if isinstance(one, Done):
        return f"{one.written.text}: {one.told}"
    values = "; ".join(
        f"{s.text} in row {s.row}: {s.ours!r} here, {s.theirs!r} in Hive"
        f" ({', '.join(map(str, s.arguments))})"[:400]
        for s in one.seen[:_MOST_VALUES]
    )
    return f"{one.case.text}: {values or one.told}"


def write(tally: Tally, facts: Mapping[str, Any], *, file: Path = FILE, page: Path = PAGE) -> None:
    record = {
        "facts": dict(facts),
        "counts": {what: dict(counts) for what, counts in tally.counts.items()},
        "named": dict(tally.named.most_common()),
        "not named": tally.wrong,
    }
    file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    page.write_text("\n".join(lines(record)) + "\n")


def read(file: Path = FILE) -> dict[str, Any]:
    """Return the record of the last run."""
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def write_values(tally: Tally, facts: Mapping[str, Any]) -> None:
    """Write every question with its outcome, a JSON object a line, and keep the run."""
    VALUES.parent.mkdir(exist_ok=True)
    with VALUES.open("w") as file:
        for what, one in tally.found:
            told = {
                "of": what,
                "outcome": one.outcome.value,
                "names": one.names,
                "what": _told(one),
            }
            file.write(json.dumps(told, ensure_ascii=False) + "\n")
    RUN.write_bytes(pickle.dumps((dict(facts), tally.found)))


def kept() -> tuple[Tally, dict[str, Any]]:
    """Return the last kept run, named by the current entries, and its facts."""
    facts, found = pickle.loads(RUN.read_bytes())  # noqa: S301 - our own file
    tally = Tally()
    for what, one in found:
        tally.add(what, named(one))
    return tally, facts


def named(one: Finding | Done) -> Finding | Done:
    """Return the result, named by the current entries."""
    if isinstance(one, Done) and one.outcome is Outcome.DIFFERENT:
        found = tuple(statement_names(one.written.all_marks))
        return replace(one, outcome=Outcome.KNOWN, names=found) if found else one
    if one.outcome not in {Outcome.KNOWN, Outcome.DIFFERENT} or not one.seen:
        return one
    names = [names_of(seen) for seen in one.seen]
    outcome = Outcome.KNOWN if all(names) else Outcome.DIFFERENT
    return replace(one, outcome=outcome, names=tuple(dict.fromkeys(n[0] for n in names if n)))


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield "# Expressions and statements in Hive and in this provider"
    yield ""
    yield "Before you move statements from Hive, read the table of differences in"
    yield "[SQL](../reference/sql.md#differences-from-hive). This page is its evidence."
    yield ""
    yield "`make differential` writes this page. It generates expressions and statements, runs each"
    yield "with Hive 4.0.1's own engine and with this provider's jobs, and compares the values and"
    yield "tables. Hive evaluates expressions in a task, as it does for INSERT .. SELECT."
    yield ""
    yield "## The last run"
    yield ""
    yield from (f"* {name}: {value}" for name, value in record["facts"].items())
    yield ""
    yield f"| outcome | {' | '.join(record['counts'])} |"
    yield f"| --- |{' ---: |' * len(record['counts'])}"
    for outcome in Outcome:
        cells = (str(counts.get(outcome.value, 0)) for counts in record["counts"].values())
        yield f"| {outcome.value} | {' | '.join(cells)} |"
    yield ""
    yield "If a statement fails in both engines, it counts as equal. *An error of ours* means that"
    yield "this provider raises an error for some rows, and returns Hive's values for all others."
    yield "*Named* differences have an entry in [differences.json](differences.json)."
    yield ""
    yield "## Different and named"
    yield ""
    yield "Each row is an entry of [differences.json](differences.json). *seen* is how often this"
    yield "run found it. [SQL](../reference/sql.md#differences-from-hive) describes the entries."
    yield ""
    yield "| entry | where | seen |"
    yield "| --- | --- | ---: |"
    for entry in entries():
        where = entry.where.replace("|", "\\|")
        yield f"| `{entry.id}` | {where} | {record['named'].get(entry.id, 0)} |"
    yield ""
    yield "## Different and not named"
    yield ""
    yield from (f"* `{one[:300]}`" for one in record["not named"])
    if not record["not named"]:
        yield "None."
    yield ""
    yield "## What counts as equal"
    yield ""
    yield from (f"* {rule}" for rule in RULES)
