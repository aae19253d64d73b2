"""Hadoop's credentials of this process, as a file that is in memory alone.

hdfs-native reads delegation tokens anew at each login, from the file that a variable names. Here
that file has no name on any disk, goes with its process, and only its user can open it. What is in
it is replaced as a whole, so nobody reads half of it. A file that a container was given stays.
"""

from __future__ import annotations

import errno
import os
from typing import Final

VARIABLE: Final = "HADOOP_TOKEN_FILE_LOCATION"
"""By which YARN, and we, tell a process where its credentials lie."""

_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - what is made there has no name


class TokenFile:
    """One such file. Mutable: its content is replaced.

    It stays as long as the process does: a client may look at any time.

    Raises:
        OSError: there is no memory for it, or this is not Linux.
    """

    def __init__(self) -> None:
        self._descriptor = _memory()

    @property
    def path(self) -> str:
        """For all processes of the same user on this machine, as long as this one lives.

        Those that it starts inherit the variable, and Java takes a file that is not there for an
        error.
        """
        return _path_of(self._descriptor)

    def replace(self, content: bytes) -> None:
        """Put something else into it.

        Raises:
            OSError: there is no memory for it.
        """
        fresh = _memory()
        try:
            with os.fdopen(fresh, "wb", closefd=False) as file:
                file.write(content)
            # Whoever has opened the file before goes on reading the old content.
            os.dup2(fresh, self._descriptor, inheritable=False)
        finally:
            os.close(fresh)


def scratch() -> tuple[int, str]:
    """A descriptor of a new file in memory, and its path for others; the caller closes it.

    Raises:
        OSError: as of `TokenFile`.
    """
    descriptor = _memory()
    return descriptor, _path_of(descriptor)


def _path_of(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _memory() -> int:
    """The kernel's own kind, or, where that cannot be had, one of tmpfs.

    Many Pythons (conda's, older ones of uv) were built for a C library without memfd_create, and
    some kernels forbid it (vm.memfd_noexec).
    """
    try:
        descriptor = os.memfd_create("hadoop-credentials")
    except (AttributeError, OSError) as error:
        if not hasattr(os, "O_TMPFILE"):
            raise OSError(errno.ENOTSUP, "only Linux has files without a name") from error
        descriptor = os.open(_IN_MEMORY, os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
