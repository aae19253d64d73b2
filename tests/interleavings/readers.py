"""How Hive and Trino read what lies on the disk, under a snapshot: written anew, for the checks.

Hive's rules are the product's own `resolve`, on a bare listing, and, for readers that stay, those
of 4.0.1; Trino's are those of its AcidTables
and its BackgroundHiveSplitLoader, and stand here: it does not look at the transactions of
compactions, reads every file that its write ID list allows, and asks no row for its write ID.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState, FileEntry, Listing, resolve
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import METADATA_FILE, BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from tests.interleavings.disk import Disk, File
from tests.interleavings.rows import BUCKET, Identity, Row, events

Found = tuple[tuple[str, bool, bool], ...]
"""Directory names with whether they are marked as compacted and hold a data file, sorted."""


class NoHistoryError(Exception):
    """Trino: bases are there, and none of them may be read."""


@lru_cache(maxsize=100_000)
def _name(text: str) -> BaseName | DeltaName | None:
    return parse_directory_name(text)


def look(disk: Disk, location: str) -> Found:
    """What lies at a location."""
    node = disk.find(location)
    if not isinstance(node, dict):
        return ()
    return tuple(
        sorted(
            (name, METADATA_FILE in child, BUCKET in child)
            for name, child in node.items()
            if isinstance(child, dict) and _name(name) is not None
        )
    )


def state_of(found: Found, write_ids: ValidWriteIdList, txns: ValidTxnList) -> AcidState:
    """The product's own view of the directories."""
    listing = Listing(
        location="/lab",
        files=tuple(FileEntry(path=f"{n}/{BUCKET}", size_bytes=1) for n, _, full in found if full),
        directories=tuple(name for name, _, _ in found),
        metadata={name: "compacted" for name, marked, _ in found if marked},
    )
    return resolve(listing, write_ids, txns)


