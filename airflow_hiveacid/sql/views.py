"""The tables that the queries of a statement read, as views under names of ours.

Takes a parsed query or expression; gives what to write in place of each table's name. The name by
which the query knew the table stays as its alias.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.sql.names import table_name
from airflow_hiveacid.sql.nodes import position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.sql.text import Piece

_VIEW: Final = "__hiveacid_{}"


@dataclass(slots=True)
class Views:
    """The views of one statement. Mutable: they are numbered as they turn up.

    `database` is where tables are whose names have no database; None if that is an error.
    """

    database: str | None
    _names: dict[str, str] = field(default_factory=dict)

    def of(self, table: str) -> str:
        """The view for a table, `db.table`."""
        return self._names.setdefault(table, _VIEW.format(len(self._names) + 1))

    @property
    def tables(self) -> dict[str, str]:
        """The tables by their views."""
        return {view: table for table, view in self._names.items()}


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
        if not node.args.get("db") and _is_cte(piece, node):
            continue
        first = node.args.get("catalog") or node.args.get("db") or node.this
        begin = index_of[first.meta["start"]]
        table = table_name(piece, views.database, begin)
        alias = "" if node.args.get("alias") else f" AS `{table.ref.name}`"
        for index in range(begin, table.end):
            changes[piece.tokens[index].start] = ""
        changes[piece.tokens[table.end - 1].start] = f"`{views.of(table.full)}`{alias}"
    return changes


def _is_cte(piece: Piece, table: exp.Table) -> bool:
    """Whether a name without a database is that of a WITH clause around it.

    Raises:
        SqlTextError: it names the very clause that it is in.
    """
    name = table.name.lower()
    node: exp.Expr | None = table
    while node is not None:
        if isinstance(node, exp.CTE) and node.alias.lower() == name:
            piece.fail(f"{table.name!r} names itself", "write db.table for a table of that name")
        with_ = node.args.get("with_")
        if with_ is not None and name in _names_before(with_, table):
            return True
        node = node.parent
    return False


def _names_before(with_: exp.With, table: exp.Table) -> Iterator[str]:
    """The names of a WITH clause that a table within or after it can see."""
    for cte in with_.expressions:
        if any(inner is table for inner in cte.find_all(exp.Table)):
            return
        yield cte.alias.lower()
