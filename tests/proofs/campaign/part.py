"""One metastore's part of a campaign, from empty tables to the verdict.

Read `run_part` from top to bottom.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from airflow_hiveacid.format.errors import MetastoreError
from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.compaction_work import cancel_compactions
from airflow_hiveacid.plan.keeping import READABLE_FOR
from airflow_hiveacid.versions.keeping import keep_no_more
from tests.proofs.campaign.errands import litter, tidy_up, warm_up
from tests.proofs.campaign.ground import HOUSEKEEPING_S, Ground
from tests.proofs.campaign.hive_reader import HiveOptions, rows_by_hive
from tests.proofs.campaign.looking import Reader, from_files
from tests.proofs.campaign.oracle import History, Violation, compare, judge
from tests.proofs.campaign.plans import Table
from tests.proofs.campaign.polls import (
    Poll,
    WrittenBase,
    load,
    read_bases,
    read_polls,
    was_turned_away_by_first_base,
)
from tests.proofs.campaign.process import Box, CampaignProcess
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.schedule import CLEANER, COMPACTOR, doom, incidents, reader_doom
from tests.proofs.campaign.seat import Role, Seat
from tests.proofs.campaign.setting import Options, launch_python, launch_spark
from tests.proofs.campaign.work import Changes, Upkeep

_DB: Final = "campaign"
_WARM_UP_DB: Final = "warm_up"
_READABLE_FOR: Final = "15 seconds"
_TICK_S: Final = 0.02
_DRAIN_S: Final = 240.0
_CLOSE_S: Final = 60.0
_LEADERS: Final = "__metastore_leader_election__"
"""The database of the locks by which servers since 4.1 choose a leader."""
_LATE_S: Final = 10.0
_END_S: Final = 180.0  # time that is left for draining, the time-out and the verdict
_SAY_S: Final = 30.0
# A read ends with a commit, too. If the metastore is down then, the outcome stays unknown, and the
# reader discards its rows.
_FORESEEN_WHILE_READING: Final = frozenset(
    {
        "CommitStateUnknownError",
        "LockNotAcquiredError",
        "MetastoreUnavailableError",
        "TransactionAbortedError",
    }
)

_FORESEEN_IF_LATE: Final = frozenset({"NotEnoughHistoryError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one part."""

    record: Record
    violations: tuple[Violation, ...]
    changes: int
    polls: int
    failed_polls: int

    @property
    def is_good(self) -> bool:
        """True if nothing went wrong."""
        return not self.violations and not self.record.troubles


def run_part(options: Options, record: Record) -> Outcome:
    """Run everything with its faults, then examine the result."""
    folder = options.folder / record.version
    ground = Ground(
        folder,
        version=record.version,
        timeout_s=options.timeout_s,
        record=record,
        store=options.store,
    )
    seats: list[Seat] = []
    try:
        ground.start()
        options = dataclasses.replace(options, reach=ground.reach)
        endpoint = MetastoreEndpoint(uris=(ground.uri,), connect_timeout_s=5.0, call_timeout_s=30.0)
        for name in (_WARM_UP_DB, _DB):
            make_tables(endpoint, name, ground.place_of(name), ground.parameters)
        warm_up(options, record, endpoint, _WARM_UP_DB)
        changes = Changes(options.seed, _DB, record)
        has_queue = not record.version.startswith("3.")
        # The storm waits for these calls.
        soon = dataclasses.replace(endpoint, call_timeout_s=5.0)
        request = partial(_request, record, soon) if has_queue else None
        cancel = partial(_cancel, record, soon) if has_queue else None
        upkeep = [
            Upkeep(options.seed, _DB, record, cleans=False, request=request),
            Upkeep(options.seed, _DB, record, cleans=True, cancel=cancel),
        ]
        seats += _seats(options, record, folder, endpoint, changes, upkeep)
        ground.expect(incidents(options.seed, options.seconds_each - _END_S))
        _storm(options, record, ground, seats)
        _drain(record, seats, changes, upkeep)
        _close(record, seats)
        _look_for_leftovers(record, endpoint, options.timeout_s)
        _keep_no_more(endpoint)
        record.say("compacting and cleaning what is left")
        history = History(plans=changes.plans, commits=changes.commits)
        rows = {table: history.rows_at_the_end(table) for table in Table}
        for complaint in tidy_up(options, folder / "tidy-up", endpoint, _DB, rows):
            record.trouble("erasure", complaint)
        for path in litter(ground.place_of(_DB)):
            record.trouble("litter", path)
        polls = [*read_polls(folder.glob("processes/*/polls.jsonl")), _last_look(folder, endpoint)]
        boxes = [Box(folder=path) for path in folder.glob("processes/*")]
        bases = read_bases(answer for box in boxes for answer in box.answers())
        _judge_failed(record, polls, bases, options.timeout_s)
        _count_pasts(record, polls)
        violations = judge(history, polls, partial(load, folder / "seen"))
        violations += _judge_by_hive(record, endpoint, history, ground.hive)
        if violations or record.troubles:
            ground.keep_tables(folder / "tables")
    finally:
        for seat in seats:
            seat.end()
        ground.stop()
    failed = sum(poll.error is not None for poll in polls)
    return Outcome(
        record=record,
        violations=tuple(violations),
        changes=len(changes.commits),
        polls=len(polls) - failed,
        failed_polls=failed,
    )


