"""The changes of a world between two versions, by the model and by our reader.

The model has no directories. A row is born by the write that inserts it. It is dead in a version
if a write up to that version has deleted it or overwritten the table.

Example:
    told(world, 3, 7) == expected(world, 3, 7)
    # True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.change_range import ChangeRange, segments_of
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import settled, up_to
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.storage.acid import read
from airflow_hiveacid.storage.acid.read import buckets, changed_rows
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.stores.listing import list_table
from tests.proofs.histories.world import COLUMNS, Fate, Identity, World, text_of

BORN: Final = "born"
DEAD: Final = "dead"


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A row that was born or died: the write, the row and its first column."""

    version: int
    what: str
    row: Identity
    value: int


def newest(world: World) -> int:
    """Return the highest version that no open write can change."""
    return settled(world.write_ids)


def state(world: World, version: int) -> dict[Identity, int]:
    return {
        row: value
        for row, (birth, value, deaths) in _lives(world).items()
        if birth <= version and not any(death <= version for death in deaths)
    }


def expected(world: World, since: int, until: int, *, is_net: bool = False) -> list[Change]:
    found: list[Change] = []
    for row, (birth, value, deaths) in _lives(world).items():
        death = min((d for d in deaths if d <= until), default=None)
        was_seen = birth <= until and (death is None or max(birth, since) < death)
        if not was_seen:
            continue
        is_new = birth > since
        if is_net and is_new and death is not None:
            continue
        if is_new:
            found.append(Change(birth, BORN, row, value))
        if death is not None:
            found.append(Change(death, DEAD, row, value))
    return sorted(found)


def _lives(world: World) -> dict[Identity, tuple[int, int, list[int]]]:
    """Return each committed row's write and value, and the writes that kill it."""
    done = {w: one for w, one in world.writes.items() if one.fate is Fate.COMMITTED}
    overwrites = [w for w, one in done.items() if one.overwrites]
    killers: dict[Identity, list[int]] = {}
    for write_id, one in done.items():
        for row in one.deletes:
            killers.setdefault(row, []).append(write_id)
    return {
        row: (birth, value, [*killers.get(row, []), *(w for w in overwrites if w > birth)])
        for birth, one in done.items()
        for row, value in one.inserts.items()
    }


def told(
    world: World, since: int, until: int, *, is_net: bool = False, kept: Guarantee | None = None
) -> list[Change]:
    """Return our reader's changes of a range.

    Raises:
        ChangesGoneError: the changes are not available.
    """
    now = world.write_ids
    part = ChangeRange(since=up_to(now, WriteId(since)), until=up_to(now, WriteId(until)))
    listing = list_table(str(world.root))
    segments = segments_of(
        listing, now, part, txns=world.txns, kind=TransactionalKind.FULL_ACID, kept=kept
    )
    found: list[Change] = []
    for segment in segments:
        manner = changed_rows.FeedManner(
            part=segment.part, ends_with=segment.ends_with, is_net=is_net
        )
        (files,) = buckets.buckets_changed([segment])
        for file in changed_rows.change_files(segment, files):
            deaths = changed_rows.deaths_of(file.deletes, segment.part)
            stripes = None if file.is_whole else file.stripes_hit()
            for one in changed_rows.changed_in(
                file.data, stripes, deaths, manner, _read, is_whole=file.is_whole
            ):
                found += _changes(
                    one.rows, one.write_ids.to_pylist(), BORN if one.is_born else DEAD
                )
    return sorted(found)


def _read(file: read.AcidFile, stripes: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
    return read_events(file, COLUMNS, stripes=stripes)


def _changes(rows: pa.RecordBatch, versions: list[int], what: str) -> Iterator[Change]:
    for event, version in zip(rows.to_pylist(), versions, strict=True):
        row = (event["originalTransaction"], event["bucket"], event["rowId"])
        value = event["row"]["v"]
        if event["row"]["s"] != text_of(value):
            raise AssertionError(f"{row} has the text of another row: {event['row']}")
        yield Change(version, what, row, value)


def replayed(rows: dict[Identity, int], changes: list[Change]) -> dict[Identity, int]:
    """Return the rows after changes, applied one by one.

    Raises:
        AssertionError: a change cannot be applied.
    """
    after = dict(rows)
    # Within a version, deaths come before births.
    for change in sorted(changes, key=lambda c: (c.version, c.what == BORN, c)):
        if change.what == BORN:
            if change.row in after:
                raise AssertionError(f"{change} comes twice")
            after[change.row] = change.value
        elif after.pop(change.row, None) != change.value:
            raise AssertionError(f"{change} dies, but does not exist")
    return after
