"""Fencing: if several copies of a job run, only the newest copy continues.

If a task's heartbeats are missing, the scheduler restarts the task, although the first copy may
still run. Both copies have the same job key, and write it into the agent info of their locks, since
only `show_locks` returns a client's description (`open_txns` drops agentInfo). A job may run
several parts in parallel, each with its own transaction: a copy aborts only copies of the same
part, but a kill aborts all parts.

One check, after a copy's own lock request, is sufficient. Of two copies, the later sees the lock of
the earlier, unless that has ended. If it has committed, the later copy's snapshot includes it.

The copy with the higher try number is newer, even if it started first: a driver may wait in a
cluster's queue, and start after the try that replaces it. Within a try, it is the copy whose first
transaction has the higher ID. A copy that reopens its transaction keeps its rank.

Example:
    >>> attempt = AttemptId.parse("2-00c0ffee0123")
    >>> token = FencingToken(job_key="dag/run/task/-1", attempt=attempt, first_txn_id=TxnId(7))
    >>> token.agent_info
    'dag/run/task/-1#68777a37417a417682d8dd4cf3b70225.e3b0c44298fc@7~2-00c0ffee0123'
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import ATTEMPT_PATTERN, AttemptId, TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.words import age, age_text
from airflow_hiveacid.metastore.locks import LockInfo, presence_of_compactions
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms

ANONYMOUS: Final = "airflow-provider-hiveacid"
"""The agent info on locks of this provider's transactions without a job."""

# The agent info on the lock that only compactors of the same partition request.
COMPACTOR: Final = re.compile(r"hiveacid (minor|major) compaction")

