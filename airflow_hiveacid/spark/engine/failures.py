"""Translation of Spark's failures into our typed errors.

An error raised in a Python worker reaches the driver as text: a frame raises a PySparkException, an
RDD a Py4JJavaError. One marked line in that text contains our typed error: `worker_errors` writes
the line, and `typed_failures` parses it.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    HiveAcidError,
    JobFailedError,
    StorageError,
    ValueTooLargeError,
    rebuild,
)
from airflow_hiveacid.spark.engine.store_failures import store_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject

_MARK: Final = "HIVEACID-ERROR "
_LINE: Final = re.compile(re.escape(_MARK) + r"(\{.*\})")
# Spark's readers raise this message for an unreadable file.
_UNREAD: Final = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<path>.+?)\.\s"
)

# This message means that a call on the driver failed, not a task.
_TOO_LARGE: Final = re.compile(
    r"An error occurred while calling [^\n]*\n: java\.lang\."
    r"(?P<what>(?:OutOfMemoryError|NegativeArraySizeException)[^\n]*)"
)
# The last line of a traceback of Python: the error's type and the first line of its text.
_OF_PYTHON: Final = re.compile(r"Traceback \(most recent call last\):\n(?: .*\n)+(\S.*)")
_WRITE_FAILED: Final = "[TASK_WRITE_FAILED]"
# If PySpark does not know an error's type, the message begins with the error's condition in
# brackets.
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""All errors of Spark's JVM, including those whose type PySpark does not know."""


class _CarriedError(RuntimeError):
    """An error that carries one of our typed errors from a Python worker to the driver."""


def carried(error: HiveAcidError) -> str:
    """Return the marked line that carries this error inside the text of another error."""
    return _MARK + json.dumps({"type": type(error).__name__, "message": str(error)})


@contextmanager
def worker_errors() -> Iterator[None]:
    """Run a task's body; our typed errors reach the driver."""
    try:
        yield
    except HiveAcidError as error:
        raise _CarriedError(carried(error)) from error


@contextmanager
def typed_failures() -> Iterator[None]:
    """Run Spark actions on the driver; a worker's typed error keeps its type."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if match := _LINE.search(text):
            body = json.loads(match.group(1))
            raise rebuild(body["type"], body["message"]) from error
        if match := _UNREAD.search(text):
            if match["why"] == "FILE_NOT_EXIST":
                raise StorageError(
                    f"{match['path']} is missing: it was cleaned, or its partition was dropped,"
                    " after it was listed. Nothing was written; run the job again"
                ) from error
            failure = store_failure(text, match["path"])
            raise failure or CorruptFileError(path=match["path"], reason=_cause(text)) from error
        if isinstance(error, Py4JJavaError) and (match := _TOO_LARGE.match(text)):
            raise ValueTooLargeError(reason=match["what"]) from error
        if isinstance(error, SPARK_ERRORS) and (failure := store_failure(text, None)):
            raise failure from error
        raise


def job_failure(error: Exception) -> JobFailedError:
    """Return an error of Spark as a typed error, without its stack trace and plan."""
    lines = _OF_PYTHON.findall(str(error))
    kind = "a Python worker failed" if lines else type(error).__name__
    reason = (lines[-1] if lines else reason_of(error)).rstrip(".")
    return JobFailedError(f"{kind}: {reason}. The driver's log has the details")


def beneath(error: BaseException) -> BaseException:
    """Return the cause of an error that Spark's writers raise for a failed task.

    If the error has no such cause, return the error itself.
    """
    # If PySpark 3.5 does not know an error, the error has no Python class. But the cause of such an
    # error may have a class.
    exception = error.java_exception if isinstance(error, Py4JJavaError) else _origin(error)
    while exception is not None:
        cause = exception.getCause()
        if cause is not None and str(exception.getMessage()).startswith(_WRITE_FAILED):
            return convert_exception(cause)
        exception = cause
    return error


def _origin(error: BaseException) -> JavaObject | None:
    return getattr(error, "_origin", None)


def _cause(text: str) -> str:
    """Return the innermost reason in a Java stack trace."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    return f"its rows cannot be decoded ({causes[-1] if causes else 'Spark gives no reason'})"


def condition_of(error: BaseException) -> str:
    """Return Spark's error condition, such as `UNRESOLVED_COLUMN.WITH_SUGGESTION`, or ""."""
    if not isinstance(error, PySparkException):
        match = _CONDITION.search(reason_of(error))
        return match[1] if match else ""
    # PySpark 3.5 calls the condition an error class; PySpark 4 has both names and deprecates the
    # old name.
    ask = getattr(error, "getCondition", None) or error.getErrorClass
    return str(ask() or "")


def reason_of(error: BaseException) -> str:
    """Return the first line of a Spark error, without its stack trace and plan."""
    # PySpark 3.5 has no getMessage, but the error as a string begins with the message.
    ask = getattr(error, "getMessage", None)
    text = ask() if isinstance(error, PySparkException) and ask else str(error)
    if isinstance(error, Py4JJavaError):
        # The message follows the name of the Java object that was called.
        text = text.partition("\n: ")[2]
    first = (text or str(error)).strip().splitlines()
    return first[0] if first else type(error).__name__
