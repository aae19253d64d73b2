"""Who runs a transaction: for messages that name what is waited for. Changes and raises nothing."""

from __future__ import annotations

import logging

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.words import age, age_text
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.fencing import COMPACTOR, job_key_in

_log = logging.getLogger(__name__)


def writer_of(client: MetastorePort, ref: TableRef, write_id: WriteId) -> TxnId | None:
    """Return the open transaction of a table's lowest open write ID; None if it is not found.

    No call of a metastore returns it. But write IDs are listed for any list of open transactions,
    so half of the candidates are ruled out by each call.
    """
    try:
        txns = client.valid_txns()
        candidates = txns.open
        while candidates:
            half = candidates[: (len(candidates) + 1) // 2]
            listed = ValidTxnList(high_watermark=txns.high_watermark, open=half)
            write_ids = client.valid_write_ids([ref], listed)[ref]
            is_among = write_ids.min_open_write_id == write_id
            if is_among and len(half) == 1:
                return half[0]
            candidates = half if is_among else candidates[len(half) :]
    except HiveAcidError as error:
        _log.warning("cannot find the writer of table=%s write_id=%s: %s", ref, write_id, error)
    return None


def owner_text(client: MetastorePort, txn_id: TxnId) -> str:
    """Return a transaction with its user, host, job and age, and how to end it if it is dead."""
    txn, agents = None, set[str]()
    try:
        txn = next((txn for txn in client.open_txns_info() if txn.txn_id == txn_id), None)
        agents = {lock.agent_info for lock in client.show_locks(txn_id=txn_id)}
    except HiveAcidError as error:
        _log.warning("cannot look up txn_id=%s: %s", txn_id, error)
    # The agent info of a compactor's own lock does not name the job.
    jobs = sorted(job_key_in(agent) for agent in agents if agent and not COMPACTOR.fullmatch(agent))
    owner = "" if txn is None else "@".join(filter(None, (txn.user, txn.host)))
    open_for = "" if txn is None else age_text(age(txn.started_s))
    details = (owner, f"job {jobs[0]}" if jobs else "", open_for and f"open for {open_for}")
    text = ", ".join(filter(None, details))
    dead = f"if its process has died, end it with `hiveacid abort {txn_id}`"
    return f"transaction {txn_id}{f' ({text})' if text else ''}; {dead}"
