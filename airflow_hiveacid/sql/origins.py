"""The source columns from which each column of a query gets its values.

sqlglot parses the SQL, and this module resolves names as Spark does. sqlglot's own `lineage` also
reports columns that the values do not come from, such as those of the second query of EXCEPT, and
takes the first of two columns of the same name.

An origin is never wrong: if a column cannot be traced with certainty, its origins are None. Columns
that only filter, join, group or sort rows are no origins.

Example:
    >>> orders = Relation.of_table("db.orders", ["id", "price", "day"])
    >>> found = Tracer().query("SELECT id, sum(price) AS total FROM o GROUP BY id", {"o": orders})
    >>> for name, origins in found.columns:
    ...     print(name, *[f"{one.table} {one.column} {one.use.name}" for one in origins])
    id db.orders id IDENTITY
    total db.orders price AGGREGATION
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Final, TypeAlias

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark

from airflow_hiveacid.sql.text.nodes import QUERY_KEYS, is_understood

_MOST_EFFORT: Final = 50_000
"""The limit of characters to parse plus columns to trace, which takes about a second."""
# sqlglot counts them as aggregates, but they return the value of one row.
_OF_ONE_ROW: Final = (exp.FirstValue, exp.Lag, exp.LastValue, exp.Lead, exp.NthValue)
_MORE_NODES: Final = (
    exp.Alias,
    exp.Binary,
    exp.IgnoreNulls,
    exp.Lambda,
    exp.RespectNulls,
    exp.Unary,
)
_UNITS: Final = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
# Spark reads these names as functions, unless a table has such a column.
_WITHOUT_PARENTHESES: Final = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "session_user", "user"}
)
# Columns that Spark adds to the columns of files, and to the rows of GROUPING SETS.
_HIDDEN: Final = frozenset({"_metadata", "grouping__id"})
# sqlglot's nodes of these functions lose columns, such as the unit of `trunc(day, unit)`.
_LOSSY: Final = frozenset({"DATE_TRUNC", "PERCENTILE", "TIME_DIFF", "TIME_TRUNC", "TRUNC"})
# They name a column by an expression, or return several columns.
_REFUSED: Final = frozenset({"identifier", "json_tuple"})


class _Quiet(Spark):
    """Spark's dialect with all arguments of functions, and no warnings about odd JSON paths."""

    STRICT_JSON_PATH_SYNTAX = False

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]  # sqlglot's own way
        """Spark's parser, with plain nodes for some functions and for `current_date`."""

        FUNCTIONS = {  # noqa: RUF012 - as in sqlglot
            **{key: build for key, build in Spark.Parser.FUNCTIONS.items() if key not in _LOSSY},
            "PERCENTILE": lambda args: exp.AnonymousAggFunc(this="PERCENTILE", expressions=args),
        }
        FUNCTION_PARSERS = {  # noqa: RUF012 - as in sqlglot
            key: parse for key, parse in Spark.Parser.FUNCTION_PARSERS.items() if key not in _LOSSY
        }
        NO_PAREN_FUNCTIONS = {  # noqa: RUF012 - as in sqlglot
            key: partial(exp.column, key.name.lower()) for key in Spark.Parser.NO_PAREN_FUNCTIONS
        }


class Use(enum.IntEnum):
    """The use of a source column; of several uses on a value's way, the highest applies."""

    IDENTITY = 0
    TRANSFORMATION = 1
    AGGREGATION = 2
    CONDITIONAL = 3
    """The column only decides which value is taken, as a condition of CASE."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a table, and its use; `table` is the caller's key of the table."""

    table: str
    column: str
    use: Use = Use.IDENTITY


Origins: TypeAlias = frozenset[Origin] | None
"""The origins of a column: empty if the column is constant, None if they are not certain."""
Columns: TypeAlias = tuple[tuple[str, Origins], ...]
"""Names in lower case and origins of columns. A name is empty if only Spark knows it."""


