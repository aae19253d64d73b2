"""An entry of the job ledger, for tests that ask little of it."""

from __future__ import annotations

from typing import Any

from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import LedgerEntry


def ledger_entry(**other: Any) -> LedgerEntry:  # noqa: ANN401
    """Return the first attempt's entry of a job that had transaction 9 and write ID 5."""
    facts: dict[str, Any] = {
        "job_key": "dag/run/task/-1",
        "generation": 0,
        "attempt": AttemptId(1, "0" * 12),
        "statement": {"kind": "1a"},
        "table_id": "7.1",
        "txn_id": TxnId(9),
        "write_id": WriteId(5),
        "directories": (),
        "result": "{}",
        "recorded_s": 1.0,
        "retention_s": 100.0,
    }
    return LedgerEntry(**{**facts, **other})
