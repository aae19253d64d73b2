"""The parsers of TRUNCATE, LOAD DATA, SHOW and ABORT TRANSACTIONS.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> truncate_of(statements_of("TRUNCATE TABLE db.t PARTITION (p = 1)")[0], None)
    TruncateSpec(target='db.t', partition={'p': '1'})
    >>> load_of(statements_of("LOAD DATA INPATH '/landing/day' INTO TABLE db.t")[0], None)
    LoadSpec(target='db.t', location='/landing/day', partition={}, overwrite=False)
    >>> question_of(statements_of("SHOW LOCKS db.t PARTITION (p = 1)")[0], None).partition
    (('p', '1'),)
"""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.jobs import metastore_statements
from airflow_hiveacid.jobs.statements import LoadSpec, TruncateSpec
from airflow_hiveacid.sql.statements.cursor import Cursor
from airflow_hiveacid.sql.statements.inserts import partition_clause
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.names import table_name
from airflow_hiveacid.sql.text.tokens import Kind

_TRUNCATE_FORM: Final = "write TRUNCATE TABLE db.t [PARTITION (column = value)]"
_LOAD_FORM: Final = (
    "write LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE db.t [PARTITION (column = value)]"
)
_SHOW_FORM: Final = (
    "write SHOW TRANSACTIONS, or SHOW COMPACTIONS or SHOW LOCKS, each optionally followed by"
    " db.t [PARTITION (column = value)]"
)
_ABORT_FORM: Final = "write ABORT TRANSACTIONS 1 2, with the IDs that SHOW TRANSACTIONS lists"


def truncate_of(span: Span, database: str | None) -> TruncateSpec:
    """Parse `TRUNCATE [TABLE] t [PARTITION (column = value, ...)]`."""
    cursor = Cursor(span, _TRUNCATE_FORM, 1)
    cursor.took("TABLE")
    target, partition = _table_and_values(cursor, database, _TRUNCATE_FORM)
    return TruncateSpec(target=target, partition=partition)


def load_of(span: Span, database: str | None) -> LoadSpec:
    """Parse `LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE t [PARTITION (column = value, ...)]`."""
    cursor = Cursor(span, _LOAD_FORM, 1)
    if cursor.took("DATA", "LOCAL"):
        span.fail(
            "LOCAL means files on the machine that sends the statement, but Spark runs elsewhere",
            "put the files where the cluster can read them, and omit LOCAL",
            span.tokens[2],
        )
    if not cursor.took("DATA", "INPATH"):
        span.fail("LOAD is not followed by DATA INPATH", _LOAD_FORM)
    is_text = cursor.at < len(span) and span.tokens[cursor.at].kind is Kind.STRING
    location = cursor.string("location") if is_text else ""
    if not location.strip():
        span.fail("INPATH is not followed by a location", _LOAD_FORM)
    overwrite = cursor.took("OVERWRITE")
    if not cursor.took("INTO", "TABLE"):
        cursor.fail("the location is not followed by INTO TABLE")
    remedy = "give it a value; to use the values in the rows, INSERT from the files as a source"
    target, partition = _table_and_values(cursor, database, remedy)
    return LoadSpec(target=target, location=location, partition=partition, overwrite=overwrite)


def _table_and_values(
    cursor: Cursor, database: str | None, remedy: str
) -> tuple[str, dict[str, str]]:
    """Read a table's name and its partition up to the end; each partition column has a value."""
    table = table_name(cursor.span, database, cursor.at)
    partition, without_value, cursor.at = partition_clause(cursor.span, table)
    if without_value:
        cursor.span.fail(f"partition column {without_value[0]!r} has no value", remedy)
    cursor.end()
    return table.full, partition


def question_of(span: Span, database: str | None) -> metastore_statements.MetastoreStatement:
    """Parse `SHOW COMPACTIONS | TRANSACTIONS | LOCKS`."""
    cursor = Cursor(span, _SHOW_FORM, 1)
    statement: metastore_statements.MetastoreStatement
    if cursor.took("TRANSACTIONS"):
        statement = metastore_statements.ShowTransactions()
    elif cursor.took("COMPACTIONS"):
        target, partition = _table_and_partition(cursor, database)
        statement = metastore_statements.ShowCompactions(target=target, partition=partition)
    elif cursor.took("LOCKS"):
        target, partition = _table_and_partition(cursor, database)
        cursor.took("EXTENDED")  # no effect: the result always contains every detail
        statement = metastore_statements.ShowLocks(target=target, partition=partition)
    else:
        cursor.fail("only SHOW COMPACTIONS, TRANSACTIONS and LOCKS are supported")
    cursor.end()
    return statement


def abortion_of(span: Span, _: str | None) -> metastore_statements.AbortTransactions:
    """Parse `ABORT TRANSACTIONS id ...`."""
    cursor = Cursor(span, _ABORT_FORM, 1)
    cursor.expect("TRANSACTIONS")
    txn_ids = [cursor.number("ID of a transaction")]
    while cursor.at < len(span):
        txn_ids.append(cursor.number("ID of a transaction"))
    return metastore_statements.AbortTransactions(txn_ids=tuple(dict.fromkeys(txn_ids)))


def _table_and_partition(
    cursor: Cursor, database: str | None
) -> tuple[str, metastore_statements.PartitionValues]:
    if cursor.at >= len(cursor.span) or cursor.word in {"EXTENDED", "DATABASE", "SCHEMA"}:
        return "", ()
    target = cursor.table(database)
    return target, cursor.partition() if cursor.took("PARTITION") else ()
