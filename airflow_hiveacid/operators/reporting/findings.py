"""Findings about a table's compaction and locks: what blocks, what is due, and what to do.

It measures with the functions of the sensors and the cleaning, and changes nothing. `explain`
prints the findings and `HiveAcidCollectOperator` stores them, without users and hosts.
"""

from __future__ import annotations

import enum
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import LockState, LockType, MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.records import Reader
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.format.words import age, age_text, several
from airflow_hiveacid.maintenance.pauses import pauses
from airflow_hiveacid.metastore import compaction_queue
from airflow_hiveacid.metastore.entry_status import statuses
from airflow_hiveacid.metastore.locks import LockInfo, names_around
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.transactions.fencing import writer_of
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.thresholds import CompactionPolicy, TableHealth, exceeded
from airflow_hiveacid.storage.acid.read.inspect import delete_events
from airflow_hiveacid.storage.stores.listing import list_roots
from airflow_hiveacid.versions.keeping import opted_out_of

_MOST_NAMED: Final = 3
_MOST_SHOWN: Final = 5


class Urgency(enum.IntEnum):
    """The urgency of a finding; the lowest value is the most urgent."""

    BLOCKED = 1
    FAILED = 2
    DUE = 3
    UNKNOWN = 4
    WAITING = 5
    SWITCHED_OFF = 6
    FINE = 7

    @property
    def state(self) -> str:
        """The state of a table whose most urgent finding has this urgency."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding about compaction or cleaning, and what to do; `remedy` may be empty.

    Findings with the same `cause` are due to the same event or setting. If it is empty, `what`
    tells the cause.
    """

    about: str
    urgency: Urgency
    what: str
    remedy: str = ""
    cause: str = ""


