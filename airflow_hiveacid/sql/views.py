"""The tables that the queries of a statement read, as views under names of ours.

Takes a parsed query or expression; gives what to write in place of each table's name. The name by
which the query knew the table stays as its alias.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.sql.names import table_name
from airflow_hiveacid.sql.nodes import position_of
from airflow_hiveacid.sql.text import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.sql.tokens import Token

_VIEW: Final = "__hiveacid_{}"
_SHARED: Final = "__hiveacid_shared_{}"


@dataclass(frozen=True, slots=True)
class _Run:
    """Characters of the script, from `begin` to before `end`, and what stands for them."""

    begin: int
    end: int
    text: str


@dataclass(slots=True)
class Views:
    """The views of one statement. Mutable: they are numbered as they turn up.

    `database` is where tables are whose names have no database; None if that is an error. `of_many`
    says that the statement has several queries, each of which reads such views; `shared` are the
    queries that these have in common, by their views. `before` is how many views there are beside
    these. `reads_past` says that they may be of earlier versions.
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
        """The view for a table, `db.table`, as it is or as of a version."""
        number = self.before + len(self._names) + 1
        return self._names.setdefault((table, version), _VIEW.format(number))

    @property
    def tables(self) -> dict[str, str]:
        """The tables by their views."""
        return {view: table for (table, _), view in self._names.items()}

    @property
    def versions(self) -> dict[str, str]:
        """The versions by the views of tables that are read as of one."""
        return {view: version for (_, version), view in self._names.items() if version}

    def share(self, query: str) -> str:
        """The view for a query that parts of the statement have in common."""
        view = _SHARED.format(len(self.shared) + 1)
        self.shared[view] = query
        return view

    def share_cte(self, begin: int, query: str) -> None:
        """Share the query of a WITH clause, whose name stands there."""
        self._ctes[begin] = self.share(query)

    def cte(self, begin: int) -> str | None:
        """The view for such a query; None if it is not shared."""
        return self._ctes.get(begin)

    def put(self, begin: int, end: int, text: str) -> None:
        """Have a text written for these characters, in whatever piece they are."""
        self._runs.append(_Run(begin, end, text))

    def hides(self, position: int) -> bool:
        """Whether something else is written for what stands there."""
        return any(run.begin <= position < run.end for run in self._runs)

    def written(self, piece: Piece, changes: Mapping[int, str]) -> str:
        """A piece with some of its tokens replaced, as `Piece.written`, and these characters."""
        texts = dict(changes)
        left = []
        for token in piece.tokens:
            run = next((r for r in self._runs if r.begin <= token.start < r.end), None)
            if run is not None and (token.start > run.begin or not run.text):
                continue
            if run is not None:
                texts[token.start] = run.text
            left.append(token)
        return Piece(piece.whole, piece.number, tuple(left), piece.at).written(texts)


def table_changes(piece: Piece, tree: exp.Expr, views: Views) -> dict[int, str]:
    """What becomes of the tokens that name tables: by the positions at which they start.

    Raises:
        SqlTextError: one is no table's name.
    """
    index_of = {token.start: index for index, token in enumerate(piece.tokens)}
    changes: dict[int, str] = {}
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            piece.fail(
                "functions that make a table are not supported",
                "select from a table",
                position_of(piece, node),
            )
        cte = None if node.args.get("db") else _cte_of(piece, node)
        if cte is not None:
            _of_cte(node, cte, views, changes)
            continue
        first = node.args.get("catalog") or node.args.get("db") or node.this
        begin = index_of[first.meta["start"]]
        table = table_name(piece, views.database, begin)
        alias = "" if node.args.get("alias") else f" AS `{table.ref.name}`"
        for index in range(begin, table.end):
            changes[piece.tokens[index].start] = ""
        last = piece.tokens[table.end - 1]
        changes[last.start] = f"`{views.of(table.full, _version(last, views))}`{alias}"
    return changes


def _version(last: Token, views: Views) -> str:
    """The version that is asked for behind a table's name; empty if none is."""
    if last.as_of is None or not views.reads_past:
        return ""
    last.as_of.is_read = True
    return last.as_of.version


def _of_cte(table: exp.Table, cte: exp.CTE, views: Views, changes: dict[int, str]) -> None:
    """Put the view of a shared query in place of its name; others keep theirs."""
    view = views.cte(cte.args["alias"].this.meta.get("start", -1))
    if view is not None:
        alias = "" if table.args.get("alias") else f" AS {quoted(table.name)}"
        changes[table.this.meta["start"]] = f"`{view}`{alias}"


def _cte_of(piece: Piece, table: exp.Table) -> exp.CTE | None:
    """The query of a WITH clause around it that a name without a database is; None if it is none.

    Raises:
        SqlTextError: it names the very clause that it is in, or one that comes later.
    """
    name = table.name.lower()
    node: exp.Expr | None = table
    while node is not None:
        if isinstance(node, exp.CTE) and node.alias.lower() == name:
            piece.fail(f"{table.name!r} names itself", "write db.table for a table of that name")
        with_ = node.args.get("with_")
        ctes: list[exp.CTE] = [] if with_ is None else with_.expressions
        found = next((cte for cte in ctes if cte.alias.lower() == name), None)
        if found is not None and _is_before(found, table, ctes):
            return found
        if found is not None:
            piece.fail(
                f"{table.name!r} is one of WITH that comes later: Hive takes that, Spark a table",
                "put it before, or write db.table for a table of that name",
                position_of(piece, table),
            )
        node = node.parent
    return None


def _is_before(cte: exp.CTE, table: exp.Table, ctes: Sequence[exp.CTE]) -> bool:
    """Whether a query of a WITH clause comes before the one that a table is in, if it is in one."""
    for one in ctes:
        if one is cte:
            return True
        if any(inner is table for inner in one.find_all(exp.Table)):
            return False
    return True
