from __future__ import annotations

import pickle

import pytest

from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionEntry,
    CompactionState,
    CompactionType as CompactionKind,
)
from airflow_hiveacid.metastore.gen.compaction.ttypes import (
    CompactionInfoStruct,
    CompactionType,
    OptionalCompactionInfoStruct,
    ShowCompactResponse,
    ShowCompactResponseElement,
)
from tests.contract.stub_server import StubServer


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("initiated", CompactionState.INITIATED),
        ("working", CompactionState.WORKING),
        ("ready for cleaning", CompactionState.READY_FOR_CLEANING),
        ("failed", CompactionState.FAILED),
        ("succeeded", CompactionState.SUCCEEDED),
        ("attempted", CompactionState.ATTEMPTED),
        ("did not initiate", CompactionState.DID_NOT_INITIATE),
        ("refused", CompactionState.REFUSED),
        ("aborted", CompactionState.ABORTED),
    ],
)
def test_every_state_name_of_the_metastore_is_parsed(word: str, expected: CompactionState) -> None:
    assert CompactionState.received(word) is expected
    assert expected.is_known


def test_an_unknown_state_keeps_its_name_and_equals_only_itself() -> None:
    found = CompactionState.received("a word of tomorrow")
    assert found.value == "a word of tomorrow"
    assert found is CompactionState.received("a word of tomorrow")
    assert not found.is_known
    assert found not in set(CompactionState)
    assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301 - made here


def test_three_states_of_a_compaction_are_pending() -> None:
    pending = {state for state in CompactionState if state.is_pending}
    assert pending == {
        CompactionState.INITIATED,
        CompactionState.WORKING,
        CompactionState.READY_FOR_CLEANING,
    }


@pytest.mark.parametrize("partition", ["day=2024-01-05", "day=a%2Fb", "day=x/hour=7"])
def test_only_queue_entries_of_the_requested_partition_are_parsed(partition: str) -> None:
    """3.1 returns the whole queue; this client may be unable to parse entries of other tables."""
    table, missing = TableRef("d", "t"), None

    def line(db: str, name: str, kind: int | None, text: str | None) -> ShowCompactResponseElement:
        return ShowCompactResponseElement(
            dbname=db, tablename=name, partitionname=text, type=kind, state="working"
        )

    lines = [
        line("d", "t", CompactionType.MAJOR, partition),
        line("d", "t", CompactionType.MAJOR, partition.replace("%2F", "%2f")),
        line("d", "other", missing, partition),
        line("d", "T", missing, partition),
        *([] if "%" in partition else [line("d", "t", missing, "day=2024-01-06")]),
        line("d", "t", CompactionType.MAJOR, "day=none"),
    ]
    with (
        StubServer(show_compact=lambda _: ShowCompactResponse(compacts=lines)) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        found = client.show_compactions(table, PartitionName.parse(partition))
    assert [str(entry.partition) for entry in found] == [partition] * 2


def test_an_entry_of_an_unknown_type_is_shown_beside_the_others() -> None:
    """Hive 4.1 queues compactions of Iceberg tables with the type 5, and with any partition."""
    lines = [
        ShowCompactResponseElement(
            id=number, dbname="d", tablename="t", partitionname=part, type=kind, state="initiated"
        )
        for number, kind, part in ((1, CompactionType.MAJOR, None), (2, 5, None), (3, 5, "odd"))
    ]
    with (
        StubServer(show_compact=lambda _: ShowCompactResponse(compacts=lines)) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        known, unknown = client.show_compactions()
    assert (known.compaction_type.value, unknown.compaction_type.value) == ("major", "type 5")
    assert (known.waits_for_anybody, known.waits_for_hive) == (True, False)
    assert (unknown.waits_for_anybody, unknown.waits_for_hive) == (False, True)
    assert "(type 5, requested by" in unknown.asked_by


def test_a_claim_of_an_unknown_type_goes_back_as_it_came() -> None:
    sent = []
    given = CompactionInfoStruct(id=7, dbname="d", tablename="t", type=5)
    with (
        StubServer(
            find_next_compact2=lambda _: OptionalCompactionInfoStruct(ci=given),
            mark_refused=sent.append,
        ) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        claim = client.find_next_compaction("w", worker_version="1")
        assert claim is not None
        client.mark_refused(claim)
    assert [one.type for one in sent] == [5]


@pytest.mark.parametrize(("ended_s", "is_pending"), [(None, True), (5.0, False)])
def test_an_entry_in_an_unknown_state_is_pending_until_it_has_an_end_time(
    ended_s: float | None, is_pending: bool
) -> None:
    entry = CompactionEntry(
        entry_id=1,
        table=TableRef("d", "t"),
        partition=None,
        compaction_type=CompactionKind.MAJOR,
        state=CompactionState.received("resting"),
        ended_s=ended_s,
    )
    assert entry.is_pending is is_pending
