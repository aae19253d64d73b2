"""Rows without ACID columns, with the ones that their place in the file gives them.

Takes batches in file order and which stripes they came from; gives each with its root columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.storage.acid.row_schema import IDENTITY_SCHEMA, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.storage.acid.read.acid_file import SyntheticIdentity
    from airflow_hiveacid.storage.orc.footer import StripeInfo


def numbered(
    synthetic: SyntheticIdentity,
    stripes: Sequence[StripeInfo],
    read: Sequence[int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Number the rows of batches.

    Args:
        synthetic: the identity of the file's rows.
        stripes: all stripes of the file.
        read: 0-based numbers of those that the batches are from, ascending.
        batches: their rows.

    Returns:
        Pairs of root columns (`IDENTITY_SCHEMA`) and the batch that they are of.
    """
    lengths = np.array([stripe.rows for stripe in stripes], dtype=np.int64)
    firsts = np.cumsum(lengths) - lengths
    chosen = list(read)
    ends = np.cumsum(lengths[chosen])
    # From the place among the rows that are read to the place in the file.
    skipped = firsts[chosen] - (ends - lengths[chosen])
    at = 0
    for batch in batches:
        places = np.arange(at, at + batch.num_rows)
        numbers = places + skipped[np.searchsorted(ends, places, "right")]
        at += batch.num_rows
        yield _made(synthetic, synthetic.first_row_id + numbers), batch


def _made(synthetic: SyntheticIdentity, row_ids: npt.NDArray[np.int64]) -> pa.RecordBatch:
    size = len(row_ids)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(size, Operation.INSERT, dtype=np.int32)),
            pa.array(np.full(size, synthetic.write_id, dtype=np.int64)),
            pa.array(np.full(size, synthetic.bucket_property, dtype=np.int32)),
            pa.array(row_ids),
            pa.array(np.full(size, synthetic.write_id, dtype=np.int64)),
        ],
        schema=IDENTITY_SCHEMA,
    )
