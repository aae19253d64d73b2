"""What others have done to a partition meanwhile, as the names of its directories tell it.

Takes directory names and what of them is committed; gives deeds, and the first of them that makes a
job fail. Must not know how directories are listed, nor which of them a reader chooses.

Example:
    >>> deed_of("base_0000005")
    Deed(doing=<Doing.OVERWRITE: 'overwrite'>, write_id=5, directory='base_0000005')
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    directories: Iterable[str],
    began: ValidWriteIdList,
    seen: ValidWriteIdList,
    now: ValidWriteIdList,
) -> tuple[Deed, ...]:
    """The writes among these directories that were committed after a job had begun.

    What was committed before the job's present transaction may have been compacted, and its own
    directory removed. So the result of a compaction counts as the least that is in it, an insert,
    if it holds such a write ID: that may be another partition's, but nobody can tell.

    Args:
        directories: names, as they are now.
        began: the table's list when the job began, whole.
        seen: its list as the present transaction sees it. What was committed later lies there,
            since cleaners wait for whoever is at work.
        now: the newest list.
    """
    news = _news(began, seen)
    found = []
    for deed in map(deed_of, directories):
        if deed is None:
            continue
        if deed.doing in (Doing.MINOR, Doing.MAJOR):
            held = [write_id for write_id in news if _holds(deed.directory, write_id)]
            if held:
                found.append(replace(deed, doing=Doing.INSERT, write_id=held[-1]))
        elif now.is_visible(deed.write_id) and not began.is_visible(deed.write_id):
            found.append(deed)
    return tuple(found)


def _news(began: ValidWriteIdList, seen: ValidWriteIdList) -> list[WriteId]:
    """The write IDs that one list shows and an earlier one does not, ascending."""
    later = range(began.high_watermark + 1, seen.high_watermark + 1)
    return [w for w in sorted(map(WriteId, (*began.open, *later))) if seen.is_visible(w)]


def _holds(directory: str, write_id: WriteId) -> bool:
    """Whether a write ID is in the range of a directory."""
    name = parse_directory_name(directory)
    low = name.low if isinstance(name, DeltaName) else 0
    return name is not None and low <= write_id <= name.high


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
