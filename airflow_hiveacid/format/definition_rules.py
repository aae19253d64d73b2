"""Rules for definition changes: a change is allowed only if all engines still read the same rows.

Example:
    >>> print(why_no_change("int", "bigint"), why_no_change("decimal(10,2)", "decimal(12,2)"))
    None None
    >>> partition_spelling("007", "int")
    '7'
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.format.conflicts import POLICY_PROPERTY
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import READS_ORIGINALS
from airflow_hiveacid.format.types import DecimalType, PrimitiveType, VarcharType, parse_type

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_STRING: Final = PrimitiveType("string")
_TRUTHS: Final = frozenset({"true", "false"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)

FIXED_PARAMETERS: Final[Mapping[str, str]] = {
    "transactional": "only a conversion can change whether a table with rows is transactional",
    "transactional_properties": "the kind of a transactional table is fixed by its files",
    "external": "an external table's directories do not belong to Hive, so it has no transactions",
    "bucketing_version": "the table's current hash function determined where its rows are stored",
    "column_stats_accurate": "Hive answers count(*) from statistics that are marked as accurate",
    "numrows": "Hive computes it; it is not a setting",
    "rawdatasize": "Hive computes it; it is not a setting",
    "totalsize": "Hive computes it; it is not a setting",
    "numfiles": "Hive computes it; it is not a setting",
    "parquet.column.index.access": "columns of transactional tables are matched by name",
    "storage_handler": "transactional tables consist of Hive's own files",
}
"""Table parameters that no statement may set or remove, in lower case, each with a reason."""


OWN_PARAMETERS: Final = frozenset(
    {
        POLICY_PROPERTY,
        READS_ORIGINALS,
        "hiveacid.only.hive4.reads",
        "hiveacid.readable.for",
    }
)
"""The table parameters of this provider that users set."""
_OWN_PREFIX: Final = "hiveacid."


def why_not_set(parameter: str) -> str | None:
    """Return why statements must not set a table parameter; None if they may."""
    if parameter.lower().startswith(_OWN_PREFIX) and parameter not in OWN_PARAMETERS:
        return f"no such setting exists, only {', '.join(sorted(OWN_PARAMETERS))}"
    return why_fixed(parameter)


def why_fixed(parameter: str) -> str | None:
    """Return why statements must not set or remove a table parameter; None if they may."""
    return FIXED_PARAMETERS.get(parameter.lower())


def why_no_change(old: str, new: str) -> str | None:
    """Return why a column's type cannot change; None if every existing value stays the same.

    All engines must read the same values from files with the old type. A float cannot become a
    double: Hive 3.1 reads 0.1 as 0.1, others as 0.10000000149011612.
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
        f"readers of the existing files would not all convert {old} to the same {new}; allowed are"
        " a wider integer, a longer varchar or string for a varchar, and for a decimal at least as"
        " many digits on both sides of the point"
    )


def _is_wider(before: str, after: str) -> bool:
    is_whole = before in _INTEGERS and after in _INTEGERS
    return is_whole and _INTEGERS.index(after) > _INTEGERS.index(before)


def _holds_all(wide: DecimalType, narrow: DecimalType) -> bool:
    whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
    return whole and wide.scale >= narrow.scale


def partition_spelling(text: str, column_type: str) -> str:
    """Return a partition value as Hive spells it; raise ConfigurationError if it does not fit."""
    hive_type = parse_type(column_type)
    spelling: str | None = None
    match hive_type:
        case PrimitiveType(name=name) if name in _BITS:
            spelling = _integer(text, _BITS[name])
        case PrimitiveType(name="string"):
            spelling = text
        case VarcharType(length=length):
            spelling = text if len(text) <= length else None
        case PrimitiveType(name="date"):
            spelling = _day(text)
        case PrimitiveType(name="boolean"):
            spelling = text.lower() if text.lower() in _TRUTHS else None
        case _:
            raise ConfigurationError(
                f"engines spell values of a partition column of type {column_type} in several"
                " ways, so statements cannot name its partitions: use INSERT to create them, and"
                " TRUNCATE to empty them"
            )
    if spelling is None:
        raise ConfigurationError(
            f"{text!r} is not a valid value of a partition column of {column_type}"
        )
    return spelling


def _integer(text: str, bits: int) -> str | None:
    # A number of this type is shorter than its bits; `int` refuses very long texts.
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
