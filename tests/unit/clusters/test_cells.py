"""The table of what runs where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.cells import Cell, keep

if TYPE_CHECKING:
    from pathlib import Path


def cell(area: str, combination: str) -> Cell:
    return Cell(area=area, combination=combination, version="1", outcome="ran")


def test_an_area_that_was_run_replaces_its_cells_alone(tmp_path: Path) -> None:
    keep([cell("S3", "a"), cell("HDFS", "b"), cell("HDFS", "c")], tmp_path)
    keep([cell("HDFS", "d")], tmp_path)
    lines = (tmp_path / "clusters.md").read_text().splitlines()
    assert lines[-2:] == ["| HDFS | d | 1 | ran |  |", "| S3 | a | 1 | ran |  |"]
    assert (tmp_path / "clusters.json").read_text().count('"area"') == 2
