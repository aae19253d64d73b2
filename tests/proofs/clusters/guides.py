"""The guides for whole clusters: their commands, run as they are written.

The guide for S3 is in `s3`. Each searches everything that its jobs have left for the secrets it
used: logs, event logs, specs, XComs, and the command lines of all processes while it ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.proofs.clusters.lives import Lives
from tests.proofs.clusters.overview import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.proofs.clusters.cells import Cell

_FILE: Final = "tests/airflow/test_guides.py"
_PLACES: Final = {
    "test_every_command_of_the_guide_for_ldap_runs": Place("local", "password", "disk"),
    "test_every_command_of_the_guide_for_hdfs_with_kerberos_runs": Place(
        "local", "Kerberos", "HDFS behind Kerberos"
    ),
}


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each guide; see `Lives`."""
    tests = tuple(f"{_FILE}::{name}" for name in _PLACES)
    lives = Lives(
        area="Guides", version="4.0.1", tests=tests, environment=".venv", place=_PLACES.get
    )
    return lives.cells(folder, only)
