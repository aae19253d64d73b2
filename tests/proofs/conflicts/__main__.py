"""The command of the pairs.

    python -m tests.proofs.conflicts [--versions 3.1.3] [--policies strict]
                                     [--orders "at work"] [--no-report]

It exits with 0 if every pair ended as expected, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from airflow_hiveacid.format.conflicts import ConflictPolicy
from tests.proofs.conflicts import report
from tests.proofs.conflicts.cells import Cell, Order, Seen, expected, is_right, meet
from tests.proofs.conflicts.report import VERSIONS, every_cell
from tests.proofs.programs import clocked, laboratory, metastore, working_folder
from tests.support.spark_lab import Lab


def main(argv: Sequence[str] | None = None) -> int:
    """Run every pair, and return the exit status."""
    asked = _parser().parse_args(argv)
    say = clocked()
    record, wrong, count = report.read(), 0, 0
    for version in asked.versions or VERSIONS.values():
        cells = [
            cell
            for cell in every_cell()
            if VERSIONS[cell[0]] == version
            and cell[1].value in (asked.policies or [p.value for p in ConflictPolicy])
            and cell[2].value in (asked.orders or [o.value for o in Order])
            and not (asked.left and cell in record and is_right(cell, record[cell]))
        ]
        if not cells:
            continue
        with (
            working_folder(None, "conflicts") as folder,
            metastore(folder, version, on_postgres=True) as server,
            laboratory(server) as lab,
        ):
            for number, cell in enumerate(cells):
                seen = _meet(lab, f"pair_{number}", cell)
                record[cell] = seen
                count += 1
                is_wrong = not is_right(cell, seen)
                wrong += is_wrong
                mark = f"WRONG, not {expected(cell)[0].name}" if is_wrong else ""
                what = "?" if seen.outcome is None else seen.outcome.name
                _, policy, order, meeting = cell
                say(
                    f"{version} {policy.value} {order.value}:"
                    f" {meeting.earlier.value}, {meeting.later.value}: {what} {mark}"
                    f" {(seen.trouble + ': ' + seen.told) if is_wrong else ''}"
                )
                if not asked.no_report:
                    report.write(record)
    print(f"{count} pairs, {wrong} that did not end as they had to")
    return 1 if wrong else 0


def _meet(lab: Lab, name: str, cell: Cell) -> Seen:
    _, policy, order, meeting = cell
    try:
        return meet(lab, name, policy, order, meeting)
    except Exception as error:  # noqa: BLE001 - the other pairs must still run
        return Seen(outcome=None, told=f"{type(error).__name__}: {error}", trouble="it broke off")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.conflicts", description=__doc__)
    parser.add_argument("--versions", nargs="*", help=f"of {', '.join(VERSIONS.values())}")
    parser.add_argument("--policies", nargs="*", help="hive, strict")
    parser.add_argument("--orders", nargs="*", help=", ".join(repr(o.value) for o in Order))
    parser.add_argument("--left", action="store_true", help="only pairs that did not end well yet")
    parser.add_argument("--no-report", action="store_true", help="leave the page alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