# The length of HIVE_LOCKS.HL_AGENT_INFO in Hive's schema.
_LONGEST: Final = 128
_DIGEST_CHARACTERS: Final = 32
_PART_CHARACTERS: Final = 12
_AGENT_INFO: Final = re.compile(
    r"#(?P<digest>[0-9a-f]{32})\.(?P<part>[0-9a-f]{12})@(?P<first>\d+)~"
    rf"(?P<attempt>{ATTEMPT_PATTERN})\Z"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingToken:
    """The identity of a copy of a job, or of its `part`, in the agent info of its locks."""

    job_key: str
    attempt: AttemptId
    part: str = ""
    first_txn_id: TxnId

    @classmethod
    def of(cls, terms: JobTerms, first_txn_id: TxnId) -> Self | None:
        """Return the identity of the copy of a job; None for a job without a key."""
        if terms.job_key is None:
            return None
        return cls(
            job_key=terms.job_key,
            attempt=terms.attempt,
            part=terms.part,
            first_txn_id=first_txn_id,
        )

    @property
    def rank(self) -> tuple[int, TxnId]:
        """The try number and the first transaction; this copy aborts copies of lower rank."""
        return self.attempt.try_number, self.first_txn_id

    @property
    def digest(self) -> str:
        """A digest of the whole job key; it has a fixed length."""
        return job_digest(self.job_key)

    @property
    def part_digest(self) -> str:
        """A digest of the part."""
        return job_digest(self.part)[:_PART_CHARACTERS]

    @property
    def agent_info(self) -> str:
        """The agent info of locks: the start of the job key, then digest, rank and attempt."""
        tail = f"#{self.digest}.{self.part_digest}@{self.first_txn_id}~{self.attempt}"
        return self.job_key[: _LONGEST - len(tail)] + tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A transaction of another copy of the same job, with that copy's rank."""

    txn_id: TxnId
    part_digest: str
    attempt: AttemptId
    first_txn_id: TxnId

    @property
    def rank(self) -> tuple[int, TxnId]:
        """The rank of the other copy; see `FencingToken.rank`."""
        return self.attempt.try_number, self.first_txn_id


def agent_info_of(fencing_token: FencingToken | None) -> str:
    """Return the agent info of the locks of a job's copy, or of a transaction without a job."""
    return ANONYMOUS if fencing_token is None else fencing_token.agent_info


def agent_info_of_compactor(kind: str) -> str:
    """Return the agent info of the lock that only compactors request; see `COMPACTOR`."""
    return f"hiveacid {kind} compaction"


def job_digest(job_key: str) -> str:
    """Return 32 hexadecimal digits that represent a job key."""
    return hashlib.sha256(job_key.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def copies_of(job_key: str, locks: Iterable[LockInfo]) -> tuple[Rival, ...]:
    """Return the transactions with a held or waiting lock under this job key, sorted by ID."""
    digest = job_digest(job_key)
    copies: dict[TxnId, Rival] = {}
    for lock in locks:
        match = _AGENT_INFO.search(lock.agent_info)
        if match and match["digest"] == digest and lock.txn_id is not None:
            copies[lock.txn_id] = Rival(
                txn_id=lock.txn_id,
                part_digest=match["part"],
                attempt=AttemptId.parse(match["attempt"]),
                first_txn_id=TxnId(int(match["first"])),
            )
    return tuple(copies[txn_id] for txn_id in sorted(copies))


def is_of_this_provider(agent_info: str) -> bool:
    """Return True if a lock's agent info is from a transaction of this provider."""
    is_compactor = COMPACTOR.fullmatch(agent_info) is not None
    return agent_info == ANONYMOUS or is_compactor or _AGENT_INFO.search(agent_info) is not None


def job_key_in(agent_info: str) -> str:
    """Return the readable part of the job key; return the agent info of other engines unchanged."""
    match = _AGENT_INFO.search(agent_info)
    return agent_info if match is None else agent_info[: match.start()]


def older(fencing_token: FencingToken, txn_id: TxnId, copies: Iterable[Rival]) -> tuple[Rival, ...]:
    """Return the copies of lower rank, and this copy's own earlier transactions, to abort."""

    def is_older(copy: Rival) -> bool:
        is_own = copy.attempt == fencing_token.attempt and copy.txn_id < txn_id
        return copy.rank < fencing_token.rank or is_own

    return tuple(c for c in copies if is_older(c))


def newer(fencing_token: FencingToken, copies: Iterable[Rival]) -> tuple[Rival, ...]:
    """Return the copies of higher rank; if there are any, this copy must end."""
    return tuple(c for c in copies if c.rank > fencing_token.rank)


def locks_on(client: MetastorePort, refs: Iterable[TableRef]) -> tuple[LockInfo, ...]:
    """Return all locks on the tables."""
    return tuple(lock for ref in sorted(set(refs)) for lock in client.show_locks(ref))


def find_copies(fencing_token: FencingToken, locks: Iterable[LockInfo]) -> tuple[Rival, ...]:
    """Return the transactions of this job part that have one of the locks, sorted by ID."""
    copies = copies_of(fencing_token.job_key, locks)
    return tuple(copy for copy in copies if copy.part_digest == fencing_token.part_digest)


def fence(
    client: MetastorePort,
    fencing_token: FencingToken | None,
    txn_id: TxnId,
    locks: Iterable[LockInfo],
) -> bool:
    """Abort every older copy of the job, and return True if there were any.

    `locks` are those on the job's tables after our own lock request, which they may have blocked.
    Raises FencedError, and aborts none, if a newer copy has one of them.
    """
    if fencing_token is None:
        return False
    copies = find_copies(fencing_token, locks)
    ahead = newer(fencing_token, copies)
    if ahead:
        raise _fenced(fencing_token, txn_id, ahead)
    behind = older(fencing_token, txn_id, copies)
    for rival in behind:
        is_aborted = client.abort_txn(rival.txn_id)
        _log.warning(
            "an older copy of the job is %s job_key=%s txn_id=%s older_txn_id=%s",
            "aborted" if is_aborted else "over",
            fencing_token.job_key,
            txn_id,
            rival.txn_id,
        )
    return bool(behind)


def raise_if_fenced(
    client: MetastorePort,
    fencing_token: FencingToken | None,
    error: errors.TransactionAbortedError,
    refs: Iterable[TableRef],
) -> None:
    """Raise FencedError if a newer copy of the job has aborted the transaction.

    Otherwise, or if the search fails, the caller raises `error`, and the job may be retried.
    """
    if fencing_token is None:
        return
    try:
        ahead = newer(fencing_token, find_copies(fencing_token, locks_on(client, refs)))
    except errors.MetastoreError as unknown:
        _log.debug("cannot look for a newer copy: %s", unknown)
        return
    if ahead:
        raise _fenced(fencing_token, error.txn_id, ahead) from error


def _fenced(fencing_token: FencingToken, txn_id: int, ahead: Sequence[Rival]) -> errors.FencedError:
    return errors.FencedError(
        job_key=fencing_token.job_key, txn_id=txn_id, newer_txn_id=ahead[-1].txn_id
    )


def abort_job(
    client: MetastorePort, job_key: str, attempt: AttemptId, refs: Iterable[TableRef]
) -> tuple[TxnId, ...]:
    """Abort the transactions of a killed attempt and of earlier tries; return their IDs.

    A process that kills the job calls this function; `refs` are the tables on which the job may
    have locks, or all if empty. Later tries are not aborted, because the kill may arrive long after
    the task was restarted. A job without a lock request cannot be found; its transaction times out.
    A job may reopen its transaction during the search. It requests new locks before it ends the old
    transaction (`handover`), so the next iteration finds it. Raises the first MetastoreError of an
    abort or a listing of locks, after all other aborts.
    """
    tables, ended = set(refs), dict[TxnId, bool]()
    refs = sorted({*tables, *map(presence_of_compactions, tables)})
    failures: list[errors.MetastoreError] = []
    while True:
        locks = [lock for ref in refs or (None,) for lock in client.show_locks(ref)]
        doomed = [c.txn_id for c in copies_of(job_key, locks) if attempt.may_end(c.attempt)]
        new = [txn_id for txn_id in doomed if txn_id not in ended]
        for txn_id in new:
            try:
                ended[txn_id] = client.abort_txn(txn_id)
            except errors.MetastoreError as error:
                ended[txn_id] = False
                failures.append(error)
        if new:
            continue
        aborted = tuple(txn_id for txn_id, is_aborted in ended.items() if is_aborted)
        if failures:
            _log.warning(
                "cannot abort all transactions job_key=%s aborted_txn_ids=%s", job_key, aborted
            )
            raise failures[0]
        return aborted


def writer_of(
    client: MetastorePort,
    ref: TableRef,
    write_id: WriteId,
    *,
    txns: ValidTxnList | None = None,
    likely: Collection[TxnId | None] = (),
) -> TxnId | None:
    """Return the open transaction of a table's lowest open write ID; None if it is not found.

    No call of a metastore returns it. But write IDs are listed for any list of open transactions,
    so half of the candidates are ruled out by each call; the `likely` ones come first. `txns` is
    the list with which the write ID was found open; without it, it is read now.
    """
    try:
        txns = client.valid_txns() if txns is None else txns
        for left in (tuple(txn for txn in txns.open if txn in likely), txns.open):
            candidates = left
            while candidates:
                half = candidates[: (len(candidates) + 1) // 2]
                listed = ValidTxnList(high_watermark=txns.high_watermark, open=half)
                write_ids = client.valid_write_ids([ref], listed)[ref]
                is_among = write_ids.min_open_write_id == write_id
                if is_among and len(half) == 1:
                    return half[0]
                candidates = half if is_among else candidates[len(half) :]
    except errors.HiveAcidError as error:
        _log.warning("cannot find the writer of table=%s write_id=%s: %s", ref, write_id, error)
    return None


def owner_text(client: MetastorePort, txn_id: TxnId) -> str:
    """Return a transaction with its user, host, job and age, and how to end it if it is dead."""
    txn, agents = None, set[str]()
    try:
        txn = next((txn for txn in client.open_txns_info() if txn.txn_id == txn_id), None)
        agents = {lock.agent_info for lock in client.show_locks(txn_id=txn_id)}
    except errors.HiveAcidError as error:
        _log.warning("cannot look up txn_id=%s: %s", txn_id, error)
    # The agent info of a compactor's own lock does not name the job.
    jobs = sorted(job_key_in(agent) for agent in agents if agent and not COMPACTOR.fullmatch(agent))
    owner = "" if txn is None else "@".join(filter(None, (txn.user, txn.host)))
    open_for = "" if txn is None else age_text(age(txn.started_s))
    details = (owner, f"job {jobs[0]}" if jobs else "", open_for and f"open for {open_for}")
    text = ", ".join(filter(None, details))
    dead = f"if its process has died, end it with `hiveacid abort {txn_id}`"
    return f"transaction {txn_id}{f' ({text})' if text else ''}; {dead}"
