from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Horizon, Tag
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan import cleaning as cleaning_module
from airflow_hiveacid.plan.cleaning import plan_cleaning
from airflow_hiveacid.storage.stores import json_files, listing
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import make_tag
from tests.unit.versions import conftest as bench_module
from tests.unit.versions.conftest import Bench, beside

D1, D2 = "delta_0000001_0000001_0000", "delta_0000002_0000002_0000"
HORIZON = Horizon(partition=PartitionName(), write_id=WriteId(2), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]


def test_an_expired_tag_is_refused_and_its_files_are_removed(bench: Bench) -> None:
    bench.we_write()
    now_s = server_now(bench.client) or 0.0
    bench.tag(version=1, expires_s=now_s + 50)
    bench.we_write(overwrites=True)
    bench.clean()
    assert bench.names(tag="a") == [D1]
    bench.clock.advance(51)
    with pytest.raises(errors.VersionUnknownError, match="expired"):
        bench.names(tag="a")
    bench.clean()
    assert not (bench.root / D1).exists()
    assert bench.notes.tags() == ()


def test_a_tag_that_may_have_expired_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not tell its time does not tell whether the cleaner may have come."""
    bench.we_write()
    now_s = server_now(bench.client) or 0.0
    bench.tag(version=1, expires_s=now_s + 50)
    bench.tag("b", version=1)
    monkeypatch.setattr(bench_module, "server_now", lambda _: None)
    with pytest.raises(errors.VersionUnknownError, match="expired"):
        bench.names(tag="a")
    assert bench.names(tag="b") == [D1]


def test_a_tag_keeps_its_files_in_a_table_that_is_not_kept(bench: Bench) -> None:
    bench.we_write()
    bench.tag(version=1)
    bench.we_write(overwrites=True)
    bench.somebody_compacts(CompactionState.READY_FOR_CLEANING)
    bench.clean()
    assert not bench.notes.is_kept()
    assert bench.names(tag="a") == [D1]


@pytest.mark.parametrize("how", ["expired", "dropped"])
def test_cleaning_waits_for_readers_of_an_expired_or_dropped_tag(expiring: Bench, how: str) -> None:
    """Also where others of the same replacement went long ago, and a horizon with them."""
    expiring.we_write()
    end_s = expiring.client.server.now_s() + 50
    expiring.tag(version=1, expires_s=end_s)
    expiring.we_write()
    expiring.we_write(overwrites=True)
    expiring.clean()
    assert not (expiring.root / D2).exists()
    reader = expiring.client.open_txn()
    assert expiring.names(tag="a") == [D1]
    if how == "expired":
        expiring.clock.advance(60)
    else:
        expiring.notes.forget_tag("a")
    for _ in range(2):
        expiring.clean()
        assert (expiring.root / D1).exists()
    later = expiring.client.open_txn()
    expiring.client.commit_txn(reader)
    expiring.clean()
    assert not (expiring.root / D1).exists()
    expiring.client.commit_txn(later)


def test_a_tag_made_during_a_cleaning_keeps_its_files(
    expiring: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiring.we_write()
    expiring.we_write(overwrites=True)

    def decide(*args: object, **terms: object) -> object:
        plan = plan_cleaning(*args, **terms)  # type: ignore[arg-type]
        expiring.tag(version=1)
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(cleaning_module, "plan_cleaning", decide)
        expiring.clean()
    assert expiring.names(tag="a") == [D1]
    expiring.refuses(1)


def test_a_tag_of_a_version_below_a_concurrent_horizon_is_refused(expiring: Bench) -> None:
    expiring.we_write()
    expiring.we_write(overwrites=True)
    looks = []

    def listed(location: str) -> object:
        looks.append(location)
        if len(looks) == 2:  # a cleaner has come between the tag and the second look
            expiring.notes.note_horizon(HORIZON)
        return list_table(location)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "list_table", listed)
        with pytest.raises(errors.VersionGoneError):
            expiring.tag(version=1)
    assert expiring.notes.tags() == ()


def test_a_tag_of_a_version_replaced_and_expired_since_its_snapshot_is_refused(
    expiring: Bench,
) -> None:
    expiring.we_write()

    def replace_and_expire() -> None:
        """Its files are there still, but who removes them has not seen the tag."""
        expiring.we_write(overwrites=True)
        expiring.notes.note_horizon(HORIZON)

    cleaning = beside(VersionNotes, "note_tag", replace_and_expire)
    with cleaning, pytest.raises(errors.VersionGoneError):
        expiring.tag(version=1)
    assert expiring.notes.tags() == ()


def test_a_tag_with_missing_files_is_refused(bench: Bench) -> None:
    bench.we_write()
    bench.tag(version=1)
    bench.we_write(overwrites=True)
    keep_files = bench.root / D1 / "bucket_00000"
    keep_files.unlink()
    keep_files.parent.rmdir()
    with pytest.raises(errors.VersionGoneError, match="is missing"):
        bench.names(tag="a")


def test_a_tag_is_refused_after_its_table_was_moved(bench: Bench) -> None:
    """The files there have the names of the tag's files, and may have other rows."""
    bench.we_write()
    bench.tag(version=1)
    bench.we_write(overwrites=True)
    assert bench.names(tag="a") == [D1]
    there = bench.root.with_name("elsewhere")
    shutil.copytree(bench.root, there)
    old = bench.client.server.tables[bench.ref]
    bench.client.server.tables[bench.ref] = replace(old, location=f"file:{there}")
    with pytest.raises(errors.VersionGoneError, match=f"was at {old.location}"):
        bench.names(tag="a")


