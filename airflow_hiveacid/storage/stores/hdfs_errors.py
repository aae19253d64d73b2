"""What hdfs-native raises, as errors that have a number and one line of text.

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

# The class of Java's exception, then its message with the stack behind it.
_RPC: Final = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)"\)\Z', re.DOTALL)
_LOGIN: Final = re.compile(r"(?:SASLError|GSSAPIError|NoSASLMechanism)\b")
_NUMBERS: Final[Mapping[str, int]] = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "SecretManager$InvalidToken": errno.EACCES,
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
    "StandbyException": errno.EAGAIN,
}


@contextmanager
def hdfs_errors(path: str) -> Iterator[None]:
    """Turn what hdfs-native raises inside the block into the OSError that Python has for it.

    Raises:
        FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError: as they are called.
        OSError: anything else; its number says what, EIO where nothing fits.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        number, text = _told(error)
        raise OSError(number, text, path) from error


def _told(error: OSError | RuntimeError) -> tuple[int, str]:
    if isinstance(error, OSError):
        return _number_of(error), _first_line(error.strerror or str(error))
    text = str(error)
    match = _RPC.match(text)
    if match is not None:
        name = match[1].rpartition(".")[2]
        return _NUMBERS.get(name, errno.EIO), f"{_first_line(match[2])} ({name})"
    if isinstance(error, NotImplementedError):
        return errno.ENOTSUP, f"hdfs-native cannot do this: {_first_line(text)}"
    return errno.EACCES if _LOGIN.match(text) else errno.EIO, _first_line(text)


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
            return errno.EIO


def _first_line(text: str) -> str:
    """Without the stack of the name node; Rust prints a line's end as two characters."""
    return text.replace("\\n", "\n").partition("\n")[0].replace('\\"', '"').strip()
