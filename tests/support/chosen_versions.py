"""The metastores that $HIVEACID_METASTORES chooses for tests that start servers of their own."""

from __future__ import annotations

from airflow_hiveacid.local.releases import HiveRelease, release_for_tests


def chosen(version: str) -> str:
    """Return the chosen version with the same major version, or this version."""
    return release_for_tests(HiveRelease.of(version)).version
