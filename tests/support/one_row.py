"""Stands for Spark where a write is to be seen whose rows do not matter."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import bucket_file
from airflow_hiveacid.writing.event_files import WritePlan


class OneRow:
    """Stands for a frame of events, and for that of the files that its tasks have written.

    Args:
        partition: that of the row, as `writing.event_files.partition_text` tells it.
    """

    def __init__(self, partition: str = "[]") -> None:
        self._partition = partition

    def mapInArrow(self, function: partial[Any], schema: str) -> OneRow:  # noqa: N802 -- Spark's
        del schema
        self._plan: WritePlan = function.keywords["function"].keywords["plan"]
        return self

    def collect(self) -> list[SimpleNamespace]:
        directory, bucket = str(self._plan.insert_directory), BucketId(0)
        staging = self._plan.staging(self._plan.partition(self._partition))
        path = staging.attempt_path(directory, bucket_file(bucket), "a0").removeprefix("file:")
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text("row")
        return [
            SimpleNamespace(
                partition=self._partition,
                directory=directory,
                bucket=0,
                attempt="a0",
                rows=1,
                updated=0,
                size_bytes=3,
            )
        ]


CONTEXT: Final = SimpleNamespace(
    setJobGroup=lambda *_: None, setLocalProperty=lambda *_: None, cancelJobGroup=lambda _: None
)
"""A Spark context that runs nothing."""
