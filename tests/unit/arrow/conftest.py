"""The table of a test, and tables with other columns, partitions or buckets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import DAY, Lake, Make, made


@pytest.fixture
def make(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Make:
    return partial(made, server, clock, tmp_path)


@pytest.fixture
def lake(make: Make) -> Lake:
    return make()


@pytest.fixture
def parted(make: Make) -> Lake:
    return make(partition_columns=DAY)
