"""What others have done to a partition meanwhile, as the names of its directories tell it.

Takes directory names and what of them is committed; gives deeds, and the first of them that makes a
job fail. Must not know how directories are listed, nor which of them a reader chooses.

Example:
    >>> deed_of("base_0000005")
    Deed(doing=<Doing.OVERWRITE: 'overwrite'>, write_id=5, directory='base_0000005')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.policies import Doing, Meeting, Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_hiveacid.format.conflicts import MetastoreGeneration
    from airflow_hiveacid.format.policies import ConflictPolicy
    from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One directory of somebody's; `write_id` is its highest."""

    doing: Doing
    write_id: WriteId
    directory: str


def deed_of(directory: str) -> Deed | None:
    """What a directory shows that somebody did; None of other directories.

    A compaction is told by its transaction in the name, or by a range of write IDs. Of a base of
    3.1's compactor nothing in the name tells it from one that an overwrite has made.
    """
    name = parse_directory_name(directory)
    if name is None:
        return None
    if isinstance(name, BaseName):
        is_compacted = name.visibility_txn_id is not None
        doing = Doing.MAJOR if is_compacted else Doing.OVERWRITE
        return Deed(doing=doing, write_id=name.write_id, directory=directory)
    if name.visibility_txn_id is not None or name.low != name.high:
        doing = Doing.MINOR
    else:
        doing = Doing.CHANGE if name.is_delete else Doing.INSERT
    return Deed(doing=doing, write_id=name.high, directory=directory)


def committed_since(
    directories: Iterable[str], began: ValidWriteIdList, now: ValidWriteIdList
) -> tuple[Deed, ...]:
    """The writes among these directories that were committed after a job had begun.

    Args:
        directories: names, as they are now.
        began: the table's list when the job began, whole.
        now: the newest list.
    """
    return tuple(
        deed
        for deed in map(deed_of, directories)
        if deed is not None
        and deed.doing not in (Doing.MINOR, Doing.MAJOR)
        and now.is_visible(deed.write_id)
        and not began.is_visible(deed.write_id)
    )


def come_since(
    directories: Iterable[str],
    there: Collection[str],
    began: ValidWriteIdList,
    now: tuple[ValidWriteIdList, ValidTxnList],
) -> tuple[Deed, ...]:
    """The same for a compaction, which has no write ID up to which its lists are whole.

    So it goes by what was there: a directory counts as committed then, unless it was known to be
    open. Results of other compactions are among the deeds.

    Args:
        directories: names, as they are now.
        there: names, as they were when the compaction began.
        began: the table's list at that moment.
        now: the newest list, and that of transactions.
    """
    write_ids, txns = now

    def is_news(deed: Deed) -> bool:
        if deed.directory in there and deed.write_id not in began.open:
            return False
        name = parse_directory_name(deed.directory)
        if name is not None and name.visibility_txn_id is not None:
            return txns.is_visible(name.visibility_txn_id)
        return write_ids.is_visible(deed.write_id)

    return tuple(d for d in map(deed_of, directories) if d is not None and is_news(d))


def may_have_changed(
    directories: Iterable[str], began: ValidWriteIdList, now: ValidWriteIdList
) -> str | None:
    """A directory that may hold what was committed since; None if no row can be another one.

    A range counts that holds such a write ID, whoever has made it: what was committed may be
    compacted already, and its own directory gone.

    Args:
        directories: names, as they are now.
        began: the table's list at the earlier moment.
        now: the newest list, whole up to the asking write's own ID.
    """
    since = [
        write_id
        for write_id in map(
            WriteId, (*began.open, *range(began.high_watermark + 1, now.high_watermark + 1))
        )
        if now.is_visible(write_id) and not began.is_visible(write_id)
    ]
    for directory in directories:
        name = parse_directory_name(directory)
        if name is None:
            continue
        low, high = (0, name.write_id) if isinstance(name, BaseName) else (name.low, name.high)
        if any(low <= write_id <= high for write_id in since):
            return directory
    return None


def first_gone(there: Iterable[str], now: Collection[str]) -> str | None:
    """What was in a partition and is not any more, nor in anything wider; None if all is.

    That is how rows go without a write ID: 3.1 truncates by deleting directories, and who drops a
    partition takes them along. A compaction leaves a wider one. A name that is no directory of the
    format, as of files from before, is in a base.

    Args:
        there: names, as they were.
        now: names, as they are.
    """
    left = {text: parse_directory_name(text) for text in now}

    def is_held(text: str) -> bool:
        name = parse_directory_name(text)
        for other in left.values():
            if isinstance(other, BaseName) and (name is None or other.write_id >= name.high):
                return True
            if name is not None and isinstance(other, DeltaName) and other.holds(name):
                return True
        return False

    missing = sorted(set(there).difference(left))
    return next((t for t in missing if not t.startswith(("_", ".")) and not is_held(t)), None)


def first_rival(
    deeds: Iterable[Deed],
    policy: ConflictPolicy,
    generation: MetastoreGeneration,
    later: Doing,
) -> Deed | None:
    """The deed because of which a job that does this fails, if it ends now; or None."""
    for deed in sorted(deeds, key=lambda d: (d.write_id, d.directory)):
        meeting = Meeting(earlier=deed.doing, later=later)
        if outcome(policy, generation, meeting) is Outcome.FAILS:
            return deed
    return None
