"""What Spark's JVM says of an HDFS, or an S3, that does not let it in, or is not there.

Takes the text of a Spark error, with Java's causes in it; gives our error, so that a login that has
expired is not taken for a damaged file. Python's own clients have `storage.stores.hdfs_errors` and
`s3_errors`.

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

# A line that begins with the class of an exception: of the error itself, of what caused it, or of
# what a task failed with. Most of what a name node says stays a RemoteException (DFSClient unwraps
# little), which has the class in brackets.
_CAUSE: Final = re.compile(
    r"^(?:.*? \(\S+ executor \S+\): |Caused by: |: )?"
    r"(?:org\.apache\.hadoop\.ipc\.RemoteException\()?"
    r"(?P<name>(?:[a-z]\w*\.)+[\w$]+)\)?: (?P<says>.+)$",
    re.MULTILINE,
)
_DENIED: Final = "org.apache.hadoop.security.AccessControlException"
_NO_LOGIN: Final = "Client cannot authenticate via"
_LOGIN: Final = (
    "Spark's JVM there has no ticket or token that is still good: --principal and --keytab fetch"
    " them anew, on YARN and Kubernetes; executors of a standalone cluster need a file of tokens"
    " (spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION) that somebody renews. Then run it again"
)
_LATER: Final = "Run it again when name node and data nodes answer"
# How S3A calls what S3 answers (S3AUtils.translateException of Hadoop 3.4).
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
    "Spark's JVM goes by credentials of its own (fs.s3a.access.key, or what"
    " fs.s3a.aws.credentials.provider names): are they valid, and may they read there?"
)
_S3_RENEW: Final = (
    "Have temporary credentials of Spark's JVM expired? Renew them, and run it again. If not, is"
    " fs.s3a.endpoint.region the bucket's own?"
)
_S3_LATER: Final = "The store is overloaded or cannot be reached; run it again later"
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
# Java says these of any server; they are the store's where a file of it could not be read.
_OF_NETWORKS: Final = frozenset(
    {
        "java.net.ConnectException",
        "java.net.NoRouteToHostException",
        "java.net.SocketException",
        "java.net.SocketTimeoutException",
        "java.net.UnknownHostException",
    }
)
# How a call to a name node ended on its way (NetUtils.wrapException); the class says only of some.
_CALL: Final = re.compile(r"\bDestHost:destPort\b|\bdestination host is: ")


def store_failure(text: str, file: str | None) -> HiveAcidError | None:
    """The error that a text stands for, if it is the store's.

    Args:
        text: of a Spark error.
        file: the file that could not be read, where Spark names it.
    """
    scheme = (file or "").partition(":")[0]
    of_a_call: HiveAcidError | None = None
    for found in _CAUSE.finditer(text):
        name, says = found["name"], found["says"].strip()
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
            of_a_call = _away(where, name, says, _LATER)  # unless a cause of it says more
    return of_a_call


def _away(where: str, name: str, says: str, remedy: str) -> StoreUnavailableError:
    return StoreUnavailableError(location=where, action="use", reason=f"{says} ({name}). {remedy}")


def _remedy(name: str, scheme: str) -> str | None:
    """What to do about what may pass; None of anything else. The scheme is that of the file."""
    remedy = _REMEDIES.get(name)
    if scheme in S3_SCHEMES and (remedy == _LATER or name in _OF_NETWORKS):
        return _S3_LATER
    if scheme in HADOOP_SCHEMES and name in _OF_NETWORKS:
        return _LATER
    return remedy
