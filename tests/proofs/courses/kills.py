"""The change logs of W15 again, applied by a process that is killed at random times.

The process applies each log in one transaction under the log's name, and appends all its events to
a second table in the same transaction. A log that was applied twice would show there twice; one
that was applied half would leave wrong rows in the first table. A process that starts again first
repeats the last log, which must be refused as done before.

    python -m tests.proofs.courses.kills SYSTEM METASTORE TABLE FOLDER ROUNDS --box FOLDER
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec, TransactionSpec
from airflow_hiveacid.lake.connection import connect
from airflow_hiveacid.local.process import tail
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect as client_of
from tests.proofs.bench import acid
from tests.proofs.bench.lab import REPOSITORY, session
from tests.proofs.bench.recorder import Recorder, WrongRowsError
from tests.proofs.bench.records import OURS
from tests.proofs.bench.sales import KEY
from tests.proofs.campaign.process import Box, CampaignProcess
from tests.proofs.courses.cases import USE_CASES, UseCase
from tests.proofs.courses.course import model_of, write_base, write_change
from tests.proofs.courses.rows import VERSION
from tests.proofs.courses.tables import SparkTable, apply_log, create, log_merge

_KILLS_OF_A_ROUND: Final = 4
"""After so many kills in one round, the process may end it."""

_POLL_S: Final = 0.02
_LONGEST_S: Final = 900.0
_SEED: Final = 15
_DONE: Final = "was done before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened: `refused` logs were repeated and had been applied before."""

    system: str
    kills: int
    rounds: int
    events: int
    refused: int


def run_with_kills(case: UseCase, system: str, recorder: Recorder) -> Outcome:
    """Apply all logs in processes that are killed, and check every row.

    Raises:
        WrongRowsError: a row is missing, doubled or wrong, or a process failed.
    """
    lab, folder = recorder.lab, recorder.lab.folder / "killed"
    name = f"{case.name.lower()}_killed"
    recorder.begin(f"{system} {name}")
    table = create(lab, system, name, case)
    assert isinstance(table, SparkTable)
    table.load(write_base(case))
    audit = TableRef.parse(_audit(table.name))
    columns = (Column(name=KEY, type="bigint"), Column(name=VERSION, type="int"))
    with client_of(lab.endpoint) as client:
        client.create_table(NewTable(ref=audit, columns=columns))
    model = model_of(case)
    for round_ in range(case.rounds):
        write_change(case, model, round_, folder)
    uri, rounds = lab.endpoint.uris[0], case.rounds
    module = [sys.executable, "-m", "tests.proofs.courses.kills"]
    command = [*module, system, uri, table.name, str(folder), str(rounds)]
    lives = _Lives(command=command, folder=folder, rounds=rounds)
    lives.run()
    kills, refused = lives.kills, sum(_DONE in path.read_text() for path in lives.logs)
    recorder.begin(f"{system} {name}: {kills} kills, {refused} repeated logs were refused; check")
    model.require(table.batches(), f"{system} after {kills} kills")
    events = case.rounds * case.changes
    with connect(lab.endpoint) as lake:
        found = np.sort(lake.table(str(audit)).scan([VERSION]).to_arrow()[VERSION].to_numpy())
    if not np.array_equal(found, np.arange(1, events + 1)):
        raise WrongRowsError(
            f"{system}: of {events} events, {len(np.unique(found))} were applied, in"
            f" {len(found)} rows"
        )
    table.drop()
    return Outcome(system=system, kills=kills, rounds=case.rounds, events=events, refused=refused)


