"""How Spark's errors about files and constants become typed errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    ExpressionError,
    HiveAcidError,
    StorageError,
    ValueTooLargeError,
)
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.spark.engine import failures
from airflow_hiveacid.spark.engine.failures import job_failure, typed_failures, value_failure


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
    error = RuntimeError(text)
    error.add_note("in statement 2 of the transaction")
    with pytest.raises(kind, match=says) as caught, typed_failures():
        raise error
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """What a call of the JVM ended in, without a JVM."""

    def __init__(self, text: str) -> None:
        self.text, self.java_exception = text, Thrown(text)

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


_ABORTED = "calling collectAndServe.\n: SparkException: Job aborted: PythonException: "
_FIRST = 'Traceback (most recent call last):\n  File "a.py", line 1\n    a\nKeyError: 1\n'
_SECOND = 'Traceback (most recent call last):\n  File "b.py", line 2\nValueError: no room.\n'
_JAVA = "\n\tat org.apache.spark.api.python.PythonRunner.read(PythonRunner.scala:1)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{_ABORTED}{_SECOND}{_JAVA}", "a Python worker failed: ValueError: no room."),
        (
            f"{_ABORTED}{_FIRST}\nDuring handling\n\n{_SECOND}{_JAVA}",
            "a Python worker failed: ValueError: no room.",
        ),
        ("an executor is lost\n\tat java", "RuntimeError: an executor is lost."),
    ],
)
def test_the_failure_of_a_job_names_the_last_error_of_a_python_worker(text: str, says: str) -> None:
    error = RuntimeError(text)
    error.add_note("in statement 2 of the transaction")
    failure = job_failure(error)
    assert str(failure) == f"{says} The driver's log has the details"
    assert failure.__notes__ == ["in statement 2 of the transaction"]


class ValueOfRowError(PySparkException):  # type: ignore[misc]
    """An error of Spark's for a value, without a JVM."""

    def __init__(self, text: str, state: str | None) -> None:
        super().__init__(text, errorClass="SOME_CLASS", messageParameters={})
        self.text, self.state = text, state

    def __str__(self) -> str:
        return self.text

    def getMessage(self) -> str:  # noqa: N802 - Spark's name
        return self.text

    def getSqlState(self) -> str | None:  # noqa: N802 - as above
        return self.state


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[A] is wrong. SQLSTATE: 22018", "DELETE FROM d.t"),
        (
            "[A] is wrong.\n== SQL (line 1) ==\na > 1 AND id = :id\n          ^^^^^^^^\n",
            "id = :id",
        ),
        (
            "[A] is wrong. SQLSTATE: 22018\n== SQL (line 2, position 1) ==\nSELECT\na / 0\n^^^^^\n",
            "a / 0",
        ),
    ],
)
def test_an_error_that_a_value_causes_names_the_table_and_the_part_of_the_statement(
    text: str, part: str
) -> None:
    spark_error = ValueOfRowError(text, "22018")
    spark_error.add_note("in statement 2 of the transaction")
    failure = value_failure(spark_error, DeleteSpec(target="d.t"))
    assert isinstance(failure, ExpressionError)
    assert str(failure).startswith(f"table d.t: cannot use the expression '{part}': [A] is wrong")
    assert failure.__notes__ == ["in statement 2 of the transaction"]
    assert not failure.retryable


@dataclass
class Thrown:
    """An exception in the JVM."""

    text: str
    state: str | None = None
    cause: Thrown | None = None

    def getCause(self) -> Thrown | None:  # noqa: N802 - Java's name
        return self.cause


_CAST: Final = Thrown("[CAST_INVALID_INPUT] x", "22018")
_NO_ROW: Final = Thrown("[SCALAR_SUBQUERY_TOO_MANY_ROWS] x", "21000")
_OF_STAGE: Final = Thrown("Job aborted due to stage failure", cause=_CAST)


@pytest.fixture
def _read_by_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*, origin: Thrown) -> ValueOfRowError:
        return ValueOfRowError(origin.text, origin.state)

    monkeypatch.setattr(failures, "CapturedException", read)


@pytest.mark.usefixtures("_read_by_pyspark")
@pytest.mark.parametrize(
    ("thrown", "text"),
    [
        (_NO_ROW, _NO_ROW.text),
        (_OF_STAGE, _CAST.text),
        (Thrown("in awaitResult", cause=_OF_STAGE), _CAST.text),
        (Thrown("[TASK_WRITE_FAILED]", "58030", _OF_STAGE), _CAST.text),
    ],
)
def test_an_error_that_a_value_causes_is_found_below_others(thrown: Thrown, text: str) -> None:
    error = JavaError("x")
    error.java_exception = thrown
    error.add_note("in statement 2 of the transaction")
    failure = value_failure(error, DeleteSpec(target="d.t"))
    assert failure is not None
    assert text in str(failure)
    assert failure.__notes__ == ["in statement 2 of the transaction"]


@pytest.mark.usefixtures("_read_by_pyspark")
@pytest.mark.parametrize("error", [ValueOfRowError("[A]", "58030"), JavaError("x"), OSError("22")])
def test_any_other_error_is_not_one_of_a_value(error: Exception) -> None:
    assert value_failure(error, DeleteSpec(target="d.t")) is None
