"""Read the columns of a Parquet file in batches of bounded size, for row groups of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.storage.orc.view import BATCH_BYTES

# The buffer size of each column that is read; there may be thousands of columns.
_BUFFER_BYTES: Final = 256 << 10
_FEWEST_ROWS: Final = 16
# Arrow's default limit.
_MOST_ELEMENTS: Final = 1_000_000
_BEGIN: Final = b"PAR1"
_END_BYTES: Final = 8
_TAIL_BYTES: Final = 64 << 10
# Arrow's writer notes the types that its columns had in memory, such as large_string or dictionary.
# Arrow's reader follows this note. Hive and Spark follow only Parquet's types. These are the key
# in a footer, with its field's head and its length, and an unknown key.
_ARROW_TYPES: Final = b"\x18\x0cARROW:schema"
_UNKNOWN: Final = b"\x18\x0cARROW-schema"
# How many times larger a column with a dictionary is assumed to be in memory.
_EXPANSION: Final = 8


def open_parquet(source: pa.NativeFile, instants_in: str = "us") -> pq.ParquetFile:
    """Open a file so that Arrow reads it in small pieces, not in whole columns of a row group.

    The types are those of Parquet, whatever types Arrow's writer noted. Timestamps in 96 bits are
    converted to the unit `instants_in`.
    """
    return pq.ParquetFile(
        source,
        coerce_int96_timestamp_unit=instants_in,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        thrift_container_size_limit=_most_elements(source),
        metadata=_footer(source),
        arrow_extensions_enabled=False,
    )


def _footer(source: pa.NativeFile) -> pq.FileMetaData | None:
    """Parse a footer without Arrow's note of types; return None if Arrow shall read the footer."""
    size = int(source.size())
    tail = source.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    end = tail[-_END_BYTES:]
    length = int.from_bytes(end[:4], "little")
    if not end.endswith(_BEGIN) or length > size - _END_BYTES - len(_BEGIN):
        return None  # it is encrypted or damaged
    start = _END_BYTES + length
    footer = tail[-start:] if start <= len(tail) else source.read_at(start, size - start)
    changed = _BEGIN + _UNKNOWN.join(footer.rsplit(_ARROW_TYPES, 1))
    limit = _most_elements(source)
    return pq.ParquetFile(pa.BufferReader(changed), thrift_container_size_limit=limit).metadata


def _most_elements(source: pa.NativeFile) -> int:
    # Arrow allocates memory for a list's stated length: at most one element per byte of the file.
    return max(1, min(_MOST_ELEMENTS, int(source.size())))


def batches_of(opened: pq.ParquetFile, names: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a file, perhaps with others, in batches of at most `most` rows."""
    # Arrow interprets a dot in a column name as access to a struct field.
    is_plain = not any("." in name for name in names)
    columns = list(names) if is_plain else None
    rows = fitting_rows(opened.metadata, columns, most)
    return opened.iter_batches(batch_size=rows, columns=columns, use_threads=False)  # type: ignore[no-any-return]


def fitting_rows(metadata: pq.FileMetaData, names: Sequence[str] | None, most: int) -> int:
    """Return the rows, at most `most`, for `BATCH_BYTES` in the row group with the longest rows."""
    schema, name_set = metadata.schema, None if names is None else frozenset(names)
    columns = [
        index
        for index in range(len(schema))
        if name_set is None or schema.column(index).path.partition(".")[0] in name_set
    ]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size = sum(_bytes_of(group.column(index)) for index in columns)
        if size:
            most = min(most, BATCH_BYTES * group.num_rows // size)
    return max(_FEWEST_ROWS, most)


def _bytes_of(chunk: pq.ColumnChunkMetaData) -> int:
    size: int = chunk.total_uncompressed_size
    return size * _EXPANSION if chunk.has_dictionary_page else size
