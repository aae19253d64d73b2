"""The engines that can run a job, as arguments and connections name them."""

from __future__ import annotations

import enum


class Engine(enum.Enum):
    """The engine that runs a job: AUTO is the worker if it can, or else Spark."""

    AUTO = "auto"
    WORKER = "worker"
    SPARK = "spark"
