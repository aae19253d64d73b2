"""Knows rows of every column type that the writer must carry, and how Hive's readers print them.

A case is the columns, the rows as Python values that Arrow takes, and the rows as the judges' JSON
has them. The values are the awkward ones: limits, NaN, NULL at each level, dates before the
calendar reform, timestamps before 1970 with nanoseconds, text with and without blanks at its end.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import CharType, PrimitiveType, parse_type
from airflow_hiveacid.storage.values.char_text import padded, unpadded
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE

NANOS_PER_SECOND: Final = 10**9
NANOSECONDS: Final = pa.timestamp("ns")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterCase:
    """Rows to write. `values[i]` belongs to `columns[i]`; all are equally long.

    Timestamps are nanoseconds since 1970, of any size; `timestamps` is the Arrow type they get.
    """

    name: str
    columns: tuple[Column, ...]
    values: tuple[tuple[Any, ...], ...]
    timestamps: pa.DataType

    @property
    def schema(self) -> str:
        """The struct type text that the judges want."""
        return f"struct<{','.join(f'{c.name}:{c.type}' for c in self.columns)}>"

    def batch(self) -> pa.RecordBatch:
        """The rows as one batch."""
        arrays = [
            self._timestamps(values)
            if pa.types.is_timestamp(field.type)
            else pa.array(list(values), field.type)
            for values, field in zip(self.values, row_type(self.columns), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[c.name for c in self.columns])

    def _timestamps(self, values: tuple[int | None, ...]) -> pa.Array:
        if self.timestamps.equals(PAIR_TYPE):
            pairs = [None if v is None else divmod(v, NANOS_PER_SECOND) for v in values]
            rows = [None if p is None else {"seconds": p[0], "nanos": p[1]} for p in pairs]
            return pa.array(rows, PAIR_TYPE)
        unit = {"ns": 1, "us": 1000}[self.timestamps.unit]
        return pa.array([None if v is None else v // unit for v in values], self.timestamps)

    def judged(self) -> list[list[object]]:
        """The rows as the judges print them, without identity."""
        printed = [
            [_printed(value, column.type) for value in values]
            for column, values in zip(self.columns, self.values, strict=True)
        ]
        return [list(row) for row in zip(*printed, strict=True)]


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of `YYYY-MM-DD HH:MM:SS[.fraction]`, for Arrow's timestamps."""
    whole, _, fraction = text.partition(".")
    moment = dt.datetime.fromisoformat(f"{whole}+00:00")
    seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
    return seconds * NANOS_PER_SECOND + int(fraction.ljust(9, "0") or 0)


def _printed(value: object, type_text: str) -> object:
    """A value as the judges' JSON has it."""
    if value is None:
        return None
    name = type_text.partition("(")[0].partition("<")[0]
    printer = _PRINTERS.get(name)
    return value if printer is None else printer(value, type_text)


def _printed_float(value: float, type_text: str) -> object:
    is_float = type_text == "float"
    number: float = struct.unpack("f", struct.pack("f", value))[0] if is_float else value
    if math.isnan(number):
        return "NaN"
    return str(number).replace("inf", "Infinity") if math.isinf(number) else number


def _printed_map(value: Sequence[tuple[object, object]], type_text: str) -> object:
    key, item = _split(type_text[4:-1])
    pairs = [[_printed(k, key), _printed(v, item)] for k, v in value]
    return sorted(pairs, key=lambda pair: json.dumps(pair, separators=(",", ":")))


def _printed_struct(value: Mapping[str, object], type_text: str) -> object:
    fields = [field.partition(":") for field in _split(type_text[7:-1])]
    return {field: _printed(value[field], of) for field, _, of in fields}


