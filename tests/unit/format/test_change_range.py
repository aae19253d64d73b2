"""Which directories a range of changes is read from; what rows say of it is tried elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid.format import change_range
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import ChangesGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import Guarantee, as_of_set
from tests.support.cases import named_cases_of
from tests.unit.format.listings import ids, listing

FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY


def segments_of(case: str) -> Iterator[str]:
    """The segments of each range of a case: new directories, base, end; or why they are gone."""
    given = dict(line.partition(" ")[::2] for line in case.splitlines())
    now = ids(given["at"])
    kept = None
    if "kept" in given:
        floor, *evidence = given["kept"].split()
        kept = Guarantee(floor=WriteId(int(floor)), evidence=frozenset(evidence))
    files = listing(given["read"], compacted=given.get("compacted", "").split())
    for text in given["ranges"].split():
        since, until = (change_range.up_to(now, WriteId(int(end))) for end in text.split("-"))
        part = change_range.ChangeRange(since=since, until=until)
        kind = TransactionalKind(given.get("kind", "full_acid"))
        try:
            found = change_range.segments_of(files, now, part, txns=None, kind=kind, kept=kept)
        except ChangesGoneError as error:
            yield f"{text}: since {error.oldest}, because {error.why}"
            continue
        yield f"{text}: {len(found)}"
        for segment in found:
            base = "" if segment.state.base is None else f" above {segment.state.base.text}"
            high, end = segment.part.until.high_watermark, segment.ends_with
            yield f"{' '.join(sorted(segment.fresh))}{base}, until {high}, ends with {end}"


@pytest.mark.parametrize(
    ("case", "expected"), named_cases_of(Path(__file__).parent / "cases" / "change_ranges.txt")
)
def test_the_segments_of_a_range_are_read_or_gone(case: str, expected: str) -> None:
    assert list(segments_of(case)) == expected.splitlines()


def test_a_range_with_an_excluded_write_below_the_base_is_refused_without_older_files() -> None:
    # Version 2 was committed after 3 to 6; the ends of the range are moments before that.
    now = ids("6:MAX::")
    since, until = (as_of_set(change_range.up_to(now, WriteId(w)), {WriteId(2)}) for w in (5, 6))
    part = change_range.ChangeRange(since=since, until=until)
    left = "base_1 delta_3_3_0 base_4 delta_5_5_0 delta_6_6_0"
    found = listing(left, compacted=("base_4",))
    with pytest.raises(ChangesGoneError):
        change_range.segments_of(found, now, part, txns=None, kind=FULL)
    # Or an overwrite: what it replaced is not there for sure, original files neither.
    since, until = (as_of_set(change_range.up_to(now, WriteId(w)), {WriteId(4)}) for w in (5, 6))
    part = change_range.ChangeRange(since=since, until=until)
    with pytest.raises(ChangesGoneError):
        change_range.segments_of(
            listing("000000_0 base_4 delta_5_5_0 delta_6_6_0"), now, part, txns=None, kind=FULL
        )


def test_an_overwrite_that_committed_after_a_later_write_is_refused() -> None:
    now = ids("6:MAX::")
    since = as_of_set(now, {WriteId(4)})
    part = change_range.ChangeRange(since=since, until=now)
    found = listing("delta_3_3_0 base_4 delta_5_5_0 delta_6_6_0")
    with pytest.raises(ChangesGoneError, match="after a later write"):
        change_range.segments_of(
            found, now, part, txns=None, kind=FULL, kept=Guarantee(floor=WriteId(0))
        )


def test_only_versions_below_the_lowest_open_write_are_settled() -> None:
    assert change_range.settled(ids("9:MAX::")) == 9
    assert change_range.settled(ids("9:4:4,7:2")) == 3
    assert change_range.settled(ids("9:2::")) == 1


@pytest.mark.parametrize(
    ("text", "compacted", "is_new"),
    [
        ("base_3 delta_5_5_0", ("base_3",), True),
        ("base_5", ("base_5",), True),
        ("base_5", (), True),
        ("base_4 delta_2_2_0", (), False),
        ("base_4", ("base_4",), False),
        ("delta_1_4", (), False),
        ("delta_1_5", (), True),
    ],
)
def test_only_a_directory_with_data_after_the_start_of_the_range_is_new(
    text: str, compacted: tuple[str, ...], is_new: bool
) -> None:
    now = ids("9:MAX::")
    part = change_range.ChangeRange(since=change_range.up_to(now, WriteId(4)), until=now)
    found = resolve(listing(text, compacted=compacted), now, None)
    assert change_range.is_news(found, part) is is_new


@pytest.mark.parametrize(("since", "is_new"), [(7, True), (8, False)])
def test_a_base_named_after_an_aborted_write_may_contain_new_data(since: int, is_new: bool) -> None:
    now = ids("9:MAX::9")
    part = change_range.ChangeRange(since=change_range.up_to(now, WriteId(since)), until=now)
    found = resolve(listing("base_9", compacted=("base_9",)), now, None)
    assert change_range.is_news(found, part) is is_new
