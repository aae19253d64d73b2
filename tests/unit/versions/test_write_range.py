"""The range between two versions: which writes, from which directories, and when it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import VersionSpec, newest_of
from airflow_hiveacid.metastore.locks import LockRequest, components_for
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.reading.snapshots import ReadSnapshot
from airflow_hiveacid.spark.reading.read_changes import ChangeQuery, _stretches
from airflow_hiveacid.spark.statements.change_feed import _writes
from airflow_hiveacid.storage.stores.listing import list_table, metadata_text
from airflow_hiveacid.versions.history import Version, WriteRange, between
from tests.contract.bench import access
from tests.unit.versions.conftest import Bench


def range_of(bench: Bench, since: Version, until: Version | None = None) -> WriteRange:
    snapshot, taken_s = snapshot_now(bench.client, [bench.ref]), server_now(bench.client)
    return between(bench.client, bench.table, snapshot, since, until, taken_s=lambda: taken_s)


def fresh(bench: Bench, since: Version, until: Version | None = None) -> list[str]:
    """The directories that hold what came and went."""
    found = range_of(bench, since, until)
    roots = bench.client.list_partitions(bench.table)
    found.check_vanished(found.vanished([info.name for info in roots]))
    return sorted(
        name
        for info in roots
        for segment in found.segments(info, list_table(info.location))
        for name in segment.fresh
    )


def delta(number: int) -> str:
    return f"delta_{number:07d}_{number:07d}_0000"


def now(bench: Bench) -> datetime:
    return datetime.fromtimestamp(server_now(bench.client) or 0.0, UTC)


def test_a_range_is_given_by_version_numbers_timestamps_or_tags(bench: Bench) -> None:
    bench.we_write()
    bench.clock.advance(10)
    moment = now(bench)
    bench.clock.advance(10)
    bench.we_write()
    bench.we_write()
    bench.clock.advance(10)
    bench.tag("second", version=2)
    assert fresh(bench, 0) == [delta(1), delta(2), delta(3)]
    assert fresh(bench, 1, 2) == [delta(2)]
    assert fresh(bench, moment) == fresh(bench, moment.isoformat()) == [delta(2), delta(3)]
    assert fresh(bench, moment, VersionSpec(tag="second")) == [delta(2)]
    assert fresh(bench, 3) == []


def test_an_invalid_range_is_refused(bench: Bench) -> None:
    bench.we_write()
    bench.clock.advance(10)
    moment = now(bench)
    bench.clock.advance(10)
    bench.we_write()
    for since, until in ((2, 1), (2, moment)):
        with pytest.raises(errors.VersionRangeError):
            range_of(bench, since, until)
    for since, until in ((9, None), (1, 9)):
        with pytest.raises(errors.VersionUnknownError):
            range_of(bench, since, until)
    with pytest.raises(errors.ConfigurationError):
        range_of(bench, "yesterday")


def test_a_range_ends_below_the_first_open_write(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()
    bench.begin()
    bench.somebody_writes()
    assert fresh(bench, 1) == [delta(2)]
    with pytest.raises(errors.VersionNotSettledError):
        range_of(bench, 1, 4)
    with pytest.raises(errors.VersionNotSettledError):
        range_of(bench, 4)


def test_an_open_version_names_the_job_that_writes_it_and_no_job_beside_it(bench: Bench) -> None:
    """Both are ours: a dead INSERT, whose lock is a reader's, and a later MERGE."""
    client = bench.client
    bench.we_write()
    writers = []
    for job, operation in (("insert", DataOperation.INSERT), ("merge", DataOperation.UPDATE)):
        txn_id = client.open_txn()
        client.allocate_write_id(txn_id, bench.ref)
        locks = components_for([], [access(bench.table, operation)], client.generation)
        client.lock(LockRequest(txn_id=txn_id, components=locks, agent_info=f"etl/{job}"))
        writers.append(txn_id)
    with pytest.raises(errors.VersionNotSettledError) as caught:
        bench.past(version=3)
    assert f"write ID 2 is still open: transaction {writers[0]} (" in str(caught.value)
    assert "job etl/insert" in caught.value.who
    assert f"`hiveacid abort {writers[0]}`" in caught.value.who
    assert "merge" not in caught.value.who


def test_a_kept_table_provides_changes_that_a_base_has_replaced(bench: Bench) -> None:
    bench.we_write()
    bench.keep()
    bench.we_write()
    bench.we_write(overwrites=True)
    assert fresh(bench, 1) == ["base_0000003", delta(2)]
    found = range_of(bench, 1)
    (info,) = bench.client.list_partitions(bench.table)
    ends = [s.ends_with for s in found.segments(info, list_table(info.location))]
    assert ends == [3, None]


def test_changes_before_a_base_are_refused_in_a_table_that_is_not_kept(bench: Bench) -> None:
    bench.we_write()
    bench.we_write(overwrites=True)
    with pytest.raises(errors.ChangesGoneError) as refused:
        fresh(bench, 1)
    assert refused.value.oldest == 2


