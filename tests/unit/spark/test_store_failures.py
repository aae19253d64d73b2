"""What Spark's JVM says of HDFS, in our words: who may try again is told by the type."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    HiveAcidError,
    LocationPermissionError,
    StoreUnavailableError,
)
from airflow_hiveacid.spark.failures import typed_failures

SECURITY = "org.apache.hadoop.security"
NO_LOGIN = f"{SECURITY}.AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]"
EXPIRED = f"{SECURITY}.token.SecretManager$InvalidToken: token (token for etl) is expired"
DENIED = f"{SECURITY}.AccessControlException: Permission denied: user=etl, access=WRITE"
REFUSED = "java.net.ConnectException: Connection refused"


def unread(cause: str, file: str = "hdfs://nn/t/bucket_00000") -> str:
    return (
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {file}. SQLSTATE: KD001\n"
        "\tat x\nCaused by: java.io.IOException: DestHost:destPort nn:8020. Failed on local"
        f" exception: {cause}\n\tat y\nCaused by: {cause}\n\tat z"
    )


@pytest.mark.parametrize(
    ("cause", "kind", "says"),
    [
        (NO_LOGIN, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*--principal and --keytab"),
        (EXPIRED, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*is expired .*--keytab"),
        (REFUSED, StoreUnavailableError, r"hdfs://nn/t/bucket_00000 .*when name node and data"),
        (DENIED, LocationPermissionError, r"hdfs://nn/t/bucket_00000: Permission denied: user=etl"),
        ("org.apache.orc.FileFormatException: Malformed", CorruptFileError, "Malformed"),
    ],
)
def test_who_is_not_let_in_is_not_told_of_a_damaged_file(
    cause: str, kind: type[HiveAcidError], says: str
) -> None:
    with pytest.raises(kind, match=says), typed_failures():
        raise RuntimeError(unread(cause))


def test_a_disk_of_ones_own_has_no_network() -> None:
    with pytest.raises(CorruptFileError, match="Connection refused"), typed_failures():
        raise RuntimeError(unread(REFUSED, "file:/t/bucket_00000"))


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (NO_LOGIN, StoreUnavailableError),
        (EXPIRED, StoreUnavailableError),
        (DENIED, LocationPermissionError),
        (REFUSED, PySparkException),  # of whichever server
    ],
)
def test_what_sparks_writers_and_listings_say_is_the_stores_if_only_hadoop_says_so(
    cause: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind), typed_failures():
        raise PySparkException(f"Job aborted due to stage failure: x\n\tat y\nCaused by: {cause}")
