"""One directory on disk, the writes that made it, and the rows that a reader must see.

The model has no directories. A row is visible if its write is, if no later visible write overwrote
the table, and if no visible write deletes it.

Example:
    world = World(folder)
    world.insert(world.begin(), rows=3, bucket=0, statement=0)
    world.expected()
    # {(1, 536870912, 0): 100000, ...}
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import (
    BucketId,
    BucketProperty,
    RowId,
    StatementId,
    TxnId,
    WriteId,
    decode,
    encode,
)
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.compacting import compact

Identity = tuple[int, int, int]
COLUMNS: Final = (Column(name="v", type="bigint"), Column(name="s", type="string"))
_ROWS_A_WRITE: Final = 100_000


class Fate(Enum):
    """The end of a write, or of a compaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(slots=True)
class Write:
    """The operations of one write ID."""

    fate: Fate
    inserts: dict[Identity, int] = field(default_factory=dict)
    deletes: set[Identity] = field(default_factory=set)
    overwrites: bool = False


class World:
    """One directory and its model. A subclass with other `columns` has its own `batch`."""

    columns: ClassVar[tuple[Column, ...]] = COLUMNS

    def __init__(self, root: Path) -> None:
        self.root = root
        self.writes: dict[int, Write] = {}
        self.compactions: list[Fate] = []
        root.mkdir(parents=True)

    # ------------------------------------------------------------ writes
    def originals(self, files: Iterable[tuple[int, int, int]]) -> None:
        """Write flat files of (bucket, copy, rows), from before the table was transactional.

        Their rows have write ID 0, and numbers that continue over the copies of a bucket.
        """
        write = Write(Fate.COMMITTED)
        counted: dict[int, int] = {}
        for bucket, copy, rows in sorted(files):
            first = counted.get(bucket, 0)
            counted[bucket] = first + rows
            numbers = range(first, first + rows)
            values = [_ROWS_A_WRITE * -(bucket + 1) - n for n in numbers]
            name = f"{bucket:06d}_0" + (f"_copy_{copy}" if copy else "")
            orc.write_table(pa.Table.from_batches([self.batch(values)]), self.root / name)
            own = encode(BucketId(bucket), StatementId(0))
            write.inserts |= dict(zip(((0, own, n) for n in numbers), values, strict=True))
        self.writes[0] = write

    def begin(self, fate: Fate = Fate.COMMITTED) -> WriteId:
        """Return the next write ID, of a write with this end."""
        write_id = WriteId(self.high + 1)
        self.writes[write_id] = Write(fate)
        return write_id

    def insert(self, write_id: WriteId, *, rows: int, bucket: int, statement: int) -> None:
        self._put(
            self._delta(write_id, statement), bucket, [self._new(write_id, rows, bucket, statement)]
        )

    def overwrite(self, write_id: WriteId, *, rows: int, bucket: int) -> None:
        """Replace all earlier rows; without new rows, this is a TRUNCATE."""
        self.writes[write_id].overwrites = True
        base = BaseName(write_id=write_id)
        self._put(base, bucket, [self._new(write_id, rows, bucket, 0)])

    def stream(self, write_ids: list[WriteId], *, rows: int, bucket: int) -> None:
        """Write a batch of several transactions into one file; some of them may not commit."""
        name = DeltaName(low=write_ids[0], high=write_ids[-1])
        self._put(name, bucket, [self._new(one, rows, bucket, 0) for one in write_ids])

    def delete(self, write_id: WriteId, rows: Iterable[Identity], *, statement: int) -> None:
        """Delete rows, each in the delete file of its bucket."""
        targets = sorted(rows)
        self.writes[write_id].deletes |= set(targets)
        for bucket in {decode(BucketProperty(b)).bucket_id for _, b, _ in targets}:
            own = [t for t in targets if decode(BucketProperty(t[1])).bucket_id == bucket]
            keys = pa.record_batch(
                [
                    pa.array([t[0] for t in own], pa.int64()),
                    pa.array([t[1] for t in own], pa.int32()),
                    pa.array([t[2] for t in own], pa.int64()),
                ],
                names=["originalTransaction", "bucket", "rowId"],
            )
            name = self._delta(write_id, statement, is_delete=True)
            self._put(name, bucket, [delete_events(keys, write_id, self.columns)], is_delete=True)

    # ------------------------------------------------------------ upkeep
    def compact(self, *, major: bool, fate: Fate, named: bool) -> None:
        """Compact; with `named`, the directory has the transaction's name, as in Hive 4.

        The result of a compaction that did not commit is incomplete, and no reader sees it.
        """
        published = compact(self.root, self.columns, self.write_ids, self.txns, major=major)
        if not named:
            return
        self.compactions.append(fate)
        for name in published:
            place = (self.root / name).rename(self.root / f"{name}_v{len(self.compactions):07d}")
            if fate is not Fate.COMMITTED:
                next(file for file in place.iterdir() if file.name.startswith("bucket_")).unlink()

    def clean(self) -> None:
        """Remove the files that no future reader needs."""
        state = resolve(list_table(str(self.root)), self.write_ids, self.txns)
        for directory in state.obsolete_directories:
            shutil.rmtree(self.root / directory.text)
        for file in state.obsolete_originals:
            (self.root / file.path).unlink()

    # ------------------------------------------------------------ readers
    @property
    def high(self) -> int:
        """The last write ID."""
        return max(self.writes, default=0)

    @property
    def write_ids(self) -> ValidWriteIdList:
        """The write IDs that a new reader sees."""

        def of(fate: Fate) -> tuple[WriteId, ...]:
            return tuple(WriteId(w) for w, write in self.writes.items() if write.fate is fate)

        return ValidWriteIdList(
            table=TableRef("d", "t"),
            high_watermark=WriteId(self.high),
            open=of(Fate.OPEN),
            aborted=of(Fate.ABORTED),
        )

    @property
    def txns(self) -> ValidTxnList:
        """The compactions that a new reader sees."""

        def of(fate: Fate) -> tuple[TxnId, ...]:
            return tuple(TxnId(n) for n, one in enumerate(self.compactions, 1) if one is fate)

        return ValidTxnList(
            high_watermark=TxnId(len(self.compactions)),
            open=of(Fate.OPEN),
            aborted=of(Fate.ABORTED),
        )

    def expected(self) -> dict[Identity, int]:
        """Return what a new reader must see: the first column of each row by its row ID."""
        seen = {w: o for w, o in self.writes.items() if o.fate is Fate.COMMITTED}
        start = max((w for w, one in seen.items() if one.overwrites), default=0)
        counted = [one for w, one in seen.items() if w >= start]
        gone = {row for one in counted for row in one.deletes}
        return {
            row: value for one in counted for row, value in one.inserts.items() if row not in gone
        }

    # ------------------------------------------------------------ files
    @staticmethod
    def batch(values: list[int]) -> pa.RecordBatch:
        """Return the columns of rows, each computed from one number."""
        texts = [text_of(value) for value in values]
        return pa.record_batch(
            {"v": pa.array(values, pa.int64()), "s": pa.array(texts, pa.string())}
        )

    def _delta(self, write_id: WriteId, statement: int, *, is_delete: bool = False) -> DeltaName:
        return DeltaName(
            low=write_id, high=write_id, statement_id=StatementId(statement), is_delete=is_delete
        )

    def _new(self, write_id: WriteId, rows: int, bucket: int, statement: int) -> pa.RecordBatch:
        own = encode(BucketId(bucket), StatementId(statement))
        values = [
            _ROWS_A_WRITE * write_id + 10_000 * statement + 1_000 * bucket + n for n in range(rows)
        ]
        identities = ((int(write_id), int(own), n) for n in range(rows))
        self.writes[write_id].inserts |= dict(zip(identities, values, strict=True))
        return insert_events(self.batch(values), write_id, own, RowId(0))

    def _put(
        self,
        name: BaseName | DeltaName,
        bucket: int,
        events: list[pa.RecordBatch],
        *,
        is_delete: bool = False,
    ) -> None:
        path = self.root / str(name) / bucket_file(BucketId(bucket))
        fs = LocalFileSystem()
        options = WriterOptions()
        with AcidFileWriter(fs, str(path), self.columns, options, is_delete=is_delete) as writer:
            for batch in events:
                writer.write(batch)
            writer.close()


def text_of(value: int) -> str | None:
    """Return the second column, which follows from the first."""
    return None if value % 7 == 0 else f"t{value} é"
