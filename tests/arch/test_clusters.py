"""docs/clusters.md and support.md's table say what docs/clusters.json does, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.proofs.clusters import cells as files
from tests.proofs.clusters.cells import (
    FAILED,
    LOGINS,
    NOT_RUN,
    RAN,
    SPARKS,
    Cell,
    Place,
    drop_others,
    keep,
    overview,
    overview_of,
    page_of,
    read,
)
from tests.support.documents import put_between

_HERE = Place("local", "none", "disk")


def _cell(name: str, area: str = "a", *, outcome: str = RAN, place: Place | None = None) -> Cell:
    return Cell(area=area, combination=name, version="1", outcome=outcome, place=place)


def test_the_support_table_and_the_clusters_page_match_the_recorded_results() -> None:
    found = read()
    support = files.SUPPORT.read_text()
    assert put_between(support, files.MARK, overview(found)) == support
    assert page_of(found) == files.PAGE.read_text()


def test_no_cell_of_the_clusters_page_is_empty_or_failed() -> None:
    found = read()
    assert [cell for cell in found if cell.outcome == FAILED] == []
    lines = [*page_of(found).splitlines(), *overview(found).splitlines()[2:]]
    texts = [
        line.strip("|").split("|") for line in lines if line.startswith("|") and "---" not in line
    ]
    rows = [cells for cells in texts if cells[0].strip() not in ("combination", "Spark")]
    assert rows
    assert [cells for cells in rows if not all(cell.strip() for cell in cells)] == []


def test_each_spark_master_and_each_login_has_run_at_least_once() -> None:
    places = {cell.place for cell in read() if cell.place}
    assert {place.spark for place in places} == set(SPARKS)
    assert {place.login for place in places} == set(LOGINS)


def test_a_single_failure_is_shown_in_the_support_table() -> None:
    cells = [_cell("x", place=_HERE), _cell("y", outcome=FAILED, place=_HERE)]
    assert "| local | none: failed |" in overview(cells)
    assert "| local | none |" in overview(cells[:1])
    with pytest.raises(ValueError, match="no place in the table"):
        overview_of([(Place("local", "none", "tape"), True)])


def test_a_skipped_combination_is_shown_as_not_run() -> None:
    assert "| local | not run |" in overview([_cell("x", outcome=NOT_RUN, place=_HERE)])
    both = [_cell("x", outcome=NOT_RUN, place=_HERE), _cell("y", place=_HERE)]
    assert "| local | none |" in overview(both)


def test_a_partial_run_keeps_older_results_and_a_whole_run_removes_them(tmp_path: Path) -> None:
    json_file, page, support = tmp_path / "c.json", tmp_path / "c.md", tmp_path / "support.md"
    support.write_text(
        "head\n<!-- clusters: written by `make clusters` -->\n<!-- end of clusters -->\n"
    )
    old, other = _cell("an old name"), _cell("of another area", "b")
    new = _cell("a new name", place=_HERE)
    keep([old, other], json_file, page, support)
    keep([new], json_file, page, support)
    assert read(json_file) == [new, old, other]
    assert "place" not in json.loads(json_file.read_text())[1]
    drop_others([new], json_file, page, support)
    assert read(json_file) == [new, other]
    assert page.read_text() == page_of([new, other])
    assert "| local | none |" in support.read_text()
    keep([replace(new, outcome=FAILED)], json_file, page, support)
    assert "| local | none: failed |" in support.read_text()
    support.write_text("no marks")
    with pytest.raises(ValueError, match="the page needs the lines"):
        keep([new], json_file, page, support)
