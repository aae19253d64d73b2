"""Which directories a range of changes is read from; what rows say of it is tried elsewhere."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format import change_range
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import ChangesGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import Guarantee, as_of_set
from tests.unit.format.listings import MAX, listing

FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY


def ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"db.t:{text}")


def segments(
    text: str,
    since: int,
    until: int,
    *,
    high: int = 9,
    kept: int | None = None,
    compacted: tuple[str, ...] = (),
    kind: TransactionalKind = FULL,
) -> tuple[change_range.ChangeSegment, ...]:
    now = ids(f"{high}:{MAX}::")
    part = change_range.ChangeRange(
        since=change_range.up_to(now, WriteId(since)), until=change_range.up_to(now, WriteId(until))
    )
    promise = None if kept is None else Guarantee(floor=WriteId(kept))
    found = listing(text, compacted=compacted)
    return change_range.segments_of(found, now, part, txns=None, kind=kind, kept=promise)


def shown(found: tuple[change_range.ChangeSegment, ...]) -> list[tuple[list[str], int | None]]:
    return [(sorted(s.fresh), s.ends_with) for s in found]


def test_changes_after_the_live_base_are_read_from_the_deltas_above_it() -> None:
    text = "base_3 delta_2_2_0 delta_4_4_0 delete_delta_5_5_0 delta_6_8 delta_9_9_0"
    assert shown(segments(text, 3, 7, compacted=("base_3",))) == [
        (["delete_delta_5_5_0", "delta_4_4_0", "delta_6_8"], None)
    ]
    assert segments(text, 9, 9, compacted=("base_3",)) == ()
    with pytest.raises(ChangesGoneError) as refused:
        segments(text, 2, 7, compacted=("base_3",))
    assert refused.value.oldest == 3


def test_a_root_without_changes_in_the_range_is_not_read() -> None:
    assert segments("base_3", 3, 9, compacted=("base_3",)) == ()
    assert segments("base_3", 5, 7, compacted=("base_3",)) == ()


def test_a_kept_range_is_split_into_segments_at_each_overwrite() -> None:
    text = "delta_1_1_0 delta_2_2_0 base_3 delta_4_4_0 base_5 delta_6_6_0"
    assert shown(segments(text, 1, 6, kept=0)) == [
        (["delta_2_2_0"], 3),
        (["base_3", "delta_4_4_0"], 5),
        (["base_5", "delta_6_6_0"], None),
    ]
    assert [s.part.until.high_watermark for s in segments(text, 1, 6, kept=0)] == [2, 4, 6]
    assert shown(segments(text, 1, 4, kept=0)) == [
        (["delta_2_2_0"], 3),
        (["base_3", "delta_4_4_0"], None),
    ]
    for kept in (None, 2):
        with pytest.raises(ChangesGoneError):
            segments(text, 1, 6, kept=kept)


def test_a_compacted_base_inside_a_kept_range_is_ignored() -> None:
    text = "delta_1_1_0 delta_2_2_0 delta_3_3_0 base_3 delta_4_4_0"
    (found,) = segments(text, 1, 4, kept=1, compacted=("base_3",))
    assert found.state.base is None
    assert sorted(found.fresh) == ["delta_2_2_0", "delta_3_3_0", "delta_4_4_0"]
    text = "delta_1_1_0 base_2 delta_3_3_0 base_3 delta_4_4_0"
    assert shown(segments(text, 1, 4, kept=1, compacted=("base_3",))) == [
        ([], 2),
        (["base_2", "delta_3_3_0", "delta_4_4_0"], None),
    ]


def test_a_range_with_an_excluded_write_below_the_base_is_refused_without_older_files() -> None:
    # Version 2 was committed after 3 to 6; the ends of the range are moments before that.
    now = ids(f"6:{MAX}::")
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
    now = ids(f"6:{MAX}::")
    since = as_of_set(now, {WriteId(4)})
    part = change_range.ChangeRange(since=since, until=now)
    found = listing("delta_3_3_0 base_4 delta_5_5_0 delta_6_6_0")
    with pytest.raises(ChangesGoneError, match="after a later write"):
        change_range.segments_of(
            found, now, part, txns=None, kind=FULL, kept=Guarantee(floor=WriteId(0))
        )


def test_a_compacted_delta_of_an_insert_only_table_does_not_show_single_writes() -> None:
    apart = "delta_1_1_0 delta_2_2_0 delta_3_3_0"
    assert shown(segments(apart, 1, 3, kind=INSERT_ONLY)) == [
        (["delta_2_2_0", "delta_3_3_0"], None)
    ]
    merged = f"{apart} delta_1_3 delta_4_4_0"
    assert shown(segments(merged, 3, 4, kind=INSERT_ONLY)) == [(["delta_4_4_0"], None)]
    with pytest.raises(ChangesGoneError) as refused:
        segments(merged, 1, 4, kind=INSERT_ONLY)
    assert refused.value.oldest == 3
    assert shown(segments(merged, 1, 4, kind=INSERT_ONLY, kept=0)) == [
        (["delta_2_2_0", "delta_3_3_0", "delta_4_4_0"], None)
    ]
    # It was written so: nothing else says which row is whose.
    with pytest.raises(ChangesGoneError):
        segments("delta_1_3 delta_4_4_0", 1, 4, kind=INSERT_ONLY, kept=0)


@pytest.mark.parametrize("since", [0, 1])
def test_a_compacted_delta_with_writes_outside_the_range_is_never_used(since: int) -> None:
    merged = "delta_1_1_0 delta_2_2_0 delta_3_3_0 delta_4_4_0 delta_2_4"
    fresh = [f"delta_{w}_{w}_0" for w in range(since + 1, 3)]
    assert shown(segments(merged, since, 2, kind=INSERT_ONLY, kept=0)) == [(fresh, None)]
    with pytest.raises(ChangesGoneError):
        segments("delta_1_1_0 delta_2_4", since, 2, kind=INSERT_ONLY, kept=0)


def test_the_oldest_start_of_a_range_is_the_live_base_or_the_kept_version() -> None:
    now = ids(f"9:{MAX}::")
    found = listing("delta_1_1_0 base_3 delta_4_6")
    assert change_range.oldest_since(found, now, None, FULL) == 3
    assert change_range.oldest_since(found, now, None, INSERT_ONLY) == 6
    assert change_range.oldest_since(found, now, None, FULL, Guarantee(floor=WriteId(1))) == 1
    lost = Guarantee(floor=WriteId(1), evidence=frozenset({"delta_2_2_0"}))
    assert change_range.oldest_since(found, now, None, FULL, lost) == 3
    assert change_range.oldest_since(listing("base_-9223372036854775808"), now, None, FULL) == 0


def test_only_versions_below_the_lowest_open_write_are_settled() -> None:
    assert change_range.settled(ids(f"9:{MAX}::")) == 9
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
    now = ids(f"9:{MAX}::")
    part = change_range.ChangeRange(since=change_range.up_to(now, WriteId(4)), until=now)
    found = resolve(listing(text, compacted=compacted), now, None)
    assert change_range.is_news(found, part) is is_new


@pytest.mark.parametrize(("since", "is_new"), [(7, True), (8, False)])
def test_a_base_named_after_an_aborted_write_may_contain_new_data(since: int, is_new: bool) -> None:
    now = ids(f"9:{MAX}::9")
    part = change_range.ChangeRange(since=change_range.up_to(now, WriteId(since)), until=now)
    found = resolve(listing("base_9", compacted=("base_9",)), now, None)
    assert change_range.is_news(found, part) is is_new
