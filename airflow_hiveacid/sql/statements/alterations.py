"""The parser of ALTER TABLE, for metastore statements and for COMPACT.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> (span,) = statements_of("ALTER TABLE db.t DROP IF EXISTS PARTITION (p = 1, q = 'x')")
    >>> alteration_of(span, None).partitions
    ((('p', '1'), ('q', 'x')),)
    >>> alteration_of(statements_of("ALTER TABLE db.t COMPACT 'major'")[0], None).choice.value
    'major'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from airflow_hiveacid.format.definition_rules import why_fixed, why_not_set
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs import metastore_statements as ddl
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.sql.statements.cursor import Cursor
from airflow_hiveacid.sql.text.literals import text
from airflow_hiveacid.sql.text.text import Span
from airflow_hiveacid.sql.text.tokens import Kind

_FORM: Final = (
    "write ALTER TABLE db.t followed by ADD COLUMNS (...), CHANGE COLUMN a a type, RENAME TO db.u,"
    " SET | UNSET TBLPROPERTIES (...), ADD | DROP PARTITION (...) or COMPACT 'minor' | 'major'"
)
_COMPACT_FORM: Final = (
    "write ALTER TABLE db.t [PARTITION (column = value)] COMPACT 'minor' | 'major'"
)
_CHOICES: Final = {"minor": CompactionChoice.MINOR, "major": CompactionChoice.MAJOR}
_CHANGE_FORM: Final = "write CHANGE COLUMN a a type [COMMENT 'x'] [CASCADE]"
_AFTER_TYPE: Final = frozenset({"FIRST", "AFTER", "CASCADE", "RESTRICT"})
_NO_RENAME: Final = (
    "a column cannot be renamed: Hive 3.1, Trino and Spark match file columns by name, but Hive 4"
    " by position, so for existing rows, some engines would return NULL and others the old values"
)


def alteration_of(span: Span, database: str | None) -> ddl.MetastoreStatement | CompactSpec:
    """Parse `ALTER TABLE t ...`."""
    cursor = Cursor(span, _FORM, 1)
    if not cursor.took("TABLE"):
        cursor.fail("only ALTER TABLE is supported")
    target = cursor.table(database)
    if _is_compaction(cursor):
        return _compaction(cursor, target)
    for words, read in _FORMS.items():
        if cursor.took(*words):
            statement = read(cursor, target, database)
            cursor.end()
            return statement
    if cursor.word == "PARTITION":
        cursor.fail("single partitions cannot be altered, except by COMPACT")
    if cursor.took("REPLACE"):
        cursor.fail("columns cannot be replaced: files are not rewritten", "write only ADD COLUMNS")
    return cursor.fail("this kind of ALTER TABLE is not supported")


def _is_compaction(cursor: Cursor) -> bool:
    index = cursor.at
    if cursor.span.word(index) == "PARTITION" and cursor.span.word(index + 1) == "(":
        index = cursor.span.closing(index + 1) + 1
    return cursor.span.word(index) == "COMPACT"


def _compaction(cursor: Cursor, target: str) -> CompactSpec:
    """Read `[PARTITION (...)] COMPACT 'minor' | 'major' [AND WAIT]`; a task always waits."""
    cursor.form = _COMPACT_FORM
    partition = None
    if cursor.took("PARTITION"):
        columns, values = zip(*cursor.partition(lower_truths=True), strict=True)
        partition = str(PartitionName(columns, values))
    cursor.expect("COMPACT")
    kind = cursor.span[cursor.at : cursor.at + 1]
    is_text = bool(kind.tokens) and kind.tokens[0].kind is Kind.STRING
    choice = _CHOICES.get(text(kind, 0).lower()) if is_text else None
    if choice is None:
        cursor.fail(
            "the kind of compaction must be 'minor' or 'major'",
            f"{_COMPACT_FORM}; for a rebalance, use HiveAcidRebalanceOperator",
        )
    cursor.at += 1
    cursor.took("AND", "WAIT")
    if cursor.at < len(cursor.span):
        cursor.fail("the words after the kind of compaction are not supported")
    return CompactSpec.of_table(target, partition=partition, choice=choice)


def _add_columns(cursor: Cursor, target: str, _: str | None) -> ddl.AddColumns:
    return ddl.AddColumns(target=target, columns=cursor.columns(), cascade=_cascade(cursor))


def _change_column(cursor: Cursor, target: str, _: str | None) -> ddl.ChangeColumn:
    cursor.took("COLUMN")
    cursor.form = _CHANGE_FORM
    old = cursor.name("column")
    begin = cursor.token
    column = cursor.column_so_far(_AFTER_TYPE)
    if column.name != old:
        cursor.span.fail(
            _NO_RENAME, "add a column of the new name and UPDATE it, or create a new table", begin
        )
    if cursor.word in {"FIRST", "AFTER"}:
        cursor.fail(
            "a column cannot be moved: Hive 4 matches file columns by position",
            "omit FIRST or AFTER, and list columns in your queries",
        )
    return ddl.ChangeColumn(target=target, column=column, cascade=_cascade(cursor))


def _cascade(cursor: Cursor) -> bool:
    if cursor.took("RESTRICT"):
        return False
    return cursor.took("CASCADE")


def _rename(cursor: Cursor, target: str, database: str | None) -> ddl.RenameTable:
    # As in Hive, a name without a database refers to a table in the default database.
    return ddl.RenameTable(target=target, new_name=cursor.table(database))


def _set(cursor: Cursor, target: str, _: str | None) -> ddl.SetProperties:
    begin = cursor.at
    properties = cursor.properties()
    _check(cursor, begin, (name for name, _ in properties), why_not_set)
    return ddl.SetProperties(target=target, properties=properties)


def _unset(cursor: Cursor, target: str, _: str | None) -> ddl.UnsetProperties:
    if_exists = cursor.took("IF", "EXISTS")
    begin = cursor.at
    names = []
    for entry in cursor.entries():
        names.append(entry.string("name of a property"))
        entry.end()
    _check(cursor, begin, names, why_fixed)
    return ddl.UnsetProperties(
        target=target, names=tuple(dict.fromkeys(names)), if_exists=if_exists
    )


def _check(
    cursor: Cursor, begin: int, names: Iterable[str], why_not: Callable[[str], str | None]
) -> None:
    for name in names:
        if why := why_not(name):
            cursor.at = begin
            cursor.fail(f"property {name!r} cannot be changed: {why}", "omit it")


def _add_partitions(cursor: Cursor, target: str, _: str | None) -> ddl.AddPartitions:
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    partitions: list[ddl.NewPartition] = []
    while cursor.took("PARTITION"):
        values = cursor.partition()
        location = cursor.string("location") if cursor.took("LOCATION") else None
        partitions.append(ddl.NewPartition(values=values, location=location))
        cursor.took(",")
    if not partitions:
        cursor.fail("PARTITION is missing here", "write ADD [IF NOT EXISTS] PARTITION (p = value)")
    return ddl.AddPartitions(
        target=target, partitions=tuple(partitions), if_not_exists=if_not_exists
    )


def _drop_partitions(cursor: Cursor, target: str, _: str | None) -> ddl.DropPartitions:
    if_exists = cursor.took("IF", "EXISTS")
    partitions: list[ddl.PartitionValues] = []
    while cursor.took("PARTITION"):
        partitions.append(cursor.partition())
        cursor.took(",")
    if not partitions:
        cursor.fail("PARTITION is missing here", "write DROP [IF EXISTS] PARTITION (p = value)")
    purge = cursor.took("PURGE")
    return ddl.DropPartitions(
        target=target, partitions=tuple(partitions), if_exists=if_exists, purge=purge
    )


_FORMS: Final[
    Mapping[tuple[str, ...], Callable[[Cursor, str, str | None], ddl.MetastoreStatement]]
] = {
    ("ADD", "COLUMNS"): _add_columns,
    ("CHANGE",): _change_column,
    ("RENAME", "TO"): _rename,
    ("SET", "TBLPROPERTIES"): _set,
    ("UNSET", "TBLPROPERTIES"): _unset,
    ("ADD",): _add_partitions,
    ("DROP",): _drop_partitions,
}
"""The forms that can follow the table's name; if two forms start alike, the longer one is first."""
