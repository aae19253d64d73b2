"""A frame of the live rows in a table's data files, read by Spark's reader or by our reader.

Spark's ORC reader reads only those files for which its result is correct (`orc_fit`, `orc_frame`).
Our reader reads the other files (`arrow_scan`), and one log line gives the reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.reading.arrow_scan import (
    ScanPiece,
    TargetFile,
    deletes_of,
    read_together,
    scan_piece,
    work_of_scan,
)
from airflow_hiveacid.reading.helper_columns import file_number
from airflow_hiveacid.reading.orc_fit import Doubts, delete_files, judged, require_own_bucket
from airflow_hiveacid.reading.request import ReadRequest
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError
from airflow_hiveacid.spark.engine.tasks import run_tasks
from airflow_hiveacid.spark.engine.types import struct_of
from airflow_hiveacid.spark.reading.files.file_relation import TableFiles
from airflow_hiveacid.spark.reading.files.orc_frame import (
    POSITION_FIELDS,
    DeleteEvents,
    NativeFiles,
    live_rows,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles(TableFiles):
    """The data files of a full-ACID table that a reader reads.

    A file's `partition` is the position of its partition in `partitions` and `doubts`.
    """

    files: Sequence[TargetFile]
    doubts: Sequence[Doubts]
    write_ids: ValidWriteIdList

    def rows(
        self, wanted: Collection[str], position: str, *, for_changes: bool = False
    ) -> DataFrame:
        """Return the live rows: `position`, the wanted data columns, and the columns with ranges.

        Raises:
            UnsupportedFileError: `for_changes` is True, and Hive would ignore delete events for
                some rows of a file.
        """
        needed = {*wanted, *self.ranges}
        query = self.request(needed)
        verdicts = self._judged(query, for_changes=for_changes)
        native = [file for file, why in verdicts if why is None]
        arrow_files = [(file, why) for file, why in verdicts if why is not None]
        try:
            frames = [self._native(native, query, position)] if native else []
        except UnknownJavaCallError as error:
            self.log_reasons(len(self.files), len(self.files), {str(error): "all"})
            return self.with_arrow(needed, position)
        if arrow_files or not frames:
            reasons = {why: str(self.partitions[f.partition].name) for f, why in arrow_files}
            self.log_reasons(len(arrow_files), len(self.files), reasons)
            frames.append(self.with_arrow(needed, position, [file for file, _ in arrow_files]))
        return reduce(DataFrame.unionByName, frames)

    def with_arrow(
        self, wanted: Collection[str], position: str, files: Sequence[TargetFile] | None = None
    ) -> DataFrame:
        """Read the live rows with our own reader; it reads every file correctly.

        All files are read by default.
        """
        columns = [c for c in self.table.columns if c.name in wanted]
        schema = StructType(
            [StructField(position, StructType(list(POSITION_FIELDS))), *struct_of(columns)]
        )
        pieces = [
            ScanPiece(
                numbers=tuple(file.number for file in together),
                data=tuple(file.data for file in together),
                stripes=stripes,
                deletes=deletes_of(together),
                write_ids=self.write_ids,
                columns=self.table.columns,
                wanted=tuple(c.name for c in columns),
                ranges=self.ranges,
                position=position,
            )
            for together, stripes in read_together(
                self.files if files is None else files,
                self.spark.sparkContext.defaultParallelism,
            )
        ]
        return run_tasks(self.spark, scan_piece, pieces, schema, work=work_of_scan)

    def _judged(
        self, query: ReadRequest, *, for_changes: bool
    ) -> list[tuple[TargetFile, str | None]]:
        """Return files that may have requested rows, each with a reason to avoid Spark, or None."""
        verdicts = judged(query, [(f.data, self.doubts[f.partition]) for f in self.files])
        for file, verdict in zip(self.files, verdicts, strict=True):
            if for_changes and not verdict.is_outside:
                require_own_bucket(file.data, verdict.others)
        # Spark identifies a file only by its path. But two partitions may share a location.
        first = {file.data.path: file.number for file in reversed(self.files)}
        return [
            (
                file,
                verdict.why_not
                or (None if first[file.data.path] == file.number else "two partitions share it"),
            )
            for file, verdict in zip(self.files, verdicts, strict=True)
            if verdict.rows and not verdict.is_outside
        ]

    def _native(self, files: Sequence[TargetFile], query: ReadRequest, position: str) -> DataFrame:
        # The partition is part of the join key, because one frame has the files of all partitions.
        deletes = {delete.path: (file, delete) for file in files for delete in file.deletes}
        event_files = delete_files([(d, self.doubts[f.partition]) for f, d in deletes.values()])
        native = NativeFiles(
            data=[self.numbered(f.data, f.number) for f in files],
            deletes=[
                DeleteEvents(
                    file=self.numbered(event_file.file, file_number(partition, index)),
                    delete=event_file,
                )
                for index, event_file in enumerate(event_files)
                for partition in (deletes[event_file.file.path][0].partition,)
            ],
        )
        return live_rows(self.spark, query, native, self.write_ids, position)
