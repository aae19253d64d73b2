from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.proofs.bench.data import RAISED, Picks, Sums, Workload, generate
from tests.proofs.bench.sales import COLUMNS, KEY, OPERATION, STAMPED_COLUMNS, money, sales
from tests.proofs.bench.sizes import Sizes

if TYPE_CHECKING:
    from pathlib import Path

SIZES = Sizes(rows=20_000, batches=4)


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return generate(tmp_path_factory.mktemp("workload"), SIZES)


def keys_of(path: Path) -> list[int]:
    return pq.read_table(path, columns=[KEY])[KEY].to_pylist()


def test_a_base_of_four_million_rows_has_the_batch_sizes_of_known_benchmarks() -> None:
    sizes = Sizes(rows=4_000_000)
    assert (sizes.append_rows, sizes.delete_rows) == (100_000, 4_000)
    assert (sizes.merge_updates, sizes.merge_deletes, sizes.merge_inserts) == (
        50_000,
        10_000,
        40_000,
    )


def test_a_base_too_small_for_its_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="10000 or more"):
        Sizes(rows=500)


def test_the_same_seed_generates_the_same_sales_and_a_different_seed_does_not() -> None:
    keys = np.arange(100)
    assert sales(keys, "a", 1).equals(sales(keys, "a", 1))
    assert not sales(keys, "a", 1).equals(sales(keys, "a", 2))


def test_sales_have_23_columns_with_the_types_of_the_table_and_no_nulls() -> None:
    drawn = sales(np.arange(1_000), "types", columns=COLUMNS)
    assert drawn.column_names == [c.name for c in COLUMNS]
    assert len(COLUMNS) == 23
    assert drawn["paid"].type == pa.decimal128(12, 2)
    assert drawn["quantity"].type == pa.int32()
    assert drawn["sold_on"].type == pa.date32()
    assert all(column.null_count == 0 for column in drawn.columns)


def test_two_additional_columns_do_not_change_the_other_columns() -> None:
    drawn = sales(np.arange(1_000), "types")
    assert drawn.select([c.name for c in COLUMNS]).equals(
        sales(np.arange(1_000), "types", columns=COLUMNS)
    )
    assert [c.name for c in STAMPED_COLUMNS if c not in COLUMNS] == ["sold_at", "grade"]
    assert drawn["sold_at"].type == pa.timestamp("us")
    day = pa.compute.floor_temporal(drawn["sold_at"], unit="day").cast(pa.date32())
    assert day.equals(drawn["sold_on"])


def test_positive_and_negative_cents_become_exact_decimals() -> None:
    found = money(np.array([0, 1, -1, 9_999_999_999, -250], dtype=np.int64)).to_pylist()
    assert found == [Decimal(t) for t in ("0.00", "0.01", "-0.01", "99999999.99", "-2.50")]


def test_no_row_is_changed_by_two_batches() -> None:
    picks = Picks.of(SIZES)
    every = np.concatenate([*picks.deleted, picks.updated, picks.merged_away])
    assert len(np.unique(every)) == len(every)
    assert len(picks.deleted) == SIZES.batches
    assert every.max() < SIZES.rows


def test_each_file_of_a_workload_contains_the_keys_of_its_batch(workload: Workload) -> None:
    base = [k for file in sorted(workload.base.iterdir()) for k in keys_of(file)]
    assert base == list(range(SIZES.rows))
    appended = [k for file in workload.appends for k in keys_of(file)]
    assert appended == list(range(SIZES.rows, SIZES.rows + SIZES.batches * SIZES.append_rows))
    deleted = [k for file in workload.deletes for k in keys_of(file)]
    assert len(set(deleted)) == SIZES.rows // 100
    source = pq.read_table(workload.merge, columns=[KEY, OPERATION]).to_pydict()
    hit = {k for k, op in zip(source[KEY], source[OPERATION], strict=True) if op in "UD"}
    new = {k for k, op in zip(source[KEY], source[OPERATION], strict=True) if op == "I"}
    assert hit <= set(base) - set(deleted)
    assert min(new) > max(appended)
    assert len(hit) + len(new) == SIZES.merge_rows


def test_the_expected_sums_equal_those_of_the_same_changes_in_memory(workload: Workload) -> None:
    rows = pq.read_table(workload.base)
    assert Sums.of(rows) == workload.truth.base
    appended = pa.concat_tables([rows, *(pq.read_table(file) for file in workload.appends)])
    changed = without(appended, [k for file in workload.deletes for k in keys_of(file)])
    assert Sums.of(changed) == workload.truth.changed
    column, _, most = RAISED.partition(" <= ")
    raised = int(np.sum(changed[column].to_numpy() <= int(most)))
    assert 0 < raised < len(changed) / 50
    assert workload.truth.raised == workload.truth.changed + Sums(quantity=raised)
    source = pq.read_table(workload.merge)
    kept = source.filter(pa.compute.not_equal(source[OPERATION], "D")).drop([OPERATION])
    merged = pa.concat_tables([without(changed, source[KEY].to_pylist()), kept])
    assert Sums.of(merged) == workload.truth.merged


def test_an_existing_workload_is_not_generated_again(workload: Workload) -> None:
    before = {file: file.stat().st_mtime_ns for file in workload.folder.rglob("*.parquet")}
    again = generate(workload.folder.parent, SIZES)
    assert again == workload
    assert before == {f: f.stat().st_mtime_ns for f in workload.folder.rglob("*.parquet")}


def test_an_incomplete_workload_is_generated_again(tmp_path: Path) -> None:
    whole = generate(tmp_path, Sizes(rows=10_000))
    (whole.folder / "truth.json").unlink()
    whole.merge.unlink()
    again = generate(tmp_path, Sizes(rows=10_000))
    assert again.merge.is_file()
    assert again.truth == whole.truth


def without(rows: pa.Table, keys: list[int]) -> pa.Table:
    return rows.filter(pa.array(~np.isin(rows[KEY].to_numpy(), keys)))
