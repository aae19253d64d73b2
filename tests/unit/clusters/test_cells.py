"""The table of what runs where, and the command, as far as it starts nothing."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.proofs.clusters import __main__ as command
from tests.proofs.clusters.cells import FAILED, NOT_RUN, RAN, Cell, keep, page_of, read
from tests.proofs.clusters.lives import Lives


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


_REPORT = """<testsuites><testsuite>
<testcase name="test_a_life[x]" time="2.4"/>
<testcase name="test_b" time="1"><failure message="no"/></testcase>
<testcase name="test_c" time="0"><skipped message="no server"/></testcase>
</testsuite></testsuites>"""


def test_each_test_becomes_a_row_with_its_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "junit.xml"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: report.write_text(_REPORT))
    cells = list(Lives(area="a", version="1", tests=("t",), suffix="!").cells(tmp_path, ""))
    assert [(cell.combination, cell.outcome, cell.note) for cell in cells] == [
        ("a life[x]!", RAN, "2 s"),
        ("b!", FAILED, "no"),
        ("c!", NOT_RUN, "no server"),
    ]


def test_the_report_of_an_earlier_run_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "junit.xml").write_text(_REPORT)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError):
        list(Lives(area="a", version="1", tests=("t",)).cells(tmp_path, ""))


def test_no_test_runs_for_words_that_no_test_name_can_contain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was run"))
    assert list(Lives(area="a", version="1", tests=("t",)).cells(tmp_path, "S3; disk")) == []


def test_without_an_area_all_areas_run_and_an_unknown_area_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    areas: list[str] = []

    def try_one(area: str, _place: Path, _only: str) -> list[Cell]:
        areas.append(area)
        return [cell(area, "one")]

    monkeypatch.setattr(command, "_try", try_one)
    monkeypatch.setattr(command, "drop_others", lambda *_: None)
    assert command.main([]) == 0
    assert {"logins", "hdfs", "s3", "yarn"} <= set(areas)
    assert command.main(["s3"]) == 0
    assert areas[-1] == "s3"
    with pytest.raises(SystemExit):
        command.main(["moon"])