def _request(
    record: Record, endpoint: MetastoreEndpoint, table: str, partition: str | None
) -> None:
    """Request a compaction, as ALTER TABLE ... COMPACT does, if the metastore is there."""
    name = None if partition is None else PartitionName.parse(partition)
    try:
        with connect(endpoint) as client:
            client.request_compaction(TableRef.parse(table), name, CompactionType.MAJOR)
    except MetastoreError as error:
        record.note("request failed", table=table, partition=partition, error=str(error))
    else:
        record.counts["requested compactions"] += 1


def _cancel(record: Record, endpoint: MetastoreEndpoint, table: str) -> None:
    """Cancel the compactions of a table, as `hiveacid cancel` does, if the metastore is there."""
    record.cancels.append(record.now_s)
    try:
        with connect(endpoint) as client:
            found = cancel_compactions(client, TableRef.parse(table))
    except MetastoreError as error:
        record.note("cancel failed", table=table, error=str(error))
        # The metastore may still execute a call whose answer was lost.
        record.cancels.append(record.now_s + _LATE_S)
        return
    for entry in found:
        record.note("cancelled", table=table, entry=entry.entry_id, state=entry.state.value)
        record.counts[f"cancelled compactions, {entry.state.value}"] += 1


def _last_look(folder: Path, endpoint: MetastoreEndpoint) -> Poll:
    seen = folder / "seen"
    reader = Reader(name="last", endpoint=endpoint, db=_DB, look=from_files, folder=seen)
    return reader.poll(lambda: None)


def _judge_by_hive(
    record: Record, endpoint: MetastoreEndpoint, history: History, options: HiveOptions
) -> list[Violation]:
    record.say("Hive's own reader looks at what is left")
    found = []
    for table, rows in rows_by_hive(record.version, endpoint, _DB, options).items():
        expected = history.rows_at_the_end(table)
        record.counts[f"rows at the end, {table.value}"] = len(rows)
        if rows != expected:
            detail = compare(expected, rows)
            found.append(Violation(reader="hive", table=table.value, at=time.time(), detail=detail))
    return found


