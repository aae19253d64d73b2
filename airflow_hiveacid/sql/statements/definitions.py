"""The parsers of CREATE, DROP and ALTER TABLE; they return statements for the metastore.

CREATE TABLE ... AS SELECT becomes a job, because only Spark can determine the columns of a query.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("CREATE TABLE db.t (id bigint) PARTITIONED BY (day date)")
    >>> made = creation_of(span, None)
    >>> made.target, [c.name for c in made.columns], made.insert_only
    ('db.t', ['id'], False)
    >>> (span,) = statements_of("ALTER TABLE db.t DROP IF EXISTS PARTITION (p = 1, q = 'x')")
    >>> alteration_of(span, None).partitions
    ((('p', '1'), ('q', 'x')),)
    >>> alteration_of(statements_of("ALTER TABLE db.t COMPACT 'major'")[0], None).choice.value
    'major'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from airflow_hiveacid.format.definition_rules import why_fixed, why_not_set
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs import metastore_statements as ddl
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import CreateAsSpec
from airflow_hiveacid.sql.expressions.queries import QUERY_BEGINS, source_of
from airflow_hiveacid.sql.statements.cursor import Cursor
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.literals import text
from airflow_hiveacid.sql.text.tokens import Kind
from airflow_hiveacid.sql.text.views import Views

_TABLE_FORM: Final = (
    "write CREATE TABLE [IF NOT EXISTS] db.t (column type [COMMENT 'x'], ...) [COMMENT 'x']"
    " [PARTITIONED BY (column type, ...)] [CLUSTERED BY (column, ...) INTO n BUCKETS]"
    " [STORED AS ORC | PARQUET | TEXTFILE] [LOCATION 'uri'] [TBLPROPERTIES ('name'='value', ...)]"
)
_DATABASE_FORM: Final = "write CREATE DATABASE [IF NOT EXISTS] db"
_DROP_FORM: Final = "write DROP TABLE [IF EXISTS] db.t [PURGE]"
_FORMATS: Final = {"ORC": "orc", "PARQUET": "parquet", "AVRO": "avro", "TEXTFILE": "textfile"}
_NO_TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "EXTERNAL": (
        "external tables have no transactions",
        "omit EXTERNAL, or create the table in Hive",
    ),
    "TEMPORARY": (
        "a temporary table belongs to a session, but a task has no session",
        "create a table, and drop it later",
    ),
    "VIEW": ("views are not tables", "create it in Hive"),
    "MATERIALIZED": ("materialized views are not supported", "create it in Hive"),
}
_AS_FORM: Final = (
    "write CREATE TABLE [IF NOT EXISTS] db.t [COMMENT 'x'] [PARTITIONED BY (column, ...)]"
    " [CLUSTERED BY (column, ...) INTO n BUCKETS] [STORED AS ORC | PARQUET]"
    " [TBLPROPERTIES ('name'='value', ...)] AS SELECT ..."
)
_NO_CLAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "LIKE": (
        "CREATE TABLE ... LIKE is not supported",
        "write the columns, as SHOW CREATE TABLE prints them",
    ),
    "SKEWED": (
        "SKEWED BY is not supported: its values cannot be changed without loss",
        "remove it",
    ),
    "ROW": (
        "ROW FORMAT is not supported: the file format decides how rows are written",
        "write STORED AS ORC, PARQUET, AVRO or TEXTFILE alone",
    ),
    "WITH SERDEPROPERTIES": ("properties of a SerDe are not supported", "remove them"),
}
_TRANSACTIONAL: Final = "transactional"
_KIND: Final = "transactional_properties"
_INSERT_ONLY: Final = "insert_only"
_BUCKETING: Final = "bucketing_version"


def creation_of(span: Span, database: str | None) -> ddl.MetastoreStatement | CreateAsSpec:
    """Parse `CREATE DATABASE ...`, `CREATE TABLE ...` or `CREATE TABLE ... AS SELECT ...`."""
    cursor = Cursor(span, _TABLE_FORM, 1)
    if cursor.took("DATABASE") or cursor.took("SCHEMA"):
        return _database(cursor)
    if cursor.word in _NO_TABLES:
        cursor.fail(*_NO_TABLES[cursor.word])
    is_said = cursor.took("TRANSACTIONAL")
    if not is_said:
        cursor.took("MANAGED")
    cursor.expect("TABLE")
    return _table(cursor, database, is_said=is_said)


def drop_of(span: Span, database: str | None) -> ddl.DropTable:
    """Parse `DROP TABLE [IF EXISTS] t [PURGE]`."""
    cursor = Cursor(span, _DROP_FORM, 1)
    if not cursor.took("TABLE"):
        cursor.fail("only DROP TABLE is supported")
    if_exists = cursor.took("IF", "EXISTS")
    target = cursor.table(database)
    purge = cursor.took("PURGE")
    cursor.end()
    return ddl.DropTable(target=target, if_exists=if_exists, purge=purge)


def _database(cursor: Cursor) -> ddl.CreateDatabase:
    cursor.form = _DATABASE_FORM
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    name = cursor.name("database")
    cursor.end()
    return ddl.CreateDatabase(target=name, if_not_exists=if_not_exists)


def _table(
    cursor: Cursor, database: str | None, *, is_said: bool
) -> ddl.CreateTable | CreateAsSpec:
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    target = cursor.table(database)
    if cursor.word != "(":
        spec = _table_as(cursor, target, database, is_said=is_said)
        return replace(spec, if_not_exists=if_not_exists)
    columns = cursor.columns()
    comment = cursor.string("comment") if cursor.took("COMMENT") else None
    partition_columns = cursor.columns(columns) if cursor.took("PARTITIONED BY") else ()
    bucket_columns, num_buckets = _buckets(cursor, {column.name for column in columns})
    stored_as, format_at = _format(cursor)
    location = cursor.string("location") if cursor.took("LOCATION") else None
    insert_only, properties = _properties(cursor, is_said=is_said)
    if cursor.word == "AS":
        cursor.fail("a table gets its columns from either a list or a query, not both", _AS_FORM)
    _leftover(cursor)
    cursor.end()
    _check_kind(cursor, stored_as, format_at, insert_only=insert_only, buckets=bucket_columns)
    return ddl.CreateTable(
        target=target,
        columns=columns,
        partition_columns=partition_columns,
        bucket_columns=bucket_columns,
        num_buckets=num_buckets,
        insert_only=insert_only,
        stored_as=stored_as or "orc",
        location=location,
        comment=comment,
        properties=properties,
        if_not_exists=if_not_exists,
    )


def _table_as(cursor: Cursor, target: str, database: str | None, *, is_said: bool) -> CreateAsSpec:
    cursor.form = _AS_FORM if cursor.span.find("SELECT", "WITH") is not None else _TABLE_FORM
    comment = cursor.string("comment") if cursor.took("COMMENT") else None
    partition_columns = _names(cursor, None) if cursor.took("PARTITIONED BY") else ()
    bucket_columns, num_buckets = _buckets(cursor, None)
    stored_as, format_at = _format(cursor)
    if cursor.word == "LOCATION":
        cursor.fail(
            "LOCATION is not supported with AS SELECT: existing files there would become its rows",
            "omit it, or create the table first and INSERT INTO it",
        )
    insert_only, properties = _properties(cursor, is_said=is_said)
    if not cursor.took("AS"):
        _leftover(cursor)
        cursor.fail("the columns are missing here")
    _check_kind(cursor, stored_as, format_at, insert_only=insert_only, buckets=bucket_columns)
    if stored_as in {"textfile", "avro"}:
        cursor.span.fail(
            "a text or Avro table cannot be created from a query",
            "write STORED AS ORC or PARQUET, or create the table first and INSERT INTO it",
            cursor.span.tokens[format_at],
        )
    query = cursor.span[cursor.at :]
    if query.word(0) not in QUERY_BEGINS:
        query.fail("the query is missing here", cursor.form)
    return CreateAsSpec(
        target=target,
        source=source_of(query, Views(database)),
        partition_columns=partition_columns,
        bucket_columns=bucket_columns,
        num_buckets=num_buckets,
        insert_only=insert_only,
        stored_as=stored_as or "orc",
        comment=comment,
        properties=dict(properties),
    )


def _check_kind(
    cursor: Cursor,
    stored_as: str | None,
    format_at: int,
    *,
    insert_only: bool,
    buckets: tuple[str, ...],
) -> None:
    if not insert_only and stored_as not in {None, "orc"}:
        cursor.span.fail(
            "a full-ACID table must be ORC",
            "write STORED AS ORC, or TBLPROPERTIES ('transactional'='true',"
            " 'transactional_properties'='insert_only')",
            cursor.span.tokens[format_at],
        )
    if insert_only and buckets:
        cursor.span.fail(
            "insert-only tables with buckets are not supported",
            "omit CLUSTERED BY, or create a full-ACID table",
        )


def _names(cursor: Cursor, columns: Collection[str] | None) -> tuple[str, ...]:
    """Read names in parentheses, all of the table's `columns`; None if only Spark knows these."""
    names: list[str] = []
    for entry in cursor.entries():
        begin = entry.token
        name = entry.name("column")
        entry.end()
        if name in names or (columns is not None and name not in columns):
            cursor.span.fail(
                f"{name!r} is not one of the columns, or is named twice",
                "list columns of the table, once each",
                begin,
            )
        names.append(name)
    return tuple(names)


