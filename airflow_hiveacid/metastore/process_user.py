"""The user name that this process sends to a metastore if the connection has no user."""

from __future__ import annotations

import getpass
import os


def process_user() -> str:
    """Return the user name of this process, or its numeric user ID if the user has no name.

    Pods and containers often run under a user ID without an entry in the password file.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python 3.12 and earlier raise KeyError
        return str(os.getuid())
