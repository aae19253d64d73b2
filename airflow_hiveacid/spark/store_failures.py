"""What Spark's JVM says of an HDFS that does not let it in, or is not there.

Takes the text of a Spark error, with Java's causes in it; gives our error, so that a login that has
expired is not taken for a damaged file. Python's own client has `storage.stores.hdfs_errors`.

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
_REMEDIES: Final = {
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
# Java says these of any server; they are HDFS's where a file of it could not be read.
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
    where = file or "hdfs"
    is_of_hdfs = file is not None and file.startswith(("hdfs:", "viewfs:"))
    of_a_call: HiveAcidError | None = None
    for found in _CAUSE.finditer(text):
        name, says = found["name"], found["says"].strip()
        remedy = _REMEDIES.get(name)
        if name == _DENIED:
            if _NO_LOGIN not in says:
                return LocationPermissionError(location=where, action="use", reason=says)
            remedy = _LOGIN
        elif is_of_hdfs and name in _OF_NETWORKS:
            remedy = _LATER
        if remedy is not None:
            return _away(where, name, says, remedy)
        if of_a_call is None and is_of_hdfs and _CALL.search(says):
            of_a_call = _away(where, name, says, _LATER)  # unless a cause of it says more
    return of_a_call


def _away(where: str, name: str, says: str, remedy: str) -> StoreUnavailableError:
    return StoreUnavailableError(location=where, action="use", reason=f"{says} ({name}). {remedy}")
