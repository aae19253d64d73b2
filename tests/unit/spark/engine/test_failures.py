"""How Spark's errors about files and constants become typed errors."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    HiveAcidError,
    StorageError,
    ValueTooLargeError,
)
from airflow_hiveacid.spark.engine.failures import typed_failures


@pytest.mark.parametrize(
    ("why", "kind", "says"),
    [
        (
            "FILE_NOT_EXIST",
            StorageError,
            r"/w/t/delta_1_1/bucket_00000 is missing: .* run the job again",
        ),
        ("NO_HINT", CorruptFileError, r"/w/t/delta_1_1/bucket_00000 is damaged: .*Malformed"),
    ],
)
def test_a_missing_file_and_a_damaged_file_raise_different_errors(
    why: str, kind: type[HiveAcidError], says: str
) -> None:
    text = (
        f"[FAILED_READ_FILE.{why}] Encountered error while reading file"
        " file:///w/t/delta_1_1/bucket_00000. SQLSTATE: KD001\n\tat x\n"
        "Caused by: org.apache.orc.FileFormatException: Malformed ORC file"
    )
    with pytest.raises(kind, match=says), typed_failures():
        raise RuntimeError(text)


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """What a call of the JVM ended in, without a JVM."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_a_constant_too_large_for_the_driver_raises_an_error_that_names_driver_memory() -> None:
    text = (
        "An error occurred while calling o41.sql.\n"
        ": java.lang.OutOfMemoryError: Java heap space\n"
        "\tat org.apache.spark.unsafe.types.UTF8String.repeat(UTF8String.java:1122)\n"
        "\tat org.apache.spark.sql.catalyst.optimizer.ConstantFolding$.apply(expressions.scala)\n"
    )
    with (
        pytest.raises(ValueTooLargeError, match=r"Java heap space.*driver_memory"),
        typed_failures(),
    ):
        raise JavaError(text)
    below = text.replace(
        ": java", ": org.apache.spark.SparkException: Job aborted\nCaused by: java"
    )
    with pytest.raises(JavaError), typed_failures():  # a task's: another try may have more room
        raise JavaError(below)
