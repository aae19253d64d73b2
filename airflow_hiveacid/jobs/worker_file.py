"""How a driver on a worker finds out that its worker is gone: by a file that the worker locks.

The worker holds the lock while it waits for the driver. The kernel releases the lock when the
worker's process ends, even after SIGKILL. Both sides need only the standard library.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock an existing file for the `with` block; a child process does not inherit the lock."""
    with path.open("rb") as file:
        # Without the lock, the driver gets the same error, and continues.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def worker_lives(path: str) -> bool:
    """Return false if no process holds the lock, or if the file is gone."""
    try:
        with Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # the lock is held, or this file system has no locks
        return True
    return False
