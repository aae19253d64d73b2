"""Knows which answers are an engine's own mistakes, and what a user does about them.

Each goes by what has happened to the table and by what kind of wrong answer was seen; an answer
that is wrong in another way stays unexplained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix.readers import HIVE_3 as HIVE_3_READER
from matrix.writers import HIVE_4, TRINO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix.course import Course, Seen
    from matrix.kinds import Kind
    from matrix.life import Step

_DELETES: Final = (
    "Trino passes over delete files with Hive 4's names (`bucket_00000_0`): deleted rows, and old"
    " versions of updated ones, come back until a major compaction, of Hive's or ours."
)
_DELETES_3: Final = (
    "Hive 3.1 looks for the delete events of a bucket by its name, and passes over Hive 4's"
    " (`bucket_00000_0`): deleted rows come back until a major compaction, of Hive's or ours."
)
_TRUNCATED: Final = (
    "Trino passes over the empty base that Hive's TRUNCATE leaves: rows come back until a major"
    " compaction, of Hive's or ours."
)
_ONE_FILE: Final = (
    "Trino writes all delete events of an unbucketed table into one file, and looks for those of a"
    " row in the file of the row's own number: deleted rows of other files come back until a major"
    " compaction of ours."
)
_NO_ORDER: Final = (
    "Trino writes the delete events of a table with several files in no order; Hive merges them as"
    " sorted, and misses some: rows come back until a major compaction of ours. One of Hive's keeps"
    " them for good."
)
_TWO_WRITERS: Final = (
    "Trino shares out the rows that it deletes from a bucketed table by the whole bucket property,"
    " the statement ID in it too: two of its writers then make one file, and it fails with File"
    " already exists (see its issue 14636). Another engine took the step."
)
_MAJOR: Final = "major compaction"
_EMPTIED: Final = "emptied"


def explanation(reader: str, course: Course, seen: Seen) -> str | None:
    """Why a reader is wrong after the steps of a life so far; None where nobody knows."""
    if seen.lacks or not seen.has_more:
        return None
    by_hive, by_trino = _since_major(course, HIVE_4), _since_major(course, TRINO)
    if by_trino and not course.kind.buckets:
        return {TRINO: _ONE_FILE, HIVE_4: _NO_ORDER, HIVE_3_READER: _NO_ORDER}.get(reader)
    if reader == TRINO and any(step.name == _EMPTIED for step in by_hive):
        return _TRUNCATED
    if not by_hive:
        return None
    return {TRINO: _DELETES, HIVE_3_READER: _DELETES_3}.get(reader)


def failure(writer: str, kind: Kind, error: Exception) -> str | None:
    """Why a writer broke off at a step; None where nobody knows."""
    if writer == TRINO and kind.buckets and "FileAlreadyExistsException" in str(error):
        return _TWO_WRITERS
    return None


def _since_major(course: Course, writer: str) -> Sequence[Step]:
    """The steps of a writer that deleted or changed rows, since the last major compaction."""
    names = [one.step.name for one in course.taken]
    since = len(names) - names[::-1].index(_MAJOR) if _MAJOR in names else 0
    steps = [one.step for one in course.taken[since:] if one.done_by == writer]
    return [step for step in steps if step.changes_rows or step.name == _EMPTIED]
