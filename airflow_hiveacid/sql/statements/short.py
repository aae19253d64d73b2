"""The parsers of TRUNCATE, LOAD DATA, COMPACT, SHOW and ABORT TRANSACTIONS.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> truncate_of(statements_of("TRUNCATE TABLE db.t PARTITION (p = 1)")[0], None)
    TruncateSpec(target='db.t', partition={'p': '1'})
    >>> load_of(statements_of("LOAD DATA INPATH '/landing/day' INTO TABLE db.t")[0], None)
    LoadSpec(target='db.t', location='/landing/day', partition={}, overwrite=False)
    >>> compaction_of(statements_of("ALTER TABLE db.t COMPACT 'major'")[0], None).choice.value
    'major'
    >>> question_of(statements_of("SHOW LOCKS db.t PARTITION (p = 1)")[0], None).partition
    (('p', '1'),)
"""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.metastore_statements import (
    AbortTransactions,
    MetastoreStatement,
    PartitionValues,
    ShowCompactions,
    ShowLocks,
    ShowTransactions,
)
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.specs.statements import LoadSpec, TruncateSpec
from airflow_hiveacid.sql.statements.cursor import Cursor
from airflow_hiveacid.sql.statements.inserts import partition_clause, partition_value
from airflow_hiveacid.sql.text.literals import constant, text
from airflow_hiveacid.sql.text.names import table_name
from airflow_hiveacid.sql.text.text import Span
from airflow_hiveacid.sql.text.tokens import Kind

_TRUNCATE_FORM: Final = "write TRUNCATE TABLE db.t [PARTITION (column = value)]"
_LOAD_FORM: Final = (
    "write LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE db.t [PARTITION (column = value)]"
)
_LOCATION: Final = 3  # the index after LOAD DATA INPATH
_COMPACT_FORM: Final = (
    "write ALTER TABLE db.t [PARTITION (column = value)] COMPACT 'minor' | 'major'"
)
_CHOICES: Final = {"minor": CompactionChoice.MINOR, "major": CompactionChoice.MAJOR}
_SHOW_FORM: Final = (
    "write SHOW TRANSACTIONS, or SHOW COMPACTIONS or SHOW LOCKS, each optionally followed by"
    " db.t [PARTITION (column = value)]"
)
_ABORT_FORM: Final = "write ABORT TRANSACTIONS 1 2, with the IDs that SHOW TRANSACTIONS lists"


def truncate_of(span: Span, database: str | None) -> TruncateSpec:
    """Parse `TRUNCATE [TABLE] t [PARTITION (column = value, ...)]`."""
    table = table_name(span, database, 1 + (span.word(1) == "TABLE"))
    partition, without_value, index = partition_clause(span, table)
    if without_value:
        span.fail(f"partition column {without_value[0]!r} has no value", _TRUNCATE_FORM)
    Cursor(span, _TRUNCATE_FORM, index).end()
    return TruncateSpec(target=table.full, partition=partition)


def load_of(span: Span, database: str | None) -> LoadSpec:
    """Parse `LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE t [PARTITION (column = value, ...)]`."""
    if (span.word(1), span.word(2)) == ("DATA", "LOCAL"):
        span.fail(
            "LOCAL means files on the machine that sends the statement, but Spark runs elsewhere",
            "put the files where the cluster can read them, and omit LOCAL",
            span.tokens[2],
        )
    if (span.word(1), span.word(2)) != ("DATA", "INPATH"):
        span.fail("LOAD is not followed by DATA INPATH", _LOAD_FORM)
    location = _location(span)
    overwrite = span.word(_LOCATION + 1) == "OVERWRITE"
    index = _LOCATION + 1 + overwrite
    if (span.word(index), span.word(index + 1)) != ("INTO", "TABLE"):
        where = span.tokens[index] if index < len(span) else span.tokens[-1].end
        span.fail("the location is not followed by INTO TABLE", _LOAD_FORM, where)
    table = table_name(span, database, index + 2)
    partition, without_value, end = partition_clause(span, table)
    if without_value:
        span.fail(
            f"partition column {without_value[0]!r} has no value",
            "give it a value; to use the values in the rows, INSERT from the files as a source",
        )
    Cursor(span, _LOAD_FORM, end).end()
    return LoadSpec(target=table.full, location=location, partition=partition, overwrite=overwrite)


