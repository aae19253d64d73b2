from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyarrow import orc

from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.proofs.bench.cliffs.course import PARTS, merged
from tests.proofs.bench.cliffs.files import deleted, inserted, link, write_directory, write_flat
from tests.proofs.bench.cliffs.report import CLIFFS_BEGIN, CLIFFS_END, cliff_grids, cliff_page
from tests.proofs.bench.cliffs.rows import (
    CLIFF_COLUMNS,
    cliff_rows,
    day_names,
    is_deleted,
    long_texts,
    wide_columns,
    wide_rows,
)
from tests.proofs.bench.cliffs.sizes import CliffSizes
from tests.proofs.bench.figures import pairs
from tests.proofs.bench.records import FLAT, OURS
from tests.proofs.bench.sales import KEY
from tests.unit.bench.made_up_records import SETTING, record

if TYPE_CHECKING:
    from pathlib import Path


def test_the_default_sizes_have_thousands_of_partitions_and_deltas() -> None:
    sizes = CliffSizes()
    assert sizes.partitions == (400, 4_000)
    assert sizes.deltas == (100, 1_000)
    assert sizes.planned_partitions * sizes.planned_buckets == 100_000


def test_a_scale_of_zero_or_above_one_is_refused() -> None:
    for scale in (0, 1.5):
        with pytest.raises(ValueError, match="scale"):
            CliffSizes(scale=scale)


def test_one_row_is_deleted_in_each_partition_of_a_hundred_rows() -> None:
    keys = np.arange(1_000)
    assert is_deleted(keys).reshape(10, 100).sum(axis=1).tolist() == [1] * 10


def test_the_requested_number_of_different_days_is_generated() -> None:
    assert day_names(3) == ["2000-01-01", "2000-01-02", "2000-01-03"]
    assert len(set(day_names(10_000))) == 10_000


def test_a_generated_table_has_the_rows_of_its_flat_file_without_the_deleted_rows(
    tmp_path: Path,
) -> None:
    rows = cliff_rows(np.arange(500))
    gone = is_deleted(rows[KEY].to_numpy())
    events = inserted(rows, 1)
    deletes = DeltaName(
        low=WriteId(2), high=WriteId(2), statement_id=StatementId(0), is_delete=True
    )
    write_directory(tmp_path / "made", BaseName(write_id=WriteId(1)), [events])
    write_directory(tmp_path / "made", deletes, [deleted(events, gone, 2)])
    link(tmp_path / "made", tmp_path / "linked")
    write_flat(tmp_path / "flat.orc", rows.filter(~gone))
    write_ids = ValidWriteIdList(table=None, high_watermark=WriteId(2))
    location = (tmp_path / "linked").as_uri()
    batches = scan(location, CLIFF_COLUMNS, write_ids, data_columns=[KEY])
    keys = sorted(k for batch in batches for k in batch.column(KEY).to_pylist())
    assert keys == orc.read_table(tmp_path / "flat.orc")[KEY].to_pylist()
    assert len(keys) == 495


def test_wide_rows_have_all_columns_and_long_texts_have_the_requested_length() -> None:
    columns = wide_columns(100)
    assert wide_rows(columns, 7).column_names == [c.name for c in columns]
    assert len({c.name for c in columns}) == 100
    texts = list(long_texts(150, 1_000))
    assert [t.num_rows for t in texts] == [100, 50]
    assert {len(text) for t in texts for text in t["text"].to_pylist()} == {1_000}


def test_new_records_of_a_part_replace_only_the_old_records_of_that_part() -> None:
    former = [record(f"cliff.{part}.10.count", OURS, 1.0) for part in ("partitions", "deltas")]
    new = [record("cliff.partitions.20.count", OURS, 2.0), record("cliff.merge.3.merge", OURS, 1.0)]
    assert merged(former, new) == [*new, former[1]]


def test_a_cliff_is_compared_with_flat_files_and_with_its_smallest_size() -> None:
    records = [
        record(f"cliff.deltas.{size}.sum", system, cpu)
        for size, system, cpu in (
            (100, FLAT, 1.0),
            (100, OURS, 1.5),
            (1_000, FLAT, 4.0),
            (1_000, OURS, 15.0),
        )
    ]
    cases, growth = cliff_grids(pairs(records))
    assert cases.title == "Many deltas"
    assert [row[:4] for row in cases.rows] == [
        ("100 deltas: one column", "1.50", "1.50", "1.00"),
        ("1,000 deltas: one column", "3.75", "15.0", "4.00"),
    ]
    assert growth.rows == (("1,000 deltas: one column", "100", "10.00", "15.0 / 1.50"),)


def test_the_size_of_a_case_is_shown_for_each_part() -> None:
    for part in (*PARTS, "merge"):
        (row,) = cliff_grids(pairs([record(f"cliff.{part}.3.count", OURS, 1.0)]))[0].rows
        assert "3" in row[0]


def test_the_cliffs_replace_the_text_between_their_own_markers() -> None:
    text = f"before\n{CLIFFS_BEGIN}\nold\n{CLIFFS_END}\nafter\n"
    found = pairs([record("cliff.deltas.100.sum", OURS, 1.0)])
    written = cliff_page(text, found, SETTING)
    assert "100 deltas: one column" in written
    assert "old" not in written
    assert cliff_page(written, found, SETTING) == written
