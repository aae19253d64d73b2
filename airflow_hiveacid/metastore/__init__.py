"""The Hive metastore: catalog, transactions, locks, heartbeats, compaction queue.

This module has the user that this process runs as: in a container often one without a name.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path


def process_user() -> str:
    """Return the user name of this process, or its numeric user ID if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python 3.12 and earlier raise KeyError
        return str(os.getuid())


def user_path(path: str) -> Path:
    """Return a path as an absolute path, in which a leading "~" is the user's home directory.

    If the user has no home directory, "~" stays as it is; `Path.expanduser` would raise an error.
    """
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - see the docstring
