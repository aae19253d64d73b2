from __future__ import annotations

import pytest

from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client.metastore_client import connect
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.gen.compaction.ttypes import (
    CompactionType,
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
        ("a word of tomorrow", CompactionState.UNKNOWN),
    ],
)
def test_every_state_name_of_the_metastore_is_parsed(word: str, expected: CompactionState) -> None:
    assert CompactionState.parse(word) is expected


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
    table, unheard_of = TableRef("d", "t"), 99

    def line(db: str, name: str, kind: int, text: str | None) -> ShowCompactResponseElement:
        return ShowCompactResponseElement(
            dbname=db, tablename=name, partitionname=text, type=kind, state="working"
        )

    lines = [
        line("d", "t", CompactionType.MAJOR, partition),
        line("d", "t", CompactionType.MAJOR, partition.replace("%2F", "%2f")),
        line("d", "other", unheard_of, partition),
        line("d", "T", unheard_of, partition),
        *([] if "%" in partition else [line("d", "t", unheard_of, "day=2024-01-06")]),
        line("d", "t", CompactionType.MAJOR, "day=none"),
    ]
    with (
        StubServer(show_compact=lambda _: ShowCompactResponse(compacts=lines)) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        found = client.show_compactions(table, PartitionName.parse(partition))
    assert [str(entry.partition) for entry in found] == [partition] * 2
