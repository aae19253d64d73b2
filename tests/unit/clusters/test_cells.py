"""The table of what runs where."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.proofs.clusters.cells import Cell, keep, page_of, read


def cell(area: str, combination: str, note: str = "") -> Cell:
    return Cell(area=area, combination=combination, version="1", outcome="ran", note=note)


def test_a_new_result_replaces_only_the_old_result_of_its_combination(tmp_path: Path) -> None:
    files = tmp_path / "clusters.json", tmp_path / "clusters.md"
    keep([cell("S3", "a"), cell("HDFS", "b", "old"), cell("HDFS", "c")], *files)
    keep([cell("HDFS", "b", "new | odd")], *files)
    lines = [line for line in files[1].read_text().splitlines() if line.endswith("|")]
    assert [line for line in lines if " | 1 | ran | " in line] == [
        "| b | 1 | ran | new \\| odd |",
        "| c | 1 | ran | - |",
        "| a | 1 | ran | - |",
    ]
    assert files[0].read_text().count('"area"') == 3


def test_parallel_runs_of_areas_lose_no_result(tmp_path: Path) -> None:
    files = tmp_path / "clusters.json", tmp_path / "clusters.md"
    found = [cell(f"area {number}", "a") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: keep([one], *files), found))
    assert set(read(files[0])) == set(found)


def test_the_page_shows_the_parameters_of_a_test_in_parentheses() -> None:
    page = page_of([cell("S3", "a file is written[[]]"), cell("S3", "b[x-y], PySpark 3.5")])
    assert "| a file is written ([]) | 1 |" in page
    assert "| b (x-y), PySpark 3.5 | 1 |" in page