@dataclass(frozen=True, kw_only=True)  # no slots: a cached property needs a dict
class Relation:
    """The columns of a table or query, in order.

    `open_table` is the key of files, whose columns are not known; SQL can name them, but not `*`.
    """

    columns: Columns = ()
    open_table: str | None = None

    @classmethod
    def of_table(cls, table: str, names: Iterable[str]) -> Relation:
        """Return the columns of a table, which are their own origins."""
        pairs = ((name.lower(), frozenset({Origin(table, name.lower())})) for name in names)
        return cls(columns=tuple(pairs))

    @cached_property
    def by_name(self) -> Mapping[str, Origins]:
        """The origins by name; None for a name that several columns have."""
        by_name: dict[str, Origins] = {}
        for name, origins in self.columns:
            by_name[name] = None if name in by_name else origins
        return by_name

    def renamed(self, names: Iterable[str]) -> Relation:
        """Return the same columns with other names, of which there must be as many."""
        values = [origins for _, origins in self.columns]
        if self.open_table is not None:
            raise ValueError("the columns are not known")
        return Relation(columns=tuple(zip(map(str.lower, names), values, strict=True)))


class _UntracedError(Exception):
    """SQL that cannot be traced with certainty, or would take too long to trace."""


@dataclass(slots=True)
class _Names:
    """The names that the expressions of one SELECT can use. Mutable.

    `visible` is the columns of `*`. `tables` maps each table's name to its columns, or to None if
    two tables have it. `aliases` are the earlier columns of the SELECT, `keys` those of USING.
    """

    visible: Relation = field(default_factory=Relation)
    tables: dict[str, Relation | None] = field(default_factory=dict)
    open_tables: list[str] = field(default_factory=list)
    aliases: dict[str, Origins] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def add(self, name: str, relation: Relation, part: exp.Expr | None = None) -> None:
        """Add a table of FROM, a join or a LATERAL VIEW; a semi-join hides its right side."""
        args = {} if part is None else part.args
        # In Spark, the columns of USING come first. They may be those of either table.
        using = args.get("using") or ()
        keys: dict[str, Origins] = dict.fromkeys(key.name.lower() for key in using)
        # The columns of files are not known, so they cannot be checked; `every` refuses their `*`.
        sides = () if self.open_tables or relation.open_table else (self.visible, relation)
        names = [[column for column, _ in side.columns] for side in sides]
        if len(keys) < len(using) or any(side.count(key) != 1 for side in names for key in keys):
            raise _UntracedError  # it is not certain which columns are left in `*`
        every = self.visible.columns
        if args.get("kind") in {"SEMI", "ANTI"}:
            keys = {key: self.visible.by_name.get(key) for key in keys}
        else:
            self.tables[name.lower()] = None if name.lower() in self.tables else relation
            self.open_tables += [] if relation.open_table is None else [relation.open_table]
            every += relation.columns
        self.keys.update(keys)
        rest = (pair for pair in every if pair[0] not in keys)
        self.visible = Relation(columns=(*keys.items(), *rest))

    def every(self, name: str | None) -> Columns:
        """Return the columns of `*`, or of `name.*`, if they are certain."""
        relation = self.visible if name is None else self.tables.get(name.lower())
        is_vague = self.open_tables if name is None else self.keys
        if relation is None or relation.open_table is not None or is_vague:
            raise _UntracedError
        return relation.columns

    def column(self, parts: Sequence[str]) -> tuple[Origins, bool]:
        """Return the origins of the column to which a name refers, and True if fields follow."""
        first, *rest = [part.lower() for part in parts]
        if not rest or first not in self.tables:
            return self._of_any_table(first, has_fields=bool(rest)), bool(rest)
        relation = self.tables[first]
        if rest[0] in self.keys and (first in self.visible.by_name or self.open_tables):
            return None, False  # Spark prefers a field to a hidden key
        if relation is not None and relation.open_table is not None:
            return _of_files(relation.open_table, rest[0]), len(rest) > 1
        return None if relation is None else relation.by_name.get(rest[0]), len(rest) > 1

    def is_function(self, node: exp.Column) -> bool:
        """Return True if a name may be a call of a function without parentheses."""
        name = node.name.lower()
        is_call = name in _WITHOUT_PARENTHESES and len(node.parts) == 1
        return is_call and name not in self.visible.by_name

    def _of_any_table(self, name: str, *, has_fields: bool) -> Origins:
        """Return the origins of the column to which a name without a table refers."""
        if name in self.visible.by_name:
            return self.visible.by_name[name]
        if "" in self.visible.by_name:
            return None  # it may be a column whose name only Spark knows
        if name in _WITHOUT_PARENTHESES and not has_fields:
            return None if self.open_tables or name in self.aliases else frozenset()
        if name in self.aliases:  # or it is a column of files
            return None if self.open_tables else self.aliases[name]
        return _of_files(self.open_tables[0], name) if len(self.open_tables) == 1 else None


