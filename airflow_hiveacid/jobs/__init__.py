"""The contract between Airflow and Spark: job specs, results, their JSON, default time limits.

This module has the engines that can run a job, and the default time limits in seconds. Every
Airflow process imports it, so it imports only the standard library.
"""

from __future__ import annotations

import enum
from typing import Final

CONNECT_TIMEOUT_S: Final = 10.0
"""The longest wait until one server of the metastore accepts a connection."""

CALL_TIMEOUT_S: Final = 120.0
"""The longest time for one call, until its whole answer has arrived."""

LOCK_TIMEOUT_S: Final = 300.0
"""The longest time for which a job waits for the locks of its tables."""

READ_LOCK_TIMEOUT_S: Final = 60.0
"""The longest time for which a read without a job waits for its locks, because a user waits."""

START_TIMEOUT_S: Final = 3600.0
"""The longest wait for an application's first container, and for its first executor."""


class Engine(enum.Enum):
    """The engine that runs a job: AUTO is the worker if it can, or else Spark."""

    AUTO = "auto"
    WORKER = "worker"
    SPARK = "spark"
