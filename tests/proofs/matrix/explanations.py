"""The answers that are an engine's own mistakes, and the user's remedies.

Each depends on the history of the table and the kind of wrong answer; an answer that is wrong in
another way stays unexplained.
"""

from __future__ import annotations

from typing import Final

from tests.proofs.matrix.kinds import HIVE_3, HIVE_3_READER, HIVE_4, KINDS, TRINO, Flat, Kind
from tests.proofs.matrix.life import life as steps_of
from tests.proofs.matrix.records import Life, Wrong

_DELETES: Final = (
    "Trino ignores delete files with Hive 4's names (`bucket_00000_0`; Trino issue 31302). Deleted"
    " rows and old versions of updated rows reappear until the next compaction."
)
_DELETES_3: Final = (
    "Hive 3.1 finds a bucket's delete events by file name, and ignores Hive 4's file names"
    " (`bucket_00000_0`). Deleted rows reappear until a major compaction by Hive or this provider."
)
_TRUNCATED: Final = (
    "Trino recognises a directory only by the files in it, and ignores the empty base that Hive's"
    " TRUNCATE writes. Rows reappear until a major compaction by Hive or this provider."
)
_TRUNCATED_3: Final = (
    "Hive 3.1 fails on the base that Hive 4's TRUNCATE writes (Unexpected value for dataFormat:"
    " truncated). After a major compaction by Hive or this provider, Hive 3.1 can read the"
    " table. Hive 3.1 can also read the base that this provider's TRUNCATE writes."
)
_ONE_FILE: Final = (
    "Trino writes all delete events of an unbucketed table into one file. When Trino reads a"
    " row, it searches only the delete file that has the same number as the row's file. Deleted"
    " rows of other files reappear until a major compaction by this provider."
)
_NO_ORDER: Final = (
    "If a table has several files, Trino writes its delete events unsorted. Hive merges these"
    " events as if they were sorted, and misses some of them. Deleted rows reappear until a"
    " major compaction by this provider. A major compaction by Hive makes these rows permanent."
)
_FIRST_HASH: Final = (
    "Hive 3.1 assigns the rows of INSERT ... SELECT to buckets by the first hash, even if the"
    " table has a different `bucketing_version`. In the table that Hive 3.1 wrote, every row was"
    " in the bucket of version 1. Every version of Hive and this provider's readers read such"
    " rows. Trino rejects the files as damaged (is for bucket 0, but contains a row for bucket"
    " 1). An INSERT OVERWRITE by another engine repairs the table for Trino."
)
_TWO_WRITERS: Final = (
    "Trino distributes the rows that it deletes to its writers by their whole bucket property."
    " This property includes the statement ID, and UPDATE and MERGE by Hive 4 leave rows with"
    " different statement IDs. So two of Trino's writers may create the same file, and Trino"
    " fails with File already exists (see Trino issue 14636)."
)
_AVRO_TIMES: Final = (
    "If hive.timestamp_precision is finer than milliseconds, as in this test, Trino cannot write"
    " timestamps to Avro (Trino issue 20342). Another engine ran the step."
)
_BLIND: Final = (
    "An engine that did not read the table correctly after the previous step is not asked to"
    " change, compact or empty the table. It would write the wrong rows that it reads, and then"
    " all readers would return these rows. Another engine ran the step."
)
_LOADED: Final = (
    "LOAD DATA leaves files without Hive's six ACID columns in a delta. Trino rejects these"
    " files as damaged. It can read the table again after a compaction by Hive or a major"
    " compaction by this provider."
)
_BELOW: Final = (
    "Trino requires that every file from before a conversion is in the table's own directory"
    " (Partition location in OriginalFile ... does not match). While some files are in the"
    " directories of a UNION ALL, Trino cannot read the table. A major compaction by Hive or"
    " this provider repairs the table for Trino."
)
BLIND: Final = "read the table wrong"
"""The reason why a writer was not asked to take a step."""
_MINOR: Final = "minor compaction"
_MAJOR: Final = "major compaction"
_EMPTIED: Final = "emptied"


def explanation(reader: str, life: Life, seen: Wrong) -> str | None:
    """Return why a reader is wrong after a step of a life; None if unknown."""
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
    """Return why rows are in another bucket than their hash selects; None if unknown."""
    kind = _kind(life)
    return _FIRST_HASH if life.writer == HIVE_3 and kind.bucketing_version != 1 else None


def failure(writer: str, life: Life, text: str) -> str | None:
    """Return why a writer failed at a step; None if unknown."""
    if text == BLIND:
        return _BLIND
    if writer == TRINO and "FileAlreadyExistsException" in text and life.writer != TRINO:
        return _TWO_WRITERS
    if writer == TRINO and "LongTimestamp cannot be" in text:
        return _AVRO_TIMES
    return None


def is_explained(life: Life) -> bool:
    """Return True if every answer of a life is right, or wrong for a known reason."""
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
    """Return a writer's steps that delete or change rows, from the last of some steps on."""
    steps = {step.name: step for step in steps_of(_kind(life))}
    names = [one.step for one in life.taken]
    end = names.index(until) + 1
    begin = max((at + 1 for at, name in enumerate(names[:end]) if name in since), default=0)
    return {
        one.step
        for one in life.taken[begin:end]
        if one.done_by == writer and (one.step == _EMPTIED or steps[one.step].changes_rows)
    }
