"""S3: the life of tables there, what its server may do in the middle of one, and the guide.

The server is moto's, which checks no signatures.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from clusters.lives import Lives

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell

_TABLES: Final = (
    "tests/spark/test_on_s3.py",
    "tests/contract/stores/test_s3.py",
    "tests/contract/stores/test_s3_publishing.py",
    "tests/contract/stores/test_s3_refusals.py",
    "tests/contract/stores/test_s3_writes.py",
)
_GUIDE: Final = ("tests/airflow/test_guides.py::test_the_guide_for_s3_runs_as_written",)


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    server = f"moto {version('moto')}"
    yield from Lives(area="S3", version=server, tests=_TABLES).cells(folder, only)
    place = folder / "guide"
    place.mkdir(exist_ok=True)
    guide = Lives(area="S3", version=server, tests=_GUIDE, environment=".venv")
    yield from guide.cells(place, only)
