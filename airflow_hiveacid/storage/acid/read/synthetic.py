"""For rows without ACID columns, derive the root columns from the rows' positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.storage.acid.read.acid_file import SyntheticIdentity
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_SCHEMA, Operation
from airflow_hiveacid.storage.orc.footer import StripeInfo


def numbered(
    synthetic: SyntheticIdentity,
    stripes: Sequence[StripeInfo],
    read: Sequence[int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield each batch with its root columns; the row IDs are derived from positions.

    `stripes` are all stripes of the file. `read` are the 0-based numbers of the stripes with the
    rows of `batches`, in ascending order. The root columns have the `IDENTITY_SCHEMA`.
    """
    lengths = np.array([stripe.rows for stripe in stripes], dtype=np.int64)
    firsts = np.cumsum(lengths) - lengths
    chosen = list(read)
    ends = np.cumsum(lengths[chosen])
    # A row's position in the file is this number plus the row's position in the chosen stripes.
    skipped = firsts[chosen] - (ends - lengths[chosen])
    start = 0
    for batch in batches:
        positions = np.arange(start, start + batch.num_rows)
        numbers = positions + skipped[np.searchsorted(ends, positions, "right")]
        start += batch.num_rows
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
