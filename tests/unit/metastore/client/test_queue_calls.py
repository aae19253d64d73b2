from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import MetastoreCallError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.metastore.client.queue_calls import QueueCalls
from airflow_hiveacid.metastore.compaction_queue import ClaimedCompaction, CompactionType
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
