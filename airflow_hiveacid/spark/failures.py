"""How Spark's failures become ours.

An error raised in a Python worker reaches the driver as text inside a PySparkException. Ours cross
that gap as one marked line, written by `worker_errors` and found again by `typed_failure`.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception

from airflow_hiveacid.format.errors import CorruptFileError, HiveAcidError, StorageError, rebuild
from airflow_hiveacid.spark.store_failures import store_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject

_MARK: Final = "HIVEACID-ERROR "
_LINE: Final = re.compile(re.escape(_MARK) + r"(\{.*\})")
# How Spark's own readers name the file that they could not read.
_UNREAD: Final = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<path>.+?)\.\s"
)

_WRITE_FAILED: Final = "[TASK_WRITE_FAILED]"
# How Spark's errors begin that PySpark does not know by type.
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What Spark's JVM raises, whether PySpark knows its type or not."""


class _CarriedError(RuntimeError):
    """A typed error on its way out of a Python worker."""


def carried(error: HiveAcidError) -> str:
    """The marked line that stands for an error in the text of another one."""
    return _MARK + json.dumps({"type": type(error).__name__, "message": str(error)})


@contextmanager
def worker_errors() -> Iterator[None]:
    """Run a task's body so that our errors survive the way to the driver."""
    try:
        yield
    except HiveAcidError as error:
        raise _CarriedError(carried(error)) from error


@contextmanager
def typed_failures() -> Iterator[None]:
    """Run Spark actions on the driver so that a worker's typed error is raised as itself."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if found := _LINE.search(text):
            body = json.loads(found.group(1))
            raise rebuild(body["type"], body["message"]) from error
        if found := _UNREAD.search(text):
            if found["why"] == "FILE_NOT_EXIST":
                raise StorageError(
                    f"{found['path']} is gone: was it cleaned away, or its partition dropped, after"
                    " it was listed? Nothing was written; run it again"
                ) from error
            known = store_failure(text, found["path"])
            raise known or CorruptFileError(path=found["path"], reason=_cause(text)) from error
        if isinstance(error, SPARK_ERRORS) and (known := store_failure(text, None)):
            raise known from error
        raise


def beneath(error: BaseException) -> BaseException:
    """What made a task of Spark's own writers fail; they hide it below an error of theirs.

    The error itself, if none of them is in it.
    """
    # Errors that PySpark 3.5 does not know have no Python form; what is below them may have.
    found = error.java_exception if isinstance(error, Py4JJavaError) else _origin(error)
    while found is not None:
        cause = found.getCause()
        if cause is not None and str(found.getMessage()).startswith(_WRITE_FAILED):
            return convert_exception(cause)
        found = cause
    return error


def _origin(error: BaseException) -> JavaObject | None:
    return getattr(error, "_origin", None)


def _cause(text: str) -> str:
    """The innermost reason that a Java stack trace gives."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    return f"its rows cannot be decoded ({causes[-1] if causes else 'Spark does not say why'})"


def condition_of(error: BaseException) -> str:
    """Spark's name for what is wrong, such as `UNRESOLVED_COLUMN.WITH_SUGGESTION`; may be empty."""
    if not isinstance(error, PySparkException):
        found = _CONDITION.search(reason_of(error))
        return found[1] if found else ""
    # PySpark 3.5 calls it an error class; 4 has both names and warns of the old one.
    ask = getattr(error, "getCondition", None) or error.getErrorClass
    return str(ask() or "")


def reason_of(error: BaseException) -> str:
    """The part of a Spark error that a person wants to read: its first line."""
    # PySpark 3.5 has no getMessage; there the text begins with it.
    ask = getattr(error, "getMessage", None)
    text = ask() if isinstance(error, PySparkException) and ask else str(error)
    if isinstance(error, Py4JJavaError):
        text = text.partition("\n: ")[2]  # after the name of the Java object that was called
    first = (text or str(error)).strip().splitlines()
    return first[0] if first else type(error).__name__
