"""The winner of a write conflict, as the metastore's error text names it."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import TransactionAbortedError, WriteConflictError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.client.transaction_calls import _aborted_or_conflict

TEXT = "Aborting [txnid:{},41] due to a write conflict on db/t/p=1 committed by {} u/u"


@pytest.mark.parametrize(
    ("committed_by", "winner"), [("[txnid:37,41]", 37), ("[somebody]", None), ("", None)]
)
def test_a_write_conflict_names_the_winning_transaction_if_the_text_contains_it(
    committed_by: str, winner: int | None
) -> None:
    error = _aborted_or_conflict(TxnId(40), TEXT.format(40, committed_by))
    assert isinstance(error, WriteConflictError)
    assert error.winner.txn_id == winner
    assert error.winner.is_known is (winner is not None)


def test_an_already_aborted_transaction_is_not_reported_as_a_write_conflict() -> None:
    text = "Transaction txnid:40 already aborted"
    assert isinstance(_aborted_or_conflict(TxnId(40), text), TransactionAbortedError)
