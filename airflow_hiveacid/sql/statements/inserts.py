"""The parsers of INSERT INTO and INSERT OVERWRITE, and of FROM ... INSERT ... INSERT ...

Hive matches a query's columns with the table's columns by position. Data columns come first, then
the partition columns without a value in the PARTITION clause. A column list overrides this order.

The tokens of WITH and FROM are copied into each INSERT, which is then parsed as a separate
statement, so all rules for INSERT apply. The queries in WITH and FROM run only once.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("INSERT INTO db.t PARTITION (y = 1, m) SELECT a, m FROM db.s")
    >>> spec = insert_of(span, None)
    >>> dict(spec.partition), spec.dynamic_partition, spec.match.value
    ({'y': '1'}, ('m',), 'position')
    >>> (span,) = statements_of(
    ...     "FROM (SELECT a, b FROM db.s) q INSERT INTO db.t SELECT q.a WHERE q.b > 0"
    ...     " INSERT INTO db.u SELECT q.b"
    ... )
    >>> (spec,) = multi_insert_of(span, None).statements
    >>> [(insert.target, insert.source.query) for insert in spec.inserts]
    [('db.t', 'SELECT q.a FROM `__hiveacid_shared_1` q WHERE q.b > 0'), \
('db.u', 'SELECT q.b FROM `__hiveacid_shared_1` q')]
    >>> dict(spec.shared)
    {'__hiveacid_shared_1': 'SELECT a, b FROM `__hiveacid_1` AS `s`'}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from airflow_hiveacid.format.errors import SharedTargetError
from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    InsertMode,
    InsertSpec,
    MultiInsertSpec,
    SourceSpec,
    TransactionSpec,
)
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.plan.transactions import check_order, steps_of
from airflow_hiveacid.sql.expressions.queries import (
    QUERY_BEGINS,
    parsed_query,
    source_of_tree,
    translations,
)
from airflow_hiveacid.sql.statements.values import DefaultPositions, values_of
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.bare_names import column_changes
from airflow_hiveacid.sql.text.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.text.names import NamedTable, column_list, table_name
from airflow_hiveacid.sql.text.nodes import check_keys, check_table
from airflow_hiveacid.sql.text.views import Views, table_changes

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
    """Return the query from `index` on, with the WITH clause before INSERT, which is at `begin`."""
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


_FORM_OF_SEVERAL: Final = (
    "write FROM db.s INSERT INTO db.t SELECT ... [WHERE ...] INSERT INTO db.u SELECT ..."
)
_AFTER_COLUMNS: Final = (
    "LATERAL",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "WINDOW",
    "ORDER BY",
    "SORT BY",
    "CLUSTER BY",
    "DISTRIBUTE BY",
    "LIMIT",
    "OFFSET",
)
_OPERATIONS: Final = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_OF_CHANCE: Final = frozenset(
    {"RAND", "RANDN", "RANDOM", "SHUFFLE", "UUID", "REFLECT", "REFLECT2", "JAVA_METHOD"}
    | {"MONOTONICALLY_INCREASING_ID", "SPARK_PARTITION_ID"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A multi-insert, split into clauses; `inserts` has each with the index for FROM in it."""

    with_clause: Span
    from_clause: Span
    inserts: tuple[tuple[Span, int], ...]

    def alone(self, part: Span, index: int) -> Span:
        """Return an INSERT with the WITH and FROM clauses, as a separate statement."""
        tokens = (
            *self.with_clause.tokens,
            *part.tokens[:index],
            *self.from_clause.tokens,
            *part.tokens[index:],
        )
        return Span(part.whole, part.number, tokens, part.at)

    def query(self, part: Span, index: int) -> Span:
        """Return the query of an INSERT, with the WITH and FROM clauses."""
        begin = part.find("SELECT") or 0
        return self.alone(part[begin:], index - begin)


def begins_with_from(span: Span) -> bool:
    """Return True if FROM precedes the first INSERT."""
    index = span.find("FROM", "INSERT")
    return index is not None and span.word(index) == "FROM"


def multi_insert_of(span: Span, database: str | None) -> InsertSpec | TransactionSpec:
    """Parse `[WITH ...] FROM source INSERT ... SELECT ...`; one INSERT gives an `InsertSpec`."""
    cut = _cut(span)
    if len(cut.inserts) == 1:
        return insert_of(cut.alone(*cut.inserts[0]), database)
    views = Views(database, of_many=True)
    _share(cut, views)
    inserts = tuple(insert_of(cut.alone(*part), database, views) for part in cut.inserts)
    spec = TransactionSpec(statements=(MultiInsertSpec(inserts=inserts, shared=views.shared),))
    try:
        check_order(steps_of(spec.statements))
    except SharedTargetError as error:
        part, _ = cut.inserts[error.statement - 1]
        part.fail(
            f"INSERT {error.other} of this FROM clause also writes {error.table}, and one of the"
            " two INSERTs overwrites the table",
            "combine both into one INSERT with UNION ALL, or name different static partitions",
        )
    return spec


