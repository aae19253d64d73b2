"""A pytest plugin that ends a run that hangs, and shows what each thread is waiting for.

pytest-timeout ends a test that hangs. It cannot end a process that hangs after its last test, such
as one that waits for a thread. With `-p tools.run_deadline`, the process ends with status 124 at
the time in the environment variable HIVEACID_TESTS_UNTIL, in seconds since 1970.
"""

from __future__ import annotations

import faulthandler
import os
import time
from threading import Thread
from typing import Final

END_AT: Final = "HIVEACID_TESTS_UNTIL"
STATUS: Final = 124
"""The exit status of a process that was ended, as of the command `timeout`."""


def pytest_configure() -> None:
    """Start to wait for the end of the run."""
    # pytest redirects standard error while a test runs.
    shown = os.dup(2)
    Thread(target=_end, args=(float(os.environ[END_AT]), shown), daemon=True).start()


def _end(at_s: float, shown: int) -> None:
    time.sleep(max(0.0, at_s - time.time()))
    os.write(shown, b"\nThe tests took too long. The threads were here:\n")
    faulthandler.dump_traceback(shown, all_threads=True)
    os._exit(STATUS)
