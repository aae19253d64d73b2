"""Scanning agrees with a row-by-row model of write IDs, whatever directories the events lie in.

Writes insert and delete in two buckets; some abort or stay open. Their events lie in a directory of
their own or, as after a minor compaction, in one of a range. Bases are `format`'s business.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.unit.storage.orc_tables import B0, COLUMNS, Event, ids, insert, tombstone, write_acid

Identity = tuple[int, int, int]


@dataclass
class Write:
    """One write ID: how many rows it inserts into each bucket, and which it deletes."""

    inserted: tuple[int, int]
    deleted: list[Identity] = field(default_factory=list)
    fate: str = "committed"


def bucket_property(bucket: int) -> int:
    return B0 + (bucket << 16)


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    writes: list[Write] = []
    rows: list[Identity] = []
    for write_id in range(1, draw(st.integers(1, 6)) + 1):
        write = Write(
            inserted=(draw(st.integers(0, 3)), draw(st.integers(0, 2))),
            deleted=draw(st.lists(st.sampled_from(rows), unique=True, max_size=4)) if rows else [],
            fate=draw(st.sampled_from(["committed"] * 3 + ["aborted", "open"])),
        )
        rows += [
            (write_id, bucket_property(b), r) for b in (0, 1) for r in range(write.inserted[b])
        ]
        writes.append(write)
    return writes


def events_of(write_id: int, write: Write, bucket: int) -> tuple[list[Event], list[Event]]:
    prop = bucket_property(bucket)
    inserts = [
        insert(write_id, row, write_id * 100 + bucket * 10 + row, bucket=prop)
        for row in range(write.inserted[bucket])
    ]
    deletes = [tombstone(w, r, write_id, b) for w, b, r in write.deleted if b == prop]
    return inserts, deletes


def lay_out(root: Path, history: list[Write], ranges: list[range]) -> None:
    """Write each range of write IDs into one delta and one delete delta, a file a bucket."""
    for span in ranges:
        low, high = span[0], span[-1]
        suffix = "_0000" if low == high else ""
        name = f"delta_{low:07d}_{high:07d}{suffix}"
        for bucket in (0, 1):
            pairs = [events_of(w, history[w - 1], bucket) for w in span]
            inserts = sorted((e for i, _ in pairs for e in i), key=lambda e: e[1:4])
            deletes = sorted((e for _, d in pairs for e in d), key=lambda e: e[1:4])
            file = f"bucket_{bucket:05d}"
            # Compactors leave twins: a delete delta for each delta, or its deletes were lost.
            write_acid(root / name / file, inserts)
            write_acid(root / f"delete_{name}" / file, deletes)


@st.composite
def cut(draw: st.DrawFn, size: int) -> list[range]:
    borders = sorted({1, size + 1, *draw(st.lists(st.integers(1, size + 1), max_size=3))})
    return [range(a, b) for a, b in itertools.pairwise(borders)]


def snapshot(history: list[Write], high: int) -> ValidWriteIdList:
    of = {
        fate: ",".join(str(w) for w in range(1, high + 1) if history[w - 1].fate == fate)
        for fate in ("open", "aborted")
    }
    return ids(high, opened=of["open"], aborted=of["aborted"])


def model(history: list[Write], write_ids: ValidWriteIdList) -> list[tuple[Identity, int]]:
    seen = [(w, write) for w, write in enumerate(history, 1) if write_ids.is_visible(w)]
    gone = {identity for _, write in seen for identity in write.deleted}
    return [
        ((w, bucket_property(b), r), w * 100 + b * 10 + r)
        for w, write in seen
        for b in (0, 1)
        for r in range(write.inserted[b])
        if (w, bucket_property(b), r) not in gone
    ]


@settings(
    max_examples=settings.default.max_examples * 2 // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data(), histories(), st.integers(1, 4))
def test_a_scan_returns_the_visible_inserts_without_the_visible_deletes(
    data: st.DataObject, history: list[Write], batch_rows: int
) -> None:
    high = data.draw(st.integers(0, len(history)), label="high")
    write_ids = snapshot(history, high)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), history, data.draw(cut(len(history)), label="ranges"))
        found = [
            (tuple(row["row__id"].values()), row["id"])
            for batch in scan(folder, COLUMNS, write_ids, with_identity=True, batch_rows=batch_rows)
            for row in batch.to_pylist()
        ]
    assert found == model(history, write_ids)