def _cut(span: Span) -> _Cut:
    begin = span.find("FROM") or 0
    first = span.find("INSERT", start=begin)
    if first is None:
        span.fail("INSERT is missing after FROM", _FORM_OF_SEVERAL, span.tokens[-1].end)
    ends = [i for i, token in span.outside() if token.word == "INSERT" and i > first]
    borders = zip([first, *ends], [*ends, len(span)], strict=True)
    return _Cut(
        with_clause=span[:begin],
        from_clause=span[begin:first],
        inserts=tuple((part, _end_of_columns(part)) for part in (span[b:e] for b, e in borders)),
    )


def _end_of_columns(part: Span) -> int:
    """Return the index at which the FROM clause must be inserted into an INSERT."""
    select = part.find("SELECT")
    if select is None:
        part.fail("SELECT is missing in an INSERT after FROM", _FORM_OF_SEVERAL)
    operation = part.find(*_OPERATIONS)
    if operation is not None:
        word = part.tokens[operation]
        part.fail(f"{word.raw} is not supported in an INSERT after FROM", "put it into FROM", word)
    for index, token in part.outside():
        if token.word == "FROM" and part.word(index - 1) != "DISTINCT":
            part.fail("there are two FROM clauses", "write one, before the first INSERT", token)
    end = part.find(*_AFTER_COLUMNS, start=select)
    return len(part) if end is None else end


def _share(cut: _Cut, views: Views) -> None:
    """Replace the queries of WITH and FROM with shared views; each runs once for all INSERTs."""
    query = cut.query(*cut.inserts[0])
    tree = parsed_query(query)
    if len(cut.with_clause):
        first, last = cut.with_clause.tokens[0], cut.with_clause.tokens[-1]
        _share_with(cut.with_clause, tree, views)
        views.put(first.start, last.end, "")
    _share_from(cut.from_clause, tree, views)
    for begin, token in enumerate(cut.from_clause.tokens):
        if token.word in _OF_CHANCE and cut.from_clause.word(begin + 1) == "(":
            if views.hides(token.start):
                continue
            cut.from_clause.fail(
                f"{token.raw}() would return different values for each INSERT",
                "put it into a query: FROM (SELECT ...) q",
                token,
            )


def _share_with(span: Span, tree: exp.Expr, views: Views) -> None:
    with_clause = tree.args.get("with_")
    parts = span[1:].split(",")
    ctes = [] if with_clause is None else with_clause.expressions
    if len(ctes) != len(parts):
        span.fail("it is not clear where a WITH query ends", "write WITH a AS (...), b AS (...)")
    for part, cte in zip(parts, ctes, strict=True):
        begin = part.find("AS")
        if begin is None or part.word(begin + 1) != "(" or part.closing(begin + 1) != len(part) - 1:
            part.fail("this is not a named query", "write WITH a AS (SELECT ...)")
        name = part.tokens[0]
        if cte.args["alias"].this.meta.get("start") != name.start:
            part.fail("the name of this query is not clear", "write WITH a AS (SELECT ...)")
        text = _text(part[begin + 2 : -1], cte.this, views)
        if columns := cte.args["alias"].columns:
            names = ", ".join(quoted(column.name) for column in columns)
            text = f"SELECT * FROM ({text}) AS q({names})"  # noqa: S608 - the user's own query
        views.share_cte(name.start, text)


def _share_from(span: Span, tree: exp.Expr, views: Views) -> None:
    """Replace the subqueries of the FROM clause with shared views, including joined subqueries."""
    joins = [join.this for join in tree.args.get("joins") or []]
    from_ = tree.args.get("from_")
    tables = [*([] if from_ is None else [from_.this]), *joins]
    subqueries = [table for table in tables if isinstance(table, exp.Subquery)]
    offsets = [
        index
        for index, token in span.outside()
        if token.word == "("
        and span.word(index - 1) in {"FROM", "JOIN", ","}
        and span.word(index + 1) in QUERY_BEGINS
    ]
    if len(subqueries) != len(offsets):
        span.fail(
            "it is not clear where a FROM query ends", "put each query in parentheses and name it"
        )
    for begin, table in zip(offsets, subqueries, strict=True):
        end = span.closing(begin)
        view = views.share(_text(span[begin + 1 : end], table.this, views))
        views.put(span.tokens[begin].start, span.tokens[end].end, f"`{view}`")


def _text(span: Span, node: exp.Expr, views: Views) -> str:
    if parsed_query(span) != node:
        span.fail("it is not clear where this query ends", "put parentheses around it")
    changes = table_changes(span, node, views) | column_changes(span, node)
    return span.written(translations(span) | changes)
