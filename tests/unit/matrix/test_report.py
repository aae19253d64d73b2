"""Both pages are made of what was seen, and nothing seen is left without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.matrix.explanations import explanation, is_explained
from tests.proofs.matrix.kinds import (
    HIVE_3,
    HIVE_3_READER,
    HIVE_4,
    KINDS,
    NATIVE,
    OURS,
    READERS,
    TRINO,
    WRITERS,
)
from tests.proofs.matrix.records import Answers, Life, Record, Taken, Wrong, read, write
from tests.proofs.matrix.report import MARK, PAGE, SUPPORT, page_lines, support_lines
from tests.support.documents import between

PLAIN = KINDS[0].name
BUCKETS = KINDS[2].name
FIRST_HASH = KINDS[4].name


def life(writer: str = OURS, kind: str = PLAIN, **answers: Answers) -> Life:
    found = {reader: answers.get(reader[:4], Answers(right=2)) for reader in READERS}
    taken = [Taken(step=step, asked=writer, done_by=writer) for step in ("INSERT", "DELETE")]
    return Life(kind=kind, writer=writer, answers=found, taken=taken)


def test_both_pages_match_the_record() -> None:
    record = read()
    assert between(SUPPORT.read_text(), MARK) == "\n".join(support_lines(record))
    assert between(PAGE.read_text(), MARK) == "\n".join(page_lines(record))


def test_the_page_has_a_line_for_every_kind_and_engine_even_without_a_run() -> None:
    page = [*page_lines(Record(lives=(life(),)))]
    table = [line for line in page if line.startswith("| ")]
    assert len(table) == 2 + len(KINDS) * len(WRITERS)
    assert sum("no run had it yet" in line for line in page) == 1
    assert "2 of 2" in table[2]
    assert "2 of 2" not in table[3]


def test_our_readers_returned_the_right_rows_after_every_recorded_step() -> None:
    led = [one for one in read().lives if one.not_led is None]
    for one in led:
        asked = [n for n in READERS if n.startswith(OURS) and not one.answers[n].unread]
        assert {one.answers[name].right for name in asked} == {len(one.taken)}, one


def test_every_wrong_result_in_the_record_has_an_explanation() -> None:
    assert [(one.kind, one.writer) for one in read().lives if not is_explained(one)] == []
    assert "Not explained" not in PAGE.read_text()


def test_a_record_is_read_back_unchanged(tmp_path: Path) -> None:
    wrong = [Wrong(step="DELETE", text="3 of 2 rows", has_more=True)]
    broken = life(
        TRINO, Trin=Answers(right=1, wrong=wrong), Hive=Answers(unread={"no": ["INSERT"]})
    )
    broken.taken[1] = Taken(step="DELETE", asked=TRINO, done_by=OURS, failures={TRINO: "é"})
    ended = life(TRINO)
    ended.misplaced.append(Wrong(step="INSERT", text="2 rows"))
    ended.ended = Taken(step="MERGE", asked=TRINO, done_by=TRINO, failures={TRINO: "x"})
    record = Record(versions=("a", "b"), lives=(life(), broken, ended))
    write(record, tmp_path / "record.json")
    assert read(tmp_path / "record.json") == record


def test_a_new_run_replaces_the_old_run_in_the_order_of_the_page() -> None:
    record = Record()
    for one in (life(HIVE_4, BUCKETS), life(TRINO), life(OURS), life(kind="no more")):
        record = record.with_life(one)
    again = life(TRINO, Trin=Answers(right=1))
    record = record.with_life(again)
    assert [(one.kind, one.writer) for one in record.lives] == [
        (PLAIN, OURS),
        (PLAIN, TRINO),
        (BUCKETS, HIVE_4),
    ]
    assert record.lives[1] == again


def test_kinds_with_the_same_results_share_a_line_in_support_md() -> None:
    lives = [life(writer, kind) for kind in (PLAIN, BUCKETS) for writer in (OURS, HIVE_4, TRINO)]
    *_, line = support_lines(Record(lives=tuple(lives)))
    engines = f"{HIVE_4}, {HIVE_3}, {TRINO}"
    assert line == f"| full ACID: plain; one bucket | {engines} | {HIVE_4}, {TRINO} |"


def test_a_kind_that_we_do_not_write_is_marked_in_support_md() -> None:
    one = life()
    one.taken = [Taken(step=old.step, asked=OURS, done_by=HIVE_4) for old in one.taken]
    *_, line = support_lines(Record(lives=(one,)))
    assert line == "| full ACID: plain | (not written here) | - |"


def test_support_md_shows_how_often_a_reader_was_right() -> None:
    wrong = [Wrong(step="DELETE", text="it lacks one", lacks=True)]
    ours = life(Trin=Answers(right=1, wrong=wrong))
    hives = life(HIVE_4, ours=Answers(right=1, wrong=wrong))
    *_, line = support_lines(Record(lives=(ours, hives)))
    assert line == f"| full ACID: plain | {HIVE_4}, {HIVE_3}, {TRINO} (1 of 2) | - |"


def test_reappearing_rows_are_explained_by_the_engine_that_deleted_them() -> None:
    seen = Wrong(step="DELETE", text="3 of 2 rows", has_more=True)
    assert explanation(TRINO, life(HIVE_4), seen) is not None
    assert explanation(HIVE_3_READER, life(HIVE_4), seen) is not None
    for reader in (NATIVE, HIVE_4):
        assert explanation(reader, life(HIVE_4), seen) is None
    for reader in READERS:
        assert explanation(reader, life(OURS), seen) is None


@pytest.mark.parametrize(
    ("writer", "step", "explained"),
    [
        (HIVE_4, "minor compaction", False),
        (HIVE_4, "major compaction", False),
        (TRINO, "minor compaction", True),
        (TRINO, "major compaction", False),
    ],
)
def test_after_a_compaction_reappearing_rows_are_explained_only_for_trinos_deletes(
    writer: str, step: str, *, explained: bool
) -> None:
    one = life(writer)
    one.taken.append(Taken(step=step, asked=HIVE_4, done_by=HIVE_4))
    seen = Wrong(step=step, text="3 of 2 rows", has_more=True)
    assert (explanation(TRINO, one, seen) is not None) == explained


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("full ACID, with files of LOAD DATA", "ORC ACID file should have 6 columns, found 10"),
        ("full ACID, converted from directories of UNION ALL", "location in OriginalFile 'x' no"),
    ],
)
def test_unreadable_files_are_explained_only_for_trino_and_those_kinds_of_tables(
    kind: str, text: str
) -> None:
    failed = Wrong(step="INSERT", text=text)
    assert explanation(TRINO, life(OURS, kind), failed) is not None
    assert explanation(TRINO, life(OURS, PLAIN), failed) is None
    assert explanation(TRINO, life(OURS, kind), Wrong(step="INSERT", text="boom")) is None
    assert explanation(HIVE_4, life(OURS, kind), failed) is None


def test_misplaced_rows_are_explained_only_for_hive_3_with_the_second_hash() -> None:
    wrong = Wrong(step="INSERT", text="2 rows lie in another bucket than their hash says")
    for writer, kind, explained in (
        (HIVE_3, BUCKETS, True),
        (HIVE_3, FIRST_HASH, False),
        *((other, BUCKETS, False) for other in (OURS, HIVE_4, TRINO)),
    ):
        one = life(writer, kind)
        one.misplaced.append(wrong)
        assert is_explained(one) == explained
        seen = Wrong(step="INSERT", text="is for bucket 0, but contains a row for bucket 1")
        assert (explanation(TRINO, one, seen) is not None) == explained


def test_the_failure_of_hive_3_after_a_truncate_by_hive_4_is_explained() -> None:
    failed = Wrong(step="emptied", text="Unexpected value for dataFormat: truncated")
    assert explanation(HIVE_3_READER, life(HIVE_4), failed) is not None
    assert explanation(NATIVE, life(HIVE_4), failed) is None


@pytest.mark.parametrize("reader", READERS)
def test_missing_rows_are_never_explained_by_deletes(reader: str) -> None:
    seen = Wrong(step="DELETE", text="1 of 2 rows", lacks=True, has_more=True)
    for writer in (OURS, HIVE_4, TRINO):
        assert explanation(reader, life(writer), seen) is None


def test_an_unknown_failure_leaves_a_run_unexplained() -> None:
    one = life(TRINO)
    assert is_explained(one)
    one.taken[1] = Taken(step="DELETE", asked=TRINO, done_by=OURS, failures={TRINO: "boom"})
    assert not is_explained(one)
    one.ended = one.taken.pop()
    assert not is_explained(one)
    one.ended = None
    assert is_explained(one)
    one.broke_off = "DELETE by Trino"
    assert not is_explained(one)
