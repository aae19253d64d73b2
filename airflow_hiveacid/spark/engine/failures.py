"""Translation of Spark's failures into our typed errors.

An error raised in a Python worker reaches the driver as text: a frame raises a PySparkException, an
RDD a Py4JJavaError. One marked line in that text contains our typed error: `worker_errors` writes
the line, and `typed_failures` parses it.

A store's failure in the JVM is recognised by the Java classes in the message.

Example:
    >>> text = "Caused by: org.apache.hadoop.security.AccessControlException: Permission denied: x"
    >>> type(store_failure(text, "hdfs://nn/t")).__name__
    'LocationPermissionError'
    >>> store_failure("Caused by: org.apache.orc.FileFormatException: Malformed", "hdfs://nn/t")
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException, convert_exception

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.job import Job, ProgramSpec, kind_of
from airflow_hiveacid.plan.statements.text import statement_text
from airflow_hiveacid.spark.engine import UnknownJavaCallError, unknown_calls
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, S3_SCHEMES
from airflow_hiveacid.supported_versions import PAGE, PYSPARK

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
# The message of a type that PySpark does not know begins with its condition in brackets.
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
# Classes of SQLSTATE for what a value causes: of a set of rows, of data, of a key.
_OF_VALUES: Final = ("21", "22", "23")
# The first line of a statement in Spark's message whose part is marked.
_MARKED: Final = re.compile(
    r"^== SQL.*==\n(?:.*\n)*?(?P<line>.+)\n(?P<before> *)(?P<part>\^+)$", re.MULTILINE
)
# Advice of Spark's that our session does not follow: without ANSI, such a value would become NULL.
_BYPASS: Final = re.compile(r' If necessary set "?spark\.sql\.ansi\.enabled"? to "?false"?[^.]*\.')


# A line that begins with an exception's class: the error, a cause, or a task's failure. Most name
# node errors are a RemoteException with the class in brackets: DFSClient unwraps few.
_CAUSE: Final = re.compile(
    r"^(?:.*? \(\S+ executor \S+\): |Caused by: |: )?"
    r"(?:org\.apache\.hadoop\.ipc\.RemoteException\()?"
    r"(?P<name>(?:[a-z]\w*\.)+[\w$]+)\)?: (?P<says>.+)$",
    re.MULTILINE,
)
_DENIED: Final = "org.apache.hadoop.security.AccessControlException"
_NO_LOGIN: Final = "Client cannot authenticate via"
_LOGIN: Final = (
    "Spark's JVM there has no valid ticket or token. On YARN and Kubernetes, set --principal and"
    " --keytab to get new ones. Executors of a standalone cluster need a token file"
    " (spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION) that is kept fresh. Then run the job again"
)
_LATER: Final = "Run the job again when the name node and data nodes respond"
# S3A's exceptions for responses of S3 (S3AUtils.translateException of Hadoop 3.4).
_S3A: Final = "org.apache.hadoop.fs.s3a."
_S3_DENIED: Final = frozenset(
    {
        f"{_S3A}CredentialInitializationException",
        f"{_S3A}auth.NoAuthWithAWSException",
        f"{_S3A}auth.NoAwsCredentialsException",
    }
)
_JAVA_DENIED: Final = "java.nio.file.AccessDeniedException"
_S3_KEYS: Final = (
    "Spark's JVM uses its own credentials (fs.s3a.access.key, or those of"
    " fs.s3a.aws.credentials.provider): check that they are valid and allow reading there"
)
_S3_RENEW: Final = (
    "If temporary credentials of Spark's JVM have expired, renew them, and run the job again. If"
    " not, check that fs.s3a.endpoint.region is the bucket's region"
)
_S3_LATER: Final = "The store is overloaded or cannot be reached; run the job again later"
_REMEDIES: Final = {
    f"{_S3A}AWSApiCallTimeoutException": _S3_LATER,
    f"{_S3A}AWSBadRequestException": _S3_RENEW,
    f"{_S3A}AWSClientIOException": _S3_LATER,
    f"{_S3A}AWSNoResponseException": _S3_LATER,
    f"{_S3A}AWSServiceThrottledException": _S3_LATER,
    f"{_S3A}AWSStatus500Exception": _S3_LATER,
    f"{_S3A}HttpChannelEOFException": _S3_LATER,
    "javax.security.sasl.SaslException": _LOGIN,
    "org.apache.hadoop.security.KerberosAuthException": _LOGIN,
    "org.apache.hadoop.security.token.SecretManager$InvalidToken": _LOGIN,
    "org.ietf.jgss.GSSException": _LOGIN,
    "org.apache.hadoop.hdfs.BlockMissingException": _LATER,
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException": _LATER,
    "org.apache.hadoop.ipc.RetriableException": _LATER,
    "org.apache.hadoop.ipc.StandbyException": _LATER,
    "org.apache.hadoop.net.ConnectTimeoutException": _LATER,
}
# Java raises these for any server; while a file is read, they mean the store.
_OF_NETWORKS: Final = frozenset(
    {
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
    }
)
# Failed calls to a name node that show only in strings of the message (NetUtils.wrapException).
_CALL: Final = re.compile(r"\bDestHost:destPort\b|\bdestination host is: ")

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""All errors of Spark's JVM, including those whose type PySpark does not know."""


