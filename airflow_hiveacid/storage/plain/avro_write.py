"""Write Avro like Hive's AvroSerDe: nullable fields, and timestamps as instants in milliseconds.

The module refuses what Avro cannot store, strings that are not UTF-8 and fractions of a millisecond
(Hive truncates them), and dates and times before 1582-10-15, because Hive 3.1 and Hive 4 read them
differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.format.table import Column, FileFormat, Storage
from airflow_hiveacid.storage.plain.avro_rows import IS_PROLEPTIC, OF_OLD_ZONES, WRITER_ZONE
from airflow_hiveacid.storage.plain.avro_schema import check_avro, fastavro, schema_of
from airflow_hiveacid.storage.plain.stream_writer import StreamWriter
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.values.calendars import OLD_TIMES_REMEDY, SWITCHOVER_DAY
from airflow_hiveacid.storage.values.column_types import TypeNode
from airflow_hiveacid.storage.values.limits import fit_texts
from airflow_hiveacid.storage.values.nested import leaves, with_leaf_types
from airflow_hiveacid.storage.values.timestamps import with_microseconds

_OLDEST: Final = {pa.timestamp("us"): SWITCHOVER_DAY * 86_400_000_000, pa.date32(): SWITCHOVER_DAY}
# The metadata that Hive 4.0.1 writes. Days since 1582-10-15 are the same in all calendars.
_SAID: Final = {WRITER_ZONE: "UTC", IS_PROLEPTIC: "false", OF_OLD_ZONES: "false"}
# The record name; readers ignore it.
_RECORD: Final = "rows"


class AvroWriter(StreamWriter):
    """A `StreamWriter` for one Avro file."""

    BATCH_ROWS = 4096

    def __init__(
        self, fs: pafs.FileSystem, path: str, columns: Sequence[Column], table: object
    ) -> None:
        check_avro(table, Storage(format=FileFormat.AVRO), {}, columns)
        library = fastavro()
        super().__init__(fs, path, columns, table)
        with storage_errors("write", path):
            self._writer = library.write.Writer(
                self._stream,
                library.parse_schema(schema_of(_RECORD, columns)),
                codec="deflate",
                metadata=_SAID,
            )
        self._is_open = True

    def _finish(self) -> None:
        self._writer.flush()

    def _write(self, rows: pa.StructArray) -> None:
        parts = [
            with_microseconds(values, path=self._path, column=node.name)
            for node, values in zip(self._nodes, rows.flatten(), strict=True)
        ]
        whole = pa.StructArray.from_arrays(parts, [node.name for node in self._nodes])
        fitted = fit_texts(whole, self._nodes, table=self._table)
        for node, values in zip(self._nodes, fitted.flatten(), strict=True):
            self._refuse_old(node, values)
        try:
            whole = _cast(fitted, {pa.timestamp("us"): pa.timestamp("ms")})
            numbers = {pa.timestamp("ms"): pa.int64(), pa.date32(): pa.int32()}
            records = _cast(whole, numbers).to_pylist(maps_as_pydicts="strict")
        except (ValueError, KeyError) as error:
            raise TypeMismatchError(
                table=self._table,
                column="(one of them)",
                column_type="in Avro, which stores whole milliseconds and UTF-8",
                value_type=f"a value that Avro cannot store: {error}",
            ) from error
        with storage_errors("write", self._path):
            # fastavro writes rows one at a time.
            for record in records:
                self._writer.write(record)

    def _refuse_old(self, node: TypeNode, values: pa.Array) -> None:
        for array in filter(lambda leaf: leaf.type in _OLDEST, leaves(values)):
            minimum = pc.min(array.cast(pa.int32() if array.type == pa.date32() else pa.int64()))
            if minimum.is_valid and minimum.as_py() < _OLDEST[array.type]:
                raise TypeMismatchError(
                    table=self._table,
                    column=node.name,
                    column_type=str(node.type),
                    value_type="a day or time before 1582-10-15, which Hive 3.1 and Hive 4 read"
                    " differently in Avro",
                    remedy=OLD_TIMES_REMEDY,
                )


def _cast(values: pa.Array, types: Mapping[pa.DataType, pa.DataType]) -> pa.Array:
    return values.cast(with_leaf_types(values.type, lambda type_: types.get(type_, type_)))
