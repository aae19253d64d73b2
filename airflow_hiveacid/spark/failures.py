"""How Spark's failures become ours.

An error raised in a Python worker reaches the driver as text inside a PySparkException. Ours cross
that gap as one marked line, written by `worker_errors` and found again by `typed_failure`.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import CorruptFileError, HiveAcidError, StorageError, rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = "HIVEACID-ERROR "
_LINE: Final = re.compile(re.escape(_MARK) + r"(\{.*\})")
# How Spark's own readers name the file that they could not read.
_UNREAD: Final = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<path>.+?)\.\s"
)


class _CarriedError(RuntimeError):
    """A typed error on its way out of a Python worker."""


@contextmanager
def worker_errors() -> Iterator[None]:
    """Run a task's body so that our errors survive the way to the driver."""
    try:
        yield
    except HiveAcidError as error:
        body = json.dumps({"type": type(error).__name__, "message": str(error)})
        raise _CarriedError(_MARK + body) from error


@contextmanager
def typed_failures() -> Iterator[None]:
    """Run Spark actions on the driver so that a worker's typed error is raised as itself."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if found := _LINE.search(text):
            carried = json.loads(found.group(1))
            raise rebuild(carried["type"], carried["message"]) from error
        if found := _UNREAD.search(text):
            if found["why"] == "FILE_NOT_EXIST":
                raise StorageError(f"{found['path']} is gone. Nothing was written") from error
            raise CorruptFileError(path=found["path"], reason=_cause(text)) from error
        raise


def _cause(text: str) -> str:
    """The innermost reason that a Java stack trace gives."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    return f"its rows cannot be decoded ({causes[-1] if causes else 'Spark does not say why'})"


def reason_of(error: BaseException) -> str:
    """The part of a Spark error that a person wants to read: its first line."""
    text = error.getMessage() if isinstance(error, PySparkException) else str(error)
    first = (text or str(error)).strip().splitlines()
    return first[0] if first else type(error).__name__