def capped(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the first few findings of each kind, and the number of the remaining findings."""
    numbers: Counter[tuple[str, Urgency]] = Counter()
    for finding in findings:
        numbers[finding.about, finding.urgency] += 1
        if numbers[finding.about, finding.urgency] <= _MOST_SHOWN:
            yield finding
    for (about, urgency), number in numbers.items():
        if number > _MOST_SHOWN:
            text = f"{several(number - _MOST_SHOWN, 'more finding')} of this kind"
            yield Finding(about=about, urgency=urgency, what=text)


# ---- compaction ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRoot:
    """The state of a partition as a compactor and as a reader sees it, each with its measurements.

    A compactor sees only writes below the lowest open write ID.
    """

    name: str
    visible_state: AcidState
    compactable: TableHealth
    visible: TableHealth


@dataclass(frozen=True, slots=True)
class LocksNow:
    """All locks of a metastore by database and table, and its transactions without a heartbeat.

    Those in `silent` have missed the server's time-out, by this machine's clock.
    """

    by_name: Mapping[tuple[str, str], Sequence[LockInfo]]
    silent: frozenset[TxnId]

    @classmethod
    def of(cls, client: MetastorePort) -> Self:
        """Read the locks of all tables, and then the transactions."""
        by_name: defaultdict[tuple[str, str], list[LockInfo]] = defaultdict(list)
        for lock in client.show_locks():
            by_name[lock.name].append(lock)
        ages = {txn.txn_id: age(txn.last_heartbeat_s) or 0 for txn in client.open_txns_info()}
        timeout_s = client.txn_timeout_s
        return cls(by_name, frozenset(txn for txn, age_s in ages.items() if age_s > timeout_s))

    def on(self, ref: TableRef) -> tuple[LockInfo, ...]:
        """Return the locks on a table, its partitions and database, and of its compactions."""
        return tuple(lock for name in names_around(ref) for lock in self.by_name.get(name, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts from which the findings about one table are derived; `silent` as in `LocksNow`."""

    table: TableInfo
    snapshot: Snapshot
    roots: tuple[MeasuredRoot, ...]
    entries: tuple[compaction_queue.CompactionEntry, ...]
    locks: tuple[LockInfo, ...]
    silent: frozenset[TxnId]
    generation: MetastoreGeneration


def facts_of(
    client: MetastorePort, table: TableInfo, locks: LocksNow, *, counts_rows: bool = False
) -> TableFacts:
    """Ask the metastore about a table, and list its directories.

    With `counts_rows`, count deleted rows from the footers of delete deltas.
    """
    # Read the queue before the directories. If a compaction ends between the two reads, the
    # findings list it as unfinished. Read the transactions before the queue (`EntryStatus`).
    snapshot = snapshot_now(client, [table.ref])
    entries = client.show_compactions(table.ref)
    return TableFacts(
        table=table,
        snapshot=snapshot,
        roots=_measured(client, table, snapshot, counts_rows=counts_rows),
        entries=entries,
        locks=locks.on(table.ref),
        silent=locks.silent,
        generation=client.generation,
    )


def compaction_findings(
    client: MetastorePort,
    facts: TableFacts,
    policy: CompactionPolicy,
    *,
    names_owners: bool = True,
) -> Iterator[Finding]:
    """Yield findings about a table's compaction.

    Without `names_owners`, texts contain neither users and hosts nor messages that may name them.
    """
    table, measured = facts.table, facts.roots
    due = [root for root in measured if exceeded(root.compactable, policy)]
    switched_off = opted_out_of(table, NO_AUTO_COMPACTION)
    if switched_off is not None:
        yield _switched_off(facts, due, switched_off)
    for complaint in policy.warnings:
        yield Finding(about="compaction", urgency=Urgency.FINE, what=complaint)
    yield from _queue(facts, names_owners=names_owners)
    yield from _waiting(client, facts, policy, names_owners=names_owners)
    pending = {str(e.partition or "") for e in facts.entries if e.is_pending}
    # On 3.1, and before a compactor has its entry, only its lock shows it (`lock_findings`).
    # The oldest lock counts. A server that ends no dead transactions lists a dead one for good.
    by_age = sorted(facts.locks, key=lambda lock: lock.lock_id, reverse=True)
    held = {(k.partition or "").lower(): k for k in by_age if k.is_of_compactor}
    paused = pauses(table, [root.name for root in due], now_s=time.time())
    for name, why in paused.items():
        text = why if names_owners else "paused after failed jobs; `explain` has the reason"
        yield Finding(
            about="compaction",
            urgency=Urgency.BLOCKED,
            what=f"{_name(name)} is due, but {text}",
            cause=f"partitions are due, but {text}",
        )
    for root in due:
        holder = held.get(root.name.lower())
        is_left = holder is not None and holder.txn_id in facts.silent
        if root.name in paused or (not is_left and (root.name in pending or holder)):
            continue
        # If there is still a holder, it is left by a dead compactor.
        why = " and ".join(map(str, exceeded(root.compactable, policy)))
        remedy = f"run HiveAcidCompactOperator, or `compact {table.ref}`"
        left = "" if holder is None else _left_by(holder)
        yield Finding(
            about="compaction",
            urgency=Urgency.DUE,
            what=f"{_name(root.name)} is due: {why}{left}",
            remedy="" if switched_off else f"{_abort(holder)}; then {remedy}" if holder else remedy,
            cause="" if left else "partitions are due; `plan` lists them",
        )
    if not due:
        yield Finding(about="compaction", urgency=Urgency.FINE, what=_not_due(measured, policy))


def _waiting(
    client: MetastorePort, facts: TableFacts, policy: CompactionPolicy, *, names_owners: bool
) -> Iterator[Finding]:
    """Yield the finding of an open write, if deltas have to wait for its end."""
    table = facts.table
    waiting = [
        root for root in facts.roots if root.visible.delta_count > root.compactable.delta_count
    ]
    if not waiting:
        return
    # Only the deltas that wait make a partition due, so no compaction begins.
    is_blocked = any(
        exceeded(root.visible, policy) and not exceeded(root.compactable, policy)
        for root in waiting
    )
    lowest = facts.snapshot.write_ids(table.ref).min_open_write_id
    txns, holders = facts.snapshot.txns, {lock.txn_id for lock in facts.locks}
    readers = possible_readers(client, table.ref, txns)
    writer = None
    if lowest is not None:
        writer = writer_of(client, table.ref, lowest, txns=txns, likely=holders)
    if writer is not None:
        named = (reader for reader in readers if reader.txn_id == writer)
        readers = (next(named, Reader(txn_id=writer)),)
    writers = _writers(readers, names_owners=names_owners)
    yield Finding(
        about="compaction",
        urgency=Urgency.BLOCKED if is_blocked else Urgency.WAITING,
        what=(
            f"write ID {lowest} is open, and a compaction includes only earlier writes, so"
            f" later deltas of {_names(waiting)} have to wait{writers}"
        ),
        remedy=_remedy_of(writer, table),
        cause=f"later deltas have to wait for writers{writers}" if writers else "",
    )


def _left_by(holder: LockInfo) -> str:
    since = age_text(age(holder.acquired_s))
    held = f"has held its lock for {since}" if since else "waits for its lock"
    return f"; a compactor without heartbeats {held}"


def _switched_off(facts: TableFacts, due: Sequence[MeasuredRoot], why: str) -> Finding:
    """Return the finding of an opt-out, which needs a person only if partitions are due."""
    what = f"automatic compaction is switched off by {why}"
    if not due:
        return Finding(about="compaction", urgency=Urgency.SWITCHED_OFF, what=what)
    return Finding(
        about="compaction",
        urgency=Urgency.BLOCKED,
        what=f"{_names(due)} {'are' if len(due) > 1 else 'is'} due, but {what}",
        remedy=f"compact once with `compact {facts.table.ref} --choice major`",
        cause=f"partitions are due, but {what}",
    )


def _measured(
    client: MetastorePort, table: TableInfo, snapshot: Snapshot, *, counts_rows: bool
) -> tuple[MeasuredRoot, ...]:
    write_ids = snapshot.write_ids(table.ref)
    roots = client.list_partitions(table)
    measure = partial(TableHealth.of, kind=table.kind, now_s=time.time())
    # Cut the list once: it may contain a million IDs, and a table may have many partitions.
    both = (CompactorWriteIdList.of(write_ids), write_ids)
    measured = []
    for root, listing in zip(roots, list_roots(roots), strict=True):
        compactable, visible = (resolve(listing, ids, snapshot.txns, table.kind) for ids in both)
        rows = delete_events(compactable) if counts_rows else None
        measured.append(
            MeasuredRoot(
                name=str(root.name),
                visible_state=visible,
                compactable=replace(measure(compactable), deleted_rows=rows),
                visible=measure(visible),
            )
        )
    return tuple(measured)


def _queue(facts: TableFacts, *, names_owners: bool) -> Iterator[Finding]:
    newest = compaction_queue.newest_entries(facts.entries)
    for name, entry in newest.items():
        if entry.state.is_unsuccessful and not entry.is_committed:
            why = entry.reason if names_owners else "SHOW COMPACTIONS has the reason"
            why = why or "the queue has no reason"
            compaction = (
                f"compaction {entry.entry_id} ({entry.compaction_type.value}) of {_name(name)}"
            )
            yield Finding(
                about="compaction",
                urgency=Urgency.FAILED,
                what=f"{compaction} is {entry.state.value}: {why}",
                remedy=""
                if entry.state is compaction_queue.CompactionState.REFUSED
                else "after two failures, Hive skips the partition; compact it with this provider",
                cause=f"a compaction is {entry.state.value}: {why}",
            )
    for status in statuses(
        facts.entries, facts.snapshot.txns, facts.generation, names_owners=names_owners
    ):
        is_ready = status.entry.state is compaction_queue.CompactionState.READY_FOR_CLEANING
        yield Finding(
            about="cleaning" if is_ready else "compaction",
            urgency=Urgency.BLOCKED if status.is_dead else Urgency.WAITING,
            what=status.what,
            remedy=status.remedy,
        )


def _not_due(measured: Sequence[MeasuredRoot], policy: CompactionPolicy) -> str:
    if not measured:
        return "the table has no partition"
    worst = max(measured, key=lambda root: root.compactable.delta_count)
    ratio = worst.compactable.delta_ratio
    share = "no base" if ratio is None else f"{100 * ratio:.1f} % of the base"
    return (
        f"not due: {_name(worst.name)} has {worst.compactable.delta_count} deltas, {share}"
        f" (threshold {policy})"
    )


def _writers(readers: Sequence[Reader], *, names_owners: bool) -> str:
    owners = (_owner(reader, names_owners=names_owners) for reader in readers)
    return f"; open transactions: {'; '.join(owners)}" if readers else ""


def _remedy_of(writer: TxnId | None, table: TableInfo) -> str:
    if writer is not None:
        return f"wait for the writer to end, or end it with `abort {writer}`"
    # It may have no lock, or none yet.
    where = f"`transactions` and `locks {table.ref}`"
    return f"wait for the writer to end, or find it with {where}, then `abort ID`"


def _owner(reader: Reader, *, names_owners: bool) -> str:
    parts = [
        f"{reader.user}@{reader.host}".strip("@") if names_owners else "",
        f"open for {age_text(reader.open_for_s)}" if reader.open_for_s is not None else "",
        f"job {reader.job_key}" if reader.job_key else "",
    ]
    details = ", ".join(filter(None, parts))
    return f"transaction {reader.txn_id} ({details})" if details else f"transaction {reader.txn_id}"


def _names(measured: Sequence[MeasuredRoot]) -> str:
    rest = len(measured) - _MOST_NAMED
    names = ", ".join(_name(root.name) for root in measured[:_MOST_NAMED])
    return f"{names} and {rest} more" if rest > 0 else names


def _name(partition: str) -> str:
    return partition or "the table"


# ---- locks ---------------------------------------------------------------------------------------


def lock_findings(
    locks: Sequence[LockInfo], silent: frozenset[TxnId], *, names_owners: bool = True
) -> Iterator[Finding]:
    """Yield exclusive locks and waiting (or unknown) requests, which delay a compaction's end.

    A compactor's lock delays only other compactors. `silent` is as in `LocksNow`.
    """
    for lock in locks:
        if lock.is_of_compactor:
            is_silent = lock.txn_id in silent
            yield _of_compactor(lock, is_silent=is_silent, names_owners=names_owners)
            continue
        is_exclusive = lock.lock_type not in (LockType.SHARED_READ, LockType.SHARED_WRITE)
        if is_exclusive or lock.state is LockState.WAITING or not lock.state.is_known:
            behind = f", behind lock {lock.blocked_by}" if lock.blocked_by else ""
            yield Finding(
                about="locks",
                urgency=Urgency.WAITING,
                what=f"{lock if names_owners else _anonymous(lock)}{behind}",
                remedy=f"wait, or end it with `abort {lock.txn_id}`" if lock.txn_id else "",
                cause=f"transaction {lock.txn_id} holds or awaits locks" if lock.txn_id else "",
            )


def _of_compactor(lock: LockInfo, *, is_silent: bool, names_owners: bool) -> Finding:
    what = f"a compaction is at work in transaction {lock.txn_id}"
    if is_silent:
        what = f"the compaction in transaction {lock.txn_id} sends no heartbeat"
    owner = f"{lock.user}@{lock.host}" if names_owners else ""
    details = (_name(lock.partition or ""), owner, lock.agent_info, lock.state.value)
    return Finding(
        about="locks",
        urgency=Urgency.WAITING,
        what=f"{what} ({', '.join(filter(None, details))})",
        remedy=_abort(lock) if is_silent else "",
        cause=what,
    )


def _abort(lock: LockInfo) -> str:
    return f"if its process has died, end it with `abort {lock.txn_id}`"


def _anonymous(lock: LockInfo) -> str:
    where = f"partition {lock.partition}" if lock.partition else "the table"
    if not lock.table:
        where = "the database"
    owner = f"transaction {lock.txn_id} ({lock.state.value})"
    return f"{lock.lock_type.value} on {where} by {owner}"
