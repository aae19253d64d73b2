"""S3: the life of tables there, what its server may do in the middle of one, and the guide.

The server is moto's, which checks no signatures.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from clusters.lives import Lives
from clusters.overview import Place

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
    tables = Lives(area="S3", version=server, tests=_TABLES, place=_in_local)
    yield from tables.cells(folder, only)
    place = folder / "guide"
    place.mkdir(exist_ok=True)
    guide = Lives(
        area="S3", version=server, tests=_GUIDE, environment=".venv", place=_in_standalone
    )
    yield from guide.cells(place, only)


def _in_local(test: str) -> Place | None:
    is_whole = test.startswith("test_a_table_lives_its_whole_life_on_s3")
    return Place("local", "none", "S3") if is_whole else None


def _in_standalone(_: str) -> Place:
    return Place("standalone, client", "none", "S3")