def _buckets(cursor: Cursor, columns: Collection[str] | None) -> tuple[tuple[str, ...], int]:
    if not cursor.took("CLUSTERED", "BY"):
        return (), 0
    names = _names(cursor, columns)
    if cursor.word == "SORTED":
        cursor.fail(
            "SORTED BY is not supported: files of transactional tables are sorted by row ID",
            "remove it",
        )
    cursor.expect("INTO")
    count_at = cursor.token
    count = cursor.number("number of buckets")
    if not count:
        cursor.span.fail("a table has at least one bucket", cursor.form, count_at)
    cursor.expect("BUCKETS")
    return names, count


def _format(cursor: Cursor) -> tuple[str | None, int]:
    _refuse_clause(cursor)
    if not cursor.took("STORED", "AS"):
        if cursor.word == "STORED":
            cursor.fail("storage handlers are not supported: their tables have no transactions")
        return None, cursor.at
    index = cursor.at
    if cursor.word not in _FORMATS:
        cursor.fail(
            "this format is not supported", "write STORED AS ORC, PARQUET, AVRO or TEXTFILE"
        )
    stored_as = _FORMATS[cursor.word]
    cursor.at += 1
    _refuse_clause(cursor)
    return stored_as, index


def _properties(cursor: Cursor, *, is_said: bool) -> tuple[bool, tuple[tuple[str, str], ...]]:
    """Return whether the table is insert-only, and the table's other properties."""
    begin = cursor.at
    properties = dict(cursor.properties()) if cursor.took("TBLPROPERTIES") else {}
    end, cursor.at = cursor.at, begin  # errors below are about TBLPROPERTIES, so point there

    transactional = properties.pop(_TRANSACTIONAL, "true" if is_said else None)
    kind = properties.pop(_KIND, None)
    if transactional is not None and transactional.lower() != "true":
        cursor.fail("tables without transactions are not supported here", "create it in Hive")
    if transactional is None and kind is not None:
        cursor.fail(
            f"{_KIND!r} has no effect without {_TRANSACTIONAL!r}", f"add '{_TRANSACTIONAL}'='true'"
        )
    if kind is not None and kind.lower() not in {"default", _INSERT_ONLY}:
        cursor.fail(f"{_KIND} {kind!r} is not supported", f"write 'default' or '{_INSERT_ONLY}'")
    if properties.get(_BUCKETING) == "2":
        del properties[_BUCKETING]  # every new table has it, and SHOW CREATE TABLE prints it
    for name in properties:
        if why := why_not_set(name):
            cursor.fail(f"{name!r} cannot be set: {why}", "remove it")
    cursor.at = end
    is_insert_only = kind is not None and kind.lower() == _INSERT_ONLY
    return is_insert_only, tuple(properties.items())


def _refuse_clause(cursor: Cursor) -> None:
    if cursor.word in _NO_CLAUSES:
        cursor.fail(*_NO_CLAUSES[cursor.word])


def _leftover(cursor: Cursor) -> None:
    _refuse_clause(cursor)
    if cursor.word in {"COMMENT", "PARTITIONED BY", "CLUSTERED", "STORED", "LOCATION"}:
        cursor.fail(f"{cursor.word} is in the wrong place", f"use this order: {cursor.form}")


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
