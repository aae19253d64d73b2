"""Versions of a table as users have them: hundreds of partitions, buckets, NULLs, times and chars.

With a write that was aborted and one that is open among the others. Rows are real; what every
version had is written down beside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import VersionGoneError, VersionNotSettledError
from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import Column, PartitionInfo, PartitionName, TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import keep
from airflow_hiveacid.versions.past import past_of
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.storage.orc_tables import B0, B1, Event, event, tombstone, write_acid

REF: Final = TableRef("default", "wide")
COLUMNS: Final = (
    Column(name="id", type="int"),
    Column(name="at", type="timestamp"),
    Column(name="code", type="char(5)"),
)
ROW: Final = pa.struct([("id", pa.int32()), ("at", pa.timestamp("ns")), ("code", pa.string())])
BUCKETS: Final = (B0, B1)
PLACES: Final = 310
Rows = dict[int, list[tuple[Any, ...]]]


@dataclass
class Wide:
    """The table, and what each of its partitions has now."""

    client: FakeClient
    rows: Rows = field(default_factory=lambda: {n: [] for n in range(PLACES)})
    copies: dict[int, Rows] = field(default_factory=dict)

    def begin(self) -> tuple[TxnId, WriteId]:
        txn = self.client.open_txn()
        return txn, self.client.allocate_write_id(txn, REF)

    def put(self, place: int, name: BaseName | DeltaName, bucket: int, events: list[Event]) -> None:
        """A file of one bucket."""
        table = self.client.get_table(REF)
        root = Path(table.location.removeprefix("file:")) / f"p={place}" / str(name)
        write_acid(root / f"bucket_{BUCKETS.index(bucket):05d}", events, row=ROW)

    def insert(self, write_id: WriteId, places: range, *, overwrites: bool = False) -> Rows:
        """Two rows a partition, one in each bucket; gives them."""
        delta = DeltaName(low=write_id, high=write_id, statement_id=StatementId(0))
        name = BaseName(write_id=write_id) if overwrites else delta
        found: Rows = {}
        for place in places:
            found[place] = []
            for at, bucket in enumerate(BUCKETS):
                row = _row(int(write_id), place, at)
                fields = dict(zip([c.name for c in COLUMNS], row, strict=True))
                events = [event(write_id, 0, fields, bucket=bucket)]
                self.put(place, name, bucket, events)
                found[place].append((int(write_id), bucket, row))
        return found

    def delete(self, write_id: WriteId, places: range) -> None:
        """The first row of each of these partitions."""
        for place in places:
            original, bucket, _ = self.rows[place][0]
            name = DeltaName(
                low=write_id, high=write_id, statement_id=StatementId(0), is_delete=True
            )
            self.put(place, name, bucket, [tombstone(original, 0, write_id, bucket=bucket)])

    def save(self, number: int) -> None:
        self.copies[number] = {place: [*rows] for place, rows in self.rows.items()}

    def snapshot(self) -> Snapshot:
        return snapshot_now(self.client, [REF])

    def read(self, number: int, places: range = range(PLACES)) -> Rows:
        """What a version has in every seventh of some partitions; all of them are chosen."""
        table = self.client.get_table(REF)
        spec = VersionSpec.of(version=number)
        past = past_of(self.client, table, spec, self.snapshot(), taken_s=lambda: None)
        every = self.client.list_partitions(table)
        wanted = [info for info in every if _place(info) in places]
        past.check_vanished([info.name for info in every])
        states = past.states(wanted, [list_table(info.location) for info in wanted])
        found: Rows = {}
        for info, state in zip(wanted, states, strict=True):
            if _place(info) % 7:
                continue
            batches = scan(
                info.location,
                COLUMNS,
                past.then,
                past.txns,
                state=state,
                timestamps=TimestampForm.MICROSECONDS,
            )
            rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
            found[_place(info)] = sorted(rows, key=str)
        return found

    def saved(self, number: int, places: range = range(PLACES)) -> Rows:
        rows = self.copies[number]
        return {
            p: sorted((_padded(row) for _, _, row in rows[p]), key=str)
            for p in places
            if p % 7 == 0
        }


def _place(info: PartitionInfo) -> int:
    return int(info.name.values[0] or 0)


def _row(write_id: int, place: int, at: int) -> tuple[Any, ...]:
    """With NULLs among them, and a moment before 1970 without a fraction."""
    moment = datetime(1969 + place % 60, 7, 20, 20, 17, 40)  # noqa: DTZ001 - as the table has it
    return (
        None if (place + at) % 7 == 0 else 1000 * write_id + place,
        None if (place + at) % 5 == 0 else moment,
        None if (place + at) % 3 == 0 else "äb"[: 1 + at],
    )


def _padded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """As it is read: a char has its length."""
    return (*row[:-1], None if row[-1] is None else row[-1].ljust(5))


@pytest.fixture
def wide(tmp_path: Path) -> Wide:
    client = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=1e6))
    table = client.create_table(
        NewTable(
            ref=REF,
            columns=COLUMNS,
            partition_columns=(Column(name="p", type="int"),),
            location=f"file:{tmp_path}/wide",
        )
    )
    client.add_partitions(table, [PartitionName.parse(f"p={n}") for n in range(PLACES)])
    return Wide(client)


@pytest.mark.promise("V6")
def test_every_version_of_hundreds_of_partitions_is_unchanged_or_refused(wide: Wide) -> None:
    txn, first = wide.begin()
    wide.rows = wide.insert(first, range(PLACES))
    wide.client.commit_txn(txn)
    wide.save(1)
    txn, second = wide.begin()
    wide.delete(second, range(0, PLACES, 3))
    wide.client.commit_txn(txn)
    for place in range(0, PLACES, 3):
        del wide.rows[place][0]
    wide.save(2)
    txn, aborted = wide.begin()
    wide.insert(aborted, range(0, PLACES, 40))
    wide.client.abort_txn(txn)
    wide.save(3)
    opened, still_open = wide.begin()
    wide.insert(still_open, range(5, PLACES, 50))
    txn, fifth = wide.begin()
    for place, rows in wide.insert(fifth, range(0, PLACES, 2)).items():
        wide.rows[place] += rows
    wide.client.commit_txn(txn)
    for number in (1, 3):
        assert wide.read(number) == wide.saved(number), number
    for number in (4, 5):
        with pytest.raises(VersionNotSettledError, match="write ID 4 is still open"):
            wide.read(number)
    found = history_of(wide.client, wide.client.get_table(REF))
    assert {v.number: v.is_readable for v in found.versions} == {5: False, 2: True, 1: True}
    wide.client.abort_txn(opened)
    wide.save(5)
    keep(wide.client, wide.client.get_table(REF))
    txn, sixth = wide.begin()
    wide.rows |= wide.insert(sixth, range(0, PLACES, 20), overwrites=True)
    wide.client.commit_txn(txn)
    wide.save(6)
    for number in (2, 5):  # what was replaced is kept
        assert wide.read(number) == wide.saved(number), number
    wide.client.set_table_parameters(REF, {"no_cleanup": None})  # and now nobody knows
    untouched = range(1, PLACES, 2)
    for number in (1, 2, 3, 5):
        with pytest.raises(VersionGoneError) as caught:
            wide.read(number)
        assert caught.value.oldest == 6
        assert wide.read(number, untouched) == wide.saved(number, untouched)
    assert wide.read(6) == wide.saved(6)
