"""The examples of the known differences, asked of Hive's engine and of us.

docs/differences.json gives for each example the answers of both engines. A table of differences is
a promise, so an answer that is not the documented one is as wrong as a difference without a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.proofs.differential.engines import GROUPS, ROWS, Refusal
from tests.proofs.differential.known import entries
from tests.proofs.differential.values import BROKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proofs.differential.engines import Answer, Engines


def missed(engines: Engines) -> Iterator[str]:
    """Yield a line for each example that has other answers than the documented ones."""
    examples = [(entry.id, one) for entry in entries() for one in entry.examples]
    for is_grouped, form in ((False, ROWS), (True, GROUPS)):
        asked = [(name, one) for name, one in examples if one.get("grouped", False) is is_grouped]
        texts = [one["sql"] for _, one in asked]
        answers = zip(engines.ask_hive(texts, form), engines.ask_us(texts, form), strict=True)
        for (name, one), (theirs, ours) in zip(asked, answers, strict=True):
            found = shown(theirs), shown(ours)
            if found != (one["hive"], one["ours"]):
                yield (
                    f"example of {name}: {one['sql']} is {found[0]} in Hive and {found[1]} here,"
                    f" documented as {one['hive']} and {one['ours']}"
                )


def shown(answer: Answer) -> str:
    """Return an answer's value in the first row or group, as docs/differences.json has it."""
    if isinstance(answer, Refusal):
        return "refused" if answer.by == "us" else "an error"
    value = answer.by_row[min(answer.by_row)]  # type: ignore[type-var]  # the keys are numbers
    if value is BROKEN:
        return "an error"
    return "NULL" if value is None else str(value)
