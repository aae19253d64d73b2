"""Knows the histories of deep types: each primitive type three levels down, NULL at every level.

A column is an array of maps of structs; the type stands in the keys and in the structs. Values are
those that get lost: NaN, -0.0, infinities, the first and the last day, moments before 1970 with
nanoseconds, days that only the old calendar has names for, bytes that are no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.judges.golden_history import History, transactional_table

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("true", "false"),
    "tinyint": ("-128", "127"),
    "smallint": ("-32768", "32767"),
    "int": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "float": ("NaN", "-0.0", "Infinity", "-Infinity", "0.1", "1.17549435E-38"),
    "double": ("NaN", "-0.0", "Infinity", "-Infinity", "0.1", "4.9E-324"),
    "decimal(38,18)": (
        "99999999999999999999.999999999999999999",
        "-0.000000000000000001",
        "1.500000000000000000",
    ),
    "decimal(5,2)": ("-999.99", "0.10"),
    "string": ("", "Grüße, 世界 𝄞", "blank at end "),
    "varchar(5)": ("äöü𝄞x", "ab "),
    "char(5)": ("äöü𝄞x", "ab"),
    "date": ("0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "9999-12-31"),
    "timestamp": (
        "0001-01-01 00:00:00",
        "1582-10-04 23:59:59.000000001",
        "1900-01-01 00:00:00.123456789",
        "1969-12-31 23:59:58.999999999",
        "2024-03-10 02:30:00.000000001",
        "9999-12-31 23:59:59.999999999",
    ),
}
"""What stands in each column, as text that Hive casts."""
_BYTES: Final = ("00ff80", "61", "c362")


def _columns() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name, type and values as expressions of each column."""
    found = {
        f"c{at}": (type_, tuple(f"cast('{value}' as {type_})" for value in values))
        for at, (type_, values) in enumerate(VALUES.items())
    }
    raw = tuple(f"unhex('{value}')" for value in _BYTES)
    return {
        **found,
        "raw": ("binary", raw),
        "latin": ("string", tuple(f"cast({value} as string)" for value in raw)),
    }


def _rows() -> list[str]:
    """The same rows in each column: every value, then a NULL one level further up each time."""
    every, half, none, nothing, empty = [], [], [], [], []
    for type_, values in _columns().values():
        # No engine has binary keys in a form that all of them print.
        keys = tuple(map(str, range(len(values)))) if type_ == "binary" else values
        null_struct = f"if(false, named_struct('v', {values[0]}), null)"
        pairs = ", ".join(
            f"{k}, named_struct('v', {v})" for k, v in zip(keys, values, strict=False)
        )
        whole = f"map({pairs})"
        null_map = f"if(false, {whole}, null)"
        no_value = f"map({keys[0]}, named_struct('v', cast(null as {type_})))"
        every.append(f"array({whole}, {no_value})")
        half.append(f"array({null_map}, map({keys[-1]}, {null_struct}), {whole})")
        none.append(f"if(false, array({whole}), null)")
        nothing.append(f"array({null_map})")
        empty.append(f"array(map({keys[0]}, {null_struct}), {no_value}, {no_value})")
    return [", ".join(row) for row in (every, half, none, nothing, empty)]


def _made() -> str:
    told = []
    for name, (type_, _) in _columns().items():
        key = "int" if type_ == "binary" else type_
        told.append(f"{name} array<map<{key},struct<v:{type_}>>>")
    return transactional_table(f"id int, {', '.join(told)}")


_DEEP: Final = (
    _made(),
    *(f"insert into {{t}} select {at}, {row}" for at, row in enumerate(_rows())),
    "update {t} set id = 10 where id = 0",
    "delete from {t} where id = 3",
)
TYPES: Final = (
    History(
        name="deep_types",
        note="every type three levels down and as a key of maps, NULL at every level",
        steps=_DEEP,
    ),
    History(
        name="deep_types_major",
        note="the same after a major compaction",
        steps=(*_DEEP, "!compact major", "!clean"),
    ),
)
