"""Lists of IDs against a model that knows the fate of every single one."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given, strategies as st

from airflow_hiveacid.format import snapshot
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef


class Fate(enum.Enum):
    COMMITTED = "committed"
    OPEN = "open"
    ABORTED = "aborted"


fates = st.lists(st.sampled_from(Fate), max_size=12)
HORIZON = 16


def having(model: list[Fate], fate: Fate) -> list[int]:
    return [i for i, f in enumerate(model, 1) if f is fate]


def text_of(model: list[Fate]) -> str:
    """The text a metastore prints that has given out len(model) IDs."""
    opened, aborted = having(model, Fate.OPEN), having(model, Fate.ABORTED)
    minimum = min(opened, default=(1 << 63) - 1)
    fields = (",".join(map(str, opened)), ",".join(map(str, aborted)))
    return f"{len(model)}:{minimum}:{fields[0]}:{fields[1]}"


def list_of(model: list[Fate]) -> snapshot.ValidWriteIdList:
    return snapshot.ValidWriteIdList.parse(f"db.t:{text_of(model)}")


def answer(flags: list[bool]) -> snapshot.RangeVisibility:
    if not any(flags):
        return snapshot.RangeVisibility.NONE
    return snapshot.RangeVisibility.ALL if all(flags) else snapshot.RangeVisibility.SOME


def each_range() -> list[tuple[WriteId, WriteId]]:
    return [(WriteId(a), WriteId(b)) for a in range(1, HORIZON) for b in range(a, HORIZON)]


@pytest.mark.promise("T4")
@given(fates)
def test_exactly_the_committed_ids_are_visible(model: list[Fate]) -> None:
    write_ids, txns = list_of(model), snapshot.ValidTxnList.parse(text_of(model))
    committed = having(model, Fate.COMMITTED)
    everything = range(1, HORIZON)
    assert [i for i in everything if write_ids.is_visible(WriteId(i))] == committed
    assert [i for i in everything if txns.is_visible(TxnId(i))] == committed
    assert [i for i in everything if write_ids.is_aborted(WriteId(i))] == having(
        model, Fate.ABORTED
    )


@given(fates)
def test_the_visibility_of_a_range_agrees_with_each_of_its_ids(model: list[Fate]) -> None:
    write_ids = list_of(model)
    for low, high in each_range():
        inside = [WriteId(i) for i in range(low, high + 1)]
        visible = [write_ids.is_visible(i) for i in inside]
        assert write_ids.range_visibility(low, high) is answer(visible)
        aborted = [write_ids.is_aborted(i) for i in inside]
        assert write_ids.range_aborted(low, high) is answer(aborted)
        resolved = high <= len(model) and Fate.OPEN not in model[low - 1 : high]
        assert write_ids.is_resolved(low, high) is resolved


@given(fates)
def test_a_base_is_valid_only_if_no_write_id_up_to_its_own_is_open(model: list[Fate]) -> None:
    write_ids = list_of(model)
    valid = [i for i in range(1, HORIZON) if write_ids.is_valid_base(WriteId(i))]
    assert valid == [i for i in range(1, len(model) + 1) if Fate.OPEN not in model[:i]]


@given(fates)
def test_a_compaction_sees_only_write_ids_below_the_lowest_open_one(model: list[Fate]) -> None:
    cut = snapshot.CompactorWriteIdList.of(list_of(model))
    prefix = model[: model.index(Fate.OPEN)] if Fate.OPEN in model else model
    assert cut.high_watermark == len(prefix)
    assert cut.table == TableRef("db", "t")
    for low, high in each_range():
        inside = prefix[low - 1 : high]
        expected = answer([f is Fate.COMMITTED for f in inside])
        if high > len(prefix):
            expected = snapshot.RangeVisibility.NONE
        elif expected is snapshot.RangeVisibility.NONE:
            expected = snapshot.RangeVisibility.SOME  # its rows are there to be dropped
        assert cut.range_visibility(low, high) is expected


@given(fates, st.integers(1, HORIZON))
def test_with_own_makes_only_our_own_write_id_visible(model: list[Fate], own: int) -> None:
    before = list_of(model)
    after = before.with_own(WriteId(own))
    for i in range(1, HORIZON + 1):
        w = WriteId(i)
        assert after.is_visible(w) == (before.is_visible(w) or i == own)
        assert after.is_valid_base(w) >= before.is_valid_base(w)
    assert snapshot.ValidWriteIdList.parse(after.text()) == after
