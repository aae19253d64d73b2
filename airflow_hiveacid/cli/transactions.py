"""The commands that list and end work: `transactions`, `locks`, `abort` and `cancel`.

Ages are computed with this machine's clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, Column, Record, field, moment, partition, shown
from airflow_hiveacid.format.errors import TransactionError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.words import age, age_text, several
from airflow_hiveacid.metastore.locks import LockInfo, concerning
from airflow_hiveacid.metastore.port import OpenTxn
from airflow_hiveacid.metastore.transactions.compaction_work import cancel_compactions
from airflow_hiveacid.metastore.transactions.fencing import job_key_in


def transactions(options: argparse.Namespace) -> Iterator[str]:
    """Yield the open transactions, oldest first; with `--all` also the aborted transactions."""
    with cli_metastore.connected(options) as client:
        # Read the locks before the transactions. So if a transaction ends between the two calls,
        # the list does not show it, with or without locks.
        locks = client.show_locks()
        txns = client.open_txns_info()
    is_open = [txn for txn in txns if txn.may_be_open]
    records = [_transaction(txn, locks) for txn in (txns if options.all else is_open)]
    columns = (
        field("ID", "txn_id", is_number=True),
        *((field("state"),) if options.all else ()),
        _age("open for", "open_for_s"),
        _age("heartbeat", "heartbeat_s", " ago"),
        Column(head="owner", text=owner, wraps=True),
        field("job", wraps=True),
        field("locks on", "tables", wraps=True),
    )
    foot = f"{len(is_open)} open, {len(txns) - len(is_open)} aborted"
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def locks(options: argparse.Namespace) -> Iterator[str]:
    """Yield all locks, or those on a table, its partitions or its database.

    Locks of our compactions of the table are included; they are on artificial names.
    """
    with cli_metastore.connected(options) as client:
        if options.table is not None:
            client.get_source(options.table)
        lock_infos = concerning(client.show_locks(), options.table)
    columns = (
        field("lock", "lock_id", is_number=True),
        field("table", wraps=True),
        field("partition", wraps=True),
        field("type"),
        field("state"),
        field("txn", "txn_id", is_number=True),
        field("waits for", "blocked_by", is_number=True),
        Column(head="owner", text=owner, wraps=True),
        field("job", wraps=True),
    )
    where = f" on {options.table}" if options.table is not None else ""
    foot = f"{several(len(lock_infos), 'lock')}{where}"
    records = [lock_record(lock) for lock in lock_infos]
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def _outcome(record: Record, earlier: Collection[TxnId]) -> str:
    if not record["is_aborted"]:
        return "not aborted, because it is unknown or was committed"
    return "was already aborted" if record["txn_id"] in earlier else "aborted"


def abort(options: argparse.Namespace) -> Iterator[str]:
    """Abort transactions one after another, and yield the result for each transaction."""
    records: list[Record] = []
    with cli_metastore.connected(options) as client:
        aborted = client.valid_txns().aborted
        try:
            for txn_id in options.txn_id:
                is_aborted = client.abort_txn(TxnId(txn_id))
                records.append({"txn_id": txn_id, "is_aborted": is_aborted})
        finally:
            # If the metastore fails, the user must still see which transactions were aborted before
            # that.
            lines = (f"transaction {r['txn_id']}: {_outcome(r, aborted)}" for r in records)
            answer = Answer(records=records, foot="\n".join(lines), is_text=True)
            yield shown(answer, options.output)
    failures = [str(record["txn_id"]) for record in records if not record["is_aborted"]]
    if failures:
        raise TransactionError(
            f"{len(failures)} of {several(len(records), 'transaction')} not aborted:"
            f" {', '.join(failures)}"
        )


def cancel(options: argparse.Namespace) -> Iterator[str]:
    """Cancel the waiting and running compactions of a table, and yield them."""
    with cli_metastore.connected(options) as client:
        client.get_table(options.table)
        entries = cancel_compactions(client, options.table, options.partition)
    records: list[Record] = [
        {
            "entry_id": entry.entry_id,
            "partition": str(entry.partition or ""),
            "kind": entry.compaction_type.value,
            "state": entry.state.value,
            "worker": entry.worker_id,
        }
        for entry in entries
    ]
    columns = (
        field("entry", "entry_id", is_number=True),
        partition(),
        field("kind"),
        field("was", "state"),
        field("worker", wraps=True),
    )
    foot = f"{several(len(entries), 'compaction')} of {options.table} cancelled"
    yield shown(Answer(records=records, columns=columns, foot=foot), options.output)


def lock_record(lock: LockInfo) -> Record:
    """Return a lock as a record."""
    return {
        "lock_id": lock.lock_id,
        "table": lock.full_name,
        "partition": lock.partition,
        "type": lock.lock_type.value,
        "state": lock.state.value,
        "txn_id": lock.txn_id,
        "blocked_by": lock.blocked_by,
        "acquired": moment(lock.acquired_s),
        "user": lock.user,
        "host": lock.host,
        "job": _job(lock),
    }


def owner(record: Record) -> str:
    """Return the user and host of a transaction or lock."""
    return "@".join(part for part in (record["user"], record["host"]) if part)


def _transaction(txn: OpenTxn, locks: Sequence[LockInfo]) -> Record:
    own = [lock for lock in locks if lock.txn_id == txn.txn_id]
    return {
        "txn_id": txn.txn_id,
        "state": txn.state.value,
        "started": moment(txn.started_s),
        "last_heartbeat": moment(txn.last_heartbeat_s),
        "open_for_s": age(txn.started_s),
        "heartbeat_s": age(txn.last_heartbeat_s),
        "user": txn.user,
        "host": txn.host,
        "job": next(iter(filter(None, map(_job, own))), None),
        "tables": sorted({lock_record(lock)["table"] for lock in own}),
    }


def _job(lock: LockInfo) -> str | None:
    return job_key_in(lock.agent_info) or None


def _age(head: str, name: str, end: str = "") -> Column:
    def text(record: Record) -> str:
        age_words = age_text(record[name])
        return f"{age_words}{end}" if age_words else ""

    return Column(head=head, text=text, is_number=True)
