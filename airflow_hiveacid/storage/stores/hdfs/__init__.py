"""Access to HDFS without a JVM in the Python process.

This module converts hdfs-native's errors to OSErrors with an errno, a one-line message and a
remedy. Most failures of hdfs-native are RuntimeErrors, and only their message, a printed Rust
value, has the class of Java's exception. So this module parses messages; no other module does.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

NO_KEY: Final[int] = getattr(errno, "ENOKEY", 126)
"""The error number for an encrypted file without a key; only Linux defines this number."""

# The class of Java's exception, then its message, followed by the stack.
_RPC: Final = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)\Z', re.DOTALL)
# The message of the Kerberos library comes last, after error codes in Rust's notation.
_LOGIN: Final = re.compile(
    r'(?:SASLError|GSSAPIError|NoSASLMechanism)\b(?:.*"(.*)"\)\Z)?', re.DOTALL
)
# Other failures of hdfs-native: the name of the failure, followed by a message.
_OWN: Final = re.compile(r'(\w+)\("(.*)"\)\Z', re.DOTALL)
_LATE: Final = re.compile(r"DataTransferError|OperationFailed.*in time")
_LATE_REMEDY: Final = (
    "Data nodes failed, or were too slow; try again. If this persists, check the data nodes with"
    " hdfs fsck and hdfs dfsadmin -report"
)
_LONGEST: Final = 1000
"""The maximum length of a message, because hdfs-native prints all details of each failed data
node."""

_PANIC: Final = "PanicException"
"""The class that a Rust panic raises; `except Exception` does not catch it."""

_NUMBERS: Final[Mapping[str, int]] = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "AclException": errno.ENOTSUP,
    "DSQuotaExceededException": errno.EDQUOT,
    "NSQuotaExceededException": errno.EDQUOT,
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "InvalidPathException": errno.EINVAL,
    "LeaseExpiredException": errno.ESTALE,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "RetriableException": errno.EAGAIN,
    "SafeModeException": errno.EAGAIN,
    "SecretManager$InvalidToken": errno.EAGAIN,
    "StandbyException": errno.EAGAIN,
}
_QUOTA: Final = (
    "Compact and clean the table, so that it has fewer and smaller files, or ask an administrator"
    " to raise the quota (hdfs dfsadmin -setQuota, -setSpaceQuota)"
)
_REMEDIES: Final[Mapping[str, str]] = {
    "AccessControlException": (
        "Grant that user access by permission bits or an access control list (hdfs dfs"
        " -setfacl); without Kerberos the user is HADOOP_USER_NAME, else Spark's, else the"
        " process's"
    ),
    "AuthorizationException": "The name node's proxy user rules forbid this (hadoop.proxyuser.*)",
    "DSQuotaExceededException": _QUOTA,
    "NSQuotaExceededException": _QUOTA,
    "SafeModeException": (
        "A name node accepts no changes while it starts or is in safe mode: try again later, or"
        " ask an administrator to end the safe mode (hdfs dfsadmin -safemode get)"
    ),
    "SecretManager$InvalidToken": (
        "The delegation token has expired or was cancelled; a job that outlives its token"
        " requires Spark's --principal and --keytab"
    ),
    "StandbyException": "No name node of the service is active now; try again later",
}
# Java's client asks the name node for the KMS's address; hdfs-native does not.
_NO_KMS: Final = re.compile(r"encryption zone but no KMS provider")
_NO_KMS_REMEDY: Final = (
    "The file is in an encryption zone, so Python needs the address of the KMS to fetch the key."
    " Set hadoop.security.key.provider.path (kms://https@host:9600/kms) in core-site.xml in"
    " HADOOP_CONF_DIR, or set spark.hadoop.hadoop.security.key.provider.path"
)
# The message contains the URL of the request, and the URL contains the KMS token.
_SECRET: Final = re.compile(r"(?<=[?&]delegation=)[^&\s\")]+")
# hdfs-native uses one KMS token until its process ends, even after that token expires.
_KMS_TOKEN: Final = re.compile(r"KMS request failed.*InvalidToken")
_KMS_AWAY: Final = re.compile(r"KMS HTTP error|KMS request failed \(5")
_KMS_DENIED: Final = re.compile(r"KMS request failed \(4|KMS rejected")
# Java's exception for a full cluster is a plain IOException.
_FULL: Final = re.compile(r"could only be (?:written|replicated) to")
_FULL_REMEDY: Final = "Data nodes are full, or too few of them are up (hdfs dfsadmin -report)"

# Kerberos errors are recognised by their messages, which are English in every locale.
_TICKETS: Final[Mapping[str, tuple[int, str]]] = {
    r"expired": (
        errno.EAGAIN,
        "Fetch a new ticket (kinit), or pass --principal and --keytab to Spark",
    ),
    r"No Kerberos credentials|No credentials|credentials cache": (
        errno.EAGAIN,
        (
            "There is no ticket: run kinit, and check that KRB5CCNAME of this process is the"
            " ticket cache. For a Spark container, pass --principal and --keytab to Spark, so that"
            " Spark gets tokens. If KRB5_CLIENT_KTNAME is set to a keytab, the KDC is down, or the"
            " key was changed: kinit -k -t shows which"
        ),
    ),
    r"Clock skew": (errno.EAGAIN, "Correct the clock of this machine or of the KDC"),
    r"Cannot contact any KDC|Cannot find KDC|Cannot resolve": (
        errno.EHOSTUNREACH,
        "Check that the KDC is running and that KRB5_CONFIG (/etc/krb5.conf) names it",
    ),
    r"not found in Kerberos database": (
        errno.EACCES,
        (
            "The KDC does not know that principal: check dfs.namenode.kerberos.principal and"
            " the realm"
        ),
    ),
}
_NO_MECHANISM: Final = (
    "the name node requires a Kerberos ticket or delegation token, and none of them fits. A token"
    " must be for this name node or name service, be valid for at least another minute, and be in"
    " the file that HADOOP_TOKEN_FILE_LOCATION names"
)
# A name node with Kerberos closes the connection if a client does not log in.
_HUNG_UP: Final = "RPC listener disconnected"
_RESET_REMEDY: Final = (
    "If a data node requires protection: set dfs.data.transfer.protection as on the servers"
)
_PLAIN: Final = re.compile(r"SIMPLE authentication is not enabled")
_PLAIN_REMEDY: Final = (
    "set hadoop.security.authentication=kerberos in core-site.xml in HADOOP_CONF_DIR, or"
    " spark.hadoop.hadoop.security.authentication"
)


@contextmanager
def hdfs_errors(where: str) -> Iterator[None]:
    """Turn hdfs-native's exceptions inside the block into Python's OSErrors.

    `where` is the store and path. Raises FileNotFoundError, FileExistsError, PermissionError or
    NotADirectoryError, or else an OSError with the matching error number, or EIO.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        number, text = _number_and_text(error)
        # Logs include an error's cause. So drop a cause that contains a secret.
        cause = None if _SECRET.search(str(error)) else error
        raise OSError(number, text, where) from cause
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise OSError(errno.EIO, f"hdfs-native failed: {_first_line(str(error))}", where) from error


