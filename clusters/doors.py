"""The doors of a metastore: every login that is let in, and every one that is not.

A refusal is what is meant where the error has the type and the words that it must have.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from clusters.cells import FAILED, RAN, Cell
from door_cases import CASES, REFUSALS, Case, Refusal, closed
from door_lab import DoorLab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LET_IN, _KEPT_OUT = "Doors of the metastore", "Doors of the metastore: who is kept out"
_REFUSED: Final = "refused in words"


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Tries all whose name has the words, and says of each what came of it.

    What is tried at one metastore is tried in a row, and then that one is ended.
    """
    wanted = [
        (case.kind, version, case)
        for case in (*CASES, *REFUSALS)
        for version in case.versions
        if only in case.name
    ]
    wanted.sort(key=lambda one: one[:2])
    with DoorLab(folder) as lab:
        for (kind, version), group in itertools.groupby(wanted, key=lambda one: one[:2]):
            for _, _, case in group:
                if isinstance(case, Case):
                    yield _let_in(lab, case, version)
                else:
                    yield _kept_out(lab, case, version)
            lab.end(kind, version)
        leaks = lab.leaks()
        closed()
    yield Cell(
        area=_KEPT_OUT,
        combination="secrets in logs and command lines of all these runs",
        version="all",
        outcome=FAILED if leaks else "none found",
        note="; ".join(leaks),
    )


def _let_in(lab: DoorLab, case: Case, version: str) -> Cell:
    outcome, note = RAN, ""
    try:
        case.run(lab, version)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what came of it
        outcome, note = FAILED, f"{type(error).__name__}: {error}"
    return Cell(area=_LET_IN, combination=case.name, version=version, outcome=outcome, note=note)


def _kept_out(lab: DoorLab, refusal: Refusal, version: str) -> Cell:
    outcome = _REFUSED
    try:
        error = refusal.run(lab, version)
        note = f"{type(error).__name__}, {'retryable' if error.retryable else 'final'}"
        if type(error) is not refusal.error or not re.search(refusal.words, str(error), re.DOTALL):
            outcome, note = FAILED, f"{note}: {error}"
    except Exception as error:  # noqa: BLE001 - as above
        outcome, note = FAILED, f"{type(error).__name__}: {error}"
    return Cell(
        area=_KEPT_OUT, combination=refusal.name, version=version, outcome=outcome, note=note
    )
