"""Change, read, compact and clean Hive ACID tables from Airflow, with Spark as the engine.

The package imports nothing by itself: each room below it has one concern and at most one
third-party dependency, so that a scheduler, a Spark executor and a shell each load only their own.
"""

from __future__ import annotations

__version__ = "0.1.0"
