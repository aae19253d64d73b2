"""SQL text in Hive's dialect, as job descriptions: the one way into this room.

Takes the text of one statement or several; gives each with its place and the very description that
the operator for its kind would make, or what the metastore is asked to do. Needs no table and no
metastore: whether columns are there is found when it runs. Whatever is not understood completely is
refused.

Example:
    >>> (one,) = read_script("DELETE FROM db.t x WHERE x.id = 1")
    >>> one.job
    DeleteSpec(target='db.t', where='t.id = 1', tables={})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.sql.alterations import alteration_of
from airflow_hiveacid.sql.as_of import check_all_read, without_clauses
from airflow_hiveacid.sql.changes import delete_of, update_of
from airflow_hiveacid.sql.definitions import creation_of, drop_of
from airflow_hiveacid.sql.inserts import insert_of
from airflow_hiveacid.sql.loads import load_of
from airflow_hiveacid.sql.merges import merge_of
from airflow_hiveacid.sql.multi_inserts import begins_with_from, multi_insert_of
from airflow_hiveacid.sql.questions import abortion_of, question_of
from airflow_hiveacid.sql.text import statements_of
from airflow_hiveacid.sql.truncates import truncate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hiveacid.jobs.loading import LoadSpec
    from airflow_hiveacid.jobs.specs import (
        CompactSpec,
        CreateAsSpec,
        DeleteSpec,
        InsertSpec,
        MergeSpec,
        TransactionSpec,
        TruncateSpec,
        UpdateSpec,
    )
    from airflow_hiveacid.plan.metastore_statements import MetastoreStatement
    from airflow_hiveacid.sql.text import Piece

    SqlJob = (
        InsertSpec
        | UpdateSpec
        | DeleteSpec
        | MergeSpec
        | TruncateSpec
        | LoadSpec
        | CreateAsSpec
        | TransactionSpec
        | CompactSpec
    )


def _with(piece: Piece, database: str | None) -> SqlJob:
    reader = multi_insert_of if begins_with_from(piece) else insert_of
    return reader(piece, database)


_READERS: Final[Mapping[str, Callable[[Piece, str | None], SqlJob | MetastoreStatement]]] = {
    "INSERT": insert_of,
    "WITH": _with,
    "FROM": multi_insert_of,
    "UPDATE": update_of,
    "DELETE": delete_of,
    "MERGE": merge_of,
    "TRUNCATE": truncate_of,
    "LOAD": load_of,
    "ALTER": alteration_of,
    "CREATE": creation_of,
    "DROP": drop_of,
    "SHOW": question_of,
    "ABORT": abortion_of,
}
_REMEDIES: Final = {
    "SELECT": "a task changes rows; write INSERT INTO db.t SELECT ...",
    "USE": "write db.table, or give the operator its argument database",
    "SET": "give settings to the operator as conf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script: its number, line and column, from 1, and what it asks for."""

    number: int
    line: int
    column: int
    job: SqlJob | MetastoreStatement


def read_script(text: str, database: str | None = None) -> tuple[Statement, ...]:
    """The statements of a text, in order.

    Args:
        text: one or several, between semicolons.
        database: where tables are whose names have no database; None refuses such names.

    Raises:
        SqlTextError: a statement cannot be read, is not supported, or would mean something else
            than in Hive.
    """
    return tuple(_statement(piece, database) for piece in statements_of(text))


def _statement(piece: Piece, database: str | None) -> Statement:
    first = piece.tokens[0]
    reader = _READERS.get(first.word)
    if reader is None:
        piece.fail(
            f"statements that begin with {first.raw!r} are not supported",
            _REMEDIES.get(
                first.word,
                "write INSERT, UPDATE, DELETE, MERGE, TRUNCATE, LOAD DATA, CREATE, ALTER, DROP,"
                " SHOW or ABORT",
            ),
            first,
        )
    line, column = piece.place()
    piece = without_clauses(piece)
    try:
        job = reader(piece, database)
    except RecursionError:
        piece.fail("this is nested too deeply", "write it in smaller parts")
    check_all_read(piece)
    return Statement(number=piece.number, line=line, column=column, job=job)
