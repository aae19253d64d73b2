"""Who this process says it is to a metastore, when the connection names nobody."""

from __future__ import annotations

import getpass
import os


def process_user() -> str:
    """The user of this process; its number where the machine has no name for it.

    Pods and containers often run under a user ID without an entry in the password file.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError until Python 3.12
        return str(os.getuid())