@dataclass(slots=True, kw_only=True)
class _Lives:
    """The processes that apply the logs, one after the other. Mutable: it counts.

    `span_s` is how long the first log took, without a kill.
    """

    command: list[str]
    folder: Path
    rounds: int
    dice: random.Random = field(default_factory=lambda: random.Random(_SEED))
    logs: list[Path] = field(default_factory=list)
    span_s: float = 0.0
    kills: int = 0
    kills_of_round: int = 0
    done: int = 0

    def run(self) -> None:
        """Run processes until every round is done."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        while self.done < self.rounds:
            box = self.folder / f"life-{len(self.logs)}"
            process = CampaignProcess(box, self.command, environment)
            self.logs.append(process.box.log)
            try:
                self._live(process)
            finally:
                process.end()

    def _live(self, process: CampaignProcess) -> None:
        """Wait until a process has ended, or until the time of its kill."""
        log = process.box.log
        _await(lambda: process.box.is_ready or process.has_ended, log)
        began_s = time.monotonic()
        if not self.span_s:
            _await(lambda: _done(self.folder) > 0 or process.has_ended, log)
            self.span_s = time.monotonic() - began_s
        kill_s = time.monotonic() + self.dice.uniform(0, 1.2 * self.span_s)
        _await(lambda: process.has_ended or self._is_doomed(kill_s), log)
        self._is_doomed(kill_s)
        if not process.has_ended:
            self.kills += 1
            self.kills_of_round += 1
        elif self.done < self.rounds:
            raise WrongRowsError(f"a process failed: {tail(log)}")

    def _is_doomed(self, kill_s: float) -> bool:
        if (done := _done(self.folder)) > self.done:
            self.done, self.kills_of_round = done, 0
        return time.monotonic() >= kill_s and self.kills_of_round < _KILLS_OF_A_ROUND


def _await(is_there: Callable[[], bool], log: Path) -> None:
    began_s = time.monotonic()
    while not is_there():
        if time.monotonic() - began_s > _LONGEST_S:
            raise WrongRowsError(f"a process hangs: {tail(log)}")
        time.sleep(_POLL_S)


def _done(folder: Path) -> int:
    return sum(1 for _ in folder.glob("done-*"))


# ---- the process ---------------------------------------------------------------------------------

Apply = Callable[[Path, str], JobResult]
"""A function that applies a log under a key."""


def main() -> int:
    """Apply the logs that are left, and first the last one that is done."""
    parser = argparse.ArgumentParser()
    for name in ("system", "uri", "table"):
        parser.add_argument(name)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--box", type=Path, required=True)
    given = parser.parse_args()
    box, endpoint = Box(folder=given.box), MetastoreEndpoint(uris=(given.uri,))
    make = _in_spark if given.system == OURS else _in_python
    apply = make(endpoint, given.table, box)
    box.say_ready()
    done = _done(given.folder)
    for round_ in range(max(0, done - 1), given.rounds):
        result = apply(given.folder / f"change-{round_}.parquet", f"log {round_}")
        if round_ < done:
            if not result.was_done_before:
                raise WrongRowsError(f"log {round_} was applied twice")
            print(_DONE, flush=True)
        (given.folder / f"done-{round_}").touch()
    return 0


def _in_python(endpoint: MetastoreEndpoint, table: str, _box: Box) -> Apply:
    lake = connect(endpoint)
    return lambda log, key: apply_log(
        lake, table, pq.read_table(log), USE_CASES["W15"], key, _audit(table)
    )


def _in_spark(endpoint: MetastoreEndpoint, table: str, box: Box) -> Apply:
    settings = {"spark.master": "local[2]", "spark.driver.memory": "2g"}
    spark = session(box.folder, settings)

    def apply(log: Path, key: str) -> JobResult:
        query = f"SELECT {KEY}, {VERSION} FROM source"
        events = SourceSpec(format="parquet", location=str(log), query=query)
        merge = log_merge(table, log, USE_CASES["W15"])
        statements = (merge, InsertSpec(target=_audit(table), source=events))
        job = TransactionSpec(statements=statements)
        return acid.run_job_in(spark, endpoint, job, key)

    return apply


def _audit(table: str) -> str:
    return f"{table}_audit"


if __name__ == "__main__":
    sys.exit(main())