def test_making_the_same_tag_again_changes_its_expiry(bench: Bench) -> None:
    bench.we_write()
    bench.tag(version=1, expires_s=5e9)
    bench.tag(version=1)
    assert [tag.expires_s for tag in bench.notes.tags()] == [None]


def test_ending_the_guarantee_of_a_table_with_a_tag_is_refused(bench: Bench) -> None:
    bench.we_write()
    bench.tag()
    with pytest.raises(errors.TableError, match="tag 'a'"):
        bench.keep_no_more()


# ---- tags that move ------------------------------------------------------------------------------


def in_need(bench: Bench, **terms: Any) -> Tag:  # noqa: ANN401
    """Tag a version whose files nothing but the tag holds."""
    bench.we_write()
    tag = bench.tag(version=1, **terms)
    bench.we_write(overwrites=True)
    bench.clean()
    assert bench.names(tag="a") == [D1]
    return tag


@pytest.mark.parametrize("is_late", [False, True])
def test_a_tag_moved_during_its_removal_is_kept_or_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    """The cleaner has found the older one expired; the other has asked for the time before."""
    end_s = bench.client.server.now_s() + 50
    in_need(bench, expires_s=end_s)
    note_tag = VersionNotes.note_tag

    def later(notes: VersionNotes, tag: Tag) -> None:
        if is_late:
            bench.clock.advance(60)
            bench.clean()
        note_tag(notes, tag)
        if not is_late:
            monkeypatch.setattr(VersionNotes, "note_tag", note_tag)
            bench.clock.advance(0.01)

    monkeypatch.setattr(VersionNotes, "note_tag", later)
    if is_late:
        with pytest.raises(errors.VersionGoneError):
            bench.tag(version=1)
        assert bench.notes.tags() == ()
        return
    bench.tag(version=1)
    bench.clock.advance(60)
    bench.clean()
    assert bench.names(tag="a") == [D1]


def test_cleaning_removes_only_the_expired_tag_and_not_its_replacement(bench: Bench) -> None:
    end_s = bench.client.server.now_s() + 50
    tag = in_need(bench, expires_s=end_s)
    bench.clock.advance(49)
    moved = replace(tag, made_s=end_s - 1, expires_s=None)
    bench.clock.advance(2)
    with beside(VersionNotes, "forget_this_tag", lambda: bench.notes.note_tag(moved)):
        bench.clean()
    assert bench.notes.tags() == (moved,)
    assert bench.names(tag="a") == [D1]


def test_a_tag_is_moved_to_a_different_version_only_if_requested(bench: Bench) -> None:
    in_need(bench)
    with pytest.raises(errors.TagTakenError, match="for version 1"):
        bench.tag(version=2)
    bench.tag(version=2, moves=True)
    assert bench.names(tag="a") == ["base_0000002"]
    assert len(bench.notes.noted_tags()) == 1
    bench.clean()
    assert not (bench.root / D1).exists()


def test_a_tag_that_cannot_be_moved_is_kept_with_its_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_need(bench)
    note_tag = VersionNotes.note_tag

    def beside_a_cleaner(notes: VersionNotes, tag: Tag) -> None:
        note_tag(notes, tag)
        bench.clock.advance(10)
        bench.clean()
        shutil.rmtree(bench.root / "base_0000002")

    monkeypatch.setattr(VersionNotes, "note_tag", beside_a_cleaner)
    with pytest.raises(errors.VersionGoneError):
        bench.tag(version=2, moves=True)
    assert bench.names(tag="a") == [D1]


