"""What hdfs-native raises, as errors that have a number, one line of text, and what to do.

It tells missing files and taken names apart, and gives everything else as a RuntimeError that
prints a value of Rust: the class of Java's exception is in there as text, and nowhere else. So this
is the one place that reads messages.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NO_KEY: Final[int] = getattr(errno, "ENOKEY", 126)
"""The number of an OSError that says: encrypted, without a key. Linux's; others have none."""

# The class of Java's exception, then its message with the stack behind it.
_RPC: Final = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)\Z', re.DOTALL)
# What the library for Kerberos says comes last; before it stand codes, as Rust prints them.
_LOGIN: Final = re.compile(
    r'(?:SASLError|GSSAPIError|NoSASLMechanism)\b(?:.*"(.*)"\)\Z)?', re.DOTALL
)
# Other failures that it knows by name, of which it tells a text.
_OWN: Final = re.compile(r'(\w+)\("(.*)"\)\Z', re.DOTALL)
_LATE: Final = re.compile(r"DataTransferError|OperationFailed.*in time")
_LATE_REMEDY: Final = (
    "Data nodes failed, or were too slow; try again. If it stays, ask hdfs fsck and hdfs dfsadmin"
    " -report about them"
)
_LONGEST: Final = 1000
"""Of each data node that failed hdfs-native prints all it knows."""

_PANIC: Final = "PanicException"
"""What Rust raises where it gave up; it is no Exception, so nobody would clear up behind it."""

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
    "Compact and clean the table, which makes fewer and smaller files, or have an administrator"
    " raise the quota (hdfs dfsadmin -setQuota, -setSpaceQuota)"
)
_REMEDIES: Final[Mapping[str, str]] = {
    "AccessControlException": (
        "Give that user the right, by permission bits or an access control list (hdfs dfs"
        " -setfacl); without Kerberos that user is HADOOP_USER_NAME, else Spark's, else the"
        " process's"
    ),
    "AuthorizationException": "The name node's rules say who may act for whom (hadoop.proxyuser.*)",
    "DSQuotaExceededException": _QUOTA,
    "NSQuotaExceededException": _QUOTA,
    "SafeModeException": (
        "It takes no changes while it starts, or until an administrator says so (hdfs dfsadmin"
        " -safemode get); try again later"
    ),
    "SecretManager$InvalidToken": (
        "The delegation token has expired or was cancelled; a job that lasts longer than its token"
        " needs Spark's --principal and --keytab"
    ),
    "StandbyException": "No name node of the service is active now; try again later",
}
# Java's client asks the name node for the KMS; hdfs-native does not.
_NO_KMS: Final = re.compile(r"encryption zone but no KMS provider")
_NO_KMS_REMEDY: Final = (
    "It lies in an encryption zone, whose keys Python fetches by itself: say"
    " hadoop.security.key.provider.path (kms://https@host:9600/kms) in core-site.xml in"
    " HADOOP_CONF_DIR, or as spark.hadoop.hadoop.security.key.provider.path"
)
# hdfs-native shows the address that it asked, in which its token of the KMS stands.
_SECRET: Final = re.compile(r"(?<=[?&]delegation=)[^&\s\")]+")
# It goes by one token until its process ends, whatever becomes of that.
_KMS_TOKEN: Final = re.compile(r"KMS request failed.*InvalidToken")
_KMS_AWAY: Final = re.compile(r"KMS HTTP error|KMS request failed \(5")
_KMS_DENIED: Final = re.compile(r"KMS request failed \(4|KMS rejected")
# Java calls it an IOException.
_FULL: Final = re.compile(r"could only be (?:written|replicated) to")
_FULL_REMEDY: Final = "Data nodes are full, or too few of them are up (hdfs dfsadmin -report)"

