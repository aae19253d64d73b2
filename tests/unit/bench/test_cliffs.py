from __future__ import annotations

from tests.proofs.bench.cliffs.course import merged
from tests.proofs.bench.cliffs.report import CLIFFS_BEGIN, CLIFFS_END, cliff_grids, cliff_page
from tests.proofs.bench.figures import pairs
from tests.proofs.bench.records import FLAT, OURS
from tests.unit.bench.made_up_records import SETTING, record


def test_new_records_of_a_part_replace_only_the_old_records_of_that_part() -> None:
    former = [record(f"cliff.{part}.10.count", OURS, 1.0) for part in ("partitions", "deltas")]
    new = [record("cliff.partitions.20.count", OURS, 2.0), record("cliff.merge.3.merge", OURS, 1.0)]
    assert merged(former, new) == [*new, former[1]]


def test_a_cliff_is_compared_with_flat_files_and_with_its_smallest_size() -> None:
    records = [
        record(f"cliff.deltas.{size}.sum", system, cpu)
        for size, system, cpu in (
            (100, FLAT, 1.0),
            (100, OURS, 1.5),
            (1_000, FLAT, 4.0),
            (1_000, OURS, 15.0),
        )
    ]
    cases, growth = cliff_grids(pairs(records))
    assert cases.title == "Many deltas"
    assert [row[:4] for row in cases.rows] == [
        ("100 deltas: one column", "1.50", "1.50", "1.00"),
        ("1,000 deltas: one column", "3.75", "15.0", "4.00"),
    ]
    assert growth.rows == (("1,000 deltas: one column", "100", "10.00", "15.0 / 1.50"),)


def test_the_cliffs_replace_the_text_between_their_own_markers() -> None:
    text = f"before\n{CLIFFS_BEGIN}\nold\n{CLIFFS_END}\nafter\n"
    found = pairs([record("cliff.deltas.100.sum", OURS, 1.0)])
    written = cliff_page(text, found, SETTING)
    assert "100 deltas: one column" in written
    assert "old" not in written
    assert cliff_page(written, found, SETTING) == written
