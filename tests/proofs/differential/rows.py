"""The table of every question: a column of each kind, with edge values.

Hive's own engine writes its rows, so that both engines read the same files. A kind without a value
in a row is NULL there.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {
    "id": "int",
    "g": "int",
    "ti": "tinyint",
    "si": "smallint",
    "i": "int",
    "n": "int",
    "b": "bigint",
    "de": "decimal(10,2)",
    "dx": "decimal(38,10)",
    "f": "float",
    "d": "double",
    "bo": "boolean",
    "s": "string",
    "x": "string",
    "y": "string",
    "vc": "varchar(6)",
    "cc": "char(6)",
    "dt": "date",
    "ts": "timestamp",
    "w": "string",
    "xb": "binary",
    "ai": "array<int>",
    "sa": "array<string>",
    "m": "map<string,int>",
    "st": "struct<a:int,c:string>",
    "j": "string",
    "zo": "string",
    "un": "string",
}
PARTITIONS: Final = {"pp": "string", "pq": "int"}
# The values of each column row by row; a shorter list starts again.
_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "g": ("1", "1", "2", "2", "3", "NULL"),
    "ti": ("1", "0", "-1", "127", "-128", "NULL", "7", "2"),
    "si": ("3", "-3", "32767", "-32768", "0", "NULL", "1", "100", "12"),
    "i": ("12", "0", "-1", "2147483647", "-2147483648", "NULL", "3", "7", "-16", "1"),
    "n": ("2", "0", "-1", "3", "-16", "NULL", "1", "-2", "5", "2", "12"),
    "b": (
        "42",
        "0",
        "9223372036854775807",
        "-9223372036854775808",
        "-7",
        "NULL",
        "1234567890123",
        "3",
    ),
    "de": ("1.50", "0", "-0.05", "99999999.99", "-2.50", "NULL", "2.00", "0.01", "123.45"),
    "dx": (
        "1.1",
        "9999999999999999999999999999.9999999999",
        "0",
        "-9999999999999999999999999999.9999999999",
        "-2.5",
        "NULL",
        "0.0000000001",
        "1234567890.12",
        "3",
    ),
    "f": ("0.1", "'NaN'", "1.5", "'Infinity'", "'-0.0'", "NULL", "-2.5", "3", "1e10", "16777217"),
    "d": (
        "0.1",
        "'NaN'",
        "1.5",
        "'Infinity'",
        "'-Infinity'",
        "NULL",
        "'-0.0'",
        "-2.5",
        "3",
        "1e300",
        "0.5",
    ),
    "bo": ("true", "false", "NULL"),
    "s": (
        "'abcabc'",
        "''",
        "'  '",
        "'12'",
        "'Grüße €'",
        "NULL",
        "'it\\'s a Test'",
        "'a,b,,c'",
        "'b\\tc d'",
        "'😀x'",
        "'ABC'",
        "'2020-01-31'",
    ),
    "x": (
        "'12'",
        "' 7 '",
        "'7 '",
        "'\\t7'",
        "'1.5'",
        "NULL",
        "''",
        "'abc'",
        "'-3'",
        "'1e3'",
        "'NaN'",
        "'2147483648'",
        "'0012'",
        "'inf'",
    ),
    "y": ("'b'", "''", "','", "'a'", "' '", "NULL", "'.'", "'abc'"),
    "vc": ("'ab'", "'ab '", "''", "'abcdef'", "'7'", "NULL", "' 12'"),
    "cc": ("'ab'", "''", "'abcdef'", "'7'", "' a'", "NULL", "'12'"),
    "dt": (
        "'2020-01-31'",
        "'2020-02-29'",
        "'1969-12-31'",
        "'1582-10-04'",
        "'1582-10-15'",
        "NULL",
        "'0001-01-01'",
        "'9999-12-31'",
        "'1500-03-01'",
        "'2021-12-31'",
    ),
    "ts": (
        "'2020-01-31 10:20:30.123456'",
        "'2020-02-29 23:59:59'",
        "'1969-12-31 23:59:58'",
        "'1960-05-05 05:05:05.5'",
        "'1582-10-15 00:00:00'",
        "NULL",
        "'1500-03-01 12:00:00'",
        "'9999-12-31 23:59:59'",
        "'2020-03-29 02:30:00'",
        "'1970-01-01 00:00:00'",
    ),
    "w": (
        "'2020-01-31'",
        "'2020-1-3'",
        "'2020-01-31 10:20:30'",
        "'2020-13-01'",
        "'2020-02-30'",
        "NULL",
        "''",
        "' 2020-01-31 '",
        "'1582-10-10'",
        "'1960-05-05 05:05:05.5'",
        "'abc'",
    ),
    "xb": ("'abc'", "''", "'\\u00e9'", "NULL"),
    "ai": ("array(1, 2)", "array(3, NULL, 1)", "array(7)", "NULL"),
    "sa": ("array('b', 'a')", "array('x', NULL)", "array('')", "NULL", "array('a', 'a', 'c')"),
    "m": ("map('k', 1)", "map('a', 2, 'b', NULL)", "NULL"),
    "st": ("named_struct('a', 1, 'c', 'x')", "named_struct('a', -2, 'c', '')", "NULL"),
    "j": (
        '\'{"a":{"b":1},"c":[1,"x"]}\'',
        '\'{"a":[{"b":"x"},{"b":2}],"c":null}\'',
        "'{}'",
        "'no json'",
        "NULL",
    ),
    "zo": ("'UTC'", "'America/New_York'", "'Asia/Kolkata'", "NULL", "'+02:00'"),
    "un": ("'MM'", "'YEAR'", "'QUARTER'", "NULL", "'mm'"),
    "pp": ("'x'", "NULL", "'y z'"),
    "pq": ("1", "NULL", "-2"),
}
COUNT: Final = 14


def select_rows() -> str:
    """Return the rows as one query in Hive's SQL."""
    kinds = {**COLUMNS, **PARTITIONS}
    lines = []
    for number in range(COUNT):
        values = [
            str(number + 1)
            if name == "id"
            else _cast(_VALUES[name][number % len(_VALUES[name])], kind)
            for name, kind in kinds.items()
        ]
        lines.append("SELECT " + ", ".join(values))
    return " UNION ALL ".join(lines)


def _cast(value: str, kind: str) -> str:
    if not kind.startswith(("array", "map", "struct")):
        return f"cast({value} AS {kind})"
    if value != "NULL":
        return value
    return f"if(1 = 0, {_VALUES[_of_kind(kind)][0]}, NULL)"


def _of_kind(kind: str) -> str:
    return next(name for name, one in COLUMNS.items() if one == kind)


def create_table(name: str) -> str:
    """Return the definition of such a table in Hive's SQL."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    partitions = ", ".join(f"{column} {kind}" for column, kind in PARTITIONS.items())
    return (
        f"CREATE TABLE {name} ({columns}) PARTITIONED BY ({partitions}) STORED AS ORC"
        " TBLPROPERTIES ('transactional'='true')"
    )
