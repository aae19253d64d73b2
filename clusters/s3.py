"""S3: the life of tables there, and what its server may do in the middle of one.

The server is moto's, which checks no signatures.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from clusters.lives import Lives

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    tests = (
        "tests/spark/test_on_s3.py",
        "tests/contract/stores/test_s3.py",
        "tests/contract/stores/test_s3_publishing.py",
        "tests/contract/stores/test_s3_refusals.py",
        "tests/contract/stores/test_s3_writes.py",
    )
    lives = Lives(area="S3", version=f"moto {version('moto')}", tests=tests)
    return lives.cells(folder, only)