_Failure = TypeVar("_Failure", bound=errors.HiveAcidError)


class _CarriedError(RuntimeError):
    """An error that carries one of our typed errors from a Python worker to the driver."""


def carried(error: errors.HiveAcidError) -> str:
    """Return the marked line that carries this error inside the text of another error."""
    return _MARK + json.dumps({"type": type(error).__name__, "message": str(error)})


@contextmanager
def worker_errors() -> Iterator[None]:
    """Run a task's body; our typed errors reach the driver."""
    try:
        yield
    except errors.HiveAcidError as error:
        raise _CarriedError(carried(error)) from error


@contextmanager
def typed_failures() -> Iterator[None]:
    """Run Spark actions on the driver; a worker's typed error keeps its type."""
    try:
        with unknown_calls():
            yield
    except Exception as error:
        if (failure := _typed(error)) is None:
            raise
        raise _with_notes(failure, error) from error


def _typed(error: Exception) -> errors.HiveAcidError | None:
    text = str(error)
    if match := _LINE.search(text):
        body = json.loads(match.group(1))
        return errors.rebuild(body["type"], body["message"])
    if match := _UNREAD.search(text):
        if match["why"] == "FILE_NOT_EXIST":
            return errors.StorageError(
                f"{match['path']} is missing: it was cleaned, or its partition was dropped,"
                " after it was listed. Nothing was written; run the job again"
            )
        failure = store_failure(text, match["path"])
        causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
        why = causes[-1] if causes else "Spark gives no reason"
        return failure or errors.CorruptFileError(
            path=match["path"], reason=f"its rows cannot be decoded ({why})"
        )
    if isinstance(error, Py4JJavaError) and (match := _TOO_LARGE.match(text)):
        return errors.ValueTooLargeError(reason=match["what"])
    if isinstance(error, UnknownJavaCallError):
        return errors.ConfigurationError(
            f"this Spark lacks a class or method that airflow-provider-hiveacid calls: {text};"
            f" it runs on {PYSPARK}. {PAGE} lists all supported versions."
        )
    return store_failure(text, None) if isinstance(error, SPARK_ERRORS) else None


def job_failure(error: Exception) -> errors.JobFailedError:
    """Return an error of Spark as a typed error, without its stack trace and plan."""
    lines = _OF_PYTHON.findall(str(error))
    kind = "a Python worker failed" if lines else type(error).__name__
    reason = (lines[-1] if lines else reason_of(error)).rstrip(".")
    failure = errors.JobFailedError(f"{kind}: {reason}. The driver's log has the details")
    return _with_notes(failure, error)