@lru_cache(maxsize=200_000)
def hive_choice(
    found: Found, write_ids: ValidWriteIdList, txns: ValidTxnList
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Directories whose rows are read, and those whose delete events are."""
    state = state_of(found, write_ids, txns)
    base = (state.base.text,) if state.base else ()
    return (*base, *(d.text for d in state.deltas)), tuple(d.text for d in state.delete_deltas)


@lru_cache(maxsize=200_000)
def hive4_choice(
    found: Found, write_ids: ValidWriteIdList, txns: ValidTxnList
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same for 4.0.1's own readers (AcidUtils), which differ from the product's in two ways.

    They take a compacted base also if its write ID is the lowest that is open; of two minor results
    of one range they read both.

    Raises:
        NoHistoryError: the oldest base is a compacted one, and none may be read.
    """
    bases: list[tuple[BaseName, str, bool]] = []
    work: list[tuple[tuple[int, int, int, str], DeltaName]] = []
    for text, marked, _ in found:
        name = _name(text)
        if name is None or (
            name.visibility_txn_id is not None and not txns.is_visible(name.visibility_txn_id)
        ):
            continue
        if isinstance(name, BaseName):
            is_compacted = name.visibility_txn_id is not None or marked
            if is_compacted or not write_ids.is_aborted(name.write_id):
                bases.append((name, text, is_compacted))
        elif write_ids.visible_within(name.low, name.high):
            statement = -1 if name.statement_id is None else int(name.statement_id)
            work.append(((name.low, -name.high, statement, text), name))
    valid = [base for base in bases if _is_base_of_hive_4(base[0], write_ids, compacted=base[2])]
    best = max(valid, key=lambda base: (base[0].write_id, base[2]), default=None)
    if best is None and bases and min(bases, key=lambda base: base[0].write_id)[2]:
        raise NoHistoryError(min(bases, key=lambda base: base[0].write_id)[1])
    start = 0 if best is None else int(best[0].write_id)
    inserts, deletes = _deltas_after(start, work, write_ids.visible_within)
    return ((best[1], *inserts) if best else inserts), deletes


def _is_base_of_hive_4(name: BaseName, write_ids: ValidWriteIdList, *, compacted: bool) -> bool:
    if not compacted:
        return write_ids.is_visible(name.write_id)
    lowest = write_ids.min_open_write_id
    return name.write_id == lowest or write_ids.is_valid_base(name.write_id)


def _deltas_after(
    current: int,
    deltas: list[tuple[tuple[int, int, int, str], DeltaName]],
    any_valid: Callable[[WriteId, WriteId], bool],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The deltas that count above a base, as both engines choose them."""
    inserts: list[str] = []
    deletes: list[str] = []
    last_statement, previous = -1, None
    for (low, minus_high, statement, text), name in sorted(deltas, key=lambda one: one[0]):
        top, key = -minus_high, (low, -minus_high, statement)
        if top > current:
            if not any_valid(WriteId(current + 1), WriteId(top)):
                continue
            current, last_statement = top, statement
        elif not ((top == current and last_statement >= 0) or previous == key):
            continue
        previous = key
        (deletes if name.is_delete else inserts).append(text)
    return tuple(inserts), tuple(deletes)


@lru_cache(maxsize=200_000)
def trino_choice(  # noqa: C901 -- in one piece, as Trino's own
    found: Found, write_ids: ValidWriteIdList
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same for Trino (AcidTables.getAcidState).

    Raises:
        NoHistoryError: there are bases, and none may be read.
    """
    invalid = sorted({*write_ids.open, *write_ids.aborted})
    lowest_open = min(write_ids.open, default=None)
    high = write_ids.high_watermark

    def any_valid(low: int, up_to: int) -> bool:
        return any(w <= high and w not in invalid for w in range(low, up_to + 1))

    bases: list[tuple[int, str]] = []
    best: tuple[int, str] | None = None
    deltas: list[tuple[tuple[int, int, int, str], DeltaName]] = []
    for text, marked, is_full in found:
        name = _name(text)
        if name is None or not is_full:
            continue
        if isinstance(name, BaseName):
            number = name.write_id
            bases.append((number, text))
            if name.visibility_txn_id or marked:
                is_valid = number <= high and (lowest_open is None or number < lowest_open)
            else:
                is_valid = number <= high and number not in invalid
            if is_valid and (best is None or best[0] < number):
                best = (number, text)
        elif any_valid(name.low, name.high):
            statement = -1 if name.statement_id is None else int(name.statement_id)
            deltas.append(((name.low, -name.high, statement, text), name))
    if bases and best is None:
        raise NoHistoryError(str(min(bases)))
    if best is None:
        return _deltas_after(0, deltas, any_valid)
    inserts, deletes = _deltas_after(best[0], deltas, any_valid)
    return (best[1], *inserts), deletes


def siblings(
    found: Found, choice: tuple[tuple[str, ...], tuple[str, ...]]
) -> dict[str, TxnId | None]:
    """Other results of compactions of a range that is read, and who made them.

    Trino would read them as well.
    """
    read = (*choice[0], *choice[1])
    ranges = {_range(text) for text in read}
    return {
        text: name.visibility_txn_id
        for text, _, _ in found
        if (name := _name(text)) is not None and _range(text) in ranges and text not in read
    }


def _range(text: str) -> tuple[object, ...]:
    name = _name(text)
    if not isinstance(name, DeltaName):
        return (text,)
    return name.is_delete, name.low, name.high, name.statement_id


_EVERY: Final = 1 << 62


def rows_of(
    disk: Disk,
    location: str,
    partition: str,
    choice: tuple[tuple[str, ...], tuple[str, ...]],
    write_ids: ValidWriteIdList | None,
) -> list[tuple[Row, Identity]]:
    """The rows of the chosen directories; without write IDs no row is asked for its own."""
    inserts, deletes = choice
    invalid = set() if write_ids is None else {*write_ids.open, *write_ids.aborted}
    high = _EVERY if write_ids is None else int(write_ids.high_watermark)

    def visible(names: tuple[str, ...]) -> list[tuple[Identity, str, str]]:
        found = []
        for name in names:
            node = disk.find(f"{location}/{name}/{BUCKET}")
            for a, b, c, current, key, text in events(
                node.content if isinstance(node, File) else b""
            ):
                if current <= high and current not in invalid:
                    found.append(((a, b, c), key, text))
        return found

    dead = {identity for identity, _, _ in visible(deletes)}
    return [
        ((partition, key, text), identity)
        for identity, key, text in visible(inserts)
        if identity not in dead
    ]
