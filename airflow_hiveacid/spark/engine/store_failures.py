"""Typed errors for failures in Spark's JVM: a store denies access, or is unavailable.

The stores are HDFS and S3. The input is the message of a Spark error, including its Java causes.
The output is our typed error. So an expired login does not look like a damaged file. Our Python
clients use `storage.stores.hdfs_errors` and `s3_errors` instead.

Example:
    >>> text = "Caused by: org.apache.hadoop.security.AccessControlException: Permission denied: x"
    >>> type(store_failure(text, "hdfs://nn/t")).__name__
    'LocationPermissionError'
    >>> store_failure("Caused by: org.apache.orc.FileFormatException: Malformed", "hdfs://nn/t")
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import LocationPermissionError, StoreUnavailableError
from airflow_hiveacid.storage.stores.locations import HADOOP_SCHEMES, S3_SCHEMES

if TYPE_CHECKING:
    from airflow_hiveacid.format.errors import HiveAcidError

# A line that begins with the class of an exception: the error itself, a cause, or the failure of a
# task. Most name node errors arrive as a RemoteException with the class in brackets: DFSClient
# unwraps only a few classes.
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
# Java raises these errors for connections to any server. A connection error is a failure of the
# store only if it occurred while a file of the store was read.
_OF_NETWORKS: Final = frozenset(
    {
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
    }
)
# For some failed calls to a name node, the exception's class does not show that the call failed.
# Strings in the message show the failed call instead (NetUtils.wrapException).
_CALL: Final = re.compile(r"\bDestHost:destPort\b|\bdestination host is: ")


def store_failure(text: str, file: str | None) -> HiveAcidError | None:
    """Return the typed error for a Spark error's message; None if no store failed.

    Args:
        text: the message of the Spark error.
        file: the file that could not be read; None if Spark does not name it.
    """
    scheme = (file or "").partition(":")[0]
    of_a_call: HiveAcidError | None = None
    for match in _CAUSE.finditer(text):
        name, says = match["name"], match["says"].strip()
        where = file or ("s3a" if name.startswith(_S3A) else "hdfs")
        remedy = _remedy(name, scheme)
        if name in _S3_DENIED or (name == _JAVA_DENIED and scheme in S3_SCHEMES):
            reason = f"{says}. {_S3_KEYS}"
            return LocationPermissionError(location=where, action="use", reason=reason)
        if name == _DENIED:
            if _NO_LOGIN not in says:
                return LocationPermissionError(location=where, action="use", reason=says)
            remedy = _LOGIN
        if remedy is not None:
            return _away(where, name, says, remedy)
        if of_a_call is None and scheme in HADOOP_SCHEMES and _CALL.search(says):
            # A later cause in the message may be more specific.
            of_a_call = _away(where, name, says, _LATER)
    return of_a_call


def _away(where: str, name: str, says: str, remedy: str) -> StoreUnavailableError:
    return StoreUnavailableError(location=where, action="use", reason=f"{says} ({name}). {remedy}")


def _remedy(name: str, scheme: str) -> str | None:
    """Return the remedy for a temporary failure, or None; `scheme` is the file's scheme."""
    remedy = _REMEDIES.get(name)
    if scheme in S3_SCHEMES and (remedy == _LATER or name in _OF_NETWORKS):
        return _S3_LATER
    if scheme in HADOOP_SCHEMES and name in _OF_NETWORKS:
        return _LATER
    return remedy
