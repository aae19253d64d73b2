from __future__ import annotations

import pickle

import pytest

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, TxnId, WriteId
from airflow_hiveacid.format.snapshot import (
    CompactorWriteIdList,
    RangeVisibility,
    Snapshot,
    ValidTxnList,
    ValidWriteIdList,
)
from airflow_hiveacid.format.table import TableRef
from tests.unit.format.listings import MAX, ids, txns

T = TableRef("db", "t")


def w(*values: int) -> tuple[WriteId, ...]:
    return tuple(map(WriteId, values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"db.t:5:{MAX}::", ValidWriteIdList(table=T, high_watermark=WriteId(5))),
        ("db.t:100:4:4:", ValidWriteIdList(table=T, high_watermark=WriteId(100), open=w(4))),
        (
            f"db.t:27:{MAX}::24,25",
            ValidWriteIdList(table=T, high_watermark=WriteId(27), aborted=w(24, 25)),
        ),
        (
            "null:9:3:3,5:4",
            ValidWriteIdList(table=None, high_watermark=WriteId(9), open=w(3, 5), aborted=w(4)),
        ),
    ],
)
def test_write_id_lists_are_parsed_and_formatted_unchanged(
    text: str, expected: ValidWriteIdList
) -> None:
    assert ValidWriteIdList.parse(text) == expected
    assert expected.text() == text


def test_trailing_empty_fields_of_a_write_id_list_may_be_missing() -> None:
    assert ValidWriteIdList.parse(f"db.t:5:{MAX}") == ValidWriteIdList.parse(f"db.t:5:{MAX}::")
    assert ValidWriteIdList.parse("db.t:5:4:4") == ValidWriteIdList.parse("db.t:5:4:4:")


def test_an_empty_list_makes_every_id_visible() -> None:
    assert ValidWriteIdList.parse("").is_visible(WriteId(LONG_MAX))
    assert ValidTxnList.parse(" ").is_visible(TxnId(LONG_MAX))


def test_a_minimum_below_the_open_write_ids_is_kept() -> None:
    assert ids("9:2::").min_open_write_id == 2
    assert not ids("9:2::").is_valid_base(WriteId(2))


def test_a_minimum_above_the_open_write_ids_is_lowered() -> None:
    assert ids("9:MAX:3:").min_open_write_id == 3


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "db.t:5",
        "t:5:6::",
        "db.t:x:6::",
        "db.t:-5:6::",
        "db.t:5:6:a:",
        "db.t:5:6:4-:",
        "db.t:9:6:6-4:",
        "db.t:9:6:1-99999999999:",
        "db.t:5:6:::",
        "db.t:5:4:4:4",
        f"db.t:{LONG_MAX + 1}:6::",
        "db.t:\u0665:6::",
    ],
)
def test_malformed_write_id_lists_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        ValidWriteIdList.parse(text)


@pytest.mark.parametrize("text", ["5", "5:x", "5:6:7:8:9", "a:6"])
def test_malformed_transaction_lists_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        ValidTxnList.parse(text)


def test_ranges_in_a_transaction_list_are_expanded() -> None:
    parsed = ValidTxnList.parse("30:3:3-5,9:10-12,20")
    assert parsed.open == (3, 4, 5, 9)
    assert parsed.aborted == (10, 11, 12, 20)
    assert parsed.text() == "30:3:3,4,5,9:10,11,12,20"


def test_transactions_up_to_the_watermark_are_visible_unless_open_or_aborted() -> None:
    parsed = txns("10:4:4:6")
    assert [i for i in range(1, 13) if parsed.is_visible(TxnId(i))] == [1, 2, 3, 5, 7, 8, 9, 10]
    assert parsed.is_aborted(TxnId(6))
    assert not parsed.is_aborted(TxnId(4))
    assert parsed.min_open == 4


def test_write_ids_are_sorted_and_duplicates_are_removed() -> None:
    messy = ValidWriteIdList(table=T, high_watermark=WriteId(9), open=w(7, 3, 7), aborted=w(5, 4))
    assert (messy.open, messy.aborted) == ((3, 7), (4, 5))
    assert messy.min_open_write_id == 3


