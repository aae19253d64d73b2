from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    CorruptFileError,
    KeepingRefusedError,
    VersionDoubtfulError,
    VersionGoneError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import Kept, VersionSpec
from airflow_hiveacid.jobs.specs import CleanSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.cleaning import plan_cleaning
from airflow_hiveacid.plan.keeping import (
    READABLE_FOR,
    Horizon,
    Keeping,
    OwnCompaction,
    Promises,
    Tag,
    duration,
    readable_for,
)
from airflow_hiveacid.spark.maintenance import clean as cleaning_module
from airflow_hiveacid.spark.maintenance.clean import Cleaner
from airflow_hiveacid.spark.maintenance.overview import with_past
from airflow_hiveacid.storage.stores.job_ledger import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions import keeping as keeping_module
from airflow_hiveacid.versions.history import SOMEBODY, history_of
from airflow_hiveacid.versions.keeping import keep, keep_no_more, make_tag, note_as_ours
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Bench


def clean(bench: Bench, **spec: object) -> None:
    table, overview = with_past(bench.client, bench.table, is_dry=False)
    for info in bench.client.list_partitions(table):
        Cleaner(
            client=bench.client,
            table=table,
            spec=CleanSpec(target=str(table.ref), **spec),  # type: ignore[arg-type]
            on_step=lambda _: None,
            overview=overview,
        ).clean(info)


def names(bench: Bench, **asked: object) -> list[str]:
    """The directories that a version reads."""
    txns = bench.client.valid_txns()
    snapshot = Snapshot(
        txn_id=None, txns=txns, tables=bench.client.valid_write_ids([bench.ref], txns)
    )
    past = past_of(
        bench.client,
        bench.table,
        VersionSpec.of(**asked),  # type: ignore[arg-type]
        snapshot,
        taken_s=lambda: server_now(bench.client),
    )
    roots = bench.client.list_partitions(bench.table)
    past.check_vanished([info.name for info in roots])
    states = past.states(roots, [list_table(info.location) for info in roots])
    return [d.text for state in states for d in state.live]


D1, D2, D3 = (f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3))


# ---- promises ------------------------------------------------------------------------------------


def test_a_table_that_is_kept_tells_the_server_to_leave_it_alone(bench: Bench) -> None:
    bench.we_write()
    kept = keep(bench.client, bench.table)
    assert bench.table.parameters["no_auto_compaction"] == "true"
    is_new = bench.client.generation.name == "V4"
    assert (bench.table.parameters.get("no_cleanup") == "true") is is_new
    assert keep(bench.client, bench.table) == kept  # once
    keep_no_more(bench.client, bench.table)
    assert not {"no_cleanup", "no_auto_compaction"} & set(bench.table.parameters)
    assert bench.notes.promises() == Promises()


def test_nothing_is_promised_while_a_compaction_is_on_its_way(bench: Bench) -> None:
    bench.we_write()
    bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR)
    with pytest.raises(KeepingRefusedError, match="is initiated") as caught:
        keep(bench.client, bench.table)
    assert caught.value.retryable
    assert not bench.notes.is_kept()


ENDING = [CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED, CompactionState.FAILED]


@pytest.mark.parametrize("state", [None, *CompactionState])
def test_somebody_elses_compaction_ends_a_promise_once_it_may_be_cleaned_after(
    bench: Bench, state: CompactionState | None
) -> None:
    bench.we_write()
    keep(bench.client, bench.table)
    bench.we_write()
    bench.we_write(overwrites=True)
    assert names(bench, version=2) == [D1, D2]
    if state is None:
        bench.client.set_table_parameters(bench.ref, {"no_auto_compaction": None})
    else:
        entry = bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR).entry_id
        queue = bench.client.server.queue
        queue[entry] = replace(queue[entry], state=state)
    if state in (None, *ENDING, CompactionState.UNKNOWN):
        with pytest.raises(VersionGoneError, match="oldest readable version is 3"):
            names(bench, version=2)
        if state is not CompactionState.READY_FOR_CLEANING:
            clean(bench)
            assert not bench.notes.is_kept()
    else:
        assert names(bench, version=2) == [D1, D2]
        clean(bench)
        assert bench.notes.is_kept()


