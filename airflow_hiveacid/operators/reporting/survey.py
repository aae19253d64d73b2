"""The numbers of every table, measured by a task without Spark.

Of data files, only the footers of a few bases are read.

Users and hosts behind transactions are separate, because fewer people may see them. A table that
cannot be measured does not stop the collection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.directories import AcidDirectory
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.metastore.compaction_queue import CompactionEntry, CompactionState
from airflow_hiveacid.metastore.listed_tables import transactional_tables
from airflow_hiveacid.metastore.locks import LockInfo
from airflow_hiveacid.metastore.port import MetastorePort, OpenTxn
from airflow_hiveacid.metastore.transactions.fencing import job_key_in
from airflow_hiveacid.operators.reporting.document import TableNumbers, TableRow
from airflow_hiveacid.operators.reporting.findings import (
    Finding,
    LocksNow,
    TableFacts,
    Urgency,
    capped,
    compaction_findings,
    facts_of,
    lock_findings,
)
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.plan.thresholds import CompactionPolicy, decide, exceeded
from airflow_hiveacid.storage.acid.read.inspect import file_rows
from airflow_hiveacid.versions.history import TableHistory, VersionEntry, history_of

_MOST_VERSIONS: Final = 20
_MOST_FOOTERS: Final = 10
_OF_ONE_TABLE: Final = (Urgency.DUE, Urgency.FINE)
"""The urgencies whose findings are about one table, so its own words say more."""

_COMPACTED: Final = frozenset({CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result of one collection.

    `owners` maps transaction IDs to `user@host`. `workers` maps queue entries to the worker, the
    most important first. `oldest` has the ID and start of the oldest open transaction, if any.
    """

    numbers: tuple[TableNumbers, ...]
    queue: tuple[list[JsonValue], ...]
    owners: Mapping[str, str]
    workers: Mapping[str, str]
    oldest: tuple[list[JsonValue], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """The facts about a table, its thresholds, and its findings, the most urgent first."""

    facts: TableFacts
    policy: CompactionPolicy
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls,
        client: MetastorePort,
        table: TableInfo,
        given: GivenThresholds,
        locks: LocksNow,
        *,
        names_owners: bool = True,
    ) -> Self:
        """Measure a table; without `names_owners`, findings contain no users and hosts."""
        policy = given.policy_for(table)
        facts = facts_of(client, table, locks, counts_rows=given.counts_rows)
        findings = [
            *compaction_findings(client, facts, policy, names_owners=names_owners),
            *lock_findings(facts.locks, facts.silent, names_owners=names_owners),
        ]
        findings.sort(key=lambda finding: finding.urgency)
        return cls(facts=facts, policy=policy, findings=tuple(findings))

    @property
    def row(self) -> TableRow:
        """The table's numbers, and its most urgent finding."""
        healths = [root.visible for root in self.facts.roots]
        base_bytes = sum(health.base_bytes for health in healths)
        changed_bytes = sum(health.changed_bytes for health in healths)
        worst = self.findings[0] if self.findings else None
        return TableRow(
            table=str(self.facts.table.ref),
            state="fine" if worst is None else worst.urgency.state,
            why="" if worst is None or worst.urgency is Urgency.FINE else worst.what,
            partitions=len(self.facts.roots),
            due=sum(1 for root in self.facts.roots if exceeded(root.compactable, self.policy)),
            deltas=sum(health.delta_count for health in healths),
            ratio=round(changed_bytes / base_bytes, 3) if base_bytes else None,
            size_bytes=base_bytes + changed_bytes,
            obsolete=sum(health.obsolete for health in healths),
            last_compaction_s=_last_compaction(self.facts),
        )


def survey(client: MetastorePort, patterns: Sequence[str], given: GivenThresholds) -> Survey:
    """Measure the transactional tables whose names match one of the patterns."""
    transactions = {txn.txn_id: txn for txn in client.open_txns_info() if txn.may_be_open}
    entries = sorted(client.show_compactions(), key=_by_importance)
    locks = LocksNow.of(client)
    started = [(txn.started_s, txn.txn_id) for txn in transactions.values() if txn.started_s]
    return Survey(
        numbers=tuple(
            _unmeasured(name, table)
            if isinstance(table, HiveAcidError)
            else _numbers(client, table, given, locks, transactions)
            for name, table in transactional_tables(client, patterns)
        ),
        queue=tuple(_queued(entry) for entry in entries),
        owners={
            str(txn_id): "@".join(filter(None, (txn.user, txn.host)))
            for txn_id, txn in transactions.items()
        },
        workers={str(entry.entry_id): entry.worker_id for entry in entries if entry.worker_id},
        oldest=tuple([txn_id, started_s] for started_s, txn_id in sorted(started)[:1]),
    )


def _numbers(
    client: MetastorePort,
    table: TableInfo,
    given: GivenThresholds,
    locks: LocksNow,
    transactions: Mapping[TxnId, OpenTxn],
) -> TableNumbers:
    try:
        measured = MeasuredTable.of(client, table, given, locks, names_owners=False)
        facts = measured.facts
        past = history_of(client, table, most=_MOST_VERSIONS)
        name = str(table.ref)
        worst = next(iter(measured.findings), None)
        if worst is not None and worst.urgency in _OF_ONE_TABLE:
            worst = None
        numbers = TableNumbers(
            row=measured.row,
            cause=(worst.cause or worst.what).replace(name, "TABLE") if worst else "",
            remedy=worst.remedy.replace(name, "TABLE") if worst else "",
            details={
                "thresholds": [[measured.policy.delta_count, measured.policy.delta_ratio]],
                "findings": [
                    [finding.about, finding.urgency.state, finding.what, finding.remedy]
                    for finding in capped(measured.findings)
                ],
                "plan": _plan(facts, measured.policy),
                "directories": list(_directories(facts, past)),
                "transactions": list(_transactions(facts.locks, transactions)),
                "locks": [_lock(lock) for lock in facts.locks],
                "versions": [_version(version) for version in past.versions],
                "tags": [[tag.name, tag.version, tag.expires_s] for tag in past.tags],
                "compactions": [
                    _queued(entry) for entry in sorted(facts.entries, key=_by_importance)
                ],
            },
        )
        numbers.check()
    except Exception as error:  # noqa: BLE001 - one table must not end the collection
        return _unmeasured(str(table.ref), error)
    return numbers


