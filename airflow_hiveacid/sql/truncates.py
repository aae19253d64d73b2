"""TRUNCATE as a job description.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> truncate_of(statements_of("TRUNCATE TABLE db.t PARTITION (p = 1)")[0], None)
    TruncateSpec(target='db.t', partition={'p': '1'})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.jobs.specs import TruncateSpec
from airflow_hiveacid.sql.inserts import partition_clause
from airflow_hiveacid.sql.names import table_name

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece

_FORM: Final = "write TRUNCATE TABLE db.t [PARTITION (column = value)]"


def truncate_of(piece: Piece, database: str | None) -> TruncateSpec:
    """`TRUNCATE [TABLE] t [PARTITION (column = value, ...)]`.

    Raises:
        SqlTextError: it is something else.
    """
    table = table_name(piece, database, 1 + (piece.word(1) == "TABLE"))
    partition, without_value, at = partition_clause(piece, table)
    if without_value:
        piece.fail(f"partition column {without_value[0]!r} has no value", _FORM)
    if at < len(piece):
        piece.fail(f"{piece.tokens[at].raw!r} is not understood here", _FORM, piece.tokens[at])
    return TruncateSpec(target=table.full, partition=partition)
