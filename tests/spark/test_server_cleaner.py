"""The server's own Cleaner goes on where our compaction stopped, and waits for our readers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionState,
    CompactionType,
)
from airflow_hiveacid.metastore.port import TxnType
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.versions.keeping import keep
from tests.support.chosen_versions import chosen
from tests.support.spark_lab import Lab, make_lab

_PATIENCE_S = 90.0
_SETTINGS = {
    "by the lowest open transaction": {"metastore.txn.use.minhistorywriteid": "false"},
    "by the history of each table": {"metastore.txn.use.minhistorywriteid": "true"},
}
OLD = [(0,), (1,), (2,)]
DONE = CompactionState.SUCCEEDED


@pytest.fixture(scope="module", params=list(_SETTINGS))
def cleaning(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalMetastore, bool]]:
    """A server that cleans, and whether it does so by the history of each table."""
    data_dir: Path = tmp_path_factory.mktemp("cleaning")
    settings = _SETTINGS[request.param]
    config = LocalMetastoreConfig(
        version=chosen("4.0.1"),
        data_dir=data_dir,
        cleaner_on=True,
        ends_with_parent=True,
        extra_settings={"metastore.compactor.cleaner.run.interval": "500ms", **settings},
    )
    with LocalMetastore(config) as server:
        yield server, "true" in settings.values()


@pytest.fixture
def lab(spark: SparkSession, cleaning: tuple[LocalMetastore, bool]) -> Iterator[Lab]:
    yield from make_lab(spark, cleaning[0])


def entry_of(lab: Lab, name: str) -> CompactionEntry:
    # On Derby, an entry that moves to the completed ones meanwhile is listed in both states.
    listed = lab.client.show_compactions(lab.info(name).ref)
    (entry,) = {entry.entry_id: entry for entry in listed}.values()
    return entry


def was_tried(entry: CompactionEntry) -> bool:
    """Whether the Cleaner took the entry up, well or badly."""
    return entry.state is DONE or entry.error_message is not None


def wait_until(lab: Lab, name: str, is_true: Callable[[CompactionEntry], bool]) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not is_true(entry_of(lab, name)):
        assert time.monotonic() < give_up_s, entry_of(lab, name)
        time.sleep(0.2)


def wait_until_cleaned(lab: Lab, name: str) -> None:
    wait_until(lab, name, lambda entry: entry.state is DONE)
    # A reader was open when it was made (docs/decisions/compaction.md), or not.
    (base,) = lab.directories(name)
    assert re.sub(r"_v\d+\Z", "", base) == "base_0000002"
    assert lab.rows(name) == [(0,), (2,)]


def change_and_compact(lab: Lab, name: str) -> None:
    lab.delete(name, "id = 1")
    lab.compact(name, CompactionChoice.MAJOR)


@contextmanager
def reading(lab: Lab, name: str) -> Iterator[DataFrame]:
    with read_snapshot(lab.endpoint, [f"{lab.db}.{name}"], job_key=f"{lab.db}/{name}") as snapshot:
        yield read_table(lab.spark, f"{lab.db}.{name}", snapshot)


@pytest.mark.promise("T20", "L8")
def test_hives_cleaner_waits_for_our_readers_and_cleans_after_our_compactions(
    lab: Lab, cleaning: tuple[LocalMetastore, bool]
) -> None:
    _, by_table = cleaning
    for name in ("first", "second", "free"):
        lab.table(name, {"id": "bigint"})
        lab.insert(name, OLD, ["id"])
    with reading(lab, "second") as second:
        with reading(lab, "first") as first:
            change_and_compact(lab, "second")
            change_and_compact(lab, "first")
            change_and_compact(lab, "free")
            if by_table:
                # The round that takes this one up has passed the others over, which came before.
                # (4.0.1 then fails over the open transactions of other tables; newer ones do not.)
                wait_until(lab, "free", was_tried)
            for name in ("first", "second"):
                assert entry_of(lab, name).state is CompactionState.READY_FOR_CLEANING
                assert not was_tried(entry_of(lab, name))
            assert sorted(tuple(row) for row in first.collect()) == OLD
        assert not was_tried(entry_of(lab, "second"))
        assert sorted(tuple(row) for row in second.collect()) == OLD
    for name in ("first", "second") if by_table else ("first", "second", "free"):
        wait_until_cleaned(lab, name)


def wait_for_a_round(lab: Lab, name: str) -> None:
    """Let the Cleaner go by: it takes up what is marked and not committed, whoever is open."""
    ref = lab.info(name).ref
    lab.client.request_compaction(ref, None, CompactionType.MAJOR, pool=lab.db)
    claim = lab.client.find_next_compaction("bait", worker_version="1", pool=lab.db)
    assert claim is not None
    txn_id = lab.client.open_txn(TxnType.COMPACTION)
    lab.client.update_compactor_state(replace(claim, highest_write_id=WriteId(1)), txn_id)
    lab.client.mark_compacted(claim)
    wait_until(lab, name, lambda entry: entry.state is not CompactionState.READY_FOR_CLEANING)
    lab.client.abort_txn(txn_id)


@pytest.mark.parametrize("cleaning", ["by the lowest open transaction"], indirect=True)
def test_hives_cleaner_keeps_the_inputs_of_our_compaction_while_a_reader_needs_them(
    lab: Lab,
) -> None:
    """A result with a plain name is read at once, and its inputs by those who began before."""
    for name in ("bait", "t"):
        lab.table(name, {"id": "bigint"})
    lab.insert("bait", OLD, ["id"])
    for row in OLD:
        lab.insert("t", [row], ["id"])
    inputs = set(lab.directories("t"))
    rounds = []

    def hold(step: str) -> None:
        if step == "marked":
            wait_for_a_round(lab, "bait")
            rounds.append(entry_of(lab, "t").state)

    with reading(lab, "t") as frame:
        lab.compact("t", CompactionChoice.MINOR, on_step=hold)
        assert rounds == [CompactionState.READY_FOR_CLEANING]
        assert set(lab.directories("t")) == {*inputs, "delta_0000001_0000003"}
        assert sorted(tuple(row) for row in frame.collect()) == OLD
    wait_until(lab, "t", lambda entry: entry.state is DONE)
    assert lab.directories("t") == ["delta_0000001_0000003"]
    assert lab.rows("t") == OLD


@pytest.mark.promise("V7")
@pytest.mark.long_cases("by the lowest open transaction")
def test_hives_cleaner_removes_nothing_from_a_kept_table(lab: Lab) -> None:
    lab.table("kept", {"id": "bigint"})
    lab.insert("kept", OLD, ["id"])
    keep(lab.client, lab.info("kept"))
    lab.delete("kept", "id = 1")
    before = set(lab.directories("kept"))
    lab.compact("kept", CompactionChoice.MAJOR)
    wait_until(lab, "kept", lambda entry: entry.state is not CompactionState.READY_FOR_CLEANING)
    assert set(lab.directories("kept")) == {*before, "base_0000002"}
    with read_snapshot(lab.endpoint, [f"{lab.db}.kept"], job_key=f"{lab.db}/past") as snapshot:
        frame = read_table(lab.spark, f"{lab.db}.kept", snapshot, version=1)
        assert sorted(tuple(row) for row in frame.collect()) == OLD


@pytest.mark.long
@pytest.mark.promise("V7")
def test_hives_cleaner_removes_nothing_from_a_kept_table_on_3x(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = LocalMetastoreConfig(
        version=chosen("3.1.3"),
        data_dir=tmp_path,
        initiator_on=True,  # and with it the cleaner
        ends_with_parent=True,
        extra_settings={
            "hive.compactor.check.interval": "1s",
            "hive.compactor.delta.num.threshold": "1",
            "metastore.compactor.cleaner.run.interval": "500ms",
            "hive.compactor.cleaner.run.interval": "500ms",
        },
    )
    with LocalMetastore(config) as server:
        for lab in make_lab(spark, server):
            for name in ("kept", "free"):
                lab.table(name, {"id": "bigint"})
                lab.insert(name, OLD, ["id"])
            keep(lab.client, lab.info("kept"))
            for name in ("kept", "free"):
                lab.delete(name, "id = 1")
            before = set(lab.directories("kept"))
            lab.compact("kept", CompactionChoice.MAJOR)
            # The server queues one of the other table: it has looked at both.
            wait_until(lab, "free", lambda _: True)
            time.sleep(3)
            assert set(lab.directories("kept")) == {*before, "base_0000002"}
            with read_snapshot(
                lab.endpoint, [f"{lab.db}.kept"], job_key=f"{lab.db}/past"
            ) as snapshot:
                frame = read_table(lab.spark, f"{lab.db}.kept", snapshot, version=1)
                assert sorted(tuple(row) for row in frame.collect()) == OLD
