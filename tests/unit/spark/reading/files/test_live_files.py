"""Which files a change refuses before Spark runs a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.reading import ReadRequest
from airflow_hiveacid.reading.arrow_scan import TargetFile
from airflow_hiveacid.spark.reading.live_files import LiveFiles
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.orc_tables import (
    B1,
    COLUMNS,
    ids,
    insert,
    with_tail,
    write_acid,
    write_plain,
)

ASKED = ReadRequest(table_columns=COLUMNS, columns=COLUMNS, ranges={}, in_utc=True)


def live_files(root: Path) -> LiveFiles:
    state = resolve(list_table(str(root)), ids(9), None)
    files = [file for bucket in bucket_files(state) for file in bucket.inserts]
    return LiveFiles(
        spark=cast("Any", None),
        table=cast("Any", None),
        partitions=(),
        files=[TargetFile(number=n, partition=0, data=f, deletes=()) for n, f in enumerate(files)],
        doubts=({},),
        write_ids=ids(9),
        ranges={},
    )


def test_rows_of_another_bucket_are_read_but_not_changed(tmp_path: Path) -> None:
    """Hive 4 looks for their delete events only in files of the data file's bucket."""
    path = write_acid(
        tmp_path / "delta_1_2_v9/bucket_00000", [insert(1, 0, 1), insert(2, 0, 2, bucket=B1)]
    )
    found = live_files(tmp_path)
    reasons = [why for _, why in found._judged(ASKED, for_changes=False)]
    assert reasons == ["some of its rows belong to another bucket"]
    with pytest.raises(UnsupportedFileError, match=r"rows of bucket 1.*First compact") as caught:
        found._judged(ASKED, for_changes=True)
    assert str(path) in str(caught.value)


def test_rows_of_another_bucket_are_found_without_statistics(tmp_path: Path) -> None:
    path = write_acid(
        tmp_path / "base_2/bucket_00000", [insert(1, 0, 1), insert(1, 0, 2, bucket=B1)]
    )
    with_tail(path, lambda footer, _: setattr(footer, "row_index_stride", 0))
    with pytest.raises(UnsupportedFileError, match="rows of bucket 1"):
        live_files(tmp_path)._judged(ASKED, for_changes=True)


def test_rows_of_the_own_bucket_and_original_files_are_changed(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00001", [insert(1, 0, 1, bucket=B1)])
    write_acid(tmp_path / "delta_2_2_0/bucket_00000_0", [insert(2, 0, 1)])
    write_plain(tmp_path / "000003_0", [{"id": 1, "name": "x"}])
    assert len(live_files(tmp_path)._judged(ASKED, for_changes=True)) == 3


def test_spark_does_not_read_rows_with_write_ids_outside_of_their_directory(
    tmp_path: Path,
) -> None:
    """The directory's range of write IDs chooses the delete files that may concern the rows."""
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(5, 0, 1)])
    ((_, why),) = live_files(tmp_path)._judged(ASKED, for_changes=False)
    assert why == "some of its rows have write IDs that its directory must not contain"
