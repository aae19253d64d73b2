"""Tests as combinations."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.proofs.clusters.cells import FAILED, NOT_RUN, RAN
from tests.proofs.clusters.lives import Lives

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
