"""Knows rows of every column type that the writer must carry, and how Hive's readers print them.

A case is the columns, the rows as Python values that Arrow takes, and the rows as the judges' JSON
has them; most are in writer_cases.json. The values are the awkward ones: limits, NaN, NULL at each
level, dates before the calendar reform, timestamps before 1970 with nanoseconds, text with and
without blanks at its end.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import CharType, PrimitiveType, parse_type
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.converters import read_type
from airflow_hiveacid.storage.values.limits import padded, unpadded
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, TimestampForm

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
            _timestamps(values, self.timestamps)
            if pa.types.is_timestamp(field.type)
            else pa.array(list(values), field.type)
            for values, field in zip(self.values, row_type(self.columns), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[c.name for c in self.columns])

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


def array_of(
    type_text: str, values: Sequence[object], timestamps: pa.DataType = PAIR_TYPE
) -> pa.Array:
    """Values as the file of cases has them, as an array of our reader's type for them."""
    read = [_read(value, type_text) for value in values]
    if type_text == "timestamp":
        return _timestamps(read, timestamps)
    return pa.array(read, read_type(parse_type(type_text), TimestampForm.PAIR))


def _timestamps(values: Sequence[int | None], wanted: pa.DataType) -> pa.Array:
    """Nanoseconds since 1970 as timestamps of a type, or as pairs."""
    if wanted.equals(PAIR_TYPE):
        pairs = [None if v is None else divmod(v, NANOS_PER_SECOND) for v in values]
        rows = [None if p is None else {"seconds": p[0], "nanos": p[1]} for p in pairs]
        return pa.array(rows, PAIR_TYPE)
    unit = {"ns": 1, "us": 1000}[wanted.unit]
    return pa.array([None if v is None else v // unit for v in values], wanted)


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


def _read(value: Any, type_text: str) -> Any:  # noqa: ANN401 - JSON in, Python values out
    """A value as Arrow takes it, of one as the file has it."""
    if value is None:
        return None
    name = type_text.partition("(")[0].partition("<")[0]
    reader = _READERS.get(name)
    return value if reader is None else reader(value, type_text)


def _read_map(value: Sequence[tuple[object, object]], type_text: str) -> object:
    key, item = _split(type_text[4:-1])
    return [(_read(k, key), _read(v, item)) for k, v in value]


def _read_struct(value: Mapping[str, object], type_text: str) -> object:
    types = dict(field.split(":", 1) for field in _split(type_text[7:-1]))
    return {field: _read(one, types[field]) for field, one in value.items()}


_READERS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "float": lambda value, _: float(value),
    "double": lambda value, _: float(value),
    "decimal": lambda value, _: decimal.Decimal(value),
    "date": lambda value, _: dt.date.fromisoformat(value),
    "timestamp": lambda value, _: nanoseconds(value),
    "binary": lambda value, _: bytes.fromhex(value),
    "array": lambda value, type_text: [_read(item, type_text[6:-1]) for item in value],
    "map": _read_map,
    "struct": _read_struct,
}
_FILE: Final = json.loads(Path(__file__).with_suffix(".json").read_text())


def _case(name: str, *, timestamps: pa.DataType = NANOSECONDS) -> WriterCase:
    """The case of this name in the file."""
    columns = [
        (column, type_, tuple(_read(value, type_) for value in values))
        for title, values in _FILE[name].items()
        for column, type_ in [title.split(" ", 1)]
    ]
    return case_of(name, *columns, timestamps=timestamps)


NUMBERS: Final = _case("numbers")
TEXT: Final = case_of(
    "text",
    ("s", "string", ("", "äöü €𝄞", None, "blank at end ", "x" * 3000)),
    ("c", "char(4)", ("", "ä", None, "abcd", "a b")),
    ("v", "varchar(5)", ("", "äöü€𝄞", None, "ab   ", "v")),
    ("x", "binary", (b"", b"\x00\xff\x80", None, b"a", bytes(range(256)))),
)
DATES: Final = _case("dates")
LATE_TIMESTAMPS: Final = _case("timestamps from 1970 on")
WHOLE_EARLY_TIMESTAMPS: Final = _case("whole seconds before 1970")
EARLY_FRACTIONS: Final = _case("fractions before 1970")
MICROSECONDS: Final = _case("microseconds before and after 1970", timestamps=pa.timestamp("us"))
FAR_MICROSECONDS: Final = _case("microseconds from year 1 to 9999", timestamps=pa.timestamp("us"))
FAR_PAIRS: Final = _case("nanoseconds from year 1 to 9999", timestamps=PAIR_TYPE)
NEAR_PAIRS: Final = _case("pairs that fit nanoseconds", timestamps=PAIR_TYPE)
NESTED: Final = _case("nested")
LISTS_AND_STRUCTS: Final = replace(
    NESTED, name="lists and structs", columns=NESTED.columns[:5], values=NESTED.values[:5]
)
NESTED_EARLY_FRACTIONS: Final = _case("nested fractions before 1970")


def _deep(name: str, *moments: str) -> WriterCase:
    """Each type within arrays of maps of structs, and as a key; NULL at every level."""
    columns: list[tuple[str, str, tuple[Any, ...]]] = []
    for at, (type_, texts) in enumerate({**_FILE["three levels"], "timestamp": moments}.items()):
        first, other = (_read(text, type_) for text in texts)
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