def _plain(value: decimal.Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _timestamp(nanos: int) -> str:
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    whole = moment.replace(tzinfo=None).isoformat(sep=" ")
    return f"{whole}.{rest:09d}".rstrip("0") if rest else whole


def _split(text: str) -> list[str]:
    """Cut at the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _moments(*texts: str | None) -> tuple[int | None, ...]:
    return tuple(nanoseconds(text) if text else None for text in texts)


def _dates(*texts: str | None) -> tuple[dt.date | None, ...]:
    return tuple(dt.date.fromisoformat(text) if text else None for text in texts)


def case_of(
    name: str, *columns: tuple[str, str, tuple[Any, ...]], timestamps: pa.DataType = NANOSECONDS
) -> WriterCase:
    return WriterCase(
        name=name,
        timestamps=timestamps,
        columns=tuple(Column(name=column, type=type_) for column, type_, _ in columns),
        values=tuple(values for _, _, values in columns),
    )


def side_by_side(*cases: WriterCase) -> WriterCase:
    """All columns of these cases in one, behind an `id`; NULL where a case has no more rows."""
    count = max(len(case.values[0]) for case in cases)
    columns = [("id", "int", tuple(range(count)))]
    for number, case in enumerate(cases):
        columns += [
            (f"{column.name}{number}", column.type, (*values, *[None] * (count - len(values))))
            for column, values in zip(case.columns, case.values, strict=True)
        ]
    name = ", ".join(case.name for case in cases)
    return case_of(name, *columns, timestamps=pa.timestamp("us"))


_PRINTERS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "float": _printed_float,
    "double": _printed_float,
    "decimal": lambda value, _: _plain(value),
    "date": lambda value, _: value.isoformat(),
    "timestamp": lambda value, _: _timestamp(value),
    "binary": lambda value, _: value.hex(),
    "char": lambda value, type_text: value.ljust(int(type_text[5:-1])),
    "array": lambda value, type_text: [_printed(item, type_text[6:-1]) for item in value],
    "map": _printed_map,
    "struct": _printed_struct,
}

D: Final = decimal.Decimal
NUMBERS: Final = case_of(
    "numbers",
    ("b", "boolean", (True, False, None, True, False)),
    ("t", "tinyint", (-128, 127, None, 0, 1)),
    ("s", "smallint", (-32768, 32767, None, 0, -1)),
    ("i", "int", (-(2**31), 2**31 - 1, None, 0, 7)),
    ("l", "bigint", (-(2**63), 2**63 - 1, None, 0, -7)),
    ("f", "float", (math.nan, math.inf, None, -math.inf, 0.1)),
    ("d", "double", (math.nan, -math.inf, None, 5e-324, -0.1)),
    (
        "m",
        "decimal(38,18)",
        (
            D("99999999999999999999.999999999999999999"),
            D("-99999999999999999999.999999999999999999"),
            None,
            D("0.000000000000000001"),
            D(0),
        ),
    ),
    ("n", "decimal(5,2)", (D("999.99"), D("-999.99"), None, D("-0.50"), D("10.00"))),
    ("o", "decimal(18,0)", (D(10**18 - 1), D(1 - 10**18), None, D(0), D(-1))),
)
TEXT: Final = case_of(
    "text",
    ("s", "string", ("", "äöü €𝄞", None, "blank at end ", "x" * 3000)),
    ("c", "char(4)", ("", "ä", None, "abcd", "a b")),
    ("v", "varchar(5)", ("", "äöü€𝄞", None, "ab   ", "v")),
    ("x", "binary", (b"", b"\x00\xff\x80", None, b"a", bytes(range(256)))),
)
DATES: Final = case_of(
    "dates",
    (
        "d",
        "date",
        _dates(
            "0001-01-01",
            "1582-10-04",
            None,
            "1582-10-15",
            "1969-12-31",
            "1970-01-01",
            "9999-12-31",
            "1500-02-28",
        ),
    ),
)
LATE_TIMESTAMPS: Final = case_of(
    "timestamps from 1970 on",
    (
        "t",
        "timestamp",
        _moments(
            "1970-01-01 00:00:00",
            "1970-01-01 00:00:00.000000001",
            None,
            "2038-01-19 03:14:08.123456789",
            "2024-03-10 02:30:00.5",
            "2262-04-11 23:47:16.854775807",
            "2015-01-01 00:00:00",
            "2014-12-31 23:59:59.999999999",
        ),
    ),
)
WHOLE_EARLY_TIMESTAMPS: Final = case_of(
    "whole seconds before 1970",
    (
        "t",
        "timestamp",
        _moments(
            "1969-12-31 23:59:59",
            "1900-01-01 00:00:00",
            None,
            "1677-09-21 00:12:44",
            "1969-12-31 23:59:58",
        ),
    ),
)
EARLY_FRACTIONS: Final = case_of(
    "fractions before 1970",
    ("i", "bigint", (1, 2, 3, 4, 5, 6, 7)),
    (
        "t",
        "timestamp",
        _moments(
            "1969-12-31 23:59:58.5",
            "1969-12-31 23:59:58.999999999",
            None,
            "1900-01-01 00:00:00.123456789",
            "1677-09-21 00:12:44.1",
            "1969-12-31 23:59:59.000999999",
            "1965-05-05 05:05:05.000000001",
        ),
    ),
    (
        "m",
        "decimal(20,3)",
        (D("1.5"), None, D("-12345678901234567.891"), D(0), D("0.001"), D("-0.001"), D(7)),
    ),
    (
        "d",
        "date",
        (
            dt.date(1, 1, 1),
            None,
            dt.date(1582, 10, 4),
            dt.date(1969, 12, 31),
            dt.date(9999, 12, 31),
            dt.date(2000, 2, 29),
            dt.date(1970, 1, 1),
        ),
    ),
    ("c", "char(3)", ("a", "", None, "abc", "ä", "x ", "z")),
    ("x", "binary", (b"", b"\x00", None, b"\xff", b"a", b"b", b"c")),
    ("f", "float", (0.1, math.nan, None, math.inf, -1.5, 0.0, 3.0)),
    ("b", "boolean", (True, None, False, True, False, True, False)),
)
FAR_MICROSECONDS: Final = case_of(
    "microseconds from year 1 to 9999",
    (
        "t",
        "timestamp",
        _moments(
            "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
            None,
            "1582-10-04 12:00:00",
            "1582-10-10 00:00:00",
            "1582-10-15 00:00:00",
            "1500-02-28 23:59:59.5",
            "2024-01-01 00:00:00",
        ),
    ),
    timestamps=pa.timestamp("us"),
)
FAR_PAIRS: Final = case_of(
    "nanoseconds from year 1 to 9999",
    (
        "t",
        "timestamp",
        _moments(
            "0001-01-01 00:00:00.000000001",
            "9999-12-31 23:59:59.999999999",
            None,
            "1582-10-04 12:00:00",
            "1969-12-31 23:59:58.9",
            "2024-01-01 00:00:00.123456789",
        ),
    ),
    timestamps=PAIR_TYPE,
)
NEAR_PAIRS: Final = case_of(
    "pairs that fit nanoseconds",
    (
        "t",
        "timestamp",
        _moments(
            "1970-01-01 00:00:00",
            None,
            "2262-04-11 23:47:15.999999999",
            "1969-12-31 00:00:00",
        ),
    ),
    timestamps=PAIR_TYPE,
)
_LISTS_AND_STRUCTS: Final = (
    ("a", "array<string>", ([], ["x", None, ""], None, ["y"], [None], ["z"])),
    (
        "s",
        "struct<x:int,y:string,z:array<bigint>>",
        (
            {"x": 1, "y": "a", "z": [1]},
            {"x": None, "y": None, "z": None},
            None,
            {"x": 2, "y": "", "z": []},
            None,
            {"x": 3, "y": "c", "z": [None, 3]},
        ),
    ),
    (
        "l",
        "array<struct<x:int,y:array<string>>>",
        (
            [{"x": 1, "y": ["p"]}],
            [None, {"x": 2, "y": None}],
            None,
            [],
            [None],
            [{"x": 3, "y": []}, None, {"x": 4, "y": [None, "q"]}],
        ),
    ),
    (
        "k",
        "array<struct<x:decimal(10,2),y:array<double>>>",
        (
            [{"x": D("1.50"), "y": [-0.0]}],
            [None, {"x": D("-0.01"), "y": None}],
            None,
            [],
            [None],
            [{"x": None, "y": []}, None, {"x": D(7), "y": [None, 1.5]}],
        ),
    ),
    ("r", "array<array<int>>", ([[1], [], None, [2, None]], None, [], [None], [[]], [[3]])),
)
LISTS_AND_STRUCTS: Final = case_of("lists and structs", *_LISTS_AND_STRUCTS)
NESTED: Final = case_of(
    "nested",
    *_LISTS_AND_STRUCTS,
    ("m", "map<string,int>", ([], [("k", 1), ("l", None)], None, [("", 0)], [("n", -1)], [])),
    (
        "n",
        "map<int,struct<x:string,y:decimal(10,2)>>",
        (
            [(1, {"x": "a", "y": D("1.50")})],
            [(2, None)],
            None,
            [(3, {"x": None, "y": None})],
            [],
            [(4, {"x": "", "y": D("-0.01")}), (5, None)],
        ),
    ),
    (
        "o",
        "struct<p:struct<q:struct<r:date>>>",
        (
            {"p": {"q": {"r": dt.date(1400, 1, 1)}}},
            {"p": None},
            None,
            {"p": {"q": None}},
            {"p": {"q": {"r": None}}},
            {"p": {"q": {"r": dt.date(2024, 2, 29)}}},
        ),
    ),
    ("c", "array<char(3)>", (["a"], [None, "bcd"], None, [], ["ä"], ["x "])),
)
NESTED_EARLY_FRACTIONS: Final = case_of(
    "nested fractions before 1970",
    (
        "a",
        "array<timestamp>",
        (
            [nanoseconds("1950-01-01 00:00:00.5"), None],
            None,
            [],
            [nanoseconds("2020-01-01 00:00:00.25")],
        ),
    ),
    (
        "m",
        "map<string,timestamp>",
        ([("k", nanoseconds("1950-01-01 00:00:00.000000001"))], [("l", None)], None, []),
    ),
    (
        "s",
        "struct<x:timestamp,y:array<struct<z:decimal(38,2)>>>",
        (
            {"x": None, "y": [None, {"z": D("1.25")}]},
            None,
            {"x": nanoseconds("1969-12-31 23:59:58.75"), "y": None},
            {"x": nanoseconds("1970-01-01 00:00:00.75"), "y": []},
        ),
    ),
    (
        "n",
        "struct<p:struct<q:int,r:string>>",
        ({"p": None}, {"p": {"q": 1, "r": "a"}}, None, {"p": {"q": None, "r": "b"}}),
    ),
)

_DEEP_VALUES: Final[Mapping[str, tuple[Any, Any]]] = {
    "boolean": (True, False),
    "tinyint": (-128, 127),
    "smallint": (-32768, 32767),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "float": (math.nan, -0.0),
    "double": (math.nan, -0.0),
    "decimal(38,18)": (D("99999999999999999999.999999999999999999"), D("-0.000000000000000001")),
    "decimal(5,2)": (D("-999.99"), D("0.10")),
    "string": ("", "äöü €𝄞 "),
    "varchar(5)": ("äöü€𝄞", "ab "),
    "char(5)": ("äöü€𝄞", "ab"),
    "binary": (b"\x00\xff\x80", b""),
    "date": (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}
"""Values that get lost, of each type that can be a key and three levels down."""


def _deep(name: str, *moments: str) -> WriterCase:
    """Each type within arrays of maps of structs, and as a key; NULL at every level."""
    values = {**_DEEP_VALUES, "timestamp": tuple(map(nanoseconds, moments))}
    columns: list[tuple[str, str, tuple[Any, ...]]] = []
    for at, (type_, (first, other)) in enumerate(values.items()):
        rows: tuple[Any, ...] = (
            [[("k", {"v": first})], [("l", {"v": other})]],
            [None, [("k", None)], [("k", {"v": None})]],
            None,
            [],
            [[]],
        )
        keys: tuple[Any, ...] = (
            [(first, [{"v": other}])],
            [(other, [None, {"v": None}])],
            None,
            [],
            [(first, None)],
        )
        columns.append((f"a{at}", f"array<map<string,struct<v:{type_}>>>", rows))
        columns.append((f"k{at}", f"map<{type_},array<struct<v:{type_}>>>", keys))
    return case_of(name, *columns)


DEEP: Final = _deep(
    "three levels", "1970-01-01 00:00:00.000000001", "2262-04-11 23:47:16.854775807"
)
DEEP_EARLY: Final = _deep(
    "three levels, before 1970", "1969-12-31 23:59:58.999999999", "1677-09-21 00:12:44.1"
)

CASES: Final = (
    NUMBERS,
    TEXT,
    DATES,
    LATE_TIMESTAMPS,
    WHOLE_EARLY_TIMESTAMPS,
    EARLY_FRACTIONS,
    FAR_MICROSECONDS,
    FAR_PAIRS,
    NEAR_PAIRS,
    NESTED,
    NESTED_EARLY_FRACTIONS,
    DEEP,
    DEEP_EARLY,
)


def flat_table(rows: pa.StructArray, columns: Sequence[Column], key: str | None = None) -> pa.Table:
    """Rows as a flat file holds them, at top level; with a key, in one column more."""
    arrays = []
    for values, column in zip(rows.flatten(), columns, strict=True):
        match parse_type(column.type):
            case PrimitiveType(name="date"):
                arrays.append(values.cast(pa.int32()))
            case CharType(length=length):
                arrays.append(padded(unpadded(values), length))
            case _:
                arrays.append(values)
    if key is not None:
        arrays.append(pa.repeat(pa.scalar(key), len(rows)))
    return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
