"""Hadoop's credentials of this process, as a file that is in memory alone.

hdfs-native reads delegation tokens anew at each login, from the file that a variable names. Here
that file has no name on any disk, goes with its process, and only its user can open it. What is in
it is replaced as a whole, so nobody reads half of it. A file that a container was given stays.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "HADOOP_TOKEN_FILE_LOCATION"
"""By which YARN, and we, tell a process where its credentials lie."""


class TokenFile:
    """One such file. Mutable: its content is replaced.

    It stays as long as the process does: a client may look at any time.
    """

    def __init__(self) -> None:
        self._descriptor = _memory()

    @property
    def path(self) -> str:
        """For this process, and for one that it has forked."""
        return f"/proc/self/fd/{self._descriptor}"

    @property
    def path_for_others(self) -> str:
        """For other processes of the same user on this machine, as long as this one lives."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

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
        OSError: there is no memory for it.
    """
    descriptor = _memory()
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


def _memory() -> int:
    descriptor = os.memfd_create("hadoop-credentials")
    os.fchmod(descriptor, 0o600)
    return descriptor