def _number_and_text(error: OSError | RuntimeError) -> tuple[int, str]:
    if isinstance(error, OSError):
        return _of_system(error)
    text = str(error)
    if match := _RPC.match(text):
        return _of_java(match[1].rpartition(".")[2], _first_line(match[2]))
    if isinstance(error, NotImplementedError):
        return errno.ENOTSUP, f"hdfs-native cannot do this: {_first_line(text)}"
    if match := _LOGIN.match(text):
        return _of_login(_first_line(match[1] or ""))
    match = _OWN.match(text)
    message = _first_line(match[2] if match is not None else text)
    if (of_keys := _of_keys(message)) is not None:
        return of_keys
    return (
        (errno.EAGAIN, f"{message}. {_LATE_REMEDY}") if _LATE.match(text) else (errno.EIO, message)
    )


def _of_keys(message: str) -> tuple[int, str] | None:
    if _NO_KMS.search(message):
        return NO_KEY, f"{message}. {_NO_KMS_REMEDY}"
    if _KMS_TOKEN.search(message):
        return errno.EAGAIN, f"{message}. A new process fetches a new KMS token"
    if _KMS_AWAY.search(message):
        return errno.EAGAIN, f"{message}. The KMS, which has the keys of encryption zones, is down"
    if _KMS_DENIED.search(message):
        return (
            errno.EACCES,
            f"{message}. The KMS, which has the keys of encryption zones, denied the request",
        )
    return None


def _of_system(error: OSError) -> tuple[int, str]:
    text = _first_line(error.strerror or str(error))
    if _HUNG_UP in text:  # hdfs-native does not report the server's last message
        return errno.ECONNRESET, f"{text}. If the name node requires Kerberos: {_PLAIN_REMEDY}"
    number = _number_of(error)
    return number, f"{text}. {_RESET_REMEDY}" if number == errno.ECONNRESET else text


def _of_java(name: str, text: str) -> tuple[int, str]:
    number, remedy = _NUMBERS.get(name, errno.EIO), _REMEDIES.get(name, "")
    if _FULL.search(text):
        number, remedy = errno.ENOSPC, _FULL_REMEDY
    elif _PLAIN.search(text):
        remedy = _PLAIN_REMEDY
    return number, f"{text} ({name})" + (f". {remedy}" if remedy else "")


def _of_login(text: str) -> tuple[int, str]:
    if not text:
        return errno.EAGAIN, _NO_MECHANISM
    for pattern, (number, remedy) in _TICKETS.items():
        if re.search(pattern, text):
            return number, f"Kerberos: {text}. {remedy}"
    return errno.EACCES, f"Kerberos: {text}"


def _number_of(error: OSError) -> int:
    if error.errno is not None:
        return error.errno
    match error:
        case FileNotFoundError():
            return errno.ENOENT
        case FileExistsError():
            return errno.EEXIST
        case IsADirectoryError():
            return errno.EISDIR
        case PermissionError():
            return errno.EACCES
        case _:
            match = re.search(r"\(os error (\d+)\)", str(error))  # of a socket
            return errno.EIO if match is None else int(match[1])


def _first_line(text: str) -> str:
    line = text.replace("\\n", "\n").partition("\n")[0].replace('\\"', '"').strip()
    line = _SECRET.sub("***", line)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
