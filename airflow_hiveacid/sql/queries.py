"""A query as the source of rows: its text over views that stand for the tables which it reads.

Takes the user's SELECT; gives a `SourceSpec` with the same text, in which each table's name has
become the name of a view, and which view is which table. The name by which the query knew a table
stays as its alias.

What Hive and Spark would answer differently is refused: see also `differences`.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (piece,) = statements_of("SELECT a.x FROM db.a JOIN db.b c ON a.x = c.x")
    >>> spec = source_of(piece, Views(None))
    >>> spec.query
    'SELECT a.x FROM `__hiveacid_1` AS `a` JOIN `__hiveacid_2` c ON a.x = c.x'
    >>> dict(spec.tables)
    {'__hiveacid_1': 'db.a', '__hiveacid_2': 'db.b'}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.jobs.specs import SOURCE_VIEW, SourceSpec
from airflow_hiveacid.sql.differences import check_meaning
from airflow_hiveacid.sql.nodes import check_query, position_of
from airflow_hiveacid.sql.views import Views, table_changes

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece

_JOINS: Final = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})
_AFTER_ORDER: Final = frozenset({")", "ROWS", "RANGE", "LIMIT", "OFFSET", "UNION", "EXCEPT"})
_GROUPINGS: Final = (exp.Group, exp.Paren, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
_AFTER_FROM: Final = frozenset(
    {"WHERE", "GROUP BY", "HAVING", "WINDOW", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"}
    | {"LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL"}
)
QUERY_BEGINS: Final = frozenset({"SELECT", "WITH", "("})
"""The words with which a query begins."""


def parsed_query(piece: Piece) -> exp.Expr:
    """A query as a tree, once it is known to mean the same in Hive and in Spark.

    Raises:
        SqlTextError: it cannot be read, or is not supported, or would mean something else.
    """
    check_meaning(piece)
    tree = piece.parsed()
    if not isinstance(tree, exp.Query):
        piece.fail("this is no query", "write SELECT ...")
    check_query(piece, tree)
    check_queries(piece, tree)
    return tree


def check_queries(piece: Piece, tree: exp.Expr) -> None:
    """Refuse what would mean something else in the queries that a tree is or holds.

    Raises:
        SqlTextError: it would.
    """
    for select in tree.find_all(exp.Select):
        _check_joins(piece, select)
        _check_ordered(piece, select)
    _check_commas(piece)
    _check_orders(piece)
    for group in tree.find_all(exp.Group):
        _check_group(piece, group)
    for operation in tree.find_all(exp.SetOperation):
        _check_set_operation(piece, operation)
    for node in tree.find_all(exp.In):
        if isinstance(node.this, exp.Tuple) and not node.args.get("query"):
            piece.fail(
                "(a, b) IN (...) is NULL in Hive where a is, in Spark false",
                "write (a = 1 AND b = 2) OR ...",
                position_of(piece, node),
            )


def source_of(piece: Piece, views: Views) -> SourceSpec:
    """The source that a query is.

    Args:
        piece: the query.
        views: those of the statement; the query's are added to them.

    Raises:
        SqlTextError: see `parsed_query`; or a name is none of a table.
    """
    return source_of_tree(piece, parsed_query(piece), views)


def source_of_tree(piece: Piece, tree: exp.Expr, views: Views) -> SourceSpec:
    """The same for a query that has been parsed.

    Raises:
        SqlTextError: a name in it is none of a table.
    """
    changes = table_changes(piece, tree, views)
    tables = views.tables
    if len(tables) == 1 and not views.of_many and _is_whole_table(tree):
        versions = dict(zip([SOURCE_VIEW], views.versions.values(), strict=False))
        return SourceSpec(table=next(iter(tables.values())), versions=versions)
    query = views.written(piece, changes)
    return SourceSpec(tables=tables, query=query, versions=views.versions)


def _is_whole_table(tree: exp.Expr) -> bool:
    """Whether the query is `SELECT * FROM db.t` and nothing else."""
    given = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or given != {"expressions", "from_"}:
        return False
    (table,) = tree.args["from_"].args.values()
    is_plain = isinstance(table, exp.Table) and not table.args.get("laterals")
    return is_plain and len(tree.expressions) == 1 and type(tree.expressions[0]) is exp.Star


def _check_group(piece: Piece, group: exp.Group) -> None:
    for key in group.find_all(exp.Literal):
        if not key.is_string and isinstance(key.parent, _GROUPINGS):
            at = next(t for t in piece.tokens if t.word == "GROUP BY")
            piece.fail(
                "a number in GROUP BY is a constant in Hive and the place of a column in Spark",
                "write the expression again",
                at,
            )


def _check_ordered(piece: Piece, select: exp.Select) -> None:
    """Refuse a name before LIMIT that is a column of GROUP BY to Hive, and to Spark an alias."""
    order, group = select.args.get("order"), select.args.get("group")
    if (
        order is None
        or group is None
        or not (select.args.get("limit") or select.args.get("offset"))
    ):
        return
    grouped = {column.name.lower() for column in group.find_all(exp.Column)}
    aliases = {
        one.alias.lower()
        for one in select.expressions
        if isinstance(one, exp.Alias) and one.this.name.lower() != one.alias.lower()
    }
    for column in order.find_all(exp.Column):
        if not column.table and column.name.lower() in grouped & aliases:
            piece.fail(
                f"{column.name} in ORDER BY is the column of GROUP BY in Hive, in Spark the alias",
                "write another alias",
                position_of(piece, column),
            )


def _check_set_operation(piece: Piece, node: exp.SetOperation) -> None:
    for side in (node.this, node.expression):
        if isinstance(side, exp.SetOperation) and type(side) is not type(node):
            piece.fail(
                f"{node.key.upper()} and {side.key.upper()} without parentheses bind in different"
                " orders",
                "put parentheses around one of them",
                position_of(piece, side),
            )


def _check_joins(piece: Piece, select: exp.Select) -> None:
    for join in select.args.get("joins") or []:
        if join.kind not in _JOINS:
            piece.fail(f"{join.kind} JOIN is not supported", "write JOIN ... ON")
        if join.args.get("using") and join.side in {"FULL", "RIGHT"}:
            piece.fail(
                f"USING of a {join.side} JOIN is the left table's column in Hive, NULL where that"
                " has no row",
                "write ON, and coalesce(a.x, b.x) for the column",
                position_of(piece, join.this),
            )


def _check_commas(piece: Piece) -> None:
    """Refuse a comma beside JOIN: it binds less than JOIN in Spark, and as much in Hive."""
    for index, token in enumerate(piece.tokens):
        if token.word != "FROM" or piece.word(index - 1) == "DISTINCT":
            continue
        words = [t.word for _, t in piece[index + 1 :].outside(until=_AFTER_FROM)]
        if "," in words and "JOIN" in words:
            piece.fail(
                "a comma binds less than JOIN in Spark, and as much in Hive",
                "write CROSS JOIN for the comma",
                token,
            )


def _check_orders(piece: Piece) -> None:
    """Refuse an order that decides which rows there are and does not say where NULL goes.

    Hive 3 has NULL first when it ascends, Hive 4 last, Spark first.
    """
    for index, token in enumerate(piece.tokens):
        if token.word == "LIMIT" and piece.word(index + 2) == ",":
            piece.fail("LIMIT with two numbers is not known to Spark", "write OFFSET", token)
        if token.word not in {"ORDER BY", "SORT BY"}:
            continue
        end = _end_of_order(piece, index)
        in_window = end < len(piece) and piece.tokens[end].word in {")", "ROWS", "RANGE"}
        is_cut = end < len(piece) and piece.tokens[end].word in {"LIMIT", "OFFSET"}
        if not (is_cut or (in_window and _is_in_window(piece, index))):
            continue
        for part in piece[index + 1 : end].split(","):
            if not any(t.word == "NULLS" for t in part.tokens):
                part.fail(
                    "where NULL goes in an order differs between Hive 3, Hive 4 and Spark",
                    "write NULLS FIRST or NULLS LAST",
                )


def _end_of_order(piece: Piece, index: int) -> int:
    nested = 0
    for at in range(index + 1, len(piece)):
        word = piece.tokens[at].word
        if nested == 0 and word in _AFTER_ORDER:
            return at
        nested += (word in {"(", "["}) - (word in {")", "]"})
    return len(piece)


def _is_in_window(piece: Piece, index: int) -> bool:
    """Whether the parenthesis around a token is that of OVER or of a window's definition."""
    nested = 0
    for at in range(index - 1, -1, -1):
        word = piece.tokens[at].word
        if word == "(" and nested == 0:
            return piece.tokens[at + 1].word != "SELECT" and piece.tokens[at + 1].word != "WITH"
        nested += (word == ")") - (word == "(")
    return False
