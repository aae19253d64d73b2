from __future__ import annotations

from tests.proofs.conflicts.cells import OTHERWISE, Seen, expected, is_right
from tests.proofs.conflicts.report import MARK, PAGE, every_cell, lines, read
from tests.support.documents import between


def test_the_page_matches_the_recorded_outcomes() -> None:
    assert between(PAGE.read_text(), MARK) == "\n".join(lines(read())).strip()


def test_every_pair_has_run_on_both_metastores_with_the_expected_outcome() -> None:
    record = read()
    assert [cell for cell in every_cell() if cell not in record] == []
    assert [cell for cell, seen in record.items() if not is_right(cell, seen)] == []


def test_the_25_pairs_run_with_two_policies_in_two_orders_on_two_metastores() -> None:
    assert len(set(every_cell())) == 25 * 2 * 2 * 2


def test_an_unexpected_outcome_of_a_pair_is_marked_on_the_page() -> None:
    cell = next(iter(every_cell()))
    record = {cell: Seen(outcome=None, told="it froze", trouble="it broke off")}
    text = "\n".join(lines(record))
    assert "**not expected**: it broke off" in text
    assert text.count("not run") == 199


def test_each_intended_exception_from_the_policies_has_a_note() -> None:
    for cell, (wanted, note) in OTHERWISE.items():
        assert expected(cell) == (wanted, note)
        assert note
