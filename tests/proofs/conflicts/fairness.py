"""A measurement of how long jobs wait for each other at a table, and whether one starves.

    python -m tests.proofs.conflicts.fairness [--seconds 20] [--versions 4.0.1] [--casts NAME ...]

Each runs one transaction after the other, with locks and a tenth of a second of work, on a
metastore on PostgreSQL, without writing files. Prints lines for docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.conflicts import ConflictPolicy, DataOperation
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin

_WORK_S: Final = 0.1
_LOCK_TIMEOUT_S: Final = 600.0
_READ, _INSERT, _UPDATE, _, _OVERWRITE = DataOperation
_CASTS: Final[Mapping[str, tuple[ConflictPolicy, tuple[DataOperation, ...]]]] = {
    "8 that insert": (ConflictPolicy.HIVE, (_INSERT,) * 8),
    "8 that change rows": (ConflictPolicy.HIVE, (_UPDATE,) * 8),
    "8 that change rows, `strict`": (ConflictPolicy.STRICT, (_UPDATE,) * 8),
    "7 that insert, 1 that overwrites": (ConflictPolicy.HIVE, (_OVERWRITE, *(_INSERT,) * 7)),
    "7 that read, 1 that overwrites": (ConflictPolicy.HIVE, (_OVERWRITE, *(_READ,) * 7)),
    "20 that read, 20 that overwrite": (ConflictPolicy.HIVE, (_OVERWRITE, _READ) * 20),
    "7 that change rows, 1 that reads": (ConflictPolicy.HIVE, (_READ, *(_UPDATE,) * 7)),
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """The result of one job. Mutable: it counts. `waits_s` last from the request to the work."""

    operation: DataOperation
    done: int = 0
    waits_s: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.conflicts.fairness")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--casts", nargs="*", default=list(_CASTS), choices=list(_CASTS))
    parser.add_argument("--versions", nargs="*", default=["3.1.3", "4.0.1"])
    asked = parser.parse_args(argv)
    print("| metastore | at the same table | done, by each | longest wait (median) | failed |")
    print("| --- | --- | --- | --- | --- |")
    for version in asked.versions:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairness-")))
            config = LocalMetastoreConfig(version=version, data_dir=folder, ends_with_parent=True)
            server = stack.enter_context(metastore_on_postgres(config))
            endpoint = MetastoreEndpoint(uris=(server.uri,))
            for number, name in enumerate(asked.casts):
                policy, cast = _CASTS[name]
                found = _measure(endpoint, f"t{number}", policy, cast, asked.seconds)
                print(f"| {version} | {name} | {_told(found)} |", flush=True)
    return 0


def _measure(
    endpoint: MetastoreEndpoint,
    name: str,
    policy: ConflictPolicy,
    cast: Sequence[DataOperation],
    seconds: float,
) -> list[Tally]:
    with connect(endpoint) as client:
        client.create_database("fairness")
        table = client.create_table(
            NewTable(ref=TableRef("fairness", name), columns=(Column(name="id", type="bigint"),))
        )
    until_s = time.monotonic() + seconds
    tallies = [Tally(operation=operation) for operation in cast]
    with ThreadPoolExecutor(len(cast)) as pool:
        list(pool.map(lambda tally: _work(endpoint, table, policy, tally, until_s), tallies))
    return tallies


def _work(
    endpoint: MetastoreEndpoint,
    table: TableInfo,
    policy: ConflictPolicy,
    tally: Tally,
    until_s: float,
) -> None:
    access = TableAccess(table=table, operations=frozenset({tally.operation}), policy=policy)
    is_read = tally.operation is _READ
    with connect(endpoint) as client:
        while time.monotonic() < until_s:
            asked_s = time.monotonic()
            try:
                with begin(
                    client,
                    JobTerms(job_key=None, lock_timeout_s=_LOCK_TIMEOUT_S),
                    reads=[access] if is_read else (),
                    writes=() if is_read else [access],
                ):
                    tally.waits_s.append(time.monotonic() - asked_s)
                    time.sleep(_WORK_S)
            except HiveAcidError as error:
                tally.failed[type(error).__name__] += 1
            else:
                tally.done += 1


def _told(tallies: Sequence[Tally]) -> str:
    kinds = list(dict.fromkeys(tally.operation for tally in tallies))
    done, waits, failed = [], [], []
    for kind in kinds:
        of_kind = [tally for tally in tallies if tally.operation is kind]
        counts = sorted(tally.done for tally in of_kind)
        every = [wait for tally in of_kind for wait in tally.waits_s] or [0.0]
        errors = sum((tally.failed for tally in of_kind), Counter())
        name = f"{kind.value} " if len(kinds) > 1 else ""
        done.append(name + (f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"))
        waits.append(f"{name}{max(every):.1f} s ({statistics.median(every):.2f} s)")
        failed += [f"{name}{count} {error}" for error, count in errors.items()]
    return " | ".join((", ".join(done), ", ".join(waits), ", ".join(failed) or "-"))


if __name__ == "__main__":
    sys.exit(main())
