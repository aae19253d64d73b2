"""Knows which answers are an engine's own mistakes, and what a user does about them.

Each goes by what has happened to the table and by what kind of wrong answer was seen; an answer
that is wrong in another way stays unexplained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matrix.kinds import KINDS, Flat
from matrix.life import life as steps_of
from matrix.names import HIVE_3, HIVE_3_READER, HIVE_4, TRINO

if TYPE_CHECKING:
    from matrix.kinds import Kind
    from matrix.records import Life, Wrong

_DELETES: Final = (
    "Trino passes over delete files with Hive 4's names (`bucket_00000_0`; its issue 31302):"
    " deleted rows, and old versions of updated ones, come back until the next compaction."
)
_DELETES_3: Final = (
    "Hive 3.1 looks for the delete events of a bucket by its name, and passes over Hive 4's"
    " (`bucket_00000_0`): deleted rows come back until a major compaction, of Hive's or ours."
)
_TRUNCATED: Final = (
    "Trino knows directories by the files in them, and passes over the empty base that Hive's"
    " TRUNCATE leaves: rows come back until a major compaction, of Hive's or ours."
)
_TRUNCATED_3: Final = (
    "Hive 3.1 fails on the base that Hive 4's TRUNCATE leaves (Unexpected value for dataFormat:"
    " truncated) until a major compaction, of Hive's or ours. A TRUNCATE of ours leaves one that it"
    " reads."
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
_FIRST_HASH: Final = (
    "Hive 3.1 places the rows of INSERT ... SELECT by the first hash, whatever version the table"
    " says: in its own table every row lay where version 1 puts it. All of Hive and we read such"
    " rows; Trino takes the files for damaged ones (is for bucket 0, but contains a row for bucket"
    " 1) until they are written anew, as by an INSERT OVERWRITE of another engine."
)
_TWO_WRITERS: Final = (
    "Trino shares out the rows that it deletes by their whole bucket property, of which the"
    " statement ID that Hive 4's UPDATE and MERGE leave is a part: two of its writers may then make"
    " one file, and it fails with File already exists (see its issue 14636)."
)
_AVRO_TIMES: Final = (
    "Trino fails to write timestamps to Avro where hive.timestamp_precision is more than"
    " milliseconds, as it is here (its issue 20342); another engine took the step."
)
_BLIND: Final = (
    "An engine whose last answer was wrong is not asked to change, compact or empty the table: what"
    " it takes for rows it would write anew, for all readers and for good. Another engine took the"
    " step."
)
_LOADED: Final = (
    "Trino takes files without Hive's six columns in a delta, as LOAD DATA leaves them, for damaged"
    " ones, and reads nothing until a compaction of Hive's or a major one of ours."
)
_BELOW: Final = (
    "Trino wants every file from before a conversion to lie in the table's own directory (Partition"
    " location in OriginalFile ... does not match), and reads nothing while some lie in those of a"
    " UNION ALL: until a major compaction, of Hive's or ours."
)
BLIND: Final = "read the table wrong"
"""Said of a writer that was not asked to take a step."""
_MINOR: Final = "minor compaction"
_MAJOR: Final = "major compaction"
_EMPTIED: Final = "emptied"


def explanation(reader: str, life: Life, seen: Wrong) -> str | None:
    """Why a reader is wrong after a step of a life; None where nobody knows."""
    kind = _kind(life)
    if reader == TRINO and life.misplaced and "but contains a row for bucket" in seen.text:
        return misplacement(life)
    if seen.lacks or not seen.has_more:
        return _of_text(reader, kind, seen.text)
    by_hive = _changes(life, seen.step, HIVE_4, since=(_MINOR, _MAJOR))
    by_trino = _changes(life, seen.step, TRINO, since=(_MAJOR,))
    if by_trino and not kind.buckets:
        return {TRINO: _ONE_FILE, HIVE_4: _NO_ORDER, HIVE_3_READER: _NO_ORDER}.get(reader)
    if reader == TRINO and _EMPTIED in by_hive:
        return _TRUNCATED
    if not by_hive:
        return None
    return {TRINO: _DELETES, HIVE_3_READER: _DELETES_3}.get(reader)


def _of_text(reader: str, kind: Kind, text: str) -> str | None:
    if reader == TRINO and kind.loaded and "ORC ACID file should have 6 columns" in text:
        return _LOADED
    if reader == TRINO and kind.flat is Flat.UNION and "location in OriginalFile" in text:
        return _BELOW
    if reader == HIVE_3_READER and "dataFormat: truncated" in text:
        return _TRUNCATED_3
    return None


def misplacement(life: Life) -> str | None:
    """Why rows lie in another bucket than their hash says; None where nobody knows."""
    kind = _kind(life)
    return _FIRST_HASH if life.writer == HIVE_3 and kind.bucketing_version != 1 else None


def failure(writer: str, life: Life, text: str) -> str | None:
    """Why a writer failed at a step; None where nobody knows."""
    if text == BLIND:
        return _BLIND
    if writer == TRINO and "FileAlreadyExistsException" in text and life.writer != TRINO:
        return _TWO_WRITERS
    if writer == TRINO and "LongTimestamp cannot be" in text:
        return _AVRO_TIMES
    return None


def is_explained(life: Life) -> bool:
    """Whether every answer of a life is right, or wrong for a reason that is known."""
    return (
        life.broke_off is None
        and (not life.misplaced or misplacement(life) is not None)
        and all(
            explanation(reader, life, seen) is not None
            for reader, answers in life.answers.items()
            for seen in answers.wrong
        )
        and all(
            failure(writer, life, text) is not None
            for taken in (*life.taken, *([life.ended] if life.ended else []))
            for writer, text in taken.failures.items()
        )
    )


def _kind(life: Life) -> Kind:
    (kind,) = [kind for kind in KINDS if kind.name == life.kind]
    return kind


def _changes(life: Life, until: str, writer: str, *, since: tuple[str, ...]) -> set[str]:
    """The steps of a writer that delete or change rows, from the last of some steps on."""
    steps = {step.name: step for step in steps_of(_kind(life))}
    names = [one.step for one in life.taken]
    end = names.index(until) + 1
    begin = max((at + 1 for at, name in enumerate(names[:end]) if name in since), default=0)
    return {
        one.step
        for one in life.taken[begin:end]
        if one.done_by == writer and (one.step == _EMPTIED or steps[one.step].changes_rows)
    }
