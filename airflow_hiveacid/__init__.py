"""Change, read, compact and clean Hive ACID tables from Airflow, on its workers or with Spark.

This module imports nothing. Each subpackage has one concern and at most one third-party dependency.
So a scheduler, a Spark executor and a shell load only the packages that they need.
"""

from __future__ import annotations

__version__ = "0.1.0"