def _unmeasured(name: str, error: Exception) -> TableNumbers:
    _log.warning("cannot measure table=%s", name, exc_info=error)
    why = f"cannot be measured ({type(error).__name__}); the collector's log has the reason"
    return TableNumbers(row=TableRow(table=name, state="unknown", why=why), cause=why)


def _last_compaction(facts: TableFacts) -> int | None:
    """Return the time when the newest compaction ended, from the queue or from its files.

    0 means that there was none, as there is neither a base nor a delta of several writes. None
    means that there was one, or may have been one, at an unknown time.
    """
    ended = [
        entry.ended_s or entry.committed_s for entry in facts.entries if entry.state in _COMPACTED
    ]
    written = [
        directory.modified_s
        for root in facts.roots
        for directory in root.visible_state.live
        if directory.is_compacted or directory.name.visibility_txn_id is not None
    ]
    directories = [one for root in facts.roots for one in root.visible_state.directories]
    never = all(not one.is_base and one.low == one.high for one in directories)
    times = [round(time_s) for time_s in (*ended, *written) if time_s is not None]
    return max(times, default=0 if never and not (ended or written) else None)


def _plan(facts: TableFacts, policy: CompactionPolicy) -> list[JsonValue]:
    kinds = {True: "major", False: "minor", None: "none"}
    plans: list[tuple[bool, list[JsonValue]]] = []
    for root in facts.roots:
        is_major, why = decide(root.compactable, policy)
        plans.append((is_major is None, [root.name, kinds[is_major], why]))
    return [entry for _, entry in sorted(plans, key=lambda plan: plan[0])]  # those due first


def _directories(facts: TableFacts, past: TableHistory) -> Iterator[JsonValue]:
    versions = {version.number: version for version in past.versions}
    bases = _base_rows(facts)
    for root in facts.roots:
        for directory in root.visible_state.directories:
            name = directory.name
            low = name.low if isinstance(name, DeltaName) else 0
            rows = bases.get((root.name, directory.text))
            if rows is None:
                rows = _rows(directory, versions.get(directory.high))
            state = directory.status.value
            kind = "base" if directory.is_base else "delete" if directory.is_delete else "insert"
            yield [
                root.name,
                directory.text,
                kind,
                low,
                name.high,
                state,
                rows,
                directory.size_bytes,
            ]


def _base_rows(facts: TableFacts) -> dict[tuple[str, str], int]:
    """Return the rows of the first live bases, from the footers of at most `_MOST_FOOTERS` files.

    A base with a footer that cannot be read is left out.
    """
    rows: dict[tuple[str, str], int] = {}
    remainder = _MOST_FOOTERS
    for root in facts.roots:
        state, base = root.visible_state, root.visible_state.base
        if base is None or facts.table.kind is not TransactionalKind.FULL_ACID:
            continue
        remainder -= len(base.files)
        if remainder < 0:
            break
        with suppress(HiveAcidError):
            rows[root.name, base.text] = file_rows(state.location, base.files)
    return rows


def _rows(directory: AcidDirectory, version: VersionEntry | None) -> int | None:
    """Return the number of rows in a delta that this provider wrote; None if no note records it."""
    is_one_write = isinstance(directory.name, DeltaName) and directory.name.low == directory.high
    # A note has only the total number of rows in all partitions.
    if not is_one_write or version is None or len(version.partitions) > 1:
        return None
    # An update writes a delete event and an insert event.
    first = version.deleted if directory.is_delete else version.inserted
    return None if first is None else first + (version.updated or 0)


def _transactions(
    locks: Sequence[LockInfo], transactions: Mapping[TxnId, OpenTxn]
) -> Iterator[JsonValue]:
    jobs: dict[TxnId, str] = {}
    for lock in locks:
        if lock.txn_id is not None and lock.txn_id in transactions:
            jobs[lock.txn_id] = jobs.get(lock.txn_id) or job_key_in(lock.agent_info)
    for txn_id, job in sorted(jobs.items()):
        txn = transactions[txn_id]
        yield [txn_id, txn.started_s, txn.last_heartbeat_s, job]


def _lock(lock: LockInfo) -> JsonValue:
    job = job_key_in(lock.agent_info)
    kind, state = lock.lock_type.value, lock.state.value
    return [lock.lock_id, lock.partition, kind, state, lock.txn_id, lock.blocked_by, job]


def _version(version: VersionEntry) -> JsonValue:
    rows = (version.inserted, version.updated, version.deleted)
    commit = (version.number, version.committed.by_s, version.operation, version.by)
    return [*commit, *rows, version.is_readable, list(version.tags)]


def _by_importance(entry: CompactionEntry) -> tuple[bool, int]:
    return (not entry.is_at_work, -(entry.entry_id or 0))


def _queued(entry: CompactionEntry) -> list[JsonValue]:
    kind, state = entry.compaction_type.value, entry.state.value
    partition = str(entry.partition or "")
    times = (entry.enqueued_s, entry.started_s, entry.ended_s)
    ours = entry.has_our_worker or entry.waits_for_us
    return [entry.entry_id, str(entry.table), partition, kind, state, *times, ours]
