"""INSERT INTO and INSERT OVERWRITE as job descriptions.

In Hive the columns of a query go to those of the table by position: data columns first, then the
partition columns to which the PARTITION clause gives no value. With a list of columns, to these.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (piece,) = statements_of("INSERT INTO db.t PARTITION (y = 1, m) SELECT a, m FROM db.s")
    >>> spec = insert_of(piece, None)
    >>> dict(spec.partition), spec.dynamic_partition, spec.match.value
    ({'y': '1'}, ('m',), 'position')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.jobs.specs import ColumnMatch, InsertMode, InsertSpec, SourceSpec
from airflow_hiveacid.sql.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.names import column_list, table_name
from airflow_hiveacid.sql.nodes import check_keys, check_table
from airflow_hiveacid.sql.queries import QUERY_BEGINS, parsed_query, source_of_tree
from airflow_hiveacid.sql.text import Piece
from airflow_hiveacid.sql.values import Places, values_of
from airflow_hiveacid.sql.views import Views

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.sql.names import NamedTable

_MODES: Final = {"INTO": InsertMode.APPEND, "OVERWRITE": InsertMode.OVERWRITE}
_FORM: Final = "write INSERT INTO db.t [PARTITION (...)] [(columns)] VALUES (...) or SELECT ..."


def insert_of(piece: Piece, database: str | None, views: Views | None = None) -> InsertSpec:
    """`[WITH ...] INSERT INTO | OVERWRITE [TABLE] t [PARTITION (...)] [(columns)] VALUES | query`.

    Args:
        piece: it.
        database: where tables are whose names have no database; None if that is an error.
        views: those of the statement that it is a part of, if it is.

    Raises:
        SqlTextError: it is something else, or see `queries.parsed_query`.
    """
    begin = piece.find("INSERT")
    if begin is None:
        piece.fail("INSERT is missing after WITH", _FORM)
    mode, at = _mode(piece, begin)
    table = table_name(piece, database, at)
    partition, dynamic, at = partition_clause(piece, table)
    columns, at = _columns(piece, at)
    if at >= len(piece):
        piece.fail("the rows are missing", _FORM, piece.tokens[-1].end)
    if piece.tokens[at].word == "IF":
        piece.fail("IF NOT EXISTS is not supported", "write it without", piece.tokens[at])
    tree = _checked(piece, table, columns)
    places = Places()
    _check_partition_columns(piece, columns, partition, dynamic)
    if piece.tokens[at].word == "VALUES":
        if begin:
            piece.fail("WITH is of no use to VALUES", "remove it")
        source, places = values_of(piece[at + 1 :], tree, columns)
    elif piece.tokens[at].word in QUERY_BEGINS:
        source = _query(piece, begin, at, tree, views or Views(database))
    else:
        piece.fail(f"{piece.tokens[at].raw!r} is not understood here", _FORM, piece.tokens[at])
    return InsertSpec(
        target=table.full,
        source=source,
        mode=mode,
        columns=columns,
        partition=partition,
        match=ColumnMatch.POSITION,
        dynamic_partition=() if columns else dynamic,
        default_at=places.default_at,
        default_where=places.default_where,
        text_at=places.text_at,
    )


def _mode(piece: Piece, begin: int) -> tuple[InsertMode, int]:
    """What INSERT says, and the index of the table's name."""
    word = piece.word(begin + 1)
    if word not in _MODES:
        piece.fail("INSERT is followed by neither INTO nor OVERWRITE", _FORM)
    at = begin + 2
    if piece.word(at) in {"DIRECTORY", "LOCAL"}:
        piece.fail("writing a directory is not supported", "insert into a table", piece.tokens[at])
    return _MODES[word], at + (piece.word(at) == "TABLE")


