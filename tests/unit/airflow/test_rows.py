from __future__ import annotations

from pathlib import Path

from tests.proofs.airflow.__main__ import PLAYS
from tests.proofs.airflow.rows import PAGE, Row, keep, page_of, read


def test_the_page_matches_the_recorded_rows_and_no_row_is_a_violation() -> None:
    rows = read()
    assert PAGE.read_text() == page_of(rows, PLAYS)
    assert {row.play for row in rows} <= set(PLAYS)
    assert [row for row in rows if row.violation] == []


def test_a_run_replaces_only_the_rows_of_its_own_plays(tmp_path: Path) -> None:
    file, page = tmp_path / "rows.json", tmp_path / "page.md"
    first = [
        Row(play="watch", title="old", seen="1"),
        Row(play="slots", title="kept", seen="2", violation="a | b"),
    ]
    order = ["slots", "watch", "clear"]
    keep(first, order, file=file, page=page)
    keep([Row(play="watch", title="new", seen="3")], order, file=file, page=page)
    assert [row.title for row in read(file)] == ["kept", "new"]
    lines = page.read_text().splitlines()[-4:]
    assert lines == [
        "| slots | kept | 2 | **no**: a \\| b | 0 |",
        "| watch | new | 3 | yes | 0 |",
        "",
        "Not run yet: `clear`.",
    ]
