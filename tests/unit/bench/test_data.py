from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.proofs.bench.data import generate
from tests.proofs.bench.sales import sales
from tests.proofs.bench.sizes import Sizes

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_seed_generates_the_same_sales_and_a_different_seed_does_not() -> None:
    keys = np.arange(100)
    assert sales(keys, "a", 1).equals(sales(keys, "a", 1))
    assert not sales(keys, "a", 1).equals(sales(keys, "a", 2))


def test_an_incomplete_workload_is_generated_again(tmp_path: Path) -> None:
    whole = generate(tmp_path, Sizes(rows=10_000))
    (whole.folder / "truth.json").unlink()
    whole.merge.unlink()
    again = generate(tmp_path, Sizes(rows=10_000))
    assert again.merge.is_file()
    assert again.truth == whole.truth
