"""The parser of INSERT INTO and INSERT OVERWRITE.

Hive matches a query's columns with the table's columns by position. Data columns come first, then
the partition columns without a value in the PARTITION clause. A column list overrides this order.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> (span,) = statements_of("INSERT INTO db.t PARTITION (y = 1, m) SELECT a, m FROM db.s")
    >>> spec = insert_of(span, None)
    >>> dict(spec.partition), spec.dynamic_partition, spec.match.value
    ({'y': '1'}, ('m',), 'position')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.jobs.specs.statements import ColumnMatch, InsertMode, InsertSpec, SourceSpec
from airflow_hiveacid.sql.expressions.queries import QUERY_BEGINS, parsed_query, source_of_tree
from airflow_hiveacid.sql.statements.values import DefaultPositions, values_of
from airflow_hiveacid.sql.text.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.text.names import NamedTable, column_list, table_name
from airflow_hiveacid.sql.text.nodes import check_keys, check_table
from airflow_hiveacid.sql.text.text import Span
from airflow_hiveacid.sql.text.views import Views

_MODES: Final = {"INTO": InsertMode.APPEND, "OVERWRITE": InsertMode.OVERWRITE}
_FORM: Final = "write INSERT INTO db.t [PARTITION (...)] [(columns)] VALUES (...) or SELECT ..."


def insert_of(span: Span, database: str | None, views: Views | None = None) -> InsertSpec:
    """Parse `[WITH] INSERT INTO | OVERWRITE t [PARTITION (...)] [(columns)] VALUES or query`."""
    begin = span.find("INSERT")
    if begin is None:
        span.fail("INSERT is missing after WITH", _FORM)
    mode, index = _mode(span, begin)
    table = table_name(span, database, index)
    partition, dynamic, index = partition_clause(span, table)
    columns, index = _columns(span, index)
    if index >= len(span):
        span.fail("the rows are missing", _FORM, span.tokens[-1].end)
    first = span.tokens[index]
    if first.word == "IF":
        span.fail("IF NOT EXISTS is not supported", "remove it", first)
    tree = _checked(span, table, columns)
    positions = DefaultPositions()
    _check_partition_columns(span, columns, partition, dynamic)
    if first.word == "VALUES":
        if begin:
            span.fail("VALUES cannot use WITH", "remove WITH")
        source, positions = values_of(span[index + 1 :], tree, columns)
    elif first.word in QUERY_BEGINS:
        source = _query(span, begin, index, tree, views or Views(database))
    else:
        span.fail(f"{first.raw!r} is not understood here", _FORM, first)
    return InsertSpec(
        target=table.full,
        source=source,
        mode=mode,
        columns=columns,
        partition=partition,
        match=ColumnMatch.POSITION,
        dynamic_partition=() if columns else dynamic,
        default_at=positions.default_at,
        default_where=positions.default_where,
        text_at=positions.text_at,
    )


def _mode(span: Span, begin: int) -> tuple[InsertMode, int]:
    word = span.word(begin + 1)
    if word not in _MODES:
        span.fail("INSERT is followed by neither INTO nor OVERWRITE", _FORM)
    index = begin + 2
    if span.word(index) in {"DIRECTORY", "LOCAL"}:
        span.fail("writing a directory is not supported", "insert into a table", span.tokens[index])
    return _MODES[word], index + (span.word(index) == "TABLE")


def partition_clause(span: Span, table: NamedTable) -> tuple[dict[str, str], tuple[str, ...], int]:
    """Return static and dynamic partition columns, and the index after the PARTITION clause."""
    index = table.end
    if span.word(index) != "PARTITION":
        return {}, (), index
    if span.word(index + 1) != "(":
        span.fail("PARTITION is not followed by a list", "write PARTITION (column = value)")
    end = span.closing(index + 1)
    static: dict[str, str] = {}
    dynamic: list[str] = []
    for part in span[index + 2 : end].split(","):
        name = part.tokens[0].name if part.tokens else None
        if name is None:
            part.fail("this is not a partition column", "write PARTITION (column = value)")
        column = name.lower()
        if column in static or column in dynamic:
            part.fail(f"partition column {name!r} is named twice", "name it once")
        if len(part) == 1:
            dynamic.append(column)
            continue
        if dynamic:
            part.fail(
                "a partition column with a value comes after one without a value",
                "list the columns with values first, as in Hive",
            )
        static[column] = partition_value(part[1:])
    return static, tuple(dynamic), end + 1


def partition_value(span: Span) -> str:
    """Return the value of `= constant`, as the string that a partition column would store."""
    value: object = ABSENT
    if span.tokens and span.tokens[0].word in {"=", "=="}:
        value = constant(span[1:])
    if value is None or value == NULL_PARTITION:
        span.fail(
            "NULL as a static partition is not supported", "let a query supply it: SELECT ..., NULL"
        )
    if isinstance(value, Absent) or not str(value).strip():
        remedy = "write a number or a string"
        if len(span) > 1 and span.tokens[1].parameter is not None:
            remedy = "give a string, a whole number, a Decimal, a date or a datetime without a zone"
        span.fail("this is not a valid partition value", remedy)
    return str(value).upper() if isinstance(value, bool) else str(value)


def _columns(span: Span, index: int) -> tuple[tuple[str, ...], int]:
    if span.word(index) != "(" or span.word(index + 1) in QUERY_BEGINS:
        return (), index
    end = span.closing(index)
    return column_list(span[index : end + 1]), end + 1


def _check_partition_columns(
    span: Span, columns: tuple[str, ...], static: Mapping[str, str], dynamic: tuple[str, ...]
) -> None:
    if not columns:
        return
    for column in columns:
        if column in static:
            span.fail(f"column {column!r} already has a value in PARTITION", "remove it from one")
    for column in dynamic:
        if column not in columns:
            span.fail(
                f"partition column {column!r} is not in the list of columns",
                "add it to the list, and its value to the rows",
            )


def _checked(span: Span, target: NamedTable, columns: tuple[str, ...]) -> exp.Insert:
    """Parse the statement with sqlglot, and check that sqlglot finds the same table and columns."""
    tree = span.parsed()
    if not isinstance(tree, exp.Insert):
        span.fail("this is not a plain INSERT", _FORM)
    check_keys(span, tree, ("this", "expression", "overwrite", "with_"))
    table = tree.this
    tree_columns: tuple[str, ...] = ()
    if isinstance(table, exp.Schema):
        check_keys(span, table, ("this", "expressions"))
        tree_columns = tuple(column.name.lower() for column in table.expressions)
        table = table.this
    check_table(span, table, target, "partition")
    if tree_columns != columns:
        span.fail("the list of columns is ambiguous", _FORM)
    return tree


def _query(span: Span, begin: int, index: int, tree: exp.Insert, views: Views) -> SourceSpec:
    """Return the query after the column list, together with the WITH clause before INSERT."""
    tokens = (*span.tokens[:begin], *span.tokens[index:])
    query = Span(span.whole, span.number, tokens, span.tokens[index].start)
    if begin and span.tokens[index].word == "WITH":
        span.fail("there are two WITH clauses", "write one", span.tokens[index])
    query_tree = parsed_query(query)
    with_clause = query_tree.args.get("with_")
    alone = query_tree.copy()
    if begin:
        alone.set("with_", None)
        if with_clause != tree.args.get("with_"):
            span.fail("it is not clear where WITH ends", "put it after the columns")
    if alone != tree.expression:
        query.fail("it is not clear where the query ends", "put parentheses around it")
    return source_of_tree(query, query_tree, views)
