"""The command of the pairs.

    python -m tests.proofs.conflicts [--versions 3.1.3] [--policies strict]
                                     [--orders "at work"] [--no-report]

It exits with 0 if every pair ended as expected, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hiveacid.format.policies import ConflictPolicy
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from tests.proofs.conflicts import report
from tests.proofs.conflicts.cells import Order, Seen, expected, is_right, meet
from tests.proofs.conflicts.report import VERSIONS, every_cell
from tests.support.spark_lab import Lab, make_lab, small_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.proofs.conflicts.cells import Cell


def main(argv: Sequence[str] | None = None) -> int:
    """Run every pair, and return the exit status."""
    asked = _parser().parse_args(argv)
    began = time.monotonic()
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
        with _lab(version) as lab:
            for number, cell in enumerate(cells):
                seen = _meet(lab, f"pair_{number}", cell)
                record[cell] = seen
                count += 1
                is_wrong = not is_right(cell, seen)
                wrong += is_wrong
                mark = f"WRONG, not {expected(cell)[0].name}" if is_wrong else ""
                what = "?" if seen.outcome is None else seen.outcome.name
                _, policy, order, meeting = cell
                print(
                    f"{time.monotonic() - began:7.1f} s  {version} {policy.value} {order.value}:"
                    f" {meeting.earlier.value}, {meeting.later.value}: {what} {mark}"
                    f" {(seen.trouble + ': ' + seen.told) if is_wrong else ''}",
                    flush=True,
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


@contextmanager
def _lab(version: str) -> Iterator[Lab]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conflicts-")))
        config = LocalMetastoreConfig(version=version, data_dir=folder, ends_with_parent=True)
        # On Derby, a commit and a query about a lock can lock each other out.
        server = stack.enter_context(metastore_on_postgres(config))
        spark = small_session()
        stack.callback(spark.stop)
        labs = make_lab(spark, server)
        stack.callback(labs.close)  # type: ignore[attr-defined]  # a generator
        yield next(labs)


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
