"""What Spark says of a file that it cannot read, in our words."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import CorruptFileError, HiveAcidError, StorageError
from airflow_hiveacid.spark.failures import typed_failures


@pytest.mark.parametrize(
    ("why", "kind", "says"),
    [
        ("FILE_NOT_EXIST", StorageError, r"/w/t/delta_1_1/bucket_00000 is gone: .* run it again"),
        ("NO_HINT", CorruptFileError, r"/w/t/delta_1_1/bucket_00000 is damaged: .*Malformed"),
    ],
)
def test_a_file_that_vanished_is_told_from_one_that_is_damaged(
    why: str, kind: type[HiveAcidError], says: str
) -> None:
    text = (
        f"[FAILED_READ_FILE.{why}] Encountered error while reading file"
        " file:///w/t/delta_1_1/bucket_00000. SQLSTATE: KD001\n\tat x\n"
        "Caused by: org.apache.orc.FileFormatException: Malformed ORC file"
    )
    with pytest.raises(kind, match=says), typed_failures():
        raise RuntimeError(text)
