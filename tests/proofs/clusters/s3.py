"""S3: the life of tables there, failures of its server during that life, and the guide.

The server is moto's, which checks no signatures. It also covers every engine as a reader, kills at
random times, and the cost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.proofs.clusters import s3_engines
from tests.proofs.clusters.cells import Cell, Place, Trial, tried
from tests.proofs.clusters.costs import PARTITIONS, THREADS, bytes_beside_a_disk, listed
from tests.proofs.clusters.lives import Lives, campaign
from tests.proofs.clusters.s3_lists import TABLE, listing_server
from tests.support.s3_lab import MotoS3

_AREA: Final = "S3"
_TABLES: Final = (
    "tests/spark/test_on_s3.py",
    "tests/contract/stores/test_s3.py",
    "tests/contract/stores/test_s3_deletions.py",
    "tests/contract/stores/test_s3_publishing.py",
    "tests/contract/stores/test_s3_refusals.py",
    "tests/contract/stores/test_s3_writes.py",
)
_GUIDE: Final = ("tests/airflow/test_guides.py::test_every_command_of_the_guide_for_s3_runs",)
_BUCKET: Final = "lake"
_MINUTES: Final = 8


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield cells for costs and kills, then those of tests; see `Lives`."""
    server = f"moto {version('moto')}"
    trial = partial(Trial, area=_AREA, version=server)
    kills = partial(campaign, "--s3", "--minutes", str(_MINUTES), "--kills", "5")
    trials = [
        trial(name="writing and scanning a bucket file", do=partial(_bytes, folder)),
        trial(name="listing 10,000 partitions", do=_listing),
        trial(name=f"processes killed at random times, {_MINUTES} minutes", do=kills),
    ]
    yield from tried(trials, only)
    yield from s3_engines.cells(folder, only)
    tables = Lives(area=_AREA, version=server, tests=_TABLES, place=_in_local)
    yield from tables.cells(folder, only)
    place = folder / "guide"
    place.mkdir(exist_ok=True)
    guide = Lives(
        area=_AREA, version=server, tests=_GUIDE, environment=".venv", place=_in_standalone
    )
    yield from guide.cells(place, only)


def _in_local(test: str) -> Place | None:
    is_whole = test.startswith("test_a_table_on_s3_can_be_changed_compacted_and_cleaned")
    return Place("local", "none", "S3") if is_whole else None


def _in_standalone(_: str) -> Place:
    return Place("standalone, client", "none", "S3")


def _bytes(folder: Path) -> str:
    with (
        MotoS3.beside(Path(sys.executable), folder / "moto.log") as server,
        patch.dict(os.environ, server.environment),
    ):
        return bytes_beside_a_disk(f"file:{folder}/disk", "S3", f"s3a://{server.bucket}/clusters")


def _listing() -> str:
    with listing_server() as endpoint:
        server = MotoS3(endpoint=endpoint, bucket=_BUCKET)
        with patch.dict(os.environ, server.environment):
            names = [f"s3a://{_BUCKET}/{TABLE}/p={number}" for number in range(PARTITIONS)]
            files, seconds = listed(names)
    asked = f"{THREADS} threads, a request for each partition, of a server that knows lists alone"
    return f"{files} files by {asked}: {seconds:.0f} s"
