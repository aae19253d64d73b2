"""This process's Hadoop credentials, in a file that exists only in memory.

At each login, hdfs-native reads delegation tokens from the file that an environment variable names.
This one disappears with the process, and only its user can open it. The content is replaced as a
whole, so no client reads half of it. A file that YARN gave to a container is not changed.
"""

from __future__ import annotations

import errno
import os
from typing import Final

VARIABLE: Final = "HADOOP_TOKEN_FILE_LOCATION"
"""The environment variable by which YARN and this provider pass the path of the credentials."""

_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - files created there have no name


class TokenFile:
    """A credentials file in memory, until the process ends. Mutable: its content is replaced."""

    def __init__(self) -> None:
        self._descriptor = _memory()

    @property
    def path(self) -> str:
        """The file's path, valid for the user's processes until this one ends."""
        return _path_of(self._descriptor)

    def replace(self, content: bytes) -> None:
        """Replace the file's content."""
        fresh = _memory()
        try:
            with os.fdopen(fresh, "wb", closefd=False) as file:
                file.write(content)
            # A process that opened the file earlier still reads the old content.
            os.dup2(fresh, self._descriptor, inheritable=False)
        finally:
            os.close(fresh)


def scratch() -> tuple[int, str]:
    """Return the descriptor and path of a new file in memory; the caller must close it."""
    descriptor = _memory()
    return descriptor, _path_of(descriptor)


def _path_of(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _memory() -> int:
    # Use an unnamed file on tmpfs if memfds are unavailable: many Python builds (conda, older uv)
    # use a C library without memfd_create, and some kernels forbid the call (vm.memfd_noexec).
    try:
        descriptor = os.memfd_create("hadoop-credentials")
    except (AttributeError, OSError) as error:
        if not hasattr(os, "O_TMPFILE"):
            raise OSError(errno.ENOTSUP, "only Linux supports files without a name") from error
        descriptor = os.open(_IN_MEMORY, os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
