"""What other jobs changed in a partition, by the names of its directories.

Example:
    >>> foreign_write_of("base_0000005")
    ForeignWrite(doing=<WriteKind.OVERWRITE: 'overwrite'>, write_id=5, directory='base_0000005')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from airflow_hiveacid.format import conflicts
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWrite:
    """A directory of another job, with the highest write ID in its name."""

    doing: conflicts.WriteKind
    write_id: WriteId
    directory: str


def foreign_write_of(directory: str) -> ForeignWrite | None:
    """Return the write that created a base or delta, derived from its name; None for other names.

    A compaction's directory shows a transaction ID or a range of write IDs, but a base that Hive
    3.1 compacted looks like the base of an overwrite.
    """
    name = parse_directory_name(directory)
    if name is None:
        return None
    if isinstance(name, BaseName):
        is_compacted = name.visibility_txn_id is not None
        doing = conflicts.WriteKind.MAJOR if is_compacted else conflicts.WriteKind.OVERWRITE
        return ForeignWrite(doing=doing, write_id=name.write_id, directory=directory)
    if name.visibility_txn_id is not None or name.low != name.high:
        doing = conflicts.WriteKind.MINOR
    else:
        doing = conflicts.WriteKind.CHANGE if name.is_delete else conflicts.WriteKind.INSERT
    return ForeignWrite(doing=doing, write_id=name.high, directory=directory)


def committed_since(
    directories: Iterable[str],
    began: ValidWriteIdList,
    seen: ValidWriteIdList,
    now: ValidWriteIdList,
) -> tuple[ForeignWrite, ...]:
    """Return the writes in these directories that other transactions committed after a job began.

    `began` is the table's full write ID list then, `seen` that of the current transaction, `now`
    the newest. Cleaners wait for open transactions, but directories of commits before `seen` may
    have been merged and removed. So a compacted one that covers such a write ID counts as an
    insert, which conflicts with the fewest operations.
    """
    # Find the write IDs that were committed between `began` and `seen`.
    later = range(began.high_watermark + 1, seen.high_watermark + 1)
    news = [w for w in sorted(map(WriteId, (*began.open, *later))) if seen.is_visible(w)]
    writes = []
    for foreign_write in map(foreign_write_of, directories):
        if foreign_write is None:
            continue
        if foreign_write.doing in (conflicts.WriteKind.MINOR, conflicts.WriteKind.MAJOR):
            write_ids = [write_id for write_id in news if _holds(foreign_write.directory, write_id)]
            if write_ids:
                writes.append(
                    replace(foreign_write, doing=conflicts.WriteKind.INSERT, write_id=write_ids[-1])
                )
        elif now.is_visible(foreign_write.write_id) and not began.is_visible(
            foreign_write.write_id
        ):
            writes.append(foreign_write)
    return tuple(writes)


def _holds(directory: str, write_id: WriteId) -> bool:
    name = parse_directory_name(directory)
    low = name.low if isinstance(name, DeltaName) else 0
    return name is not None and low <= write_id <= name.high


def come_since(
    directories: Iterable[str],
    there: Collection[str],
    began: ValidWriteIdList,
    now: tuple[ValidWriteIdList, ValidTxnList],
) -> tuple[ForeignWrite, ...]:
    """Return the writes that other transactions committed after a compaction began.

    Only names of directories show them, because a compaction has no write ID of its own to compare
    theirs with. `there` are the names at the beginning, listed before `began` was fetched. Such a
    directory counts as committed then, unless its write ID was open in `began`, even if it is above
    `began`: a list of Hive 4.0.1 may end too low. The result includes directories of other
    compactions.
    """
    write_ids, txns = now

    def is_news(foreign_write: ForeignWrite) -> bool:
        if foreign_write.directory in there and foreign_write.write_id not in began.open:
            return False
        name = parse_directory_name(foreign_write.directory)
        if name is not None and name.visibility_txn_id is not None:
            return txns.is_visible(name.visibility_txn_id)
        return write_ids.is_visible(foreign_write.write_id)

    return tuple(d for d in map(foreign_write_of, directories) if d is not None and is_news(d))


def first_rival(
    foreign_writes: Iterable[ForeignWrite],
    policy: conflicts.ConflictPolicy,
    generation: conflicts.MetastoreGeneration,
    later: conflicts.WriteKind,
) -> ForeignWrite | None:
    """Return the first write that makes a job of kind `later` fail if the job ends now, if any."""
    for foreign_write in sorted(foreign_writes, key=lambda d: (d.write_id, d.directory)):
        meeting = conflicts.Meeting(earlier=foreign_write.doing, later=later)
        if conflicts.outcome(policy, generation, meeting) is conflicts.ConflictOutcome.FAILS:
            return foreign_write
    return None
