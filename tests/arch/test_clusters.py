"""evidence/clusters.md and support.md's table say what clusters.json does, and nothing else."""

from __future__ import annotations

from tests.proofs.clusters import cells as files
from tests.proofs.clusters.cells import FAILED, LOGINS, SPARKS, overview, page_of, read
from tests.support.documents import put_between


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
