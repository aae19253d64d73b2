from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.errors import (
    VersionGoneError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.specs.maintenance import CleanSpec
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.plan.keeping import READABLE_FOR
from airflow_hiveacid.spark.maintenance.clean import Cleaner
from airflow_hiveacid.spark.maintenance.overview import with_past
from airflow_hiveacid.storage.stores.listing import list_table, metadata_text
from airflow_hiveacid.storage.stores.notes.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.versions import loss_detector
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import keep, keep_no_more
from airflow_hiveacid.versions.losses import note_dropped
from airflow_hiveacid.versions.tags import make_tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.versions.conftest import Bench


D1, D2, D3, D4 = (f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3, 4))


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
        with pytest.raises(VersionGoneError, match="which version 1 wrote, is missing at"):
            bench.names(version=version)
    bench.clean()
    bench.we_write()
    assert bench.names(version=3) == ["delta_0000003_0000003_0000"]
    with pytest.raises(VersionGoneError):
        bench.names(version=2)


def test_a_tag_is_not_read_without_its_files_where_nothing_has_replaced_them(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.we_write()
    make_tag(bench.client, bench.table, "a", VersionSpec())
    assert bench.names(tag="a") == [D1, D2]
    shutil.rmtree(bench.root / D1)
    with pytest.raises(VersionGoneError, match="is missing"):
        bench.names(tag="a")
    shutil.rmtree(bench.root / D2)
    with pytest.raises(VersionGoneError, match="is missing"):
        bench.names(tag="a")


def test_what_was_live_when_keeping_began_is_missed_also_if_somebody_else_wrote_it(
    bench: Bench,
) -> None:
    bench.somebody_writes()
    keep(bench.client, bench.table)
    bench.somebody_writes()
    assert bench.names(version=2) == [D1, D2]
    for name in (D1, D2):  # as TRUNCATE of Hive 3.1 does
        shutil.rmtree(bench.root / name)
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="is missing"):
            bench.names(version=version)
    bench.clean()
    bench.somebody_writes()
    assert bench.names(version=3) == ["delta_0000003_0000003_0000"]
    with pytest.raises(VersionGoneError):
        bench.names(version=2)


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
    assert bench.names(version=1) == [D1, D1]
    (gone, _) = bench.client.list_partitions(bench.table)
    bench.client.drop_partitions(bench.table, [gone.name])
    with pytest.raises(VersionGoneError, match="partition p=1 was dropped"):
        bench.names(version=1)
    bench.clean()
    bench.somebody_writes()
    assert bench.names(version=2) == [D1]


