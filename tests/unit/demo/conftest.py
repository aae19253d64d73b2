"""Gives a test the folders of a demonstration that was never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.layout import DemoLayout


@pytest.fixture
def layout(tmp_path: Path) -> DemoLayout:
    (tmp_path / ".venv-spark/lib/python3.11/site-packages/pyspark").mkdir(parents=True)
    found = DemoLayout.of(tmp_path)
    found.home.mkdir(parents=True)
    found.prepare()
    return found
