"""The commits of one table in the metastore's event log, and the events that prove nothing."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from airflow_hiveacid.format.errors import MetastoreCallError, MetastoreUnavailableError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import MetastoreClient, event_calls
from airflow_hiveacid.metastore.gen.notifications import ttypes

T = TableRef.parse("db.t")


def event(kind: str, time_s: int, table: str | None = None, **told: object) -> event_calls.Event:
    return event_calls.Event(kind=kind, time_s=time_s, table=table, message=json.dumps(told))


def given(txn_id: int, write_id: int, name: str = "t", time_s: int = 1) -> event_calls.Event:
    return event(
        event_calls.GIVEN,
        time_s,
        dbName="db",
        tableName=name,
        txnIdList=[txn_id],
        writeIdList=[write_id],
    )


def committed(txn_id: int, time_s: int) -> event_calls.Event:
    return event(event_calls.COMMITTED, time_s, txnid=txn_id)


def altered(before: str, after: str) -> event_calls.Event:
    def table(name: str) -> str:
        return json.dumps({"1": {"str": name}, "2": {"str": "db"}})

    return event(
        event_calls.ALTERED,
        2,
        f"db.{before}",
        tableObjBeforeJson=table(before),
        tableObjAfterJson=table(after),
    )


def test_a_commit_event_is_matched_to_the_write_id_of_its_transaction() -> None:
    events = [given(7, 1), given(8, 2), given(9, 3), committed(9, 30), committed(7, 40)]
    assert event_calls.commits_of(events, T) == {3: 30, 1: 40}


def test_write_ids_of_other_tables_are_ignored() -> None:
    events = [given(7, 1, "u"), given(8, 1), committed(7, 30), committed(8, 40)]
    assert event_calls.commits_of(events, T) == {1: 40}
    assert event_calls.commits_of(events, TableRef.parse("db.u")) == {1: 30}
    assert event_calls.commits_of(events, TableRef.parse("elsewhere.t")) == {}


def test_a_transaction_may_write_several_tables() -> None:
    events = [given(7, 4, "u"), given(7, 1), committed(7, 30)]
    assert event_calls.commits_of(events, T) == {1: 30}


@pytest.mark.parametrize("kind", [event_calls.MADE, event_calls.DROPPED])
def test_commits_of_an_earlier_table_with_the_same_name_are_ignored(kind: str) -> None:
    old = [given(7, 1), committed(7, 30), given(8, 2)]
    made = [*old, event(kind, 31, "db.t"), committed(8, 32)]
    assert event_calls.commits_of(made, T) == {}
    assert event_calls.commits_of([*made, given(9, 1), committed(9, 40)], T) == {1: 40}
    assert event_calls.commits_of([*old, event(kind, 31, "db.u"), committed(8, 32)], T) == {
        1: 30,
        2: 32,
    }


@pytest.mark.parametrize("ends", [("t", "gone"), ("came", "t")])
def test_commits_from_before_a_rename_to_or_from_this_name_are_ignored(
    ends: tuple[str, str],
) -> None:
    events = [given(7, 1), committed(7, 30), altered(*ends), given(9, 2), committed(9, 40)]
    assert event_calls.commits_of(events, T) == {2: 40}


def test_a_change_without_a_rename_keeps_the_commits_of_a_table() -> None:
    events = [given(7, 1), altered("t", "t"), altered("u", "v"), committed(7, 30)]
    assert event_calls.commits_of(events, T) == {1: 30}


@pytest.mark.parametrize("message", ["{}", '{"tableObjBeforeJson": "?"}', "?", '["a"]'])
def test_an_unreadable_change_event_is_treated_as_a_rename(message: str) -> None:
    strange = event_calls.Event(kind=event_calls.ALTERED, time_s=2, table="db.u", message=message)
    assert event_calls.commits_of([given(7, 1), strange, committed(7, 30)], T) == {}


def test_compressed_event_messages_are_read() -> None:
    def packed(one: event_calls.Event) -> event_calls.Event:
        text = base64.b64encode(gzip.compress(one.message.encode())).decode()
        return event_calls.Event(kind=one.kind, time_s=one.time_s, table=one.table, message=text)

    events = [given(7, 1), altered("u", "v"), committed(7, 30)]
    assert event_calls.commits_of(map(packed, events), T) == {1: 30}


def test_a_commit_without_its_allocation_event_is_ignored() -> None:
    assert event_calls.commits_of([committed(7, 30), given(8, 2), committed(8, 40)], T) == {2: 40}


def test_an_aborted_write_has_no_commit_time() -> None:
    assert event_calls.commits_of([given(7, 1), event("ABORT_TXN", 30, txnid=7)], T) == {}


class Answers:
    """A connection to a server with a log of so many commits, each of its own transaction."""

    def __init__(self, commits: int, *, forgotten: int = 0) -> None:
        self.asked: list[int] = []
        self._newest = 2 * commits
        self._first = forgotten

    def call(self, method: str, *arguments: ttypes.NotificationEventRequest, **_: object) -> object:
        if method == "get_current_notificationEventId":
            return ttypes.CurrentNotificationEventId(eventId=self._newest)
        (request,) = arguments
        self.asked.append(request.lastEvent)
        first = max(request.lastEvent, self._first) + 1
        last = min(self._newest, first + request.maxEvents - 1)
        return ttypes.NotificationEventResponse(
            events=[_struct(number) for number in range(first, last + 1)]
        )


def _struct(number: int) -> ttypes.NotificationEvent:
    of = (number + 1) // 2
    told = given(of, of, time_s=1000 + of) if number % 2 else committed(of, 1000 + of)
    return ttypes.NotificationEvent(
        eventId=number,
        eventTime=told.time_s,
        eventType=told.kind,
        dbName="db",
        tableName=" ",  # as 3.1 has it
        message=told.message,
    )


def client_of(connection: object) -> MetastoreClient:
    client = MetastoreClient(MetastoreEndpoint(uris=("thrift://lab:1",)))
    client._connection = connection  # type: ignore[assignment]
    return client


def test_the_event_log_is_read_page_by_page() -> None:
    answers = Answers(commits=2500)
    told = client_of(answers).logged_commits(T)
    assert told == {number: 1000 + number for number in range(1, 2501)}
    assert answers.asked == [0, 2000, 4000]


def test_only_the_newest_part_of_a_long_event_log_is_read() -> None:
    answers = Answers(commits=150_000, forgotten=299_990)
    assert client_of(answers).logged_commits(T) == {n: 1000 + n for n in range(149_996, 150_001)}
    assert answers.asked == [100_000]


def test_reading_ends_if_the_metastore_omits_the_last_events() -> None:
    class Filtered(Answers):
        def call(
            self, method: str, *arguments: ttypes.NotificationEventRequest, **_: object
        ) -> object:
            if method == "get_next_notification" and arguments[0].lastEvent >= 4:
                return ttypes.NotificationEventResponse(events=[])
            self._newest = 4 if arguments else 9
            return super().call(method, *arguments)

    assert client_of(Filtered(commits=2)).logged_commits(T) == {1: 1001, 2: 1002}


@pytest.mark.parametrize(
    "error",
    [
        MetastoreCallError(method="get_next_notification", reason="Internal error"),
        MetastoreUnavailableError(uris=(), method="get_next_notification", reason="hung up"),
    ],
)
def test_an_unreadable_event_log_gives_no_commit_times(error: Exception) -> None:
    class Refusing:
        def call(self, *_: object, **__: object) -> object:
            raise error

    assert client_of(Refusing()).logged_commits(T) == {}


def test_an_event_log_with_contradicting_server_clocks_gives_no_commit_times() -> None:
    events = [given(7, 1), committed(7, 1300), given(8, 2, time_s=1000), committed(8, 1001)]
    assert event_calls.commits_of(events, T) == {}
    behind = [given(7, 1), committed(7, 1120), given(8, 2, time_s=1000), committed(8, 1001)]
    assert event_calls.commits_of(behind, T) == {1: 1120, 2: 1001}
