"""The fields of a commit request, the winner of a conflict, and a call that some servers lack."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.client.transaction_calls import _aborted_or_conflict


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
    error: errors.MetastoreError = errors.MetastoreVersionError(
        "the metastore does not know the call"
    )

    def call(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(client._connection, "call", call)
    history = {TableRef("d", "t"): WriteId(3)}
    client.add_write_ids_to_min_history(TxnId(7), history)
    error = errors.MetastoreCallError(
        method="add_write_ids_to_min_history", reason="no such transaction"
    )
    with pytest.raises(errors.MetastoreCallError):
        client.add_write_ids_to_min_history(TxnId(7), history)


TEXT = "Aborting [txnid:{},41] due to a write conflict on db/t/p=1 committed by {} u/u"


@pytest.mark.parametrize(
    ("committed_by", "winner"), [("[txnid:37,41]", 37), ("[somebody]", None), ("", None)]
)
def test_a_write_conflict_names_the_winning_transaction_if_the_text_contains_it(
    committed_by: str, winner: int | None
) -> None:
    error = _aborted_or_conflict(TxnId(40), TEXT.format(40, committed_by))
    assert isinstance(error, errors.WriteConflictError)
    assert error.winner.txn_id == winner
    assert error.winner.is_known is (winner is not None)


def test_an_already_aborted_transaction_is_not_reported_as_a_write_conflict() -> None:
    text = "Transaction txnid:40 already aborted"
    assert isinstance(_aborted_or_conflict(TxnId(40), text), errors.TransactionAbortedError)
