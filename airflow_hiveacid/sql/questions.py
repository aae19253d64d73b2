"""SHOW COMPACTIONS, TRANSACTIONS, LOCKS and ABORT TRANSACTIONS as statements for the metastore.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> question_of(statements_of("SHOW LOCKS db.t PARTITION (p = 1)")[0], None).partition
    (('p', '1'),)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.plan.metastore_statements import (
    AbortTransactions,
    ShowCompactions,
    ShowLocks,
    ShowTransactions,
)
from airflow_hiveacid.sql.cursor import Cursor

if TYPE_CHECKING:
    from airflow_hiveacid.plan.metastore_statements import MetastoreStatement, PartitionValues
    from airflow_hiveacid.sql.text import Piece

_SHOW_FORM: Final = (
    "write SHOW COMPACTIONS, SHOW TRANSACTIONS or SHOW LOCKS; the first and the last may name a"
    " table: db.t [PARTITION (column = value)]"
)
_ABORT_FORM: Final = "write ABORT TRANSACTIONS 1 2, with the IDs that SHOW TRANSACTIONS tells"


def question_of(piece: Piece, database: str | None) -> MetastoreStatement:
    """`SHOW COMPACTIONS | TRANSACTIONS | LOCKS`.

    Raises:
        SqlTextError: it is something else.
    """
    cursor = Cursor(piece, _SHOW_FORM, 1)
    found: MetastoreStatement
    if cursor.took("TRANSACTIONS"):
        found = ShowTransactions()
    elif cursor.took("COMPACTIONS"):
        target, partition = _place(cursor, database)
        found = ShowCompactions(target=target, partition=partition)
    elif cursor.took("LOCKS"):
        target, partition = _place(cursor, database)
        cursor.took("EXTENDED")  # all that there is to tell is told anyhow
        found = ShowLocks(target=target, partition=partition)
    else:
        cursor.fail("of SHOW only COMPACTIONS, TRANSACTIONS and LOCKS are supported")
    cursor.end()
    return found


def abortion_of(piece: Piece, _: str | None) -> AbortTransactions:
    """`ABORT TRANSACTIONS id ...`.

    Raises:
        SqlTextError: it is something else.
    """
    cursor = Cursor(piece, _ABORT_FORM, 1)
    cursor.expect("TRANSACTIONS")
    found = [cursor.number("ID of a transaction")]
    while cursor.at < len(piece):
        found.append(cursor.number("ID of a transaction"))
    return AbortTransactions(txn_ids=tuple(dict.fromkeys(found)))


def _place(cursor: Cursor, database: str | None) -> tuple[str, PartitionValues]:
    if cursor.at >= len(cursor.piece) or cursor.word in {"EXTENDED", "DATABASE", "SCHEMA"}:
        return "", ()
    target = cursor.table(database)
    return target, cursor.partition() if cursor.took("PARTITION") else ()
