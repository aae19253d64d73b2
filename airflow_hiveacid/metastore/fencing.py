"""Which copy of a job may go on: the newest. Told by what a lock says of its owner.

A scheduler starts a task again when it has lost sight of it; the first copy may still be running.
Both carry the same job key, and `show_locks` is the one place where the metastore repeats what a
client said of itself (`open_txns` takes agentInfo and forgets it). A job may run parts side by
side, each in a transaction of its own: only copies of the same part end each other, but who kills
the job ends them all.

Why looking once, after one's own lock request, is enough: of two copies the one that asked for its
lock second sees the other, unless that one has ended; and what it committed is in the snapshot,
which is taken later.

The later try is the newer copy, also when it began first: a driver that waited in a cluster's queue
may begin after the try that took its place. Within a try, the one whose first transaction is later.
A copy that had to open a second transaction keeps its rank.

Example:
    >>> attempt = AttemptId.parse("2-00c0ffee0123")
    >>> seal = Seal(job_key="dag/run/task/-1", attempt=attempt, first_txn_id=TxnId(7))
    >>> seal.agent_info
    'dag/run/task/-1#68777a37417a417682d8dd4cf3b70225.e3b0c44298fc@7~2-00c0ffee0123'
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import ATTEMPT_PATTERN, AttemptId
from airflow_hiveacid.format.errors import FencedError, MetastoreError
from airflow_hiveacid.format.ids import TxnId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hiveacid.format.errors import TransactionAbortedError
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.metastore.locks import LockInfo
    from airflow_hiveacid.metastore.port import MetastorePort

# HIVE_LOCKS.HL_AGENT_INFO of Hive's schema.
_LONGEST: Final = 128
_DIGEST_CHARACTERS: Final = 32
_PART_CHARACTERS: Final = 12
_SEAL: Final = re.compile(
    r"#(?P<digest>[0-9a-f]{32})\.(?P<part>[0-9a-f]{12})@(?P<first>\d+)~"
    rf"(?P<attempt>{ATTEMPT_PATTERN})\Z"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What a copy of a job writes on its locks: job key, also as a digest, rank and attempt.

    `part` tells the job's transactions apart that run side by side.
    """

    job_key: str
    attempt: AttemptId
    part: str = ""
    first_txn_id: TxnId

    @property
    def rank(self) -> tuple[int, TxnId]:
        """Copies end those of lower rank."""
        return self.attempt.try_number, self.first_txn_id

    @property
    def digest(self) -> str:
        """Stands for the whole job key, however long."""
        return job_digest(self.job_key)

    @property
    def part_digest(self) -> str:
        """Stands for the part."""
        return job_digest(self.part)[:_PART_CHARACTERS]

    @property
    def agent_info(self) -> str:
        """The text on the lock: as much of the job key as there is room for, digest and rank."""
        tail = f"#{self.digest}.{self.part_digest}@{self.first_txn_id}~{self.attempt}"
        # Some databases keep the column in a one-byte character set.
        readable = self.job_key.encode("ascii", "replace").decode("ascii")
        return readable[: _LONGEST - len(tail)] + tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A transaction of another copy of the same job, and the rank of that copy."""

    txn_id: TxnId
    part_digest: str
    attempt: AttemptId
    first_txn_id: TxnId

    @property
    def rank(self) -> tuple[int, TxnId]:
        """See Seal."""
        return self.attempt.try_number, self.first_txn_id


def job_digest(job_key: str) -> str:
    """32 hexadecimal digits that stand for a job key."""
    return hashlib.sha256(job_key.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def copies_of(job_key: str, locks: Iterable[LockInfo]) -> tuple[Rival, ...]:
    """Every transaction that holds or waits for a lock under this job key, ascending."""
    digest = job_digest(job_key)
    found: dict[TxnId, Rival] = {}
    for lock in locks:
        match = _SEAL.search(lock.agent_info)
        if match and match["digest"] == digest and lock.txn_id is not None:
            found[lock.txn_id] = Rival(
                txn_id=lock.txn_id,
                part_digest=match["part"],
                attempt=AttemptId.parse(match["attempt"]),
                first_txn_id=TxnId(int(match["first"])),
            )
    return tuple(found[txn_id] for txn_id in sorted(found))


def older(seal: Seal, txn_id: TxnId, copies: Iterable[Rival]) -> tuple[Rival, ...]:
    """The transactions that have to end: copies of lower rank, and what we began ourselves before.

    The latter is left where the abort of a transaction was not answered.
    """

    def is_older(copy: Rival) -> bool:
        is_own = copy.attempt == seal.attempt and copy.txn_id < txn_id
        return copy.rank < seal.rank or is_own

    return tuple(c for c in copies if is_older(c))


def newer(seal: Seal, copies: Iterable[Rival]) -> tuple[Rival, ...]:
    """The copies of higher rank: we have to end."""
    return tuple(c for c in copies if c.rank > seal.rank)


def find_copies(client: MetastorePort, seal: Seal, refs: Iterable[TableRef]) -> tuple[Rival, ...]:
    """Every transaction of this part of the job with locks on one of the tables, ascending."""
    locks = [lock for ref in sorted(set(refs)) for lock in client.show_locks(ref)]
    copies = copies_of(seal.job_key, locks)
    return tuple(copy for copy in copies if copy.part_digest == seal.part_digest)


def fence(client: MetastorePort, seal: Seal, txn_id: TxnId, refs: Iterable[TableRef]) -> bool:
    """Abort every older copy of the job; call it once our own lock request stands.

    Returns:
        Whether there were any: they may have been in the way of that request.

    Raises:
        FencedError: a newer copy has asked for its locks; ours is the one to end.
    """
    copies = find_copies(client, seal, refs)
    ahead = newer(seal, copies)
    if ahead:
        raise FencedError(job_key=seal.job_key, txn_id=txn_id, newer_txn_id=ahead[-1].txn_id)
    behind = older(seal, txn_id, copies)
    for rival in behind:
        is_aborted = client.abort_txn(rival.txn_id)
        _log.warning(
            "an older copy of the job is %s job_key=%s txn_id=%s older_txn_id=%s",
            "aborted" if is_aborted else "over",
            seal.job_key,
            txn_id,
            rival.txn_id,
        )
    return bool(behind)


def raise_if_fenced(
    client: MetastorePort,
    seal: Seal,
    error: TransactionAbortedError,
    refs: Iterable[TableRef],
) -> None:
    """Tell a transaction that a newer copy of the job aborted from one that may be tried again.

    Raises:
        FencedError: there is such a copy. Returns if there is none, or if nobody can say.
    """
    try:
        ahead = newer(seal, find_copies(client, seal, refs))
    except MetastoreError as unknown:
        _log.debug("cannot look for a newer copy: %s", unknown)
        return
    if ahead:
        raise FencedError(
            job_key=seal.job_key, txn_id=error.txn_id, newer_txn_id=ahead[-1].txn_id
        ) from error


def abort_job(
    client: MetastorePort, job_key: str, attempt: AttemptId, refs: Iterable[TableRef]
) -> tuple[TxnId, ...]:
    """Abort the transactions of an attempt that is killed, and of earlier tries; answers which.

    For whoever kills a task from outside. Later tries are not touched: the order to kill may arrive
    long after the task has begun anew. A job that has not yet asked for its first locks cannot be
    told from others; its transaction ends when its heartbeats do. One that begins anew meanwhile is
    found when it is looked at again: its next locks stand before it leaves the last
    (`succession`). One that cannot be aborted does not keep the others alive.

    Raises:
        MetastoreError: of the first that could not be aborted, or nobody can say what there is.
    """
    refs, ended = sorted(set(refs)), dict[TxnId, bool]()
    failures: list[MetastoreError] = []
    while True:
        locks = [lock for ref in refs for lock in client.show_locks(ref)]
        doomed = [c.txn_id for c in copies_of(job_key, locks) if attempt.may_end(c.attempt)]
        new = [txn_id for txn_id in doomed if txn_id not in ended]
        for txn_id in new:
            try:
                ended[txn_id] = client.abort_txn(txn_id)
            except MetastoreError as error:
                ended[txn_id] = False
                failures.append(error)
        if new:
            continue
        aborted = tuple(txn_id for txn_id, is_aborted in ended.items() if is_aborted)
        if failures:
            _log.warning("of job_key=%s only these were aborted: txn_ids=%s", job_key, aborted)
            raise failures[0]
        return aborted