def test_a_range_with_a_lost_delta_is_refused(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()
    shutil.rmtree(bench.root / delta(2))
    with pytest.raises(errors.ChangesGoneError, match="which version 2 wrote"):
        fresh(bench, 1)
    bench.we_write(overwrites=True)
    bench.we_write()
    assert fresh(bench, 3) == [delta(4)]


def check_held(bench: Bench, since: int, held: str) -> list[str]:
    """What a range tells whose reader knows what was there when it began."""
    found = replace(range_of(bench, since), held={"": held})
    (info,) = bench.client.list_partitions(bench.table)
    segments = found.segments(info, list_table(info.location))
    return sorted(name for segment in segments for name in segment.fresh)


def newest(bench: Bench) -> str:
    snapshot = snapshot_now(bench.client, [bench.ref])
    (info,) = bench.client.list_partitions(bench.table)
    write_ids = snapshot.write_ids(bench.ref)
    found = newest_of(resolve(list_table(info.location), write_ids, snapshot.txns))
    assert found is not None
    return found


def test_a_lost_delta_written_by_a_different_client_is_detected_only_if_recorded(
    bench: Bench,
) -> None:
    bench.somebody_writes()
    bench.somebody_writes()
    empty = bench.somebody_writes()  # of which a compaction may leave nothing
    (bench.root / delta(empty) / "bucket_00000").write_bytes(b"")
    held = newest(bench)
    assert held == delta(2)
    for name in (delta(1), delta(2), delta(empty)):  # TRUNCATE of Hive 3.1
        shutil.rmtree(bench.root / name)
    bench.somebody_writes()
    assert fresh(bench, 3) == [delta(4)], "nobody else knows"
    with pytest.raises(errors.ChangesGoneError, match=f"{delta(2)} was at"):
        check_held(bench, 3, held)


@pytest.mark.parametrize("compacted", ["delta_0000001_0000002", "base_0000002", ""])
def test_a_recorded_delta_that_exists_or_was_compacted_is_accepted(
    bench: Bench, compacted: str
) -> None:
    bench.somebody_writes()
    bench.somebody_writes()
    held = newest(bench)
    if compacted:
        bench.put(compacted)
        for name in (delta(1), delta(2)):
            shutil.rmtree(bench.root / name)
    else:
        shutil.rmtree(bench.root / delta(1))
    bench.somebody_writes()
    assert check_held(bench, 2, held) == [delta(3)]


def test_a_recorded_delta_that_was_overwritten_is_accepted(bench: Bench) -> None:
    bench.somebody_writes()
    held = newest(bench)
    shutil.rmtree(bench.root / delta(1))
    bench.somebody_writes(overwrites=True)
    bench.somebody_writes()
    assert check_held(bench, 2, held) == [delta(3)]


def test_a_feed_detects_lost_files_in_partitions_that_did_not_change(
    make_bench: Callable[..., Bench],
) -> None:
    """It began at a version; what was there before may be truncated by Hive 3.1 behind it."""
    bench = make_bench(partitions=("p=1", "p=2", "p=3"))
    for partition in ("p=1", "p=2", "p=2"):
        bench.somebody_writes(partition)
    roots = bench.client.list_partitions(bench.table)
    target: Any = SimpleNamespace(
        table=bench.table,
        partitions=roots,
        listing=lambda info: list_table(info.location),
    )

    def asked(held: dict[str, str]) -> ChangeQuery:
        writes = replace(range_of(bench, 2), held=held)
        return ChangeQuery(table=bench.table, writes=writes, columns=("id",))

    stretches, still = _stretches(target, asked({}))
    assert [str(info.name) for info, _ in stretches] == ["p=2"]
    assert still == {"p=1": delta(1)}
    assert _stretches(target, asked(still))[1] == {}
    bench.truncate("p=1")
    with pytest.raises(errors.ChangesGoneError, match=f"{delta(1)} was at"):
        _stretches(target, asked(still))


def test_a_lost_original_file_is_detected(bench: Bench) -> None:
    (bench.root / "000000_0").write_bytes(b"x")
    held = newest(bench)
    assert held == "000000_0"
    bench.somebody_writes()
    assert check_held(bench, 0, held) == [delta(1)]
    (bench.root / "000000_0").unlink()
    with pytest.raises(errors.ChangesGoneError, match="000000_0 was at"):
        check_held(bench, 0, held)


def test_a_feed_ignores_partitions_that_were_dropped_before_its_range(
    make_bench: Callable[..., Bench],
) -> None:
    """A feed that begins after a DROP PARTITION goes on, whether a cleaner has noted it or not."""
    bench = make_bench(partitions=("p=1", "p=2", "p=3"))
    one, two, three = (PartitionName.parse(f"p={number}") for number in (1, 2, 3))
    for partition in ("p=1", "p=2", "p=3"):
        bench.we_write(partition)
    bench.drop("p=1")
    bench.we_write("p=2")
    had, there = frozenset({two, three}), [two, three]
    for _ in range(2):
        assert range_of(bench, 3).vanished(there) == {one}
        assert replace(range_of(bench, 3), had=had).vanished(there) == set()
        assert replace(range_of(bench, 3), had=had).vanished([two]) == {three}
        bench.clean()
    assert replace(range_of(bench, 1), had=frozenset()).vanished([]) == {two, three}


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("then", ["overwritten", "compacted"])
def test_files_lost_before_an_overwrite_or_a_compaction_are_detected(
    make_bench: Callable[..., Bench], then: str, *, is_ours: bool
) -> None:
    """Of a table that is kept; what went with TRUNCATE of Hive 3.1 would stay with a follower."""
    bench = make_bench(partitions=("p=1",))
    bench.keep()
    write = bench.we_write if is_ours else bench.somebody_writes
    write("p=1")
    held = {} if is_ours else {"p=1": delta(1)}
    (info,) = bench.client.list_partitions(bench.table)
    bench.truncate("p=1")
    write("p=1", overwrites=then == "overwritten")
    if then == "compacted":
        bench.put("base_0000002", "p=1")
        marker = bench.root / "p=1" / "base_0000002" / METADATA_FILE
        marker.write_bytes(metadata_text("compacted"))
    found = replace(range_of(bench, 1), held=held)
    with pytest.raises(errors.ChangesGoneError, match=delta(1)):
        found.segments(info, list_table(info.location))
    told = range_of(bench, 0).segments(info, list_table(info.location))
    assert told[-1].fresh, "what came and went is no change"


def feed_range(bench: Bench, since: Version, until: Version | None) -> ChangeRange:
    """What a feed's range consists of."""
    taken_s = server_now(bench.client)
    snapshot = ReadSnapshot(
        client=bench.client,
        snapshot=snapshot_now(bench.client, [bench.ref]),
        tables={bench.ref: bench.table},
        taken_s=lambda: taken_s,
    )
    return _writes(snapshot, bench.table, since, until).part


def held_by(part: ChangeRange) -> list[int]:
    return [w for w in range(1, 5) if part.holds(WriteId(w))]


def test_feeds_by_timestamp_continue_without_a_gap(bench: Bench) -> None:
    bench.we_write()
    with bench.writing(job_key="dag/slow/task/-1"):
        bench.we_write()
        bench.clock.advance(10)
        moment = now(bench)
        bench.clock.advance(10)
    bench.we_write()
    bench.clock.advance(10)
    assert fresh(bench, 1, moment) == [delta(3)], "the second was open then"
    begin, told = 0, []
    for until in (moment.isoformat(), moment, now(bench), None):
        part = feed_range(bench, begin, until)
        told.append(held_by(part))
        begin = part.until.high_watermark
    assert told == [[1], [], [2, 3, 4], []]


def test_a_feed_from_a_timestamp_waits_for_writes_that_were_open_then(bench: Bench) -> None:
    bench.we_write()
    with bench.writing(job_key="dag/slow/task/-1"):
        bench.we_write()
        bench.clock.advance(10)
        moment = now(bench)
        bench.clock.advance(10)
        assert held_by(feed_range(bench, moment, None)) == []
        bench.we_write()
        bench.clock.advance(10)
        for until in (None, now(bench)):
            assert held_by(feed_range(bench, moment, until)) == []
    assert held_by(feed_range(bench, moment, None)) == [2, 4]


def test_a_range_excludes_an_aborted_write_even_after_the_metastore_forgot_it(bench: Bench) -> None:
    bench.we_write()
    txn = bench.begin()
    bench.put(delta(2))
    bench.client.abort_txn(txn)
    bench.we_write()  # and sees it aborted
    snapshot = snapshot_now(bench.client, [bench.ref])
    forgetful = replace(snapshot.write_ids(bench.ref), aborted=())
    snapshot = replace(snapshot, tables={bench.ref: forgetful})
    found = between(bench.client, bench.table, snapshot, 1, None, taken_s=lambda: None)
    (info,) = bench.client.list_partitions(bench.table)
    (segment,) = found.segments(info, list_table(info.location))
    assert segment.fresh == {delta(3)}
    assert not found.part.holds(WriteId(2))


def test_commit_times_are_given_only_if_they_are_known_to_the_second(bench: Bench) -> None:
    bench.we_write()
    at_s = server_now(bench.client)
    bench.clock.advance(10)
    bench.somebody_writes()
    known = range_of(bench, 0).commit_times()
    assert set(known) == {1}
    assert known[WriteId(1)] == pytest.approx(at_s, abs=1)
    assert range_of(bench, 1).commit_times() == {}


def test_a_range_is_refused_if_rows_at_its_start_were_lost(bench: Bench) -> None:
    """Who follows the table would never hear that these rows went."""
    bench.we_write()
    bench.truncate()
    with pytest.raises(errors.ChangesGoneError):
        fresh(bench, 0)
    bench.clean()
    bench.we_write()
    assert fresh(bench, 0) == [delta(2)]  # what came and went is no change
    with pytest.raises(errors.ChangesGoneError, match="removed without a write ID"):
        fresh(bench, 1)
    bench.we_write()
    assert fresh(bench, 2) == [delta(3)]
