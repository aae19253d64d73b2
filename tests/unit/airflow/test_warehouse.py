from __future__ import annotations

from random import Random

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TableRef
from tests.proofs.airflow.warehouse.readers import Reading, is_about_a_manifest
from tests.proofs.airflow.warehouse.tables import BASE_ROWS, NOTE_CHARS, Change, Route, Sums, Table
from tests.proofs.airflow.warehouse.watching import Measured, Round, rounds_above


def made() -> Table:
    info = TableInfo(ref=TableRef("sales", "t"), location="file:/t", columns=())
    table = Table(info=info, partitions=(), route=Route.FILES, threshold=10)
    for write_id, change in enumerate((Change(inserted={1: 10, 2: 20}), Change(deleted=[2])), 1):
        table.record(change, WriteId(write_id))
    return table


def reading(sums: Sums, *, high: int | None, before: int = 1, after: int = 1) -> Reading:
    table = made()
    seen = high and ValidWriteIdList(table=table.info.ref, high_watermark=WriteId(high))
    return Reading(
        reader="r",
        table=table,
        sums=sums,
        before=before,
        after=after,
        began_s=0.0,
        ended_s=1.0,
        write_ids=seen or None,
    )


FIRST = Sums(rows=2, ids=3, values=30, products=50, note_chars=2 * NOTE_CHARS)
SECOND = Sums(rows=1, ids=1, values=10, products=10, note_chars=NOTE_CHARS)


def test_a_reading_under_a_known_snapshot_must_show_exactly_its_writes() -> None:
    assert reading(FIRST, high=1).violation == ""
    assert reading(SECOND, high=2).violation == ""
    assert "not as" in reading(SECOND, high=1).violation
    assert "not as" in reading(FIRST, high=2).violation


def test_a_reading_without_snapshot_may_show_a_write_that_was_recorded_meanwhile() -> None:
    assert reading(FIRST, high=None).violation == ""
    assert reading(SECOND, high=None).violation == ""
    assert "not as" in reading(FIRST, high=None, before=2, after=2).violation


def test_the_sums_follow_all_kinds_of_changes() -> None:
    table, random = made(), Random(1)
    table.next_id = BASE_ROWS
    table.recent.extend(range(1, 10))
    for number in range(300):
        table.record(table.draw(random), WriteId(10 + number))
    rows = table.rows
    assert table.states[-1][1] == Sums(
        rows=len(rows),
        ids=sum(rows),
        values=sum(rows.values()),
        products=sum(one * value for one, value in rows.items()),
        note_chars=NOTE_CHARS * sum(one < BASE_ROWS for one in rows),
    )


def test_rounds_count_in_a_row_if_they_left_a_due_partition_uncompacted() -> None:
    name = ("sales.t", "")
    looks = [
        Measured(at_s=60.0 * minute, deltas={name: count}, obsolete=0, notes={})
        for minute, count in enumerate((9, 10, 10, 10))
    ]
    rounds = [Round(began_s=60.0 * n + 5, ended_s=60.0 * n + 50) for n in range(4)]

    def most(*compacted_s: float) -> int:
        return rounds_above(looks, {name: 10}, rounds, {name: compacted_s})[name]

    assert most() == 3
    assert most(150.0) == 1
    assert most(100.0) == 2
    assert most(100.0, 170.5, 220.0) == 1
    assert most(100.0, 169.5, 220.0) == 0
    assert rounds_above(looks, {name: 11}, rounds, {}) == {name: 0}


def test_only_trino_may_fail_on_a_manifest_of_a_running_insert() -> None:
    text = "sales.t: Partition location in OriginalFile 'file:/t/-tmp.delta_0000002_0000002_0000'"
    assert is_about_a_manifest(f"Trino, {text}")
    assert not is_about_a_manifest(f"our reader, {text}")
    assert not is_about_a_manifest("Trino, sales.t: OriginalFile 'file:/t/delta_0000002_0000002'")
