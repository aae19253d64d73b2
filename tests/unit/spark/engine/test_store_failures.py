"""How errors of Spark's JVM about a store become typed errors; the type decides about retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    HiveAcidError,
    LocationPermissionError,
    StoreUnavailableError,
)
from airflow_hiveacid.spark.engine.failures import typed_failures

SECURITY = "org.apache.hadoop.security"
NO_LOGIN = f"{SECURITY}.AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]"
EXPIRED = f"{SECURITY}.token.SecretManager$InvalidToken: token (token for etl) is expired"
DENIED = f"{SECURITY}.AccessControlException: Permission denied: user=etl, access=WRITE"
REFUSED = "java.net.ConnectException: Connection refused"
DAMAGED = "org.apache.orc.FileFormatException: Malformed"
# How Spark tells of a task that failed (TaskSetManager).
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure:"
    " Lost task 0.3 in stage 3.0 (TID 7)"
)
# How Java's client words what happens to a call on its way (NetUtils.wrapException).
HUNG_UP = (
    "java.io.EOFException: End of File Exception between local host is: "
    '"me/10.0.0.1"; destination host is: "nn":8020; : java.io.EOFException; For more details see:'
    "  http://wiki.apache.org/hadoop/EOFException"
)
RESET = (
    "java.io.IOException: DestHost:destPort nn:8020 , LocalHost:localPort me/10.0.0.1:0. Failed on"
    " local exception: java.io.IOException: Connection reset by peer"
)


def told_by_name_node(cause: str) -> str:
    """As Java's client leaves it: of most calls nothing is unwrapped (DFSClient)."""
    name, _, says = cause.partition(": ")
    return f"org.apache.hadoop.ipc.RemoteException({name}): {says}"


def within_a_call(cause: str) -> str:
    return (
        "java.io.IOException: DestHost:destPort nn:8020 , LocalHost:localPort me/10.0.0.1:0."
        f" Failed on local exception: {cause}\n\tat y\nCaused by: {cause}"
    )


def unread(cause: str, file: str = "hdfs://nn/t/bucket_00000") -> str:
    return (
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {file}. SQLSTATE: KD001\n"
        f"\tat x\nCaused by: {cause}\n\tat z"
    )


@pytest.mark.parametrize(
    ("cause", "kind", "says"),
    [
        (NO_LOGIN, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*--principal and --keytab"),
        (EXPIRED, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*is expired .*--keytab"),
        (REFUSED, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*when the name node and"),
        (DENIED, LocationPermissionError, r"hdfs://nn/t/bucket_00000: Permission denied: user=etl"),
    ],
)
@pytest.mark.parametrize("form", [str, told_by_name_node, within_a_call])
def test_a_refused_login_or_connection_is_not_reported_as_a_damaged_file(
    form: Callable[[str], str], cause: str, kind: type[HiveAcidError], says: str
) -> None:
    with pytest.raises(kind, match=says), typed_failures():
        raise RuntimeError(unread(form(cause)))


@pytest.mark.parametrize("cause", [HUNG_UP, RESET])
def test_a_connection_closed_by_the_name_node_is_not_reported_as_a_damaged_file(cause: str) -> None:
    with pytest.raises(StoreUnavailableError, match="when the name node and"), typed_failures():
        raise RuntimeError(unread(cause))


S3A = "org.apache.hadoop.fs.s3a"
S3_FILE = "s3a://lake/t/bucket_00000"
THROTTLED = f"{S3A}.AWSServiceThrottledException: read on {S3_FILE}: S3Exception: SlowDown (503)"
EXPIRED_TOKEN = f"{S3A}.AWSBadRequestException: open {S3_FILE}: S3Exception: ExpiredToken (400)"
NO_KEYS = f"{S3A}.auth.NoAuthWithAWSException: No AWS Credentials provided by EnvironmentProvider"
FORBIDDEN = f"java.nio.file.AccessDeniedException: {S3_FILE}: open {S3_FILE}: Access Denied (403)"


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
@pytest.mark.parametrize(
    ("cause", "kind", "says"),
    [
        (THROTTLED, StoreUnavailableError, r"//lake/t/bucket_00000 .*SlowDown.*overloaded"),
        (EXPIRED_TOKEN, StoreUnavailableError, r"//lake/t/bucket_00000 .*ExpiredToken.*renew them"),
        (REFUSED, StoreUnavailableError, r"//lake/t/bucket_00000 .*refused.*cannot be reached"),
        (
            "org.apache.hadoop.net.ConnectTimeoutException: 60 s",
            StoreUnavailableError,
            "cannot be reached",
        ),
        (NO_KEYS, LocationPermissionError, r"No AWS Credentials.*fs\.s3a\.access\.key"),
        (FORBIDDEN, LocationPermissionError, r"//lake/t/bucket_00000: .*Denied.*Spark's JVM uses"),
        ("org.apache.orc.FileFormatException: Malformed", CorruptFileError, "Malformed"),
    ],
)
def test_a_refusal_by_s3_is_not_reported_as_a_damaged_file(
    scheme: str, cause: str, kind: type[HiveAcidError], says: str
) -> None:
    with pytest.raises(kind, match=says), typed_failures():
        raise RuntimeError(unread(cause, S3_FILE.replace("s3a", scheme)))


def test_access_denied_to_a_local_file_is_not_reported_as_an_error_of_s3() -> None:
    with pytest.raises(CorruptFileError, match="AccessDenied"), typed_failures():
        raise RuntimeError(unread("java.nio.file.AccessDeniedException: /t", "file:/t/bucket"))


@pytest.mark.parametrize("cause", [DAMAGED, "java.io.EOFException: Read past end of RLE integer"])
def test_a_damaged_file_in_a_store_is_reported_as_damaged(cause: str) -> None:
    with pytest.raises(CorruptFileError, match=cause), typed_failures():
        raise RuntimeError(unread(cause))


@pytest.mark.parametrize("cause", [REFUSED, RESET])
def test_a_network_error_about_a_local_file_is_not_reported_as_an_unavailable_store(
    cause: str,
) -> None:
    with pytest.raises(CorruptFileError, match="Connection re"), typed_failures():
        raise RuntimeError(unread(cause, "file:/t/bucket_00000"))


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (NO_LOGIN, StoreUnavailableError),
        (EXPIRED, StoreUnavailableError),
        (told_by_name_node(EXPIRED), StoreUnavailableError),
        (DENIED, LocationPermissionError),
        (THROTTLED, StoreUnavailableError),
        (EXPIRED_TOKEN, StoreUnavailableError),
        (NO_KEYS, LocationPermissionError),
        (REFUSED, PySparkException),  # of whichever server
        (FORBIDDEN, PySparkException),  # of whichever store
        (RESET, PySparkException),
    ],
)
@pytest.mark.parametrize(
    "before",
    [
        "Job aborted due to stage failure: x\n\tat y\nCaused by: ",
        f"{LOST} (10.0.0.1 executor 1): ",
        (
            f"An error occurred while calling o7.go.\n: org.apache.spark.SparkException: {LOST}"
            " (me executor driver): "
        ),
    ],
)
def test_errors_of_writers_and_listings_are_typed_only_if_only_hadoop_raises_them(
    before: str, cause: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind), typed_failures():
        raise PySparkException(f"{before}{cause}\n\tat z")
