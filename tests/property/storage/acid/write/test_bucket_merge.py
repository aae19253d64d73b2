"""Compaction of one bucket against a row-by-row model, without Spark or a metastore."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId, encode
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write import whole_stripes
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.compacting import compact
from tests.unit.storage.writing import write_events

COLUMNS = (Column(name="v", type="bigint"),)
B0 = encode(BucketId(0), StatementId(0))
Identity = tuple[int, int, int]
MAX = 9223372036854775807

# One write ID a step: how many rows it inserts, which live rows it deletes, whether it aborts.
STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.integers(0, 30), max_size=3), st.booleans()),
    min_size=1,
    max_size=7,
)


class World:
    """Directories on disk and the rows that must be in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live: dict[Identity, int] = {}
        self.aborted: list[int] = []
        self.high = 0

    def write(self, inserts: int, kills: list[int], *, aborts: bool) -> None:
        self.high += 1
        write_id = WriteId(self.high)
        rows = dict(self.live)
        targets = sorted({sorted(rows)[k % len(rows)] for k in kills}) if rows else []
        name = DeltaName(low=write_id, high=write_id, statement_id=StatementId(0))
        if targets:
            for target in targets:
                del rows[target]
            batch = pa.record_batch(
                [
                    pa.array([t[0] for t in targets], pa.int64()),
                    pa.array([t[1] for t in targets], pa.int32()),
                    pa.array([t[2] for t in targets], pa.int64()),
                ],
                names=["originalTransaction", "bucket", "rowId"],
            )
            delete = DeltaName(
                low=write_id, high=write_id, statement_id=StatementId(0), is_delete=True
            )
            self.put(str(delete), delete_events(batch, write_id, COLUMNS), is_delete=True)
        if inserts:
            values = pa.record_batch({"v": [self.high * 100 + i for i in range(inserts)]})
            self.put(str(name), insert_events(values, write_id, B0, RowId(0)), is_delete=False)
            rows |= {(self.high, B0, i): self.high * 100 + i for i in range(inserts)}
        if aborts:
            self.aborted.append(self.high)
        else:
            self.live = rows

    def put(self, directory: str, events: pa.RecordBatch, *, is_delete: bool) -> None:
        path = self.root / directory / "bucket_00000"
        write_events(path, COLUMNS, events, is_delete=is_delete)

    @property
    def write_ids(self) -> ValidWriteIdList:
        aborted = ",".join(map(str, self.aborted))
        return ValidWriteIdList.parse(f"d.t:{self.high}:{MAX}::{aborted}")

    def compact(self, *, major: bool, part_bytes: int | None) -> None:
        compact(self.root, COLUMNS, self.write_ids, major=major, part_bytes=part_bytes)

    def rows(self) -> dict[Identity, int]:
        """What a reader sees, by the plainest possible means."""
        state = resolve(list_table(str(self.root)), self.write_ids, None)
        found: dict[Identity, int] = {}
        dead: set[Identity] = set()
        for bucket in bucket_files(state, self.write_ids):
            for file in bucket.inserts:
                for batch in read_events(file, COLUMNS):
                    for e in batch.to_pylist():
                        if self.write_ids.is_visible(e["currentTransaction"]):
                            key = (e["originalTransaction"], e["bucket"], e["rowId"])
                            assert key not in found
                            found[key] = e["row"]["v"]
            for file in bucket.deletes:
                for batch in read_events(file, COLUMNS):
                    dead |= {
                        (e["originalTransaction"], e["bucket"], e["rowId"])
                        for e in batch.to_pylist()
                        if self.write_ids.is_visible(e["currentTransaction"])
                    }
        return {k: v for k, v in found.items() if k not in dead}


@settings(max_examples=settings.default.max_examples * 2 // 5, deadline=None)
@given(
    first=STEPS,
    then=STEPS,
    minor=st.booleans(),
    major=st.booleans(),
    copied=st.sampled_from([0, whole_stripes.LEAST_BYTES]),
    part_bytes=st.sampled_from([None, 1, 1000]),
)
def test_no_compaction_changes_a_row_or_a_row_id(
    first: list[tuple[int, list[int], bool]],
    then: list[tuple[int, list[int], bool]],
    minor: bool,
    major: bool,
    copied: int,
    part_bytes: int | None,
) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_stripes, "LEAST_BYTES", copied)
        world = World(Path(directory))
        for inserts, kills, aborts in first:
            world.write(inserts, kills, aborts=aborts)
        if minor:
            world.compact(major=False, part_bytes=part_bytes)
            assert world.rows() == world.live
        for inserts, kills, aborts in then:
            world.write(inserts, kills, aborts=aborts)
        assert world.rows() == world.live
        if major:
            world.compact(major=True, part_bytes=part_bytes)
            assert world.rows() == world.live