# Of Kerberos, by what its library says in English, which it says whatever the locale is.
_TICKETS: Final[Mapping[str, tuple[int, str]]] = {
    r"expired": (
        errno.EAGAIN,
        "Fetch a new ticket (kinit), or give Spark --principal and --keytab",
    ),
    r"No Kerberos credentials|No credentials|credentials cache": (
        errno.EAGAIN,
        (
            "There is no ticket: run kinit and see that KRB5CCNAME of this process names its cache;"
            " in a container of Spark, give Spark --principal and --keytab, which make tokens of"
            " it. Where KRB5_CLIENT_KTNAME names a keytab, the KDC is away, or the key was changed:"
            " kinit -k -t says which"
        ),
    ),
    r"Clock skew": (errno.EAGAIN, "Set the clock of this machine, or of the KDC"),
    r"Cannot contact any KDC|Cannot find KDC|Cannot resolve": (
        errno.EHOSTUNREACH,
        "Is the KDC up, and does KRB5_CONFIG (/etc/krb5.conf) name it?",
    ),
    r"not found in Kerberos database": (
        errno.EACCES,
        (
            "The KDC does not know that principal: is dfs.namenode.kerberos.principal right, and"
            " the realm?"
        ),
    ),
}
_NO_MECHANISM: Final = (
    "the name node wants a Kerberos ticket or a delegation token, and none fits. A token is one of"
    " this name node or name service and lasts for another minute at least; it lies in"
    " HADOOP_TOKEN_FILE_LOCATION"
)
# A name node with Kerberos ends the connection of who does not log in.
_HUNG_UP: Final = "RPC listener disconnected"
_RESET_REMEDY: Final = (
    "If it is a data node that wants protection: say dfs.data.transfer.protection as the servers do"
)
_PLAIN: Final = re.compile(r"SIMPLE authentication is not enabled")
_PLAIN_REMEDY: Final = (
    "say hadoop.security.authentication=kerberos in core-site.xml in HADOOP_CONF_DIR, or as"
    " spark.hadoop.hadoop.security.authentication"
)


@contextmanager
def hdfs_errors(where: str) -> Iterator[None]:
    """Turn what hdfs-native raises inside the block into the OSError that Python has for it.

    Args:
        where: store and path, for the message.

    Raises:
        FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError: as they are called.
        OSError: anything else; its number says what, EIO where nothing fits.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        number, text = _told(error)
        # A log shows what an error comes from.
        cause = None if _SECRET.search(str(error)) else error
        raise OSError(number, text, where) from cause
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise OSError(
            errno.EIO, f"hdfs-native gave up: {_first_line(str(error))}", where
        ) from error


def _told(error: OSError | RuntimeError) -> tuple[int, str]:
    if isinstance(error, OSError):
        return _told_by_system(error)
    text = str(error)
    if match := _RPC.match(text):
        return _told_by_java(match[1].rpartition(".")[2], _first_line(match[2]))
    if isinstance(error, NotImplementedError):
        return errno.ENOTSUP, f"hdfs-native cannot do this: {_first_line(text)}"
    if match := _LOGIN.match(text):
        return _told_of_login(_first_line(match[1] or ""))
    match = _OWN.match(text)
    told = _first_line(match[2] if match is not None else text)
    if (of_keys := _told_of_keys(told)) is not None:
        return of_keys
    return (errno.EAGAIN, f"{told}. {_LATE_REMEDY}") if _LATE.match(text) else (errno.EIO, told)


def _told_of_keys(told: str) -> tuple[int, str] | None:
    if _NO_KMS.search(told):
        return NO_KEY, f"{told}. {_NO_KMS_REMEDY}"
    if _KMS_TOKEN.search(told):
        return errno.EAGAIN, f"{told}. The next process fetches another token of the KMS"
    if _KMS_AWAY.search(told):
        return errno.EAGAIN, f"{told}. The KMS, which has the keys of encryption zones, is away"
    if _KMS_DENIED.search(told):
        return errno.EACCES, f"{told}. The KMS, which has the keys of encryption zones, refuses"
    return None


def _told_by_system(error: OSError) -> tuple[int, str]:
    text = _first_line(error.strerror or str(error))
    if _HUNG_UP in text:  # hdfs-native keeps to itself what it was told at last
        return errno.ECONNRESET, f"{text}. If the name node wants Kerberos: {_PLAIN_REMEDY}"
    number = _number_of(error)
    return number, f"{text}. {_RESET_REMEDY}" if number == errno.ECONNRESET else text


def _told_by_java(name: str, text: str) -> tuple[int, str]:
    number, remedy = _NUMBERS.get(name, errno.EIO), _REMEDIES.get(name, "")
    if _FULL.search(text):
        number, remedy = errno.ENOSPC, _FULL_REMEDY
    elif _PLAIN.search(text):
        remedy = _PLAIN_REMEDY
    return number, f"{text} ({name})" + (f". {remedy}" if remedy else "")


def _told_of_login(text: str) -> tuple[int, str]:
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
            return _number_of_socket(str(error))


def _number_of_socket(text: str) -> int:
    """Rust prints the system's number behind its words, and gives it nowhere else."""
    match = re.search(r"\(os error (\d+)\)", text)
    if match is not None:
        return int(match[1])
    return errno.EIO


def _first_line(text: str) -> str:
    """Without the stack of the name node; Rust prints a line's end as two characters."""
    line = text.replace("\\n", "\n").partition("\n")[0].replace('\\"', '"').strip()
    line = _SECRET.sub("***", line)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
