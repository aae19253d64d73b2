"""LOAD DATA as a job description.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> load_of(statements_of("LOAD DATA INPATH '/landing/day' INTO TABLE db.t")[0], None)
    LoadSpec(target='db.t', location='/landing/day', partition={}, overwrite=False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.jobs.loading import LoadSpec
from airflow_hiveacid.sql.inserts import partition_clause
from airflow_hiveacid.sql.literals import text
from airflow_hiveacid.sql.names import table_name
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece

_FORM: Final = (
    "write LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE db.t [PARTITION (column = value)]"
)
_LOCATION: Final = 3  # behind LOAD DATA INPATH


def load_of(piece: Piece, database: str | None) -> LoadSpec:
    """`LOAD DATA INPATH 'uri' [OVERWRITE] INTO TABLE t [PARTITION (column = value, ...)]`.

    Raises:
        SqlTextError: it is something else.
    """
    if (piece.word(1), piece.word(2)) == ("DATA", "LOCAL"):
        piece.fail(
            "LOCAL means files of the machine that the statement is sent from, and Spark runs"
            " elsewhere",
            "put the files where the cluster sees them, and leave LOCAL out",
            piece.tokens[2],
        )
    if (piece.word(1), piece.word(2)) != ("DATA", "INPATH"):
        piece.fail("LOAD is not followed by DATA INPATH", _FORM)
    location = _location(piece)
    overwrite = piece.word(_LOCATION + 1) == "OVERWRITE"
    at = _LOCATION + 1 + overwrite
    if (piece.word(at), piece.word(at + 1)) != ("INTO", "TABLE"):
        where = piece.tokens[at] if at < len(piece) else piece.tokens[-1].end
        piece.fail("the location is not followed by INTO TABLE", _FORM, where)
    table = table_name(piece, database, at + 2)
    partition, without_value, end = partition_clause(piece, table)
    if without_value:
        piece.fail(
            f"partition column {without_value[0]!r} has no value",
            "give it one; files whose rows say their partitions are a source of an INSERT",
        )
    if end < len(piece):
        piece.fail(f"{piece.tokens[end].raw!r} is not understood here", _FORM, piece.tokens[end])
    return LoadSpec(target=table.full, location=location, partition=partition, overwrite=overwrite)


def _location(piece: Piece) -> str:
    is_text = len(piece) > _LOCATION and piece.tokens[_LOCATION].kind is Kind.STRING
    found = text(piece, _LOCATION) if is_text else ""
    if not found.strip():
        piece.fail("INPATH is followed by no location", _FORM)
    return found
