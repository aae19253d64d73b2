from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format.errors import VersionDoubtfulError, VersionGoneError
from airflow_hiveacid.format.ids import CONVERTED_WRITE_ID, WriteId
from airflow_hiveacid.format.names import COMPACTED_FORMAT, METADATA_FILE
from airflow_hiveacid.format.records import Promises
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.storage.stores.listing import metadata_text
from airflow_hiveacid.versions.history import ANOTHER_CLIENT, history_of
from tests.unit.versions.conftest import Bench

D1, D2, D3 = (f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3))


@pytest.mark.promise("V1")
def test_a_history_shows_job_operation_time_and_readability_of_each_version(bench: Bench) -> None:
    bench.we_write(job_key="dag/run/load/-1")
    bench.clock.advance(100)
    bench.somebody_writes()
    bench.clock.advance(100)
    bench.we_write(overwrites=True)
    bench.begin()
    found = history_of(bench.client, bench.table)
    assert [v.number for v in found.versions] == [3, 2, 1]
    third, second, first = found.versions
    assert (first.by, first.operation, first.inserted) == ("dag/run/load/-1", "insert", 3)
    assert (second.by, second.operation, second.inserted) == (ANOTHER_CLIENT, "insert", None)
    assert (third.by, third.operation, third.size_bytes) == ("dag/run/task/-1", "overwrite", 1)
    assert [v.is_readable for v in found.versions] == [True, False, False]
    assert found.oldest == 3
    start = bench.client.server.now_s() - 200
    assert first.committed.by_s == pytest.approx(start, abs=0.01)
    assert first.committed.after_s == pytest.approx(start, abs=0.01)
    assert second.committed.after_s == pytest.approx(start, abs=0.01)
    assert second.committed.by_s == pytest.approx(start + 200, abs=0.01)
    assert [v.number for v in history_of(bench.client, bench.table, most=1).versions] == [3]


def test_a_timestamp_between_two_possible_versions_is_refused_and_both_are_named(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.clock.advance(100)
    middle = bench.client.server.now_s()
    bench.somebody_writes()
    bench.clock.advance(100)
    bench.we_write()

    def at(seconds: float) -> list[str]:
        return bench.names(timestamp=datetime.fromtimestamp(seconds, UTC))

    bench.clock.advance(1)
    assert at(middle + 100.5) == [D1, D2, "delta_0000003_0000003_0000"]
    with pytest.raises(VersionDoubtfulError, match="version 1, which excludes them, or version 2"):
        at(middle + 50)


def test_notes_of_a_table_with_a_different_id_are_ignored(bench: Bench) -> None:
    bench.we_write()
    bench.keep()
    other = type(bench.notes)(location=bench.table.location, table_id="77.1")
    assert other.commits() == ()
    assert other.promises() == Promises()


def told(bench: Bench) -> dict[int, bool]:
    """Which versions the history calls readable; a reader finds the same of each."""
    flags = bench.readable()
    for number, is_readable in flags.items():
        try:
            bench.names(version=number)
        except VersionGoneError:
            assert not is_readable
        else:
            assert is_readable
    return flags


def test_a_history_reports_versions_within_a_compacted_delta_as_unreadable(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(kind=TransactionalKind.INSERT_ONLY)
    for _ in range(4):
        bench.somebody_writes()
    for number in range(1, 5):
        shutil.rmtree(bench.root / f"delta_{number:07d}_{number:07d}_0000")
    bench.put("delta_0000001_0000004")  # merged, and nothing tells which rows came when
    bench.somebody_writes()
    assert told(bench) == {1: False, 2: False, 3: False, 4: True, 5: True}


def test_the_history_of_a_converted_table_omits_the_write_ids_that_hive_skipped(
    bench: Bench,
) -> None:
    bench.client.server.next_write_id[bench.ref] = WriteId(CONVERTED_WRITE_ID + 1)
    bench.we_write()
    bench.somebody_writes()
    last = CONVERTED_WRITE_ID + 2
    found = history_of(bench.client, bench.table)
    assert [v.number for v in found.versions] == [last, last - 1, CONVERTED_WRITE_ID]


def test_the_history_of_a_table_with_ten_million_writes_begins_with_its_first(
    bench: Bench,
) -> None:
    bench.client.server.next_write_id[bench.ref] = WriteId(CONVERTED_WRITE_ID - 2)
    for _ in range(4):
        bench.somebody_writes()
    found = history_of(bench.client, bench.table, most=6)
    last = CONVERTED_WRITE_ID + 1
    assert [v.number for v in found.versions] == [*range(last, last - 6, -1)]


def test_a_history_reports_only_versions_with_lost_files_as_unreadable(bench: Bench) -> None:
    for _ in range(3):
        bench.somebody_writes()
    bench.keep()
    shutil.rmtree(bench.root / D2)
    bench.keep_no_more()
    bench.somebody_writes()
    assert told(bench) == {1: True, 2: False, 3: False, 4: True}


def test_a_history_reports_versions_with_a_dropped_partition_as_unreadable(halves: Bench) -> None:
    for partition in ("p=1", "p=2", "p=1"):
        halves.we_write(partition=partition)
    assert told(halves) == {1: True, 2: True, 3: True}
    halves.drop("p=2")
    assert told(halves) == {1: True, 2: False, 3: False}
    halves.refuses(2, 3, match="partition p=2 was dropped")
    halves.clean()
    halves.we_write(partition="p=1")
    assert told(halves) == {1: True, 2: False, 3: False, 4: True}
    assert halves.names(version=4) == [D1, D3, "delta_0000004_0000004_0000"]


@pytest.mark.parametrize("kind", [TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY])
def test_the_newest_version_is_one_that_a_base_named_by_an_aborted_write_leaves_readable(
    make_bench: Callable[..., Bench], kind: TransactionalKind
) -> None:
    """Hive 4's query compactor names its base by the high watermark."""
    bench = make_bench(kind=kind)

    def ends() -> tuple[int, int]:
        found = history_of(bench.client, bench.table)
        return found.oldest, found.newest

    def abort() -> None:
        txn = bench.client.open_txn()
        bench.client.allocate_write_id(txn, bench.ref)
        bench.client.abort_txn(txn)

    abort()
    assert ends()[1] == 0  # nothing has committed
    bench.we_write()
    bench.we_write()
    abort()
    assert ends() == (1, 3)
    bench.put("base_0000004")
    (bench.root / "base_0000004" / METADATA_FILE).write_bytes(metadata_text(COMPACTED_FORMAT))
    bench.clean()
    bench.refuses(3)
    assert bench.names(version=4) == ["base_0000004"]
    assert ends() == (4, 4)
