"""The columns of a Parquet file in batches of bounded size, however large its row groups are.

Takes an open file; gives batches as Arrow reads them. Must not know Hive's types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from airflow_hiveacid.storage.orc.batch_size import BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

# Of each column that is read, and there may be thousands.
_BUFFER_BYTES: Final = 256 << 10
_FEWEST_ROWS: Final = 16
# How much larger values are that a dictionary holds once.
_EXPANSION: Final = 8


def open_parquet(source: pa.NativeFile, instants_in: str) -> pq.ParquetFile:
    """Open a file to be read as a stream; Arrow would take a row group's columns in whole.

    Args:
        source: the file.
        instants_in: the unit of timestamps that are stored in 96 bits.

    Raises:
        ArrowInvalid: it is no Parquet file.
        OSError: it cannot be read.
    """
    return pq.ParquetFile(
        source,
        coerce_int96_timestamp_unit=instants_in,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
    )


def batches_of(opened: pq.ParquetFile, names: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
    """Batches of columns, in file order.

    Args:
        opened: the file.
        names: columns as the file calls them; there may come more.
        most: the most rows of a batch; long values make fewer.
    """
    # Arrow takes a dot for a step into a struct.
    is_plain = not any("." in name for name in names)
    columns = list(names) if is_plain else None
    rows = fitting_rows(opened.metadata, columns, most)
    return opened.iter_batches(batch_size=rows, columns=columns, use_threads=False)  # type: ignore[no-any-return]


def fitting_rows(metadata: pq.FileMetaData, names: Sequence[str] | None, most: int) -> int:
    """At most `most` rows, and so few that a batch takes about `BATCH_BYTES`.

    By the row group that has the most bytes a row. What repeats is in a file once, so that this is
    a guess where values are long and few.
    """
    schema, wanted = metadata.schema, None if names is None else frozenset(names)
    columns = [
        at
        for at in range(len(schema))
        if wanted is None or schema.column(at).path.partition(".")[0] in wanted
    ]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size = sum(_bytes_of(group.column(at)) for at in columns)
        if size:
            most = min(most, BATCH_BYTES * group.num_rows // size)
    return max(_FEWEST_ROWS, most)


def _bytes_of(chunk: pq.ColumnChunkMetaData) -> int:
    size: int = chunk.total_uncompressed_size
    return size * _EXPANSION if chunk.has_dictionary_page else size
