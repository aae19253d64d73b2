"""The fields of a commit request, and a call that some servers lack."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreCallError, MetastoreError, MetastoreVersionError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import MetastoreClient


def test_a_commit_requests_the_check_for_write_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metastore skips the check for a client that claims to lock exclusively."""
    client, sent = MetastoreClient(MetastoreEndpoint(uris=("thrift://lab:1",))), list[Any]()

    def call(_: str, request: object, **__: Any) -> None:  # noqa: ANN401 - as Connection.call
        sent.append(request)

    monkeypatch.setattr(client._connection, "call", call)
    client.commit_txn(TxnId(7))
    (request,) = sent
    assert (request.txnid, request.exclWriteEnabled) == (7, False)


def test_a_server_that_keeps_no_history_of_write_ids_is_not_told_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = MetastoreClient(MetastoreEndpoint(uris=("thrift://lab:1",)))
    monkeypatch.setattr(client._connection, "_generation", MetastoreGeneration.V4)
    error: MetastoreError = MetastoreVersionError("the metastore does not know the call")

    def call(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(client._connection, "call", call)
    history = {TableRef("d", "t"): WriteId(3)}
    client.add_write_ids_to_min_history(TxnId(7), history)
    error = MetastoreCallError(method="add_write_ids_to_min_history", reason="no such transaction")
    with pytest.raises(MetastoreCallError):
        client.add_write_ids_to_min_history(TxnId(7), history)
