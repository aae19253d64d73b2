"""One run of the shipped collecting DAG, whose metastore is made up: 500 tables, or an error.

    python -m tests.proofs.pages.collect hiveacid_collect.py fine|failing

Everything else is real: the operator, its document, and what Airflow stores. It runs in a process
of its own, with the environment of the Airflow that the pages are read from.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, Final
from unittest.mock import patch

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.reporting.document import TableNumbers, TableRow
from airflow_hiveacid.operators.reporting.survey import Survey

TABLES: Final = 500
BLOCKED: Final = "sales.orders_000"
"""The table with details of every kind."""

HOST: Final = "etl@worker-7.example.com"
"""Whose transaction blocks that table; only some users may see this."""

_STATES: Final = ("fine", "fine", "fine", "fine", "due", "waiting", "failed", "unknown")
_JOB: Final = "flights_merge/manual__2026-01-01/merge/-1"


def main(argv: Sequence[str]) -> int:
    """Run the DAG once, and return 0 if its state is as requested."""
    # Airflow reads its home when it is imported, and importers of the constants have none.
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 - as above

    file, wanted = argv
    bag = DagBag(dag_folder=file)
    with ExitStack() as stack:
        for place, stand_in in {
            "airflow_hiveacid.operators.reporting.survey.survey": _survey,
            "airflow_hiveacid.hooks.hive_acid.HiveAcidHook.metastore": nullcontext,
        }.items():
            made = stand_in if wanted == "fine" else _failing
            stack.enter_context(patch(place, made))
        run = bag.dags["hiveacid_collect"].test()
    return 0 if run.state == ("success" if wanted == "fine" else "failed") else 1


def _failing(*_: object) -> Any:  # noqa: ANN401 - it has no result
    raise ConfigurationError("this collection has to fail")


def _survey(*_: object) -> Survey:
    return Survey(
        numbers=tuple(_numbers()),
        queue=tuple(
            _queued(number, f"sales.orders_{number:03d}", state)
            for number, state in enumerate(("working", "initiated", "failed"))
        ),
        owners={"77": HOST},
        workers={"0": "worker-7.example.com-44"},
        oldest=([77, time.time() - 3 * 86_400],),
    )


def _numbers() -> Iterator[TableNumbers]:
    now = time.time()
    yield TableNumbers(row=_row(0, "blocked"), details=_details(now))
    for number in range(1, TABLES):
        state = _STATES[number % len(_STATES)]
        cause = "transaction 77 has been open for 3 h" if state == "waiting" else ""
        yield TableNumbers(row=_row(number, state), cause=cause, remedy="end it with `abort 77`")


def _row(number: int, state: str) -> TableRow:
    return TableRow(
        table=f"sales.orders_{number:03d}",
        state=state,
        why="" if state == "fine" else "transaction 77 has been open for 3 h",
        partitions=1 + number % 5,
        due=int(state in ("due", "blocked")),
        deltas=number % 40,
        ratio=None if number % 7 == 0 else round(number % 90 / 100, 3),
        size_bytes=number * 7_654_321,
        obsolete=number % 3,
        last_compaction_s=round(time.time()) - number * 3600,
    )


def _details(now: float) -> dict[str, Any]:
    return {
        "findings": [
            ["compaction", "blocked", "Transaction 77 is open", "end it with `abort 77`"],
            ["cleaning", "waiting", "2 directories wait for a reader", ""],
        ],
        "thresholds": [[10, 0.1]],
        "plan": [["day=1", "minor", "12 deltas, at least 10"], ["day=2", "none", "1 delta"]],
        "directories": [
            ["day=1", f"delta_{n:07d}_{n:07d}_0000", "insert", n, n, "live", None, 4096 * n]
            for n in range(1, 13)
        ],
        "transactions": [[77, now - 10_800, now - 30, _JOB]],
        "locks": [[5, "day=1", "shared_write", "acquired", 77, None, _JOB]],
        "versions": [[12, now - 7200, "insert", _JOB, 1000, 0, 0, True, ["closing"]]],
        "tags": [["closing", 12, None]],
        "compactions": [_queued(0, BLOCKED, "working")],
    }


def _queued(number: int, table: str, state: str) -> list[Any]:
    return [number, table, "day=1", "minor", state, time.time() - 900, None, None, False]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
