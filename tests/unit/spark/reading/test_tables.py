"""How a snapshot is held, and what a session gets before the files of a table are listed.

These tests read no table.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError, FencedError, TransactionAbortedError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.reading.snapshots import ReadSnapshot, held_snapshot
from airflow_hiveacid.spark.reading import tables
from airflow_hiveacid.spark.reading.read_changes import read_changes
from airflow_hiveacid.spark.reading.tables import read_table
from tests.contract.bench import month
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.tables import id_table, table_of
from tests.support.terms import job_terms

KEY, TRY_1, TRY_2 = "dag/run/feed/-1", AttemptId(1, "1" * 12), AttemptId(2, "2" * 12)


@pytest.fixture
def partitioned(client: FakeClient) -> str:
    """A table's name; it has one partition."""
    table = id_table(client, "p", by="month string")
    client.add_partitions(table, [month("1")])
    return str(table.ref)


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", ["none", "opened", "allocated", "locked", "fenced", "snapshot"])
def test_a_reader_that_is_killed_during_its_restart_stays_aborted(
    server: FakeMetastore, client: FakeClient, partitioned: str, step: str
) -> None:
    """No transaction hides what the reader writes afterwards, for example a change feed."""
    other, ref, seen = FakeClient(server), TableRef.parse(partitioned), list[str]()

    def on_step(name: str) -> None:
        seen.append(name)
        if seen == ["opened"]:
            other.add_partitions(other.get_table(ref), [month("2")])
        elif seen.count(name) == 2 and name == step:
            abort_job(other, KEY, TRY_1, [ref])

    if step == "none":
        with held_snapshot(
            client,
            [partitioned],
            job_terms(KEY, attempt=TRY_1, on_step=on_step),
        ) as s:
            s.confirm_alive()
    else:
        with (
            pytest.raises(TransactionAbortedError),
            held_snapshot(
                client,
                [partitioned],
                job_terms(KEY, attempt=TRY_1, on_step=on_step),
            ) as snapshot,
        ):
            snapshot.confirm_alive()
    assert seen.count("opened") == 2
    ends = [txn.state for txn in server.txns.values()]
    last = TxnState.COMMITTED if step == "none" else TxnState.ABORTED
    assert ends == [TxnState.ABORTED, last]
    assert server.locks == {}


def test_a_late_reader_of_an_earlier_try_is_fenced_and_does_not_abort_the_later_try(
    server: FakeMetastore, client: FakeClient, partitioned: str
) -> None:
    """The driver of the earlier try waited in the queue of a cluster."""
    ref = TableRef.parse(partitioned)
    with held_snapshot(client, [partitioned], job_terms(KEY, attempt=TRY_2)) as snapshot:
        with (
            pytest.raises(FencedError),
            held_snapshot(
                FakeClient(server),
                [partitioned],
                job_terms(KEY, attempt=TRY_1),
            ),
        ):
            pytest.fail("it is over")
        assert abort_job(FakeClient(server), KEY, TRY_1, [ref]) == ()
        snapshot.confirm_alive()


def test_python_gets_store_settings_and_tokens_before_files_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, object]] = []

    def resolve(spark: object, *_: object, **__: object) -> SimpleNamespace:
        done.append(("list", spark))
        return SimpleNamespace(rows=lambda columns: ("rows", columns))

    monkeypatch.setattr(tables, "give_store_settings", lambda s: done.append(("settings", s)))
    monkeypatch.setattr(tables, "give_store_tokens", lambda s: done.append(("tokens", s)))
    monkeypatch.setattr(tables, "resolve_target", resolve)
    table = table_of("a int", location="hdfs://nn/d/t")
    nothing: Any = None
    session: Any = "a session"
    snapshot = ReadSnapshot(client=nothing, snapshot=nothing, tables={table.ref: table})
    assert read_table(session, "d.t", snapshot, columns=["a"]) == ("rows", ["a"])
    assert done == [("settings", session), ("tokens", session), ("list", session)]


def test_a_read_of_a_table_outside_the_snapshot_raises_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing: Any = None
    taken = table_of("", location="")
    snapshot = ReadSnapshot(client=nothing, snapshot=nothing, tables={taken.ref: taken})
    monkeypatch.setattr(tables, "give_store_settings", lambda _: None)
    monkeypatch.setattr(tables, "give_store_tokens", lambda _: None)
    monkeypatch.setattr(
        "airflow_hiveacid.spark.reading.read_changes.give_store_settings", lambda _: None
    )
    monkeypatch.setattr(
        "airflow_hiveacid.spark.reading.read_changes.give_store_tokens", lambda _: None
    )
    for read in (
        lambda: read_table(nothing, "D.u", snapshot),
        lambda: read_changes(nothing, "D.u", snapshot, since=1),
    ):
        with pytest.raises(
            ConfigurationError, match=r"does not include table d\.u, only d\.t; name"
        ):
            read()