def test_the_horizon_of_a_partition_that_is_renamed_is_minded(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1",), parameters={READABLE_FOR: "0 seconds"})
    bench.clean()
    for name in (D1, "base_0000002"):
        txn = bench.client.open_txn()
        bench.client.allocate_write_id(txn, bench.ref)
        bench.put(name, "p=1")
        bench.client.commit_txn(txn)
    bench.clean()
    assert not (bench.root / "p=1" / D1).exists()
    bench.client.drop_partitions(bench.table, [PartitionName.parse("p=1")])
    bench.client.add_partitions(bench.table, [PartitionName.parse("p=2")])
    (bench.root / "p=1").rename(bench.root / "p=2")
    with pytest.raises(VersionGoneError, match="p=1 was dropped"):
        bench.names(version=1)
    bench.clean()
    bench.somebody_writes()
    assert bench.names(version=3) == ["base_0000002"]


def test_files_of_a_partition_that_is_renamed_are_no_version_of_the_other(
    make_bench: Callable[..., Bench],
) -> None:
    """Who reads that one alone does not miss the one that had them."""
    bench = make_bench(partitions=("p=1", "p=3"))
    bench.we_write("p=1")
    bench.client.drop_partitions(bench.table, [PartitionName.parse("p=1")])
    bench.client.add_partitions(bench.table, [PartitionName.parse("p=2")])
    (bench.root / "p=1").rename(bench.root / "p=2")
    (info,) = bench.client.get_partitions(bench.table, [PartitionName.parse("p=2")])

    def read(version: int) -> list[str]:
        (state,) = bench.past(version=version).states([info], [list_table(info.location)])
        return [d.text for d in state.live]

    with pytest.raises(VersionGoneError, match="was written to another partition"):
        read(1)
    bench.clean()
    bench.somebody_writes("p=3")
    with pytest.raises(VersionGoneError, match="was written to another partition"):
        read(1)
    assert read(2) == [D1]
    found = history_of(bench.client, bench.table)
    assert {v.number: v.is_readable for v in found.versions} == {2: True, 1: False}


def test_a_partition_that_is_dropped_leaves_no_horizon_for_ever(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"), parameters={READABLE_FOR: "0 seconds"})
    bench.clean()
    bench.somebody_writes("p=1")
    bench.somebody_writes("p=1", overwrites=True)
    bench.clean()
    assert len(bench.notes.promises().horizons) == 1
    p = PartitionName.parse("p=1")
    bench.client.drop_partitions(bench.table, [p])
    shutil.rmtree(bench.root / "p=1")
    bench.clean()
    assert bench.notes.promises().horizons == ()
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="p=1 was dropped"):
            bench.names(version=version)
    bench.client.add_partitions(bench.table, [p])
    bench.somebody_writes("p=1")
    for version in (1, 2):
        with pytest.raises(VersionGoneError):
            bench.names(version=version)
    assert bench.names(version=3) == [D3]


def test_what_was_written_while_a_cleaner_looked_may_have_been_removed_with_the_rest(
    bench: Bench,
) -> None:
    bench.we_write()
    table, overview = with_past(bench.client, bench.table, plan_only=False)
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
        bench.names(version=2)


def test_a_table_that_is_renamed_keeps_its_past(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()
    there = bench.root.with_name("renamed")
    bench.root.rename(there)
    old = bench.client.server.tables[bench.ref]
    bench.client.server.tables[bench.ref] = replace(old, location=f"file:{there}")
    assert bench.names(version=1) == [D1]


# ---- what is noted of it -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cleaned", "kept anew", "kept no more"])
def test_a_promise_that_ends_says_first_what_it_misses(bench: Bench, how: str) -> None:
    """Nobody else knows of what was live when it began."""
    bench.somebody_writes()
    keep(bench.client, bench.table)
    bench.truncate()
    if how == "cleaned":
        bench.give_up()
        bench.clean()
        assert not bench.notes.is_kept()
    elif how == "kept anew":
        bench.somebody_compacts()
        keep(bench.client, bench.table)
    else:
        keep_no_more(bench.client, bench.table)
    bench.somebody_writes()
    keep(bench.client, bench.table)
    assert bench.names(version=2) == [D2]
    with pytest.raises(VersionGoneError, match="removed without a write ID"):
        bench.names(version=1)


def test_an_empty_version_is_answered_only_if_all_that_led_to_it_is_known(bench: Bench) -> None:
    """What somebody else wrote after keeping began, and 3.1 removed, nobody bears witness of."""
    keep(bench.client, bench.table)
    bench.somebody_writes()
    bench.truncate()
    bench.give_up()
    bench.clean()
    with pytest.raises(VersionGoneError, match="no files of versions up to"):
        bench.names(version=1)
    bench.somebody_writes()
    keep(bench.client, bench.table)
    with pytest.raises(VersionGoneError) as caught:
        bench.names(version=1)
    assert caught.value.oldest == 2 == history_of(bench.client, bench.table).oldest
    assert bench.names(version=2) == [D2]


def test_a_promise_that_ends_says_first_which_partitions_it_misses(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"))
    bench.somebody_writes("p=1")
    bench.somebody_writes("p=2")
    keep(bench.client, bench.table)
    p = PartitionName.parse("p=1")
    bench.client.drop_partitions(bench.table, [p])
    shutil.rmtree(bench.root / "p=1")
    keep_no_more(bench.client, bench.table)
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="p=1 was dropped"):
            bench.names(version=version)
    bench.client.add_partitions(bench.table, [p])
    bench.somebody_writes("p=1")
    for version in (1, 2):
        with pytest.raises(VersionGoneError) as caught:
            bench.names(version=version)
        assert caught.value.oldest == 3
    assert bench.names(version=3) == ["delta_0000003_0000003_0000", D2]


def test_nobody_knows_since_when_a_base_that_was_removed_had_its_rows(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"))
    bench.somebody_writes("p=1")
    bench.somebody_writes("p=1", overwrites=True)
    keep(bench.client, bench.table)
    bench.truncate("p=1")
    keep_no_more(bench.client, bench.table)
    for version in (1, 2):
        with pytest.raises(VersionGoneError, match="removed without a write ID"):
            bench.names(version=version)


def test_each_of_several_losses_counts(bench: Bench) -> None:
    for _ in range(3):
        bench.we_write()
    shutil.rmtree(bench.root / D3)
    bench.clean()
    assert bench.names(version=2) == [D1, D2]
    with pytest.raises(VersionGoneError):
        bench.names(version=3)
    bench.we_write()
    assert bench.names(version=4) == [D1, D2, D4]
    shutil.rmtree(bench.root / D1)
    for version in (1, 2, 3, 4):  # an earlier loss excuses none that came later
        with pytest.raises(VersionGoneError):
            bench.names(version=version)
    bench.clean()
    bench.we_write()
    assert bench.names(version=5) == [D2, D4, "delta_0000005_0000005_0000"]
    bench.clean()  # which finds nothing new
    assert bench.names(version=5) == [D2, D4, "delta_0000005_0000005_0000"]
    for version in (1, 2, 3, 4):
        with pytest.raises(VersionGoneError) as caught:
            bench.names(version=version)
        assert caught.value.oldest == 5


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_version_that_was_written_anew_needs_nothing_of_what_was_removed(
    bench: Bench, *, is_compacted: bool
) -> None:
    """But one that was compacted since has only what was left then."""
    bench.we_write()
    table, overview = with_past(bench.client, bench.table, plan_only=False)
    shutil.rmtree(bench.root / D1)
    bench.somebody_writes(overwrites=not is_compacted)
    (info,) = bench.client.list_partitions(table)
    Cleaner(
        client=bench.client,
        table=table,
        spec=CleanSpec(target=str(table.ref)),
        on_step=lambda _: None,
        overview=overview,
    ).clean(info)
    with pytest.raises(VersionGoneError):
        bench.names(version=1)
    if not is_compacted:
        assert bench.names(version=2) == ["base_0000002"]
        return
    bench.put("base_0000002")
    (bench.root / "base_0000002" / METADATA_FILE).write_bytes(metadata_text("compacted"))
    with pytest.raises(VersionGoneError):
        bench.names(version=2)


def test_a_base_below_what_was_removed_covers_nothing_of_it(bench: Bench) -> None:
    bench.somebody_writes()
    txn = bench.client.open_txn()
    bench.client.allocate_write_id(txn, bench.ref)
    bench.somebody_writes()
    keep(bench.client, bench.table)
    bench.truncate()
    keep_no_more(bench.client, bench.table)  # the third was there, and nobody else knows it
    bench.put("base_0000002")
    bench.client.commit_txn(txn)
    with pytest.raises(VersionGoneError, match="removed without a write ID"):
        bench.names(version=3)


def test_a_kept_table_is_whole_again_above_what_was_removed(bench: Bench) -> None:
    bench.somebody_writes()
    keep(bench.client, bench.table)
    bench.truncate()
    bench.clean()
    bench.somebody_writes()
    bench.somebody_writes(overwrites=True)
    assert bench.names(version=2) == [D2]  # by the promise: a base has replaced it
    assert bench.names(version=3) == ["base_0000003"]
    with pytest.raises(VersionGoneError) as caught:
        bench.names(version=1)
    assert caught.value.oldest == 2 == history_of(bench.client, bench.table).oldest


def test_a_history_says_which_empty_versions_are_proved(bench: Bench) -> None:
    bench.we_write()
    (note,) = bench.notes.commits()
    bench.notes.note_commit(replace(note, directories=()))
    bench.truncate()
    txn = bench.client.open_txn()
    bench.client.allocate_write_id(txn, bench.ref)
    bench.client.commit_txn(txn)
    assert bench.names(version=1) == []
    with pytest.raises(VersionGoneError, match="it is unknown what those versions wrote"):
        bench.names(version=2)
    found = history_of(bench.client, bench.table)
    assert ({v.number: v.is_readable for v in found.versions}, found.oldest) == (
        {1: True, 2: False},
        1,
    )


def test_who_forgets_commits_says_that_their_versions_are_gone(bench: Bench) -> None:
    """TRUNCATE of Hive 3.1 removes the base, too, and an empty root would look like no past."""
    for _ in range(60):
        bench.we_write()
    bench.somebody_writes(overwrites=True)
    bench.notes.tidy_commits({"": WriteId(61)}, bench.client.server.now_s() + 1)
    assert bench.notes.commits() == ()
    bench.truncate()
    for version in (1, 30, 60):
        with pytest.raises(VersionGoneError):
            bench.names(version=version)


def test_a_history_and_a_reader_say_the_same_of_what_evidence_refuses(bench: Bench) -> None:
    for _ in range(3):
        bench.we_write()
    shutil.rmtree(bench.root / D2)
    found = history_of(bench.client, bench.table)
    assert {v.number: v.is_readable for v in found.versions} == {1: True, 2: False, 3: False}
    with pytest.raises(VersionGoneError) as caught:
        bench.names(version=3)
    assert caught.value.oldest == found.oldest == 1
    shutil.rmtree(bench.root / D1)
    assert history_of(bench.client, bench.table).oldest == 0


def test_what_a_commit_wrote_to_many_partitions_is_gone_through_once(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of ten thousand partitions would go through ten thousand paths of each commit."""
    places = tuple(f"p={n}" for n in range(40))
    bench = make_bench(partitions=places)
    bench.we_write("p=0")
    (note,) = bench.notes.commits()
    for place in places[1:]:
        bench.put(D1, place)
    directories = tuple(f"{place}/{D1}" for place in places)
    bench.notes.note_commit(replace(note, partitions=places, directories=directories))
    looks = []

    def counted(location: str, uri: str) -> str:
        looks.append(uri)
        return below(location, uri)

    monkeypatch.setattr(loss_detector, "below", counted)
    assert bench.names(version=1) == [D1] * 40
    assert len(looks) <= 2 * 40
    shutil.rmtree(bench.root / "p=7" / D1)
    with pytest.raises(VersionGoneError, match=f"p=7/{D1}, which version 1 wrote"):
        bench.names(version=1)
    bench.client.drop_partitions(bench.table, [PartitionName.parse("p=7")])
    with pytest.raises(VersionGoneError, match="partition p=7 was dropped"):
        bench.names(version=1)


def test_a_partition_dropped_while_drops_are_noted_is_missed_by_all_versions_that_had_it(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"))
    bench.we_write("p=1")
    bench.we_write("p=2")
    ask, meanwhile = bench.client.valid_write_ids, iter([True])

    def asked(*args: Any) -> object:  # noqa: ANN401 - whatever the client takes
        found = ask(*args)
        if next(meanwhile, False):
            bench.we_write("p=2")  # version 3 still has both partitions
            bench.client.drop_partitions(bench.table, [PartitionName.parse("p=1")])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(bench.client, "valid_write_ids", asked)
        note_dropped(bench.client, bench.table)
    for _ in range(2):
        for version in (2, 3):
            with pytest.raises(VersionGoneError, match="partition p=1 was dropped"):
                bench.names(version=version)
        bench.clean()
    bench.we_write("p=2")
    assert bench.names(version=4) == [D2, D3, D4]