def value_failure(error: Exception, job: Job) -> errors.ExpressionError | None:
    """Return the typed error if a value in a row or parameter caused Spark's error, else None.

    A retry would find the same value. The error names the part of the statement that Spark marks,
    else the whole statement. A program's error may come from its own frames, so it is kept.
    """
    if isinstance(job, ProgramSpec):
        return None
    raised, exception = error, _java_exception(error)
    while not (isinstance(error, PySparkException) and _is_of_value(error)):
        if exception is None:
            return None
        # Spark puts a task's error below an aborted job's, and that below a broadcast's. PySpark
        # does not know the class of each.
        error, exception = CapturedException(origin=exception), exception.getCause()
    statement = statement_text(job) or kind_of(job)
    if match := _MARKED.search(str(error)):
        statement = match["line"][len(match["before"]) :][: len(match["part"])]
    failure = errors.ExpressionError(
        table=job.target, expression=statement, reason=reason_of(error).rstrip(".")
    )
    return _with_notes(failure, raised)


def _is_of_value(error: PySparkException) -> bool:
    return (error.getSqlState() or "").startswith(_OF_VALUES)


def _with_notes(failure: _Failure, error: BaseException) -> _Failure:
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure


def beneath(error: BaseException) -> BaseException:
    """Return the cause of an error of Spark's writers for a failed task, or the error itself."""
    # An error that PySpark 3.5 does not know has no class, but its cause may have one.
    exception = _java_exception(error)
    while exception is not None:
        cause = exception.getCause()
        if cause is not None and str(exception.getMessage()).startswith(_WRITE_FAILED):
            return convert_exception(cause)
        exception = cause
    return error


def _java_exception(error: BaseException) -> JavaObject | None:
    name = "java_exception" if isinstance(error, Py4JJavaError) else "_origin"
    return getattr(error, name, None)


def condition_of(error: BaseException) -> str:
    """Return Spark's error condition, such as `UNRESOLVED_COLUMN.WITH_SUGGESTION`, or ""."""
    if not isinstance(error, PySparkException):
        match = _CONDITION.search(reason_of(error))
        return match[1] if match else ""
    # PySpark 3.5 calls it an error class, PySpark 4 a condition.
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
    return _BYPASS.sub("", first[0]) if first else type(error).__name__


# ---- failures of stores ------------------------------------------------------------------------


def store_failure(text: str, file: str | None) -> errors.HiveAcidError | None:
    """Return the typed error for Spark's message, about `file` if known; None: no store failed."""
    scheme = (file or "").partition(":")[0]
    of_a_call: errors.HiveAcidError | None = None
    for match in _CAUSE.finditer(text):
        name, says = match["name"], match["says"].strip()
        where = file or ("s3a" if name.startswith(_S3A) else "hdfs")
        remedy = _remedy(name, scheme)
        if name in _S3_DENIED or (name == _JAVA_DENIED and scheme in S3_SCHEMES):
            reason = f"{says}. {_S3_KEYS}"
            return errors.LocationPermissionError(location=where, action="use", reason=reason)
        if name == _DENIED:
            if _NO_LOGIN not in says:
                return errors.LocationPermissionError(location=where, action="use", reason=says)
            remedy = _LOGIN
        if remedy is not None:
            return _away(where, name, says, remedy)
        if of_a_call is None and scheme in HADOOP_SCHEMES and _CALL.search(says):
            # A later cause in the message may be more specific.
            of_a_call = _away(where, name, says, _LATER)
    return of_a_call


def _away(where: str, name: str, says: str, remedy: str) -> errors.StoreUnavailableError:
    return errors.StoreUnavailableError(
        location=where, action="use", reason=f"{says} ({name}). {remedy}"
    )


def _remedy(name: str, scheme: str) -> str | None:
    """Return the remedy for a temporary failure, or None; `scheme` is the file's scheme."""
    remedy = _REMEDIES.get(name)
    if scheme in S3_SCHEMES and (remedy == _LATER or name in _OF_NETWORKS):
        return _S3_LATER
    if scheme in HADOOP_SCHEMES and name in _OF_NETWORKS:
        return _LATER
    return remedy
