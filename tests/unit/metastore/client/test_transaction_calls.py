"""The fields of a commit request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client.metastore_client import MetastoreClient

if TYPE_CHECKING:
    import pytest


def test_a_commit_requests_the_check_for_write_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metastore skips the check for a client that claims to lock exclusively."""
    client, sent = MetastoreClient(MetastoreEndpoint(uris=("thrift://lab:1",))), list[Any]()

    def call(_: str, request: object, **__: Any) -> None:  # noqa: ANN401 - as Connection.call
        sent.append(request)

    monkeypatch.setattr(client._connection, "call", call)
    client.commit_txn(TxnId(7))
    (request,) = sent
    assert (request.txnid, request.exclWriteEnabled) == (7, False)
