"""Prove that no file of a table stores a row that satisfies a condition, or say which files do."""

from __future__ import annotations

from airflow_hiveacid.spark.maintenance.prove_erasure import prove_erasure
from airflow_hiveacid.spark.runtime import main

if __name__ == "__main__":
    main("prove_erasure", prove_erasure)
