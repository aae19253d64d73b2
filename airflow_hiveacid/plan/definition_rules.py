"""What a definition may say so that all engines go on reading the same rows. Pure rules.

Takes types, names of parameters and texts of partition values; says what speaks against them, or
how they are spelt. Must not know SQL or the metastore.

Example:
    >>> print(why_no_change("int", "bigint"), why_no_change("decimal(10,2)", "decimal(12,2)"))
    None None
    >>> partition_spelling("007", "int")
    '7'
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.types import (
    DecimalType,
    PrimitiveType,
    VarcharType,
    parse_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_STRING: Final = PrimitiveType("string")
_TRUTHS: Final = frozenset({"true", "false"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)

FIXED_PARAMETERS: Final[Mapping[str, str]] = {
    "transactional": "a table stays transactional, or not, for as long as its rows are there",
    "transactional_properties": "the kind of a transactional table is fixed with its files",
    "external": "the directories of an external table are not Hive's, so it has no transactions",
    "bucketing_version": "rows lie where the hash put them that the table has",
    "column_stats_accurate": "Hive answers count(*) from statistics that are marked as right",
    "numrows": "it is Hive's own count, not a setting",
    "rawdatasize": "it is Hive's own count, not a setting",
    "totalsize": "it is Hive's own count, not a setting",
    "numfiles": "it is Hive's own count, not a setting",
    "parquet.column.index.access": "columns of transactional tables are found by their names",
    "storage_handler": "transactional tables are files of Hive's own",
}
"""Table parameters, in lower case, that no statement may set or remove, with the reason."""


def why_fixed(parameter: str) -> str | None:
    """Why a parameter of a table is not for a statement to set or remove; None if it is."""
    return FIXED_PARAMETERS.get(parameter.lower())


def why_no_change(old: str, new: str) -> str | None:
    """Why a column of one type cannot get another; None if every old value is the same in it.

    Only what Hive 3.1, Hive 4, Trino and we read alike in files of the old type: each value as it
    is. A float is no double: of 0.1 Hive 3.1 makes 0.1, the others 0.10000000149011612.

    Raises:
        InvalidNameError: a text is no Hive type.
    """
    match parse_type(old), parse_type(new):
        case before, after if before == after:
            return None
        case PrimitiveType(name=before), PrimitiveType(name=after):
            if _is_wider(before, after):
                return None
        case VarcharType(length=before), VarcharType(length=after) if after > before:
            return None
        case VarcharType(), after if after == _STRING:
            return None
        case DecimalType() as before, DecimalType() as after if _holds_all(after, before):
            return None
        case _:
            pass
    return (
        f"not every value of {old} is the same as {new} to every reader of the files that are"
        " there; integers may become wider ones, varchar longer or string, decimal"
        " one with as many digits on both sides of the point or more"
    )


def _is_wider(before: str, after: str) -> bool:
    is_whole = before in _INTEGERS and after in _INTEGERS
    return is_whole and _INTEGERS.index(after) > _INTEGERS.index(before)


def _holds_all(wide: DecimalType, narrow: DecimalType) -> bool:
    whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
    return whole and wide.scale >= narrow.scale


def partition_spelling(text: str, column_type: str) -> str:
    """How Hive spells a partition value of this type in the partition's name.

    Raises:
        ConfigurationError: the text is no value of the type, or partitions of such a type cannot be
            named by a statement here.
    """
    wanted = parse_type(column_type)
    found: str | None = None
    match wanted:
        case PrimitiveType(name=name) if name in _BITS:
            found = _integer(text, _BITS[name])
        case PrimitiveType(name="string"):
            found = text
        case VarcharType(length=length):
            found = text if len(text) <= length else None
        case PrimitiveType(name="date"):
            found = _day(text)
        case PrimitiveType(name="boolean"):
            found = text.lower() if text.lower() in _TRUTHS else None
        case _:
            raise ConfigurationError(
                f"a partition column of type {column_type} has values that engines spell in several"
                " ways, so its partitions are not named in statements: an INSERT makes them,"
                " TRUNCATE empties them"
            )
    if found is None:
        raise ConfigurationError(f"{text!r} is no value of a partition column of {column_type}")
    return found


def _integer(text: str, bits: int) -> str | None:
    if not _INTEGER.match(text) or len(text) > bits:
        return None
    number, half = int(text), 1 << (bits - 1)
    return str(number) if -half <= number < half else None


def _day(text: str) -> str | None:
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return None
    return text if day.isoformat() == text else None
