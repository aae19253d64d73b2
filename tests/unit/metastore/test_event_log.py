"""What a log of events tells of one table's commits, and what it must not be taken to tell."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.event_log import (
    ALTERED,
    COMMITTED,
    DROPPED,
    GIVEN,
    MADE,
    Event,
    commits_of,
)

T = TableRef.parse("db.t")


def event(kind: str, time_s: int, table: str | None = None, **told: object) -> Event:
    return Event(kind=kind, time_s=time_s, table=table, message=json.dumps(told))


def given(txn_id: int, write_id: int, name: str = "t", time_s: int = 1) -> Event:
    return event(
        GIVEN,
        time_s,
        dbName="db",
        tableName=name,
        txnIdList=[txn_id],
        writeIdList=[write_id],
    )


def committed(txn_id: int, time_s: int) -> Event:
    return event(COMMITTED, time_s, txnid=txn_id)


def altered(before: str, after: str) -> Event:
    def table(name: str) -> str:
        return json.dumps({"1": {"str": name}, "2": {"str": "db"}})

    return event(
        ALTERED,
        2,
        f"db.{before}",
        tableObjBeforeJson=table(before),
        tableObjAfterJson=table(after),
    )


def test_a_commit_is_that_of_the_write_id_of_its_transaction() -> None:
    events = [given(7, 1), given(8, 2), given(9, 3), committed(9, 30), committed(7, 40)]
    assert commits_of(events, T) == {3: 30, 1: 40}


def test_other_tables_have_write_ids_and_commits_of_their_own() -> None:
    events = [given(7, 1, "u"), given(8, 1), committed(7, 30), committed(8, 40)]
    assert commits_of(events, T) == {1: 40}
    assert commits_of(events, TableRef.parse("db.u")) == {1: 30}


def test_a_transaction_may_write_several_tables() -> None:
    events = [given(7, 4, "u"), given(7, 1), committed(7, 30)]
    assert commits_of(events, T) == {1: 30}


@pytest.mark.parametrize("kind", [MADE, DROPPED])
def test_what_a_table_of_that_name_had_before_is_not_its_own(kind: str) -> None:
    old = [given(7, 1), committed(7, 30), given(8, 2)]
    events = [*old, event(kind, 31, "db.t"), committed(8, 32), given(9, 1), committed(9, 40)]
    assert commits_of(events, T) == {1: 40}
    assert commits_of([*old, event(kind, 31, "db.u"), committed(8, 32)], T) == {1: 30, 2: 32}


@pytest.mark.parametrize("ends", [("t", "gone"), ("came", "t")])
def test_a_table_that_was_renamed_brings_none_of_its_own_and_leaves_none(
    ends: tuple[str, str],
) -> None:
    events = [given(7, 1), committed(7, 30), altered(*ends), given(9, 2), committed(9, 40)]
    assert commits_of(events, T) == {2: 40}


def test_a_table_that_changes_in_place_stays_what_it_was() -> None:
    events = [given(7, 1), altered("t", "t"), altered("u", "v"), committed(7, 30)]
    assert commits_of(events, T) == {1: 30}


@pytest.mark.parametrize("message", ["{}", '{"tableObjBeforeJson": "?"}', "?", '["a"]'])
def test_a_change_that_nobody_can_read_may_be_a_rename(message: str) -> None:
    strange = Event(kind=ALTERED, time_s=2, table="db.u", message=message)
    assert commits_of([given(7, 1), strange, committed(7, 30)], T) == {}


def test_messages_may_be_packed() -> None:
    def packed(one: Event) -> Event:
        text = base64.b64encode(gzip.compress(one.message.encode())).decode()
        return Event(kind=one.kind, time_s=one.time_s, table=one.table, message=text)

    events = [given(7, 1), altered("u", "v"), committed(7, 30)]
    assert commits_of(map(packed, events), T) == {1: 30}


def test_a_log_that_begins_later_tells_less() -> None:
    assert commits_of([committed(7, 30), given(8, 2), committed(8, 40)], T) == {2: 40}


def test_what_is_not_committed_has_no_time() -> None:
    assert commits_of([given(7, 1), event("ABORT_TXN", 30, txnid=7)], T) == {}
