"""Servers that lack calls of Hive 4, and the capabilities that every request carries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreVersionError, UnsupportedTableError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.maintenance.compaction_facts import check_can_serve
from airflow_hiveacid.metastore.catalog import STATISTICS_FLAG, NewTable, TableChange, table_info
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.client.connection import _PROBES
from airflow_hiveacid.metastore.client.lock_calls import _response
from airflow_hiveacid.metastore.gen.compaction.ttypes import (
    CompactionInfoStruct,
    OptionalCompactionInfoStruct,
)
from airflow_hiveacid.metastore.gen.constraints import ttypes
from airflow_hiveacid.metastore.gen.notifications.ttypes import (
    CurrentNotificationEventId,
    NotificationEvent,
    NotificationEventResponse,
)
from airflow_hiveacid.metastore.gen.tables import ttypes as tables
from airflow_hiveacid.metastore.gen.transactions.ttypes import (
    GetOpenTxnsResponse,
    GetValidWriteIdsResponse,
    MaxAllocatedTableWriteIdResponse,
    TableValidWriteIds,
)
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.preflight import Concern, preflight
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.stub_server import StubServer
from tests.support.terms import job_terms

REF = TableRef("d", "t")
COLUMN = Column(name="id", type="int")
PAGE = Path(__file__).resolve().parents[4] / "docs/reference/distributions.md"
WRITE_ID = '{"dbName": "d", "tableName": "t", "txnIdList": [4], "writeIdList": [2]}'
YOUNGEST = "add_write_ids_to_min_history"


def struct(**fields: Any) -> tables.Table:  # noqa: ANN401 - as in the generated code
    storage = tables.StorageDescriptor(
        cols=[tables.FieldSchema(name="id", type="int")],
        location="file:/t",
        serdeInfo=tables.SerDeInfo(serializationLib="x"),
    )
    found = {"dbName": "d", "tableName": "t", "tableType": "MANAGED_TABLE", "createTime": 1}
    return tables.Table(
        **{**found, "parameters": {"transactional": "true"}, "sd": storage, **fields}
    )


class Server:
    """Answers of a server that keeps what it was sent, by call."""

    def __init__(self, **answers: Callable[..., object]) -> None:
        self.sent: dict[str, list[Any]] = {}
        self.raw = struct()
        opened = GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[], abortedBits=b"")
        ids = TableValidWriteIds(
            fullTableName="d.t", writeIdHighWaterMark=6, invalidWriteIds=[], abortedBits=b""
        )
        every: dict[str, Callable[..., object]] = {
            "get_open_txns_req": lambda _: opened,
            "get_open_txns": lambda: opened,
            "get_valid_write_ids": lambda _: GetValidWriteIdsResponse(tblValidWriteIds=[ids]),
            "get_table_req": lambda _: tables.GetTableResult(table=self.raw),
            **answers,
        }
        self.answers = {name: self._keeping(name, answer) for name, answer in every.items()}

    def _keeping(self, name: str, answer: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self.sent.setdefault(name, []).append(arguments)
            return answer(*arguments)

        return call


def nothing(*_: object) -> None:
    """Answers a call that returns nothing."""


def client_of(server: StubServer) -> MetastoreClient:
    return connect(MetastoreEndpoint(uris=(server.uri,)))


# ---- calls that a server lacks -------------------------------------------------------------------


def test_a_server_with_all_calls_lacks_none_and_is_asked_once() -> None:
    server = Server(
        **{YOUNGEST: nothing},
        get_max_allocated_table_write_id=lambda _: MaxAllocatedTableWriteIdResponse(maxWriteId=0),
    )
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        assert [client.missing_calls for _ in range(2)] == [(), ()]
        assert server.sent[YOUNGEST] == [(0, {})]  # it records nothing


def test_the_page_of_distributions_says_what_happens_without_each_call_that_is_tried() -> None:
    named = {name for name in _PROBES if name != "get_valid_write_ids"}  # since Hive 3.0
    assert {name for name in named if f"`{name}`" not in PAGE.read_text()} == set()


def test_hive_3_1_lacks_no_call_that_its_generation_should_have() -> None:
    server = Server()
    del server.answers["get_open_txns_req"]
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        assert client.generation is MetastoreGeneration.V3
        assert client.missing_calls == ()


def test_a_server_between_the_generations_is_worked_around_as_hive_3_1() -> None:
    column = ttypes.SQLNotNullConstraint(column_name="ID", nn_name="n", enable_cstr=True)
    server = Server(
        create_table=nothing,
        alter_table_with_environment_context=nothing,
        get_not_null_constraints=lambda _: ttypes.NotNullConstraintsResponse(
            notNullConstraints=[column]
        ),
        get_default_constraints=lambda _: ttypes.DefaultConstraintsResponse(defaultConstraints=[]),
        get_check_constraints=lambda _: ttypes.CheckConstraintsResponse(checkConstraints=[]),
    )
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        assert client.generation is MetastoreGeneration.V4
        assert client.missing_calls == ("get_max_allocated_table_write_id", YOUNGEST)
        assert client.max_write_id(REF) == 6
        assert client.constraints(REF).not_null == {"id": "n"}
        client.create_table(NewTable(ref=REF, columns=(COLUMN,)))
        client.change_table(REF, TableChange(added=(Column(name="b", type="int"),)))
    ((db, name, table, _),) = server.sent["alter_table_with_environment_context"]
    assert (db, name, [field.name for field in table.sd.cols]) == ("d", "t", ["id", "b"])


def test_statistics_of_partitions_are_forgotten_without_the_newer_call() -> None:
    part = tables.Partition(
        values=["1"], sd=struct().sd, parameters={STATISTICS_FLAG: "{}", "numRows": "3"}
    )
    changed = Server(
        get_partitions_by_names=lambda *_: [part],
        alter_partitions_with_environment_context=nothing,
    )
    table = table_info(struct(partitionKeys=[tables.FieldSchema(name="day", type="string")]))
    with StubServer(**changed.answers) as stub, client_of(stub) as client:
        count = client.forget_statistics(
            table,
            [table.partition_name(["1"])],
            write_id=WriteId(7),
            write_ids=ValidWriteIdList.parse("d.t:6:6::"),
        )
    ((_, _, (sent,), _),) = changed.sent["alter_partitions_with_environment_context"]
    assert (count, sent.parameters) == (1, {"numRows": "3"})


@pytest.mark.parametrize("choice", CompactionChoice)
def test_a_compaction_is_refused_before_it_begins_if_the_queue_may_have_no_pools(
    server: FakeMetastore, client: FakeClient, choice: CompactionChoice
) -> None:
    server.missing_calls = (YOUNGEST,)
    with pytest.raises(MetastoreVersionError) as raised:
        check_can_serve(client, choice)
    is_by_queue = choice is CompactionChoice.QUEUED
    is_of_3 = server.generation is MetastoreGeneration.V3 and is_by_queue
    assert ("queue of Hive 3.1" if is_of_3 else YOUNGEST) in str(raised.value)
    assert not server.txns


def test_the_checks_name_the_missing_calls(server: FakeMetastore, client: FakeClient) -> None:
    assert Concern.MISSING_CALLS not in {finding.concern for finding in preflight(client)}
    server.missing_calls = (YOUNGEST,)
    (found,) = (f for f in preflight(client) if f.concern is Concern.MISSING_CALLS)
    assert YOUNGEST in str(found)


# ---- capabilities --------------------------------------------------------------------------------


def test_each_request_with_a_field_for_capabilities_carries_them() -> None:
    server = Server(create_table_req=nothing, alter_table_req=lambda _: tables.AlterTableResponse())
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        client.create_table(NewTable(ref=REF, columns=(COLUMN,)))
        client.set_table_parameters(REF, {"a": "b"})
    requests = [
        request
        for name in ("get_table_req", "create_table_req", "alter_table_req")
        for (request,) in server.sent[name]
    ]
    assert len(requests) >= 4
    for request in requests:
        assert {"HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTWRITE"} <= {*request.processorCapabilities}
        assert request.processorIdentifier == "airflow-provider-hiveacid"


def test_a_vendors_server_of_generation_3_gets_the_capabilities_if_it_knows_the_request() -> None:
    server = Server(create_table_req=nothing)
    del server.answers["get_open_txns_req"]
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        client.create_table(NewTable(ref=REF, columns=(COLUMN,)))
    ((request,),) = server.sent["create_table_req"]
    assert "HIVEFULLACIDWRITE" in request.processorCapabilities


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"requiredReadCapabilities": ["CONNECTORREAD"]}, "requires CONNECTORREAD of its readers"),
        ({"tableType": "LOGICAL_TABLE"}, "is a LOGICAL_TABLE: .* unknown here"),
    ],
)
def test_a_table_that_the_metastore_does_not_show_to_this_client_is_refused_by_name(
    fields: dict[str, object], why: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=why):
        table_info(struct(accessType=1, **fields))


def test_a_table_that_this_client_may_only_read_is_not_written(
    server: FakeMetastore, client: FakeClient
) -> None:
    table = table_info(struct(accessType=2, requiredWriteCapabilities=["A", "B"]))
    access = TableAccess(table=table, operations=frozenset({DataOperation.INSERT}))
    with (
        pytest.raises(UnsupportedTableError, match="requires A, B of its writers"),
        begin(client, job_terms("k"), writes=[access]),
    ):
        raise AssertionError
    assert not server.txns
    assert table_info(struct(accessType=8)).write_needs == ""


# ---- values of newer servers ---------------------------------------------------------------------


def test_unknown_types_of_tables_and_owners_are_read_and_sent_back_as_they_came() -> None:
    server = Server(alter_table_req=lambda _: tables.AlterTableResponse())
    server.raw = struct(tableType="LOGICAL_TABLE", ownerType=42)
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        assert client.get_table(REF).columns == (COLUMN,)
        client.set_table_parameters(REF, {"a": "b"})
    ((request,),) = server.sent["alter_table_req"]
    assert (request.table.tableType, request.table.ownerType) == ("LOGICAL_TABLE", 42)


def test_an_unknown_letter_of_a_claimed_compaction_goes_back_as_it_came() -> None:
    given = CompactionInfoStruct(id=7, dbname="d", tablename="t", type=9, state="z")
    server = Server(
        find_next_compact2=lambda _: OptionalCompactionInfoStruct(ci=given), mark_failed=nothing
    )
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        claim = client.find_next_compaction("w", worker_version="1", pool="p")
        assert claim is not None
        client.mark_failed(claim)
    ((sent,),) = server.sent["mark_failed"]
    assert (sent.type, sent.state) == (9, "z")


def test_an_event_of_an_unknown_type_and_format_does_not_hide_the_others() -> None:
    events = [
        NotificationEvent(
            eventId=number,
            eventTime=100 + number,
            eventType=kind,
            dbName="d",
            tableName="t",
            message=message,
            messageFormat="rot13-3.0",
        )
        for number, (kind, message) in enumerate(
            [
                ("ALLOC_WRITE_ID_EVENT", WRITE_ID),
                ("FOLD_TABLE", "unreadable"),
                ("ALTER_CATALOG", ""),
                ("COMMIT_TXN", '{"txnid": 4}'),
            ],
            1,
        )
    ]
    server = Server(
        get_current_notificationEventId=lambda: CurrentNotificationEventId(eventId=4),
        get_next_notification=lambda _: NotificationEventResponse(events=events),
    )
    with StubServer(**server.answers) as stub, client_of(stub) as client:
        assert client.logged_commits(REF) == {2: 104}


def test_an_unknown_state_of_a_requested_lock_is_named_in_the_answer() -> None:
    answer = SimpleNamespace(lockid=5, state=99, errorMessage=None)
    assert _response(answer).message == "it is in state 99"