def test_the_note_of_an_interrupted_tag_move_is_removed_after_a_time(bench: Bench) -> None:
    tag = in_need(bench)
    bench.notes.note_tag(replace(tag, made_s=tag.made_s + 5))
    bench.clean()
    assert len(bench.notes.noted_tags()) == 2
    bench.clock.advance(4000)
    bench.clean()
    assert len(bench.notes.noted_tags()) == 1


def test_a_retry_of_tagging_the_current_version_returns_the_tag_of_the_first_try(
    bench: Bench,
) -> None:
    bench.we_write()
    first = bench.tag(made_by="dag/run/tag/-1")
    bench.we_write()
    for moves in (False, True):
        again = bench.tag(made_by="dag/run/tag/-1", moves=moves)
        assert again == first
    with pytest.raises(errors.TagTakenError):
        bench.tag(made_by="dag/other/tag/-1")


def test_making_a_tag_again_succeeds_after_aborted_transactions_were_forgotten(
    bench: Bench,
) -> None:
    bench.we_write()
    tag = bench.tag(version=1)
    bench.notes.note_tag(replace(tag, write_ids="default.t:1:9223372036854775807::1"))
    bench.tag(version=1)


def test_a_manual_tag_of_the_current_version_is_not_treated_as_a_retry(bench: Bench) -> None:
    bench.we_write()
    end_s = bench.client.server.now_s() + 50
    bench.tag(expires_s=end_s, made_by="ada")
    again = bench.tag(made_by="ada", may_retry=False)
    assert (again.version, again.expires_s) == (1, None)
    assert bench.notes.tags() == (again,)
    bench.we_write()
    with pytest.raises(errors.TagTakenError):
        bench.tag(made_by="ada", may_retry=False)


class DeathError(BaseException):
    """Nothing is undone."""


@pytest.mark.parametrize("asked", [VersionSpec(), VersionSpec.of(version=2)])
def test_the_tag_of_a_killed_try_is_checked_again_by_the_retry(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, asked: VersionSpec
) -> None:
    """A cleaner that had decided before it was written may have removed its files."""
    bench.we_write()
    bench.we_write(overwrites=True)
    note_tag = VersionNotes.note_tag

    def dies(notes: VersionNotes, tag: Tag) -> None:
        note_tag(notes, tag)
        monkeypatch.setattr(VersionNotes, "forget_this_tag", lambda *_: None)
        raise DeathError

    with monkeypatch.context() as patch:
        patch.setattr(VersionNotes, "note_tag", dies)
        with pytest.raises(DeathError):
            make_tag(bench.client, bench.table, "a", asked, made_by="dag/run/tag/-1")
    monkeypatch.undo()
    bench.we_write(overwrites=True)
    shutil.rmtree(bench.root / "base_0000002")
    if asked.is_now:
        made = make_tag(bench.client, bench.table, "a", asked, made_by="dag/run/tag/-1")
        assert bench.notes.tags() == (made,)
        assert bench.names(tag="a") == ["base_0000003"]
        return
    with pytest.raises(errors.VersionGoneError):
        make_tag(bench.client, bench.table, "a", asked, made_by="dag/run/tag/-1")


def test_one_of_two_concurrent_tags_with_the_same_name_is_refused(bench: Bench) -> None:
    bench.we_write()
    bench.we_write()

    def tag_another() -> None:
        bench.clock.advance(1)
        bench.tag(version=2, made_by="dag/1/tag/-1")

    refused = pytest.raises(errors.TagTakenError, match="for version 2")
    with beside(VersionNotes, "note_tag", tag_another), refused:
        bench.tag(version=1, made_by="dag/2/tag/-1")
    assert [tag.version for tag in bench.notes.noted_tags()] == [2]


def test_cleaning_many_partitions_reads_a_tag_fewer_than_ten_times(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names all of them, and each would read it twice."""
    places = tuple(f"p={n}" for n in range(20))
    bench = make_bench(partitions=places)
    for _ in range(2):
        for place in places:
            bench.somebody_writes(place, overwrites=True)
    bench.tag()
    for place in places:
        bench.somebody_writes(place, overwrites=True)
    read, names = json_files.read_bytes, []

    def read_bytes(fs: Any, path: str) -> bytes:  # noqa: ANN401
        names.append(path.rpartition("/")[2])
        return read(fs, path)

    monkeypatch.setattr(json_files, "read_bytes", read_bytes)
    bench.clean()
    assert sum(name.startswith("_tag_") for name in names) < 10
    assert len(bench.names(tag="a")) == 20
    assert len([*bench.root.glob("p=*/base_*")]) == 40