def partition_clause(
    piece: Piece, table: NamedTable
) -> tuple[dict[str, str], tuple[str, ...], int]:
    """Static and dynamic partition columns, and the index after the clause.

    Raises:
        SqlTextError: it is no PARTITION clause.
    """
    at = table.end
    if piece.word(at) != "PARTITION":
        return {}, (), at
    if piece.word(at + 1) != "(":
        piece.fail("PARTITION is followed by no list", "write PARTITION (column = value)")
    end = piece.closing(at + 1)
    static: dict[str, str] = {}
    dynamic: list[str] = []
    for part in piece[at + 2 : end].split(","):
        name = part.tokens[0].name if part.tokens else None
        if name is None:
            part.fail("this is no partition column", "write PARTITION (column = value)")
        column = name.lower()
        if column in static or column in dynamic:
            part.fail(f"partition column {name!r} is named twice", "name it once")
        if len(part) == 1:
            dynamic.append(column)
            continue
        if dynamic:
            part.fail(
                "a partition column with a value comes after one without",
                "give values to the first ones, as Hive wants it",
            )
        static[column] = partition_value(part[1:])
    return static, tuple(dynamic), end + 1


def partition_value(piece: Piece) -> str:
    """The value of `= constant`, as the text that it is in a partition column of texts.

    Raises:
        SqlTextError: it is none, or NULL, or blank.
    """
    value: object = ABSENT
    if piece.tokens and piece.tokens[0].word in {"=", "=="}:
        value = constant(piece[1:])
    if value is None or value == NULL_PARTITION:
        piece.fail(
            "NULL as a static partition is not supported", "let a query give it: SELECT ..., NULL"
        )
    if isinstance(value, Absent) or not str(value).strip():
        piece.fail("this is no value of a partition", "write a number or a string")
    return str(value).upper() if isinstance(value, bool) else str(value)


def _columns(piece: Piece, at: int) -> tuple[tuple[str, ...], int]:
    """The list of columns, if there is one, and the index after it."""
    if piece.word(at) != "(" or piece.word(at + 1) in QUERY_BEGINS:
        return (), at
    end = piece.closing(at)
    return column_list(piece[at : end + 1]), end + 1


def _check_partition_columns(
    piece: Piece, columns: tuple[str, ...], static: Mapping[str, str], dynamic: tuple[str, ...]
) -> None:
    if not columns:
        return
    for column in columns:
        if column in static:
            piece.fail(f"column {column!r} has a value already, in PARTITION", "remove it from one")
    for column in dynamic:
        if column not in columns:
            piece.fail(
                f"partition column {column!r} is not in the list of columns",
                "add it to the list, and its value to the rows",
            )


def _checked(piece: Piece, target: NamedTable, columns: tuple[str, ...]) -> exp.Insert:
    """The statement as sqlglot reads it, which is as we do."""
    tree = piece.parsed()
    if not isinstance(tree, exp.Insert):
        piece.fail("this is no plain INSERT", _FORM)
    check_keys(piece, tree, ("this", "expression", "overwrite", "with_"))
    table = tree.this
    found: tuple[str, ...] = ()
    if isinstance(table, exp.Schema):
        check_keys(piece, table, ("this", "expressions"))
        found = tuple(column.name.lower() for column in table.expressions)
        table = table.this
    check_table(piece, table, target, "partition")
    if found != columns:
        piece.fail("the list of columns is not clear", _FORM)
    return tree


def _query(piece: Piece, begin: int, at: int, tree: exp.Insert, views: Views) -> SourceSpec:
    """The query after the head, with the WITH clause before INSERT, if there is one."""
    tokens = (*piece.tokens[:begin], *piece.tokens[at:])
    query = Piece(piece.whole, piece.number, tokens, piece.tokens[at].start)
    if begin and piece.tokens[at].word == "WITH":
        piece.fail("there are two WITH clauses", "write one", piece.tokens[at])
    found = parsed_query(query)
    with_ = found.args.get("with_")
    alone = found.copy()
    if begin:
        alone.set("with_", None)
        if with_ != tree.args.get("with_"):
            piece.fail("it is not clear where WITH ends", "put it after the columns")
    if alone != tree.expression:
        query.fail("it is not clear where the query ends", "put parentheses around it")
    return source_of_tree(query, found, views)