def test_a_compaction_of_ours_ends_nothing(bench: Bench) -> None:
    bench.we_write()
    keep(bench.client, bench.table)
    bench.we_write()
    bench.we_write(overwrites=True)
    entry = bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR).entry_id
    queue = bench.client.server.queue
    queue[entry] = replace(queue[entry], state=CompactionState.SUCCEEDED)
    bench.notes.note_own_compaction(OwnCompaction(entry_id=entry, aborted=(WriteId(1),)))
    # what was aborted when it began stays so, whatever the metastore has forgotten since
    assert names(bench, version=2) == [D2]


def test_a_broken_promise_stays_broken_when_the_queue_forgets_who_broke_it(bench: Bench) -> None:
    bench.we_write()
    keep(bench.client, bench.table)
    bench.we_write()
    bench.we_write(overwrites=True)
    queue = bench.client.server.queue
    theirs = bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR).entry_id
    queue[theirs] = replace(queue[theirs], state=CompactionState.SUCCEEDED)
    ours = bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR).entry_id
    note_as_ours(bench.client, bench.table, OwnCompaction(entry_id=ours))
    del queue[theirs]
    with pytest.raises(VersionGoneError):
        names(bench, version=2)


def test_promises_add_up() -> None:
    p, q = PartitionName.parse("p=1"), PartitionName.parse("p=2")
    keeping = Keeping(
        table_id="1.1", roots={p: Kept(floor=WriteId(5))}, last_entry_id=7, since_s=0.0
    )
    horizon = Horizon(partition=p, write_id=WriteId(9), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]
    promises = Promises(keeping=keeping, horizons=(horizon,), own=(OwnCompaction(entry_id=8),))
    assert promises.of(p) == Kept(floor=WriteId(9))
    assert promises.of(q) == Kept(floor=WriteId(0))  # made later
    assert not promises.is_broken([3, 7, 8])
    assert promises.is_broken([9])
    assert Promises().of(p) is None


def test_a_damaged_horizon_is_an_error(bench: Bench) -> None:
    bench.we_write()
    keep(bench.client, bench.table)
    bench.notes.note_horizon(
        Horizon(partition=PartitionName(), write_id=WriteId(1), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]
    )
    (file,) = (bench.root / HIDDEN_DIRECTORY).glob("_horizon_*")
    file.write_text("{")
    bench.we_write(overwrites=True)
    with pytest.raises(CorruptFileError, match="not a note"):
        names(bench, version=1)


# ---- retention -----------------------------------------------------------------------------------


