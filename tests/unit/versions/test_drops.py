"""What our DROP PARTITION notes, so that a restore does not go back to less than there was."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from airflow_hiveacid.format.errors import MetastoreUnavailableError, VersionGoneError
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.metastore_statements import AddPartitions, DropPartitions, NewPartition
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.versions.losses import noted_drop
from airflow_hiveacid.versions.restoring import differing_now
from tests.support.terms import job_terms
from tests.unit.versions.conftest import Bench


def drop(bench: Bench, *values: str, removes: bool = True) -> None:
    """As HiveAcidHook does it; a server removes the files of what it drops."""
    asked = DropPartitions(
        target=str(bench.ref), partitions=tuple((("p", value),) for value in values)
    )
    terms = job_terms(None, lock_timeout_s=10.0, clock=bench.clock)
    run_statement(bench.client, asked, terms, around_drop=noted_drop)
    for value in values if removes else ():
        shutil.rmtree(bench.root / f"p={value}")


def add(bench: Bench, value: str) -> None:
    new = (NewPartition(values=(("p", value),)),)
    terms = job_terms(None, lock_timeout_s=10.0, clock=bench.clock)
    run_statement(bench.client, AddPartitions(target=str(bench.ref), partitions=new), terms)
    (bench.root / f"p={value}").mkdir()


def restore(bench: Bench, number: int) -> list[str]:
    found = differing_now(bench.client, bench.table, VersionSpec(number=number))
    return [str(one.info.name) for one in found]


@pytest.fixture
def others(make_bench: Callable[..., Bench]) -> Bench:
    """A table that is not kept, and that only other clients write: p=1, then p=2 and p=3."""
    bench = make_bench(partitions=("p=1", "p=2", "p=3"))
    for place in ("p=1", "p=2", "p=3"):
        bench.somebody_writes(place)
    return bench


def test_a_restore_to_a_version_with_a_dropped_partition_is_refused(
    others: Bench,
) -> None:
    drop(others, "2", "3")
    others.somebody_writes("p=1")
    assert restore(others, 1) == ["p=1"]
    for version, gone in ((2, "partition p=2 was"), (3, "partitions p=2, p=3 were")):
        with pytest.raises(VersionGoneError, match=f"{gone} dropped") as caught:
            restore(others, version)
        assert not caught.value.keeping_helps
    assert restore(others, 4) == []


def test_a_recreated_partition_does_not_hide_the_loss_of_the_dropped_one(others: Bench) -> None:
    drop(others, "2")
    add(others, "2")
    others.somebody_writes("p=2")
    with pytest.raises(VersionGoneError, match="p=2 had files up to version 3"):
        restore(others, 2)
    assert restore(others, 4) == []


def test_a_later_cleaning_does_not_extend_the_loss_to_later_versions(others: Bench) -> None:
    drop(others, "3")
    others.somebody_writes("p=1")
    others.clean()
    assert restore(others, 4) == []
    with pytest.raises(VersionGoneError):
        restore(others, 3)


def test_dropping_a_partition_without_files_loses_no_version(others: Bench) -> None:
    add(others, "4")
    drop(others, "4")
    shutil.rmtree(others.root / "p=3")  # by hand
    drop(others, "3", removes=False)
    others.somebody_writes("p=1")
    assert restore(others, 3) == ["p=1"]


def test_dropping_a_compacted_partition_loses_versions_since_the_first_unnoted_write(
    halves: Bench,
) -> None:
    """What we wrote is in our notes; a base does not tell when its partition was made."""
    halves.we_write("p=1")
    halves.somebody_writes("p=1")
    halves.put("base_0000003", "p=2")
    halves.we_write("p=1")
    drop(halves, "2")
    halves.we_write("p=1")
    assert restore(halves, 1) == ["p=1"]
    for version in (2, 3):
        with pytest.raises(VersionGoneError, match="p=2 was dropped"):
            restore(halves, version)


def test_complete_commit_notes_alone_decide_which_versions_a_drop_loses(halves: Bench) -> None:
    halves.we_write("p=1")
    halves.we_write("p=2")
    drop(halves, "2")
    (reset,) = halves.notes.resets()
    assert (reset.lowest, reset.write_id) == (2, 2)
    halves.we_write("p=1")
    halves.clean()
    assert halves.notes.resets() == (reset,)
    assert restore(halves, 1) == ["p=1"]
    assert restore(halves, 3) == []


@pytest.mark.parametrize("is_done", [True, False])
def test_a_drop_with_a_lost_response_is_noted_only_if_it_was_done(
    others: Bench, *, is_done: bool
) -> None:
    lost = MetastoreUnavailableError(uris=(), method="drop_partitions_req", reason="lost")
    others.client.server.break_next("drop_partitions", lost, is_done=is_done)
    with pytest.raises(MetastoreUnavailableError):
        drop(others, "2")
    assert len(others.notes.resets()) == int(is_done)


def test_a_drop_succeeds_even_if_its_notes_cannot_be_written(
    others: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    (others.root / HIDDEN_DIRECTORY).write_text("no directory")
    drop(others, "2")
    assert "cannot write notes of dropped partitions" in caplog.text
    names = others.client.partition_names(others.table)
    assert PartitionName.parse("p=2") not in names