def make_tables(
    endpoint: MetastoreEndpoint,
    db: str,
    location: str,
    parameters: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Create the database and both tables; one of them keeps earlier versions for a while."""
    columns = {"id": "bigint", "v": "bigint", "job": "string"}
    data = tuple(Column(name=name, type=kind) for name, kind in columns.items())
    with connect(endpoint) as client:
        client.create_database(db, location)
        client.create_table(
            NewTable(
                ref=TableRef(db, Table.PARTED.value),
                columns=data,
                partition_columns=(Column(name="p", type="int"),),
                parameters={**parameters, READABLE_FOR: _READABLE_FOR},
            )
        )
        client.create_table(
            NewTable(
                ref=TableRef(db, Table.BUCKETED.value),
                columns=data,
                bucket_columns=("id",),
                num_buckets=3,
                parameters=parameters,
            )
        )


def _keep_no_more(endpoint: MetastoreEndpoint) -> None:
    """Stop keeping earlier versions, so that only what readers need may remain."""
    with connect(endpoint) as client:
        ref = TableRef(_DB, Table.PARTED.value)
        client.set_table_parameters(ref, {READABLE_FOR: None})
        keep_no_more(client, client.get_table(ref))


def _seats(
    options: Options,
    record: Record,
    folder: Path,
    endpoint: MetastoreEndpoint,
    changes: Changes,
    upkeep: Sequence[Upkeep],
) -> list[Seat]:
    seen = folder / "seen"
    seen.mkdir()

    def place(seat: str, life: int) -> Path:
        return folder / "processes" / f"{seat}-{life:03d}"

    def driver(seat: str, life: int) -> CampaignProcess:
        return launch_spark(options, place(seat, life), "driver")

    def reader(seat: str, life: int) -> CampaignProcess:
        with_spark = seat.startswith("spark")
        start: Callable[..., CampaignProcess] = launch_spark if with_spark else launch_python
        asked = ["--uri", endpoint.uris[0], "--db", _DB, "--name", f"{seat}-{life}"]
        flag = ["--spark"] if with_spark else []
        return start(options, place(seat, life), "reader", *asked, "--seen", str(seen), *flag)

    fate = partial(doom, options.seed, timeout_s=options.timeout_s)
    look = partial(reader_doom, options.seed)
    roles = [
        Role(name="writer-1", launch=driver, doom=fate, work=changes),
        Role(name="writer-2", launch=driver, doom=fate, work=changes),
        Role(name="compactor", launch=driver, doom=partial(fate, habits=COMPACTOR), work=upkeep[0]),
        Role(name="cleaner", launch=driver, doom=partial(fate, habits=CLEANER), work=upkeep[1]),
        Role(name="spark-reader", launch=reader, doom=look),
        Role(name="file-reader", launch=reader, doom=look),
    ]
    return [Seat(role, endpoint, record) for role in roles]


def _storm(options: Options, record: Record, ground: Ground, seats: Sequence[Seat]) -> None:
    """Run everything at once, until there are enough kills or the time is up."""
    said_at = 0.0
    while (
        record.counts["kills"] < options.kills_each and record.now_s < options.seconds_each - _END_S
    ):
        ground.tick()
        for seat in seats:
            seat.tick()
        if record.now_s > said_at + _SAY_S:
            said_at = record.now_s
            record.say(_line(record))
        time.sleep(_TICK_S)
    for seat in seats:
        seat.is_cursed = False
    ground.calm()
    record.note("storm_over")
    record.say(f"the storm is over: {_line(record)}")


def _line(record: Record) -> str:
    counts = record.counts
    changes = sum(n for name, n in counts.items() if name.startswith("planned "))
    return (
        f"{record.version}: {counts['kills']} kills, {changes} changes,"
        f" {counts['committed']} commits, {counts['already_done']} already done,"
        f" {counts['failed']} failed tries, errors {dict(record.errors)}"
    )


def _drain(
    record: Record, seats: Sequence[Seat], changes: Changes, upkeep: Sequence[Upkeep]
) -> None:
    """Let every job finish without further faults."""
    changes.is_open = False
    for work in upkeep:
        work.is_open = False
    workers = [seat for seat in seats if not seat.name.endswith("reader")]
    deadline = time.monotonic() + _DRAIN_S
    while not all(seat.is_idle for seat in workers):
        if time.monotonic() > deadline:
            busy = [seat.name for seat in workers if not seat.is_idle]
            record.trouble("not drained", f"{', '.join(busy)} after {_DRAIN_S:g} s")
            return
        for seat in seats:
            seat.tick()
        time.sleep(_TICK_S)
    if changes.unfinished:
        record.trouble("unfinished", f"changes {changes.unfinished}")


def _close(record: Record, seats: Sequence[Seat]) -> None:
    """Let every process end by itself; readers look once more at the final tables."""
    deadline = time.monotonic() + _CLOSE_S
    while not all(seat.is_ready for seat in seats) and time.monotonic() < deadline:
        for seat in seats:
            seat.tick()
        time.sleep(_TICK_S)
    for seat in seats:
        seat.close()
    deadline = time.monotonic() + _CLOSE_S
    while not all(seat.is_gone for seat in seats):
        if time.monotonic() > deadline:
            record.trouble("left running", ", ".join(s.name for s in seats if not s.is_gone))
            return
        time.sleep(0.2)


def _look_for_leftovers(record: Record, endpoint: MetastoreEndpoint, timeout_s: float) -> None:
    """Check that dead processes hold nothing after one time-out."""
    time.sleep(timeout_s + 2 * HOUSEKEEPING_S + 1.0)
    with connect(endpoint) as client:
        for lock in client.show_locks():
            if lock.db != _LEADERS:
                record.trouble("a lock is left", str(lock))
        for txn in client.open_txns_info():
            if txn.state is TxnState.OPEN:
                record.trouble("a transaction is left open", str(txn))
    record.note("leftovers_looked_for")


def _judge_failed(
    record: Record, polls: Sequence[Poll], bases: Sequence[WrittenBase], timeout_s: float
) -> None:
    for poll in polls:
        if poll.error is None:
            continue
        kind, text = poll.error
        record.errors[f"reader {kind}"] += 1
        # Cleaning does not wait for a reader whose transaction has timed out.
        is_late = poll.ended_at - poll.began_at > timeout_s
        foreseen = _FORESEEN_WHILE_READING | (_FORESEEN_IF_LATE if is_late else set())
        if kind not in foreseen and not was_turned_away_by_first_base(poll, bases):
            record.trouble("unforeseen while reading", f"{poll.reader} {poll.began_at}: {text}")


def _count_pasts(record: Record, polls: Sequence[Poll]) -> None:
    """Count the versions and changes that were read of each table, and those refused."""
    for poll in polls:
        for table, seen in poll.tables.items():
            if seen.past is not None:
                record.counts[f"{table}: versions read"] += seen.past.digest is not None
                record.counts[f"{table}: changes read"] += seen.past.replayed is not None
                record.counts[f"{table}: refused"] += len(seen.past.refused)
