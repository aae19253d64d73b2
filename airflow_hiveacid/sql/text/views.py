"""The views that replace the tables in a statement's queries; users' names remain as aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.names import table_name
from airflow_hiveacid.sql.text.nodes import position_of
from airflow_hiveacid.sql.text.tokens import Token

_VIEW: Final = "__hiveacid_{}"
_SHARED: Final = "__hiveacid_shared_{}"


@dataclass(frozen=True, slots=True)
class _Run:
    """The replacement of the script's characters from `begin` up to, but excluding, `end`."""

    begin: int
    end: int
    text: str


@dataclass(slots=True)
class Views:
    """The views of one statement, numbered in order of appearance. Mutable.

    `database` is the default database of table names; without one, names must include it. `of_many`
    is true if several queries of the statement read the views. `shared` maps views to queries that
    several parts of the statement use. `before` counts the views that the statement already has.
    `reads_past` is true if the statement may read earlier versions of tables.
    """

    database: str | None
    of_many: bool = False
    shared: dict[str, str] = field(default_factory=dict)
    before: int = 0
    reads_past: bool = True
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _ctes: dict[int, str] = field(default_factory=dict)
    _runs: list[_Run] = field(default_factory=list)

    def of(self, table: str, version: str = "") -> str:
        """Return the view for a table (`db.table`) in its present state or at a version."""
        number = self.before + len(self._names) + 1
        return self._names.setdefault((table, version), _VIEW.format(number))

    @property
    def tables(self) -> dict[str, str]:
        """A dict from view to table name."""
        return {view: table for (table, _), view in self._names.items()}

    @property
    def versions(self) -> dict[str, str]:
        """A dict from view to version, for the tables that are read at a version."""
        return {view: version for (_, version), view in self._names.items() if version}

    def share(self, query: str) -> str:
        """Return a new view for a query that several parts of the statement use."""
        view = _SHARED.format(len(self.shared) + 1)
        self.shared[view] = query
        return view

    def share_cte(self, begin: int, query: str) -> None:
        """Create a shared view for a WITH query whose name begins at a position."""
        self._ctes[begin] = self.share(query)

    def cte(self, begin: int) -> str | None:
        """Return the shared view of the WITH query whose name begins at a position, or None."""
        return self._ctes.get(begin)

    def put(self, begin: int, end: int, text: str) -> None:
        """Replace the script's characters from `begin` to `end` with `text` in all later output."""
        self._runs.append(_Run(begin, end, text))

    def hides(self, position: int) -> bool:
        """Return True if the character at a position is replaced."""
        return any(run.begin <= position < run.end for run in self._runs)

    def written(self, span: Span, changes: Mapping[int, str]) -> str:
        """Return a span's SQL with the given changes and the replacements of `put`."""
        texts = dict(changes)
        tokens = []
        for token in span.tokens:
            run = next((r for r in self._runs if r.begin <= token.start < r.end), None)
            if run is not None and (token.start > run.begin or not run.text):
                continue
            if run is not None:
                texts[token.start] = run.text
            tokens.append(token)
        return Span(span.whole, span.number, tuple(tokens), span.at).written(texts)


def table_changes(span: Span, tree: exp.Expr, views: Views) -> dict[int, str]:
    """Return the replacements of the table names, as a dict with their start positions as keys."""
    index_of = {token.start: index for index, token in enumerate(span.tokens)}
    changes: dict[int, str] = {}
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            span.fail(
                "functions that return a table are not supported",
                "select from a table",
                position_of(span, node),
            )
        cte = None if node.args.get("db") else _cte_of(span, node)
        if cte is not None:
            _of_cte(node, cte, views, changes)
            continue
        first = node.args.get("catalog") or node.args.get("db") or node.this
        begin = index_of[first.meta["start"]]
        table = table_name(span, views.database, begin)
        alias = "" if node.args.get("alias") else f" AS `{table.ref.name}`"
        for index in range(begin, table.end):
            changes[span.tokens[index].start] = ""
        last = span.tokens[table.end - 1]
        changes[last.start] = f"`{views.of(table.full, _version(last, views))}`{alias}"
    return changes


def _version(last: Token, views: Views) -> str:
    if last.as_of is None or not views.reads_past:
        return ""
    last.as_of.is_read = True
    return last.as_of.version


def _of_cte(table: exp.Table, cte: exp.CTE, views: Views, changes: dict[int, str]) -> None:
    view = views.cte(cte.args["alias"].this.meta.get("start", -1))
    if view is not None:
        alias = "" if table.args.get("alias") else f" AS {quoted(table.name)}"
        changes[table.this.meta["start"]] = f"`{view}`{alias}"


def _cte_of(span: Span, table: exp.Table) -> exp.CTE | None:
    """Return the WITH query that an unqualified table name means; refuse its own and later ones."""
    name = table.name.lower()
    node: exp.Expr | None = table
    while node is not None:
        if isinstance(node, exp.CTE) and node.alias.lower() == name:
            span.fail(
                f"{table.name!r} refers to itself",
                "if you mean a table of that name, write db.table",
            )
        with_clause = node.args.get("with_")
        ctes: list[exp.CTE] = [] if with_clause is None else with_clause.expressions
        match = next((cte for cte in ctes if cte.alias.lower() == name), None)
        if match is not None and _is_before(match, table, ctes):
            return match
        if match is not None:
            span.fail(
                f"{table.name!r} names a later WITH query: Hive reads that query, but Spark reads a"
                " table",
                "put that query first or, if you mean a table of that name, write db.table",
                position_of(span, table),
            )
        node = node.parent
    return None


def _is_before(cte: exp.CTE, table: exp.Table, ctes: Sequence[exp.CTE]) -> bool:
    """Return False if the table is in one of the WITH queries before `cte`."""
    for candidate in ctes:
        if candidate is cte:
            return True
        if any(inner is table for inner in candidate.find_all(exp.Table)):
            return False
    return True