def _location(span: Span) -> str:
    is_text = len(span) > _LOCATION and span.tokens[_LOCATION].kind is Kind.STRING
    location = text(span, _LOCATION) if is_text else ""
    if not location.strip():
        span.fail("INPATH is not followed by a location", _LOAD_FORM)
    return location


def compaction_of(span: Span, database: str | None) -> CompactSpec:
    """Parse `ALTER TABLE t [PARTITION (...)] COMPACT 'minor' | 'major' [AND WAIT]`.

    A task always waits for its compaction, so AND WAIT changes nothing.
    """
    words = [token.word for token in span.tokens]
    if words[1:2] != ["TABLE"] or "COMPACT" not in words:
        span.fail("only ALTER TABLE ... COMPACT is supported", _COMPACT_FORM)
    table = table_name(span, database, 2)
    partition, index = _partition_name(span, table.end)
    if words[index : index + 1] != ["COMPACT"]:
        where = span.tokens[index] if index < len(span) else span.tokens[-1].end
        span.fail("this is not a COMPACT", _COMPACT_FORM, where)
    kind = span[index + 1 : index + 2]
    is_text = bool(kind.tokens) and kind.tokens[0].kind is Kind.STRING
    choice = _CHOICES.get(str(constant(kind)).lower()) if is_text else None
    if choice is None:
        kind.fail(
            "the kind of compaction must be 'minor' or 'major'",
            f"{_COMPACT_FORM}; for a rebalance, use HiveAcidRebalanceOperator",
        )
    if words[index + 2 :] not in ([], ["AND", "WAIT"]):
        span.fail(
            "the words after the kind of compaction are not supported",
            _COMPACT_FORM,
            span.tokens[index + 2],
        )
    return CompactSpec.of_table(table.full, partition=partition, choice=choice)


def _partition_name(span: Span, index: int) -> tuple[str | None, int]:
    """Return the partition's name and the next index; the name is None without PARTITION."""
    words = [token.word for token in span.tokens[index : index + 2]]
    if words != ["PARTITION", "("]:
        return None, index
    end = span.closing(index + 1)
    columns: list[str] = []
    values: list[str] = []
    for part in span[index + 2 : end].split(","):
        name = part.tokens[0].name if part.tokens else None
        if name is None or name.lower() in columns:
            part.fail("this is not a partition column, or it is named twice", _COMPACT_FORM)
        columns.append(name.lower())
        value = partition_value(part[1:])
        # A partition name has booleans in lower case.
        values.append(value.lower() if part.word(2) in {"TRUE", "FALSE"} else value)
    return str(PartitionName(tuple(columns), tuple(values))), end + 1


def question_of(span: Span, database: str | None) -> MetastoreStatement:
    """Parse `SHOW COMPACTIONS | TRANSACTIONS | LOCKS`."""
    cursor = Cursor(span, _SHOW_FORM, 1)
    statement: MetastoreStatement
    if cursor.took("TRANSACTIONS"):
        statement = ShowTransactions()
    elif cursor.took("COMPACTIONS"):
        target, partition = _table_and_partition(cursor, database)
        statement = ShowCompactions(target=target, partition=partition)
    elif cursor.took("LOCKS"):
        target, partition = _table_and_partition(cursor, database)
        cursor.took("EXTENDED")  # no effect: the result always contains every detail
        statement = ShowLocks(target=target, partition=partition)
    else:
        cursor.fail("only SHOW COMPACTIONS, TRANSACTIONS and LOCKS are supported")
    cursor.end()
    return statement


def abortion_of(span: Span, _: str | None) -> AbortTransactions:
    """Parse `ABORT TRANSACTIONS id ...`."""
    cursor = Cursor(span, _ABORT_FORM, 1)
    cursor.expect("TRANSACTIONS")
    txn_ids = [cursor.number("ID of a transaction")]
    while cursor.at < len(span):
        txn_ids.append(cursor.number("ID of a transaction"))
    return AbortTransactions(txn_ids=tuple(dict.fromkeys(txn_ids)))


def _table_and_partition(cursor: Cursor, database: str | None) -> tuple[str, PartitionValues]:
    if cursor.at >= len(cursor.span) or cursor.word in {"EXTENDED", "DATABASE", "SCHEMA"}:
        return "", ()
    target = cursor.table(database)
    return target, cursor.partition() if cursor.took("PARTITION") else ()
