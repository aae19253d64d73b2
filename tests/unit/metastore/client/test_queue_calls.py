from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.metastore.client.queue_calls import QueueCalls
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionType,
    our_worker_id,
)
from airflow_hiveacid.metastore.gen.compaction import ttypes
from airflow_hiveacid.metastore.wire import Struct


class OnPostgres:
    """The connection to a 4.0.1 metastore on PostgreSQL, which cannot mark entries without a name.

    Seen on a real one: `... IS NULL` without a type in its statement.
    """

    def __init__(self) -> None:
        self.marked: list[str] = []

    def call(self, method: str, struct: Struct, *, repeat: object) -> None:
        del repeat
        if struct.partitionname is None or struct.partitionname == "p=broken":
            reason = "could not determine data type of parameter $3"
            raise MetastoreCallError(method=method, reason=reason)
        self.marked.append(struct.partitionname)


def calls() -> tuple[QueueCalls, OnPostgres]:
    found, connection = QueueCalls(), OnPostgres()
    found._connection = connection  # type: ignore[assignment]
    return found, connection


def claim(partition: str) -> ClaimedCompaction:
    return ClaimedCompaction(
        entry_id=1,
        table=TableRef("d", "t"),
        partition=PartitionName.parse(partition) if partition else None,
        compaction_type=CompactionType.MAJOR,
        highest_write_id=WriteId(4),
    )


def test_an_entry_of_an_unpartitioned_table_is_marked_as_cleaned_on_postgresql() -> None:
    client, connection = calls()
    client.mark_cleaned(claim(""))
    assert connection.marked == [""]


def test_an_error_of_a_partitions_entry_is_not_answered_by_another_name() -> None:
    client, connection = calls()
    with pytest.raises(MetastoreCallError):
        client.mark_cleaned(claim("p=broken"))
    assert connection.marked == []


class Recorded:
    """A connection that records the structs of its calls."""

    def __init__(self) -> None:
        self.sent: list[Struct] = []

    def call(self, _method: str, struct: Struct, *, repeat: object) -> Struct:
        del repeat
        self.sent.append(struct)
        return ttypes.OptionalCompactionInfoStruct()

    def translating(self, _method: str) -> AbstractContextManager[None]:
        return nullcontext()


def test_texts_of_the_queue_fit_in_a_database_with_a_one_byte_character_set() -> None:
    """Such a database refuses the claim of an entry for a DAG `größe`, in each try."""
    client, connection = QueueCalls(), Recorded()
    client._connection = connection  # type: ignore[assignment]
    client.find_next_compaction(our_worker_id("東京/it's"), worker_version="1")
    assert connection.sent[0].workerId == "hiveacid-??/it?s"
    client.mark_refused(replace(claim(""), error_message="cancelled by 山田:\n'no'\0"))
    client.mark_failed(claim(""))
    assert [struct.errorMessage for struct in connection.sent[1:]] == [
        "cancelled by ??:\n'no'?",
        None,
    ]
