"""Replacements of tokens that make Spark return the same results as Hive.

The module replaces function calls (see `functions`) and decimal constants. In Hive, `1.10` has one
digit after the decimal point. The digits of the operands determine the digits of a quotient.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> (piece,) = statements_of("x / 1.10")
    >>> piece.written(translations(piece))
    'x / 1.1'
"""

from __future__ import annotations

import re
from typing import Final

from airflow_hiveacid.sql.expressions.functions import function_changes
from airflow_hiveacid.sql.text.text import Piece
from airflow_hiveacid.sql.text.tokens import Kind

_PADDED: Final = re.compile(r"(?P<whole>[0-9]*)\.(?P<digits>[0-9]*?)0+(?P<suffix>[bB][dD])?")
_OF_NAMES: Final = frozenset({Kind.WORD, Kind.QUOTED})


def translations(piece: Piece) -> dict[int, str]:
    """Return a dict from start position to replacement, for tokens of checked SQL."""
    return function_changes(piece) | _constants(piece)


def _constants(piece: Piece) -> dict[int, str]:
    changes = {}
    for index, token in enumerate(piece.tokens):
        if token.kind is not Kind.NUMBER:
            continue
        if _is_fraction(piece, index):  # .50 is two tokens
            changes[token.start] = token.raw.rstrip("0") or "0"
        elif (number := _PADDED.fullmatch(token.raw)) is not None:
            changes[token.start] = f"{number['whole']}.{number['digits']}{number['suffix'] or ''}"
    return changes


def _is_fraction(piece: Piece, index: int) -> bool:
    """Return True if a token is the fraction of a number, such as `50` in `.50`."""
    previous, token = piece.tokens[max(0, index - 1)], piece.tokens[index]
    is_behind_point = previous.word == "." and previous.end == token.start and token.raw.isdigit()
    is_of_name = index > 1 and (
        piece.tokens[index - 2].kind in _OF_NAMES or piece.word(index - 2) in {")", "]"}
    )
    return is_behind_point and not is_of_name
