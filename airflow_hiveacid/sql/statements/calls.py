"""Calls that no statement may contain, because they run Java code or expose the driver's files.

The driver refuses such calls in all SQL after Spark's analyser has resolved it
(docs/decisions/values.md). This module refuses such calls in Hive's dialect during DAG parsing,
even if the connection allows such calls.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> check_calls(statements_of("DELETE FROM db.t WHERE reflect = upper('reflect')")[0])
"""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.sql.text.text import Piece

_REFUSED: Final = frozenset(
    {"reflect", "reflect2", "java_method", "try_reflect"}
    | {"input_file_name", "input_file_block_start", "input_file_block_length"}
)


def check_calls(piece: Piece) -> None:
    """Refuse a statement that contains a forbidden call."""
    for index, token in enumerate(piece.tokens):
        if (token.name or "").lower() in _REFUSED and piece.word(index + 1) == "(":
            piece.fail(
                f"{token.raw} accesses Java or files, not only tables",
                "write the statement without it",
                token,
            )
