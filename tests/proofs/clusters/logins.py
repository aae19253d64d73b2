"""The logins at a metastore: every login that is accepted, and every one that is refused.

A refusal counts if the error has the required type and words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.clusters.cells import FAILED, RAN, REFUSED, Cell
from tests.support.login_cases import CASES, REFUSALS, Case, Refusal, closed
from tests.support.login_lab import LoginLab

_ACCEPTED, _NOT_ACCEPTED = "Metastore logins that are accepted", "Metastore logins that are refused"


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Try all cases with the words in their names, and yield the result of each.

    Cases at one metastore run in a row, and then that metastore ends.
    """
    cases: tuple[Case | Refusal, ...] = (*CASES, *REFUSALS)
    wanted = [
        (case.kind, version, case)
        for case in cases
        for version in case.versions
        if only in case.name
    ]
    wanted.sort(key=lambda one: one[:2])
    with LoginLab(folder) as lab:
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
        area=_NOT_ACCEPTED,
        combination="a search for leaked secrets in logs and command lines",
        version="all",
        outcome=FAILED if leaks else "none found",
        note="; ".join(leaks),
    )


def _let_in(lab: LoginLab, case: Case, version: str) -> Cell:
    outcome, note = RAN, ""
    try:
        case.run(lab, version)
    except Exception as error:  # noqa: BLE001 - any error is the case's result
        outcome, note = FAILED, f"{type(error).__name__}: {error}"
    return Cell(area=_ACCEPTED, combination=case.name, version=version, outcome=outcome, note=note)


def _kept_out(lab: LoginLab, refusal: Refusal, version: str) -> Cell:
    outcome = REFUSED
    try:
        error = refusal.run(lab, version)
        note = f"{type(error).__name__}, {'retryable' if error.retryable else 'final'}"
        if type(error) is not refusal.error or not re.search(refusal.words, str(error), re.DOTALL):
            outcome, note = FAILED, f"{note}: {error}"
    except Exception as error:  # noqa: BLE001 - as above
        outcome, note = FAILED, f"{type(error).__name__}: {error}"
    return Cell(
        area=_NOT_ACCEPTED, combination=refusal.name, version=version, outcome=outcome, note=note
    )
