"""A batch is bounded in bytes, whatever the width of the rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.orc import view
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.statistics import merge_stripes
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.orc.view import fitting_rows
from tests.unit.storage.orc_tables import acid_file, event, write_acid

ROW = pa.struct([("id", pa.int64()), ("deep", pa.list_(pa.string()))])
LOCAL = pafs.LocalFileSystem()


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A thousand rows of 10 KB that compress to nearly nothing."""
    rows = [event(1, i, {"id": i, "deep": ["x" * 5000, None, "y" * 5000]}) for i in range(1000)]
    return write_acid(tmp_path / "b", rows, row=ROW)


def test_wide_columns_make_small_batches_and_narrow_columns_do_not(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 1_000_000)
    tail = read_tail(LOCAL, str(wide))
    assert 80 < fitting_rows(tail, [8], 16384) < 110
    assert fitting_rows(tail, [7], 1000) == 1000
    assert fitting_rows(tail, [], 16384) == 16384
    file = acid_file(wide)
    columns = [Column(name="id", type="bigint"), Column(name="deep", type="array<string>")]
    batches = list(read_events(file, columns))
    assert max(batch.nbytes for batch in batches) < 1_500_000
    assert sum(batch.num_rows for batch in batches) == 1000


def test_without_statistics_the_file_size_limits_the_batch(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 10_000)
    tail = read_tail(LOCAL, str(wide))
    del tail.footer.statistics[:]
    assert fitting_rows(tail, [8], 16384) < 1000


def _of_hive_3_1(statistics: pb.ColumnStatistics) -> None:
    """What a minor compaction of Hive 3.1 says of every column."""
    statistics.CopyFrom(pb.ColumnStatistics(values=0, has_null=False))


def _without_strings(statistics: pb.ColumnStatistics) -> None:
    statistics.ClearField("strings")


@pytest.mark.parametrize("change", [_of_hive_3_1, _without_strings])
def test_empty_or_incomplete_statistics_do_not_make_large_batches(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pb.ColumnStatistics], None],
) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 1_000_000)
    dice = random.Random(7)
    rows = [event(1, i, {"id": i, "deep": [dice.randbytes(5_000).hex()]}) for i in range(300)]
    tail = read_tail(LOCAL, str(write_acid(tmp_path / "b", rows, row=ROW)))
    for statistics in tail.footer.statistics:
        change(statistics)
    # 10 KB a row; that it is one value says nothing.
    assert fitting_rows(tail, [8], 16384) < 100


@pytest.mark.parametrize("known", [True, False])
def test_a_stripe_of_long_values_makes_small_batches_despite_many_short_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 1_000_000)
    dice = random.Random(7)
    short = [event(1, i, {"id": i, "deep": ["x"]}) for i in range(20_000)]
    long = [event(2, i, {"id": i, "deep": [dice.randbytes(5_000).hex()]}) for i in range(100)]
    tails = [
        read_tail(LOCAL, str(write_acid(tmp_path / f"b{i}", rows, row=ROW)))
        for i, rows in enumerate((short, long))
    ]
    tail = read_tail(LOCAL, str(write_acid(tmp_path / "b", short, long, row=ROW)))
    if known:
        tail.footer.statistics.extend(merge_stripes([t.metadata.stripes[0] for t in tails]))
        tail.metadata.stripes.extend(t.metadata.stripes[0] for t in tails)
    assert fitting_rows(tail, [8], 16384) < 110
    assert fitting_rows(tails[0], [8], 16384) == 16384


def test_a_batch_has_at_least_sixteen_rows(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 1)
    assert fitting_rows(read_tail(LOCAL, str(wide)), [8], 16384) == 16