@pytest.mark.promise("V7")
def test_what_was_replaced_stays_readable_to_the_second_by_the_metastores_clock(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    clean(bench)
    bench.we_write()
    bench.we_write(overwrites=True)
    clean(bench)  # sees the replacement, and when
    bench.clock.advance(99.9)
    clean(bench)
    assert names(bench, version=1) == [D1]
    bench.clock.advance(0.2)
    clean(bench)
    with pytest.raises(VersionGoneError, match="oldest readable version is 2"):
        names(bench, version=1)
    assert not (bench.root / D1).exists()


def test_what_an_early_base_replaced_is_not_kept_for_as_long_as_the_newest(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    clean(bench)
    bench.we_write()
    for _ in range(4):
        bench.we_write(overwrites=True)
        clean(bench)
        bench.clock.advance(60)
    clean(bench)
    found = sorted(p.name for p in bench.root.iterdir() if p.name.startswith(("base", "delta")))
    assert found == ["base_0000004", "base_0000005"]
    assert names(bench, version=4) == ["base_0000004"]


def test_a_reader_of_a_version_that_ends_is_waited_for(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(parameters={READABLE_FOR: "0 seconds"})
    clean(bench)
    bench.we_write()
    bench.we_write(overwrites=True)
    clean(bench)  # nobody is there
    bench.we_write()
    bench.we_write(overwrites=True)
    reader = bench.client.open_txn()
    assert names(bench, version=3) == ["base_0000002", "delta_0000003_0000003_0000"]
    clean(bench)
    assert (bench.root / "base_0000002").exists()
    bench.client.commit_txn(reader)
    clean(bench)
    assert not (bench.root / "base_0000002").exists()


def test_who_may_have_read_notes_before_a_horizon_is_waited_for(
    make_bench: Callable[..., Bench],
) -> None:
    """Also where the replacement was seen long before he began."""
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    clean(bench)
    bench.we_write()
    bench.we_write(overwrites=True)
    clean(bench)
    bench.clock.advance(200)
    reader = bench.client.open_txn()
    assert names(bench, version=1) == [D1]
    for _ in range(2):
        clean(bench)
        assert (bench.root / D1).exists()
    with pytest.raises(VersionGoneError, match="oldest readable version is 2"):
        names(bench, version=1)  # for whoever comes now
    bench.client.commit_txn(reader)
    clean(bench)
    assert not (bench.root / D1).exists()


@pytest.mark.parametrize("text", ["", "7", "days", "-1 days", "1 month", "7 days or so"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="says no time"):
        readable_for({READABLE_FOR: text})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 minutes", 5400),
        ("1.5 HOURS", 5400),
        ("1day", 86400),
        ("2 weeks", 1209600),
        ("10 years", 316224000),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert duration(text, "x") == seconds


# ---- tags ----------------------------------------------------------------------------------------


def test_an_expired_tag_holds_nothing(bench: Bench) -> None:
    bench.we_write()
    now_s = server_now(bench.client) or 0.0
    make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1), expires_s=now_s + 50)
    bench.we_write(overwrites=True)
    clean(bench)
    assert names(bench, tag="a") == [D1]
    bench.clock.advance(51)
    with pytest.raises(VersionUnknownError, match="expired"):
        names(bench, tag="a")
    clean(bench)
    assert not (bench.root / D1).exists()
    assert bench.notes.tags() == ()


def test_a_tag_holds_its_files_also_where_nothing_else_is_promised(bench: Bench) -> None:
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
    bench.we_write(overwrites=True)
    entry = bench.client.request_compaction(bench.ref, None, CompactionType.MAJOR).entry_id
    queue = bench.client.server.queue
    queue[entry] = replace(queue[entry], state=CompactionState.READY_FOR_CLEANING)
    clean(bench)
    assert not bench.notes.is_kept()
    assert names(bench, tag="a") == [D1]


def test_a_tag_that_is_made_while_a_cleaner_decides_holds_its_files(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "0 seconds"})
    clean(bench)
    bench.we_write()
    bench.we_write(overwrites=True)

    def decide(*args: object, **terms: object) -> object:
        plan = plan_cleaning(*args, **terms)  # type: ignore[arg-type]
        make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(cleaning_module, "plan_cleaning", decide)
        clean(bench)
    assert names(bench, tag="a") == [D1]
    with pytest.raises(VersionGoneError):
        names(bench, version=1)


def test_no_tag_is_made_of_what_a_horizon_has_ended(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "0 seconds"})
    clean(bench)
    bench.we_write()
    bench.we_write(overwrites=True)
    horizon = Horizon(partition=PartitionName(), write_id=WriteId(2), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]

    looks = []

    def listed(location: str) -> object:
        looks.append(location)
        if len(looks) == 2:  # a cleaner has come between the tag and the second look
            bench.notes.note_horizon(horizon)
        return list_table(location)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping_module, "list_table", listed)
        with pytest.raises(VersionGoneError):
            make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
    assert bench.notes.tags() == ()


def test_no_tag_is_made_of_what_was_replaced_and_ended_since_its_snapshot(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "0 seconds"})
    clean(bench)
    bench.we_write()
    note_tag = VersionNotes.note_tag

    def after_a_cleaner(notes: VersionNotes, tag: Tag) -> None:
        """Its files are there still, but who removes them has not seen the tag."""
        bench.we_write(overwrites=True)
        horizon = Horizon(partition=PartitionName(), write_id=WriteId(2), high_watermark=0, at_s=0)  # type: ignore[arg-type]
        notes.note_horizon(horizon)
        note_tag(notes, tag)

    monkeypatch.setattr(VersionNotes, "note_tag", after_a_cleaner)
    with pytest.raises(VersionGoneError):
        make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
    assert bench.notes.tags() == ()


def test_a_tag_whose_files_are_gone_is_told(bench: Bench) -> None:
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
    bench.we_write(overwrites=True)
    keep_files = bench.root / D1 / "bucket_00000"
    keep_files.unlink()
    keep_files.parent.rmdir()
    with pytest.raises(VersionGoneError, match="not there any more"):
        names(bench, tag="a")