def test_a_write_id_cannot_be_open_and_aborted() -> None:
    with pytest.raises(InvalidNameError, match="open and aborted"):
        ids("9:3:3:3")


def test_exceptions_above_the_high_watermark_do_not_count_within_a_range() -> None:
    """Hive answers ALL, because its lowest exception is higher still."""
    assert ids("3:9:9:").range_visibility(WriteId(2), WriteId(4)) is RangeVisibility.SOME
    assert ids("3:9:9:").range_visibility(WriteId(4), WriteId(5)) is RangeVisibility.NONE
    assert ids("3:MAX::5").range_aborted(WriteId(5), WriteId(5)) is RangeVisibility.NONE


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1, 9, 4), (4, 4, 4), (5, 9, 7), (5, 6, None), (8, 9, None)]
)
def test_the_lowest_open_write_id_of_a_range_is_found(
    low: int, high: int, expected: int | None
) -> None:
    assert ids("9:4:4,7:").lowest_open(WriteId(low), WriteId(high)) == expected


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("5:MAX::", "5:MAX::", False),
        ("6:MAX::", "5:MAX::", True),  # above the other's watermark
        ("6:MAX::6", "5:MAX::", False),
        ("6:6:6:", "5:MAX::", False),
        ("5:MAX::", "6:MAX::", False),
        ("5:MAX::", "5:3:3:", True),  # what was open
        ("5:3:3:", "5:MAX::", False),
        ("5:MAX::3", "5:3:3:", False),
        ("4:MAX::", "9:5:5,7:", False),  # open above what is listed
        ("7:MAX::", "4:MAX::5", True),
    ],
)
def test_two_lists_are_compared_for_write_ids_that_only_the_first_shows(
    text: str, other: str, *, expected: bool
) -> None:
    one, two = ids(text), ids(other)
    assert one.shows_more_than(two) is expected
    shown = {i for i in range(1, 12) if one.is_visible(WriteId(i))}
    known = {i for i in range(1, 12) if two.is_visible(WriteId(i)) or two.is_aborted(WriteId(i))}
    assert bool(shown - known) is expected


def test_the_own_write_is_not_the_lowest_open_write_id() -> None:
    own = ids("9:4:4,7:").with_own(WriteId(4))
    assert own.open == (7,)
    assert own.min_open_write_id == 7
    assert ids("9:4:4:").with_own(WriteId(4)).min_open_write_id is None


def test_a_lower_minimum_is_kept_with_an_own_write() -> None:
    assert ids("9:2:5:").with_own(WriteId(5)).min_open_write_id == 2


def test_a_snapshot_for_compaction_is_limited_only_once() -> None:
    cut = Snapshot(txn_id=None, txns=txns("9:MAX::"), tables={T: ids("5:4:4:")}).for_compactor()
    assert cut.write_ids(T).high_watermark == 3
    assert cut.for_compactor().write_ids(T) is cut.write_ids(T)


def test_a_snapshot_raises_an_error_for_a_table_that_it_does_not_cover() -> None:
    snapshot = Snapshot(txn_id=TxnId(3), txns=txns("9:MAX::"), tables={T: ids("5:MAX::")})
    assert snapshot.write_ids(T).high_watermark == 5
    with pytest.raises(InvalidNameError, match=r"db\.u.*covers db\.t"):
        snapshot.write_ids(TableRef("db", "u"))


def test_a_pickled_snapshot_is_equal_to_the_original() -> None:
    snapshot = Snapshot(
        txn_id=None,
        txns=txns("9:4:4:2"),
        tables={T: ids("5:MAX::"), TableRef("db", "u"): CompactorWriteIdList.of(ids("5:3:3:1"))},
    )
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot  # noqa: S301


def test_very_long_numbers_and_very_large_ranges_are_refused() -> None:
    for text in ("7" * 5000, f"9:{'7' * 5000}", "9:1:1-4000000,5000000-9000000", "9:1:1-4000001"):
        with pytest.raises(InvalidNameError):
            ValidTxnList.parse(text if ":" in text else f"{text}:1::")