class Tracer:
    """The analysis of a task's queries and expressions, with one limit of effort for all."""

    def __init__(self, effort: int = _MOST_EFFORT) -> None:
        self._effort_left = effort

    def query(self, query: str, views: Mapping[str, Relation]) -> Relation | None:
        """Return the columns of a query over views, or None if they are not certain."""
        relations = {name.lower(): relation for name, relation in views.items()}
        try:
            self._spend(len(query))
            return self._query(parse_one(query, dialect=_Quiet), relations)
        except Exception:  # noqa: BLE001 - sqlglot fails in many ways on arbitrary text
            return None

    def values(
        self, expressions: Mapping[str, str], tables: Mapping[str, Relation]
    ) -> dict[str, Origins]:
        """Return the origins of expressions over tables, whose names in SQL are the keys."""
        names = _Names()
        for name, relation in tables.items():
            names.add(name, relation)
        return {key: self._parsed_value(text, names) for key, text in expressions.items()}

    def _parsed_value(self, expression: str, names: _Names) -> Origins:
        try:
            self._spend(len(expression))
            tree = parse_one(expression, dialect=_Quiet, into=exp.Condition)
            return self._traced(tree, names)
        except Exception:  # noqa: BLE001 - as above
            return None

    def _spend(self, effort: int) -> None:
        self._effort_left -= effort
        if self._effort_left < 0:
            raise _UntracedError

    def _query(self, node: exp.Expr, views: Mapping[str, Relation]) -> Relation:
        _check_clauses(node)
        if (with_clause := node.args.get("with_")) is not None:
            _check_clauses(with_clause)
            for cte in with_clause.expressions:
                _check_clauses(cte)
                views = {**views, cte.alias.lower(): _aliased(self._query(cte.this, views), cte)}
        match node:
            case exp.Table() if not (node.args.get("db") or node.args.get("laterals")):
                return _aliased(views[node.name.lower()], node)
            case exp.Subquery() if node.alias or not isinstance(node.this, exp.Table):
                # In Spark, a table in parentheses keeps its name.
                return _aliased(self._query(node.this, views), node)
            case exp.Union():
                first, second = self._query(node.this, views), self._query(node.expression, views)
                pairs = zip(first.columns, second.columns, strict=True)
                columns = tuple(
                    (name, union(origins, peer)) for (name, origins), (_, peer) in pairs
                )
                return Relation(columns=columns)
            case exp.SetOperation():
                return self._query(node.this, views)  # the other query only removes rows
            case exp.Select():
                return self._select(node, views)
            case _:
                raise _UntracedError

    def _select(self, select: exp.Select, views: Mapping[str, Relation]) -> Relation:
        names = _Names()
        from_ = select.args.get("from_")
        for part in (*([] if from_ is None else [from_]), *(select.args.get("joins") or ())):
            _check_clauses(part)
            names.add(part.this.alias_or_name, self._query(part.this, views), part)
            self._spend(len(names.visible.columns) // 10)
        for lateral in select.args.get("laterals") or ():
            names.add(lateral.alias, self._lateral(lateral, names), lateral)
            self._spend(len(names.visible.columns) // 10)
        select_list: list[tuple[str, Origins]] = []
        for node in select.expressions:
            columns = self._selected(node, names)
            self._spend(sum(1 + len(origins or ()) for _, origins in columns))
            select_list.extend(columns)
        return Relation(columns=tuple(select_list))

    def _lateral(self, lateral: exp.Expr, names: _Names) -> Relation:
        _check_clauses(lateral)
        aliases = [column.name.lower() for column in lateral.args["alias"].columns]
        function = lateral.this
        if not aliases:
            raise _UntracedError
        # Each column may come from other arguments, except if there is only one column.
        is_single = len(aliases) == 1 or type(function.this) is exp.Column
        is_known = isinstance(function, exp.Explode | exp.Inline) and is_single
        origins = self._value(function, names) if is_known else None
        return Relation(columns=tuple((alias, origins) for alias in aliases))

    def _selected(self, node: exp.Expr, names: _Names) -> Columns:
        _check_clauses(node)
        if isinstance(node, exp.Star):
            return names.every(None)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            _check_clauses(node.this)
            if len(node.parts) > 2:  # noqa: PLR2004 - the fields of a struct
                raise _UntracedError
            return names.every(node.parts[0].name)
        if isinstance(node, exp.Aliases | exp.QueryTransform | exp.UDTF) or _is_refused(node):
            raise _UntracedError  # it may return several columns
        origins = self._value(node, names)
        if isinstance(node, exp.Alias):
            name = node.alias.lower()
            names.aliases[name] = None if name in names.aliases else origins
            return ((name, origins),)
        is_named = isinstance(node, exp.Column) and not names.is_function(node)
        return ((node.name.lower() if is_named else "", origins),)

    def _value(self, node: exp.Expr, names: _Names) -> Origins:
        try:
            return self._traced(node, names)
        except _UntracedError:
            return None

    def _traced(self, node: exp.Expr, names: _Names) -> frozenset[Origin]:
        self._spend(1)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            origins, has_fields = names.column([part.name for part in node.parts])
            return _field_of(origins) if has_fields else _certain(origins)
        if isinstance(node, exp.Window | exp.Filter):
            return self._traced(node.this, names)
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return frozenset()  # the value depends only on GROUP BY
        _check_expression(node, names)
        parts: list[frozenset[Origin]] = []
        for key, child in _children(node):
            origins = self._traced(child, names)
            is_base = isinstance(node, exp.Dot | exp.Bracket) and key == "this"
            if is_base and not _is_translation(child):
                origins = _field_of(origins)
            parts.append(_used(origins, _use_of(node, key)))
            self._spend(len(parts[-1]))
        return frozenset(chain.from_iterable(parts))


def _is_translation(node: exp.Expr) -> bool:
    """Return True for the array in which `translations` passes all arguments of a call."""
    function = node.args.get("expression")
    if not isinstance(function, exp.Lambda):
        return False
    name: str = function.expressions[0].name
    return name.startswith("__hiveacid_")


def _use_of(node: exp.Expr, key: str) -> Use:
    if isinstance(node, exp.Alias | exp.Paren):
        return Use.IDENTITY
    if isinstance(node, exp.Case | exp.If | exp.Nvl2) and key == "this":
        return Use.CONDITIONAL
    is_aggregate = isinstance(node, exp.AggFunc) and not isinstance(node, _OF_ONE_ROW)
    return Use.AGGREGATION if is_aggregate else Use.TRANSFORMATION


def _children(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for key, value in node.args.items():
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, exp.Expr):
                yield key, child


def _check_clauses(node: exp.Expr) -> None:
    keys = QUERY_KEYS.get(type(node), node.args)
    if any(value and key not in keys and key != "hint" for key, value in node.args.items()):
        raise _UntracedError


def _check_expression(node: exp.Expr, names: _Names) -> None:
    """Refuse an expression of an unknown kind, such as a query, and a star except in `count(*)`."""
    if not (is_understood(node) or isinstance(node, _MORE_NODES)):
        raise _UntracedError
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        raise _UntracedError
    if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
        raise _UntracedError  # a call of a database's function
    if _is_refused(node):
        raise _UntracedError
    if isinstance(node, exp.Lambda):
        # sqlglot takes a parameter for a column if it is written in another case.
        parameters = {parameter.name.lower() for parameter in node.expressions}
        if any(use.parts[0].name.lower() in parameters for use in node.this.find_all(exp.Column)):
            raise _UntracedError
    is_word = isinstance(node, exp.Var) and node.name.upper() not in _UNITS
    if is_word and (names.open_tables or node.name.lower() in names.visible.by_name):
        raise _UntracedError  # sqlglot reads some columns as units of time


def _is_refused(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _REFUSED


def _of_files(location: str, name: str) -> Origins:
    return None if name in _HIDDEN else frozenset({Origin(location, name)})


def _aliased(relation: Relation, node: exp.Expr) -> Relation:
    alias = node.args.get("alias")
    columns = [] if alias is None else alias.columns
    return relation.renamed([column.name for column in columns]) if columns else relation


def _certain(origins: Origins) -> frozenset[Origin]:
    if origins is None:
        raise _UntracedError
    return origins


def _field_of(origins: Origins) -> frozenset[Origin]:
    """Return the origins of a field of a value; refuse several columns: any may be the field's."""
    certain_origins = _certain(origins)
    if len({(origin.table, origin.column) for origin in certain_origins}) > 1:
        raise _UntracedError
    return _used(certain_origins, Use.TRANSFORMATION)


def _used(origins: Iterable[Origin], use: Use) -> frozenset[Origin]:
    return frozenset(
        Origin(origin.table, origin.column, max(origin.use, use)) for origin in origins
    )


def union(one: Origins, other: Origins) -> Origins:
    """Return the origins of a value that is one of two values."""
    return None if one is None or other is None else one | other