def test_the_same_tag_again_moves_its_end(bench: Bench) -> None:
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1), expires_s=5e9)
    make_tag(bench.client, bench.table, "a", VersionSpec.of(version=1))
    assert [tag.expires_s for tag in bench.notes.tags()] == [None]


def test_a_table_with_a_tag_stays_kept(bench: Bench) -> None:
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec())
    with pytest.raises(ConfigurationError, match="tag 'a'"):
        keep_no_more(bench.client, bench.table)


# ---- history -------------------------------------------------------------------------------------


def readable(bench: Bench) -> tuple[int, list[int]]:
    """The oldest readable version as a history says it, and all that it calls readable."""
    found = history_of(bench.client, bench.table)
    return found.oldest, [v.number for v in found.versions if v.is_readable]


@pytest.mark.promise("V1")
def test_a_history_says_who_did_what_when_and_whether_it_can_be_read(bench: Bench) -> None:
    bench.we_write(job_key="dag/run/load/-1")
    bench.clock.advance(100)
    bench.somebody_writes()
    bench.clock.advance(100)
    bench.we_write(overwrites=True)
    bench.client.allocate_write_id(bench.client.open_txn(), bench.ref)
    found = history_of(bench.client, bench.table)
    assert [v.number for v in found.versions] == [3, 2, 1]
    third, second, first = found.versions
    assert (first.by, first.operation, first.inserted) == ("dag/run/load/-1", "insert", 3)
    assert (second.by, second.operation, second.inserted) == (SOMEBODY, "insert", None)
    assert (third.by, third.operation, third.size_bytes) == ("dag/run/task/-1", "overwrite", 1)
    assert [v.is_readable for v in found.versions] == [True, False, False]
    assert found.oldest == 3
    start = bench.client.server.now_s() - 200
    assert first.committed.by_s == pytest.approx(start, abs=0.01)
    assert first.committed.after_s == pytest.approx(start, abs=0.01)
    assert second.committed.after_s == pytest.approx(start, abs=0.01)
    assert second.committed.by_s == pytest.approx(start + 200, abs=0.01)
    assert [v.number for v in history_of(bench.client, bench.table, most=1).versions] == [3]


def test_a_moment_between_two_bounds_is_refused_with_them(bench: Bench) -> None:
    bench.we_write()
    bench.clock.advance(100)
    middle = bench.client.server.now_s()
    bench.somebody_writes()
    bench.clock.advance(100)
    bench.we_write()

    def at(seconds: float) -> list[str]:
        return names(bench, timestamp=datetime.fromtimestamp(seconds, UTC))

    bench.clock.advance(1)
    assert at(middle + 100.5) == [D1, D2, "delta_0000003_0000003_0000"]
    with pytest.raises(VersionDoubtfulError, match="version 1, without them, or version 2"):
        at(middle + 50)


def test_notes_of_another_table_of_that_name_are_not_met(bench: Bench) -> None:
    bench.we_write()
    keep(bench.client, bench.table)
    other = type(bench.notes)(location=bench.table.location, table_id="77.1")
    assert other.commits() == ()
    assert other.promises() == Promises()


# ---- what was removed without a version ----------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_files_that_went_without_a_version_are_missed_until_that_is_noted(
    bench: Bench, how: str
) -> None:
    bench.we_write()
    bench.we_write()
    if how == "removed":  # as TRUNCATE of Hive 3.1 does
        for path in bench.root.glob("delta_*/*"):
            path.unlink()
            path.parent.rmdir()
    else:
        there = bench.root.with_name("elsewhere")
        there.mkdir()
        (bench.root / HIDDEN_DIRECTORY).rename(there / HIDDEN_DIRECTORY)
        old = bench.client.server.tables[bench.ref]
        bench.client.server.tables[bench.ref] = replace(old, location=f"file:{there}")
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="which version 1 wrote, is not at"):
            names(bench, version=version)
    clean(bench)
    bench.we_write()
    assert names(bench, version=3) == ["delta_0000003_0000003_0000"]
    with pytest.raises(VersionGoneError):
        names(bench, version=2)


def test_a_tag_is_not_read_without_its_files_where_nothing_has_replaced_them(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec())
    assert names(bench, tag="a") == [D1, D2]
    shutil.rmtree(bench.root / D1)
    with pytest.raises(VersionGoneError, match="not there any more"):
        names(bench, tag="a")
    shutil.rmtree(bench.root / D2)
    with pytest.raises(VersionGoneError, match="not there any more"):
        names(bench, tag="a")


