from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import VersionGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.plan.keeping import READABLE_FOR
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.listing import list_table, metadata_text
from airflow_hiveacid.versions import loss_detector
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.losses import note_dropped
from tests.unit.versions.conftest import Bench

D1, D2, D3, D4 = (f"delta_000000{n}_000000{n}_0000" for n in (1, 2, 3, 4))


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_versions_with_lost_files_are_refused_and_later_versions_are_readable(
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
    bench.refuses(1, 2, match="which version 1 wrote, is missing at")
    bench.clean()
    bench.we_write()
    assert bench.names(version=3) == ["delta_0000003_0000003_0000"]
    bench.refuses(2)


def test_a_tag_whose_files_are_lost_is_refused(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.we_write()
    bench.tag()
    assert bench.names(tag="a") == [D1, D2]
    shutil.rmtree(bench.root / D1)
    with pytest.raises(VersionGoneError, match="is missing"):
        bench.names(tag="a")
    shutil.rmtree(bench.root / D2)
    with pytest.raises(VersionGoneError, match="is missing"):
        bench.names(tag="a")


def test_lost_files_written_by_a_different_client_are_detected_in_a_kept_table(
    bench: Bench,
) -> None:
    bench.somebody_writes()
    bench.keep()
    bench.somebody_writes()
    assert bench.names(version=2) == [D1, D2]
    for name in (D1, D2):  # as TRUNCATE of Hive 3.1 does
        shutil.rmtree(bench.root / name)
    bench.refuses(1, 2, match="is missing")
    bench.clean()
    bench.somebody_writes()
    assert bench.names(version=3) == ["delta_0000003_0000003_0000"]
    bench.refuses(2)


def test_a_dropped_partition_of_a_kept_table_is_detected(halves: Bench) -> None:
    txn = halves.begin()
    halves.put(D1, "p=1")
    halves.put(D1, "p=2")
    halves.client.commit_txn(txn)
    halves.keep()
    assert halves.names(version=1) == [D1, D1]
    halves.drop("p=1")
    halves.refuses(1, match="partition p=1 was dropped")
    halves.clean()
    halves.somebody_writes()
    assert halves.names(version=2) == [D1]


def test_the_horizon_of_a_renamed_partition_remains_valid(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1",), parameters={READABLE_FOR: "0 seconds"})
    bench.clean()
    for name in (D1, "base_0000002"):
        txn = bench.begin()
        bench.put(name, "p=1")
        bench.client.commit_txn(txn)
    bench.clean()
    assert not (bench.root / "p=1" / D1).exists()
    bench.drop("p=1")
    bench.add("p=2")
    (bench.root / "p=1").rename(bench.root / "p=2")
    bench.refuses(1, match="p=1 was dropped")
    bench.clean()
    bench.somebody_writes()
    assert bench.names(version=3) == ["base_0000002"]


def test_files_of_a_renamed_partition_do_not_belong_to_versions_before_the_rename(
    make_bench: Callable[..., Bench],
) -> None:
    """Who reads that one alone does not miss the one that had them."""
    bench = make_bench(partitions=("p=1", "p=3"))
    bench.we_write("p=1")
    bench.drop("p=1")
    bench.add("p=2")
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
    assert bench.readable() == {2: True, 1: False}


def test_the_horizon_of_a_dropped_partition_is_removed_and_its_versions_are_refused(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(partitions=("p=1", "p=2"), parameters={READABLE_FOR: "0 seconds"})
    bench.clean()
    bench.somebody_writes("p=1")
    bench.somebody_writes("p=1", overwrites=True)
    bench.clean()
    assert len(bench.notes.promises().horizons) == 1
    bench.drop("p=1")
    shutil.rmtree(bench.root / "p=1")
    bench.clean()
    assert bench.notes.promises().horizons == ()
    bench.refuses(1, 2, match="p=1 was dropped")
    bench.add("p=1")
    bench.somebody_writes("p=1")
    bench.refuses(1, 2)
    assert bench.names(version=3) == [D3]


def test_a_version_written_during_a_cleaning_is_refused_if_its_files_are_lost(
    bench: Bench,
) -> None:
    bench.we_write()
    table, overview = with_past(bench.client, bench.table, plan_only=False)
    bench.somebody_writes()
    for name in (D1, D2):
        shutil.rmtree(bench.root / name)
    bench.clean_by(overview, table)
    bench.refuses(2)


def test_a_renamed_table_keeps_its_versions(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()
    there = bench.root.with_name("renamed")
    bench.root.rename(there)
    old = bench.client.server.tables[bench.ref]
    bench.client.server.tables[bench.ref] = replace(old, location=f"file:{there}")
    assert bench.names(version=1) == [D1]


# ---- what is noted of it -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cleaned", "kept anew", "kept no more"])
def test_lost_files_are_noted_before_the_guarantee_ends(bench: Bench, how: str) -> None:
    """Nobody else knows of what was live when it began."""
    bench.somebody_writes()
    bench.keep()
    bench.truncate()
    if how == "cleaned":
        bench.give_up()
        bench.clean()
        assert not bench.notes.is_kept()
    elif how == "kept anew":
        bench.somebody_compacts()
        bench.keep()
    else:
        bench.keep_no_more()
    bench.somebody_writes()
    bench.keep()
    assert bench.names(version=2) == [D2]
    bench.refuses(1, match="removed without a write ID")


def test_an_empty_version_is_refused_if_earlier_writes_are_unknown(bench: Bench) -> None:
    """What somebody else wrote after keeping began, and 3.1 removed, nobody bears witness of."""
    bench.keep()
    bench.somebody_writes()
    bench.truncate()
    bench.give_up()
    bench.clean()
    bench.refuses(1, match="no files of versions up to")
    bench.somebody_writes()
    bench.keep()
    assert bench.refuses(1).oldest == 2 == history_of(bench.client, bench.table).oldest
    assert bench.names(version=2) == [D2]


def test_dropped_partitions_are_noted_before_the_guarantee_ends(halves: Bench) -> None:
    halves.somebody_writes("p=1")
    halves.somebody_writes("p=2")
    halves.keep()
    halves.drop("p=1")
    shutil.rmtree(halves.root / "p=1")
    halves.keep_no_more()
    halves.refuses(1, 2, match="p=1 was dropped")
    halves.add("p=1")
    halves.somebody_writes("p=1")
    for version in (1, 2):
        assert halves.refuses(version).oldest == 3
    assert halves.names(version=3) == ["delta_0000003_0000003_0000", D2]


def test_a_lost_base_makes_every_version_up_to_it_unreadable(halves: Bench) -> None:
    halves.somebody_writes("p=1")
    halves.somebody_writes("p=1", overwrites=True)
    halves.keep()
    halves.truncate("p=1")
    halves.keep_no_more()
    halves.refuses(1, 2, match="removed without a write ID")


def test_each_of_several_losses_is_detected(bench: Bench) -> None:
    for _ in range(3):
        bench.we_write()
    shutil.rmtree(bench.root / D3)
    bench.clean()
    assert bench.names(version=2) == [D1, D2]
    bench.refuses(3)
    bench.we_write()
    assert bench.names(version=4) == [D1, D2, D4]
    shutil.rmtree(bench.root / D1)
    bench.refuses(1, 2, 3, 4)  # an earlier loss excuses none that came later
    bench.clean()
    bench.we_write()
    assert bench.names(version=5) == [D2, D4, "delta_0000005_0000005_0000"]
    bench.clean()  # which finds nothing new
    assert bench.names(version=5) == [D2, D4, "delta_0000005_0000005_0000"]
    for version in (1, 2, 3, 4):
        assert bench.refuses(version).oldest == 5


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_overwrite_needs_no_files_lost_before_it_but_a_compacted_base_does(
    bench: Bench, *, is_compacted: bool
) -> None:
    """But one that was compacted since has only what was left then."""
    bench.we_write()
    table, overview = with_past(bench.client, bench.table, plan_only=False)
    shutil.rmtree(bench.root / D1)
    bench.somebody_writes(overwrites=not is_compacted)
    bench.clean_by(overview, table)
    bench.refuses(1)
    if not is_compacted:
        assert bench.names(version=2) == ["base_0000002"]
        return
    bench.put("base_0000002")
    (bench.root / "base_0000002" / METADATA_FILE).write_bytes(metadata_text("compacted"))
    bench.refuses(2)


def test_a_base_with_a_lower_write_id_does_not_replace_lost_files(bench: Bench) -> None:
    bench.somebody_writes()
    txn = bench.begin()
    bench.somebody_writes()
    bench.keep()
    bench.truncate()
    bench.keep_no_more()  # the third was there, and nobody else knows it
    bench.put("base_0000002")
    bench.client.commit_txn(txn)
    bench.refuses(3, match="removed without a write ID")


def test_versions_after_a_loss_in_a_kept_table_are_readable(bench: Bench) -> None:
    bench.somebody_writes()
    bench.keep()
    bench.truncate()
    bench.clean()
    bench.somebody_writes()
    bench.somebody_writes(overwrites=True)
    assert bench.names(version=2) == [D2]  # by the promise: a base has replaced it
    assert bench.names(version=3) == ["base_0000003"]
    assert bench.refuses(1).oldest == 2 == history_of(bench.client, bench.table).oldest


def test_a_history_reports_only_proved_empty_versions_as_readable(bench: Bench) -> None:
    bench.we_write()
    (note,) = bench.notes.commits()
    bench.notes.note_commit(replace(note, directories=()))
    bench.truncate()
    txn = bench.begin()
    bench.client.commit_txn(txn)
    assert bench.names(version=1) == []
    bench.refuses(2, match="it is unknown what those versions wrote")
    assert bench.readable() == {1: True, 2: False}
    assert history_of(bench.client, bench.table).oldest == 1


def test_versions_whose_commit_notes_were_removed_are_refused(bench: Bench) -> None:
    """TRUNCATE of Hive 3.1 removes the base, too, and an empty root would look like no past."""
    for _ in range(60):
        bench.we_write()
    bench.somebody_writes(overwrites=True)
    bench.notes.tidy_commits({"": WriteId(61)}, bench.client.server.now_s() + 1)
    assert bench.notes.commits() == ()
    bench.truncate()
    bench.refuses(1, 30, 60)


def test_a_history_and_a_reader_agree_on_versions_with_lost_files(bench: Bench) -> None:
    for _ in range(3):
        bench.we_write()
    shutil.rmtree(bench.root / D2)
    found = history_of(bench.client, bench.table)
    assert {v.number: v.is_readable for v in found.versions} == {1: True, 2: False, 3: False}
    assert bench.refuses(3).oldest == found.oldest == 1
    shutil.rmtree(bench.root / D1)
    assert history_of(bench.client, bench.table).oldest == 0


def test_each_path_of_a_commit_to_many_partitions_is_checked_at_most_twice(
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
    bench.refuses(1, match=f"p=7/{D1}, which version 1 wrote")
    bench.drop("p=7")
    bench.refuses(1, match="partition p=7 was dropped")


def test_versions_with_a_partition_dropped_while_drops_are_noted_are_refused(
    halves: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves.we_write("p=1")
    halves.we_write("p=2")
    ask, meanwhile = halves.client.valid_write_ids, iter([True])

    def asked(*args: Any) -> object:  # noqa: ANN401 - whatever the client takes
        found = ask(*args)
        if next(meanwhile, False):
            halves.we_write("p=2")  # version 3 still has both partitions
            halves.drop("p=1")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(halves.client, "valid_write_ids", asked)
        note_dropped(halves.client, halves.table)
    for _ in range(2):
        halves.refuses(2, 3, match="partition p=1 was dropped")
        halves.clean()
    halves.we_write("p=2")
    assert halves.names(version=4) == [D2, D3, D4]