def test_what_was_live_when_keeping_began_is_missed_also_if_somebody_else_wrote_it(
    bench: Bench,
) -> None:
    bench.somebody_writes()
    keep(bench.client, bench.table)
    bench.somebody_writes()
    assert names(bench, version=2) == [D1, D2]
    for name in (D1, D2):  # as TRUNCATE of Hive 3.1 does
        shutil.rmtree(bench.root / name)
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="not there any more"):
            names(bench, version=version)
    clean(bench)
    bench.somebody_writes()
    assert names(bench, version=3) == ["delta_0000003_0000003_0000"]
    with pytest.raises(VersionGoneError):
        names(bench, version=2)


def test_a_partition_that_was_there_when_keeping_began_is_missed(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"))
    txn = bench.client.open_txn()
    bench.client.allocate_write_id(txn, bench.ref)
    bench.put(D1, "p=1")
    bench.put(D1, "p=2")
    bench.client.commit_txn(txn)
    keep(bench.client, bench.table)
    assert names(bench, version=1) == [D1, D1]
    (gone, _) = bench.client.list_partitions(bench.table)
    bench.client.drop_partitions(bench.table, [gone.name])
    with pytest.raises(VersionGoneError, match="partition p=1 was dropped"):
        names(bench, version=1)
    assert readable(bench) == (0, [])
    clean(bench)
    assert readable(bench) == (0, [])
    bench.somebody_writes()
    assert names(bench, version=2) == [D1]
    assert readable(bench) == (2, [2])


def test_a_history_tells_which_versions_had_a_partition_that_was_dropped(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"))
    for partition in ("p=1", "p=2", "p=1"):
        bench.we_write(partition=partition)
    assert readable(bench) == (1, [3, 2, 1])
    bench.client.drop_partitions(bench.table, [PartitionName.parse("p=2")])
    assert readable(bench) == (1, [1])
    for version in (2, 3):
        with pytest.raises(VersionGoneError, match="partition p=2 was dropped"):
            names(bench, version=version)
    assert names(bench, version=1) == [D1]
    clean(bench)
    bench.we_write(partition="p=1")
    assert readable(bench) == (1, [4, 1])
    assert names(bench, version=4) == [D1, D3, "delta_0000004_0000004_0000"]


def test_the_horizon_of_a_partition_that_is_renamed_is_minded(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1",), parameters={READABLE_FOR: "0 seconds"})
    clean(bench)
    for name in (D1, "base_0000002"):
        txn = bench.client.open_txn()
        bench.client.allocate_write_id(txn, bench.ref)
        bench.put(name, "p=1")
        bench.client.commit_txn(txn)
    clean(bench)
    assert not (bench.root / "p=1" / D1).exists()
    bench.client.drop_partitions(bench.table, [PartitionName.parse("p=1")])
    bench.client.add_partitions(bench.table, [PartitionName.parse("p=2")])
    (bench.root / "p=1").rename(bench.root / "p=2")
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="p=1 was dropped"):
            names(bench, version=version)
    assert readable(bench) == (0, [])
    clean(bench)
    bench.somebody_writes()
    assert names(bench, version=3) == ["base_0000002"]


def test_what_was_written_while_a_cleaner_looked_may_have_been_removed_with_the_rest(
    bench: Bench,
) -> None:
    bench.we_write()
    table, overview = with_past(bench.client, bench.table, is_dry=False)
    bench.somebody_writes()
    for name in (D1, D2):
        shutil.rmtree(bench.root / name)
    (info,) = bench.client.list_partitions(table)
    Cleaner(
        client=bench.client,
        table=table,
        spec=CleanSpec(target=str(table.ref)),
        on_step=lambda _: None,
        overview=overview,
    ).clean(info)
    with pytest.raises(VersionGoneError):
        names(bench, version=2)


def test_a_table_that_is_renamed_keeps_its_past(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()
    there = bench.root.with_name("renamed")
    bench.root.rename(there)
    old = bench.client.server.tables[bench.ref]
    bench.client.server.tables[bench.ref] = replace(old, location=f"file:{there}")
    assert names(bench, version=1) == [D1]
