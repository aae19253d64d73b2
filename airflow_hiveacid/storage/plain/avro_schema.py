"""Create and compare Avro schemas of a Hive table's columns, like Hive's AvroSerDe.

The only type promotion is from int to bigint. Other promotions were not tested with all Hive
versions.

Example:
    >>> from airflow_hiveacid.format.types import parse_type
    >>> why_not(["null", "int"], parse_type("bigint")), why_not("string", parse_type("int"))
    (None, 'is stored as string, not as int')
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.errors import ConfigurationError, UnsupportedTableError
from airflow_hiveacid.format.table import Column, FileFormat, PartitionInfo, Storage, TableInfo

Schema = Any  # parsed JSON: a string, a list (a union) or a mapping

_PRIMITIVES: Final[Mapping[str, Schema]] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-millis"},
}
_FACTS: Final = ("type", "logicalType", "precision", "scale")
# Table parameters that define columns outside the metastore.
_ELSEWHERE: Final = ("avro.schema.literal", "avro.schema.url")


def fastavro() -> ModuleType:
    """Return the library that reads and writes Avro; raise ConfigurationError if it is missing."""
    return _library("fastavro", "Avro tables")


def cramjam() -> ModuleType:
    """Return the library that fastavro needs for files compressed with Snappy."""
    return _library("cramjam", "Avro files compressed with Snappy")


def _library(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} need the Python package {name} on drivers, on executors and where scan runs:"
            f" pip install {name}"
        ) from error


def check_avro(
    table: object, storage: Storage, parameters: Mapping[str, str], columns: Sequence[Column]
) -> None:
    """Raise UnsupportedTableError for types or columns of an Avro table that are unsupported."""
    if storage.format is not FileFormat.AVRO:
        return
    said = {**dict(storage.parameters), **parameters}
    for name in _ELSEWHERE:
        if said.get(name):
            raise UnsupportedTableError(
                table=table,
                detail=f"takes its columns from {name}, which is not read here. Copy the rows with"
                " Hive into a table that has its columns in the metastore",
            )
    for column in columns:
        if (why := _why_unknown(hive.parse_type(column.type))) is not None:
            raise UnsupportedTableError(table=table, detail=f"has column {column.name} with {why}")
    fastavro()


def check_avro_alike(table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
    """Raise UnsupportedTableError if an Avro partition's types differ: Hive reads with those."""
    if table.storage.format is not FileFormat.AVRO:
        return
    types = {column.name: column.type for column in table.columns}
    for partition in partitions:
        for column in partition.columns or ():
            if types.get(column.name, column.type) != column.type:
                raise UnsupportedTableError(
                    table=table.ref,
                    detail=f"is Avro, and its partition {partition.name} has the type"
                    f" {column.type} for column {column.name}, not {types[column.name]}; give it"
                    " the table's type with ALTER TABLE ... PARTITION (...) REPLACE COLUMNS",
                )


def schema_of(name: str, columns: Sequence[Column]) -> Schema:
    """Return the schema of a file with these columns; `name` is the record name, without a dot."""
    counter = itertools.count()
    fields = [_field(c.name, hive.parse_type(c.type), counter) for c in columns]
    return {"type": "record", "name": name, "fields": fields}


def why_not(schema: Schema, wanted: hive.HiveType) -> str | None:
    """Return why a stored type does not fit, as a phrase; None if it fits."""
    avro_type = _value_of(schema)
    match wanted:
        case hive.ArrayType(element=element):
            is_kind = _is_kind(avro_type, "array")
            return why_not(avro_type["items"], element) if is_kind else _other(avro_type, wanted)
        case hive.MapType(value=value):
            is_kind = _is_kind(avro_type, "map")
            return why_not(avro_type["values"], value) if is_kind else _other(avro_type, wanted)
        case hive.StructType(fields=fields):
            if not _is_kind(avro_type, "record"):
                return _other(avro_type, wanted)
            stored = {field["name"]: field["type"] for field in avro_type["fields"]}
            each = (why_not(stored[name], type_) for name, type_ in fields if name in stored)
            return next((why for why in each if why is not None), None)
        case hive.CharType() | hive.VarcharType():
            is_text = _facts(avro_type)[0] == "string"
            return None if is_text else _other(avro_type, wanted)
        case _:
            allowed = [_facts(_leaf(wanted))]
            if wanted == hive.PrimitiveType("bigint"):
                allowed.append(_facts("int"))
            return None if _facts(avro_type) in allowed else _other(avro_type, wanted)


def _why_unknown(wanted: hive.HiveType) -> str | None:
    """Describe the part of a type that Avro does not support; return None without such a part."""
    match wanted:
        case hive.ArrayType(element=element):
            return _why_unknown(element)
        case hive.MapType(key=key, value=value):
            is_text = key == hive.PrimitiveType("string")
            return _why_unknown(value) if is_text else f"a map with keys of {key}, not string"
        case hive.StructType(fields=fields):
            return next((why for _, t in fields if (why := _why_unknown(t)) is not None), None)
        case hive.CharType() | hive.VarcharType() | hive.DecimalType():
            return None
        case hive.PrimitiveType(name=name) if name in _PRIMITIVES:
            return None
        case _:
            return f"a {wanted}, which cannot be read from Avro"


def _field(name: str, wanted: hive.HiveType, counter: Iterator[int]) -> Schema:
    return {"name": name, "type": _nullable(wanted, counter), "default": None}


def _nullable(wanted: hive.HiveType, counter: Iterator[int]) -> Schema:
    return ["null", _schema(wanted, counter)]


def _schema(wanted: hive.HiveType, counter: Iterator[int]) -> Schema:
    match wanted:
        case hive.ArrayType(element=element):
            return {"type": "array", "items": _nullable(element, counter)}
        case hive.MapType(value=value):
            return {"type": "map", "values": _nullable(value, counter)}
        case hive.StructType(fields=fields):
            record_fields = [_field(name, type_, counter) for name, type_ in fields]
            # Avro records need names. Like Hive, put a number into each record's name.
            return {
                "type": "record",
                "name": f"record_{next(counter)}",
                "namespace": "",
                "fields": record_fields,
            }
        case hive.CharType(length=length):
            return {"type": "string", "logicalType": "char", "maxLength": length}
        case hive.VarcharType(length=length):
            return {"type": "string", "logicalType": "varchar", "maxLength": length}
        case _:
            return _leaf(wanted)


def _leaf(wanted: hive.HiveType) -> Schema:
    if isinstance(wanted, hive.DecimalType):
        kind = {"type": "bytes", "logicalType": "decimal"}
        return {**kind, "precision": wanted.precision, "scale": wanted.scale}
    return _PRIMITIVES.get(str(wanted))


def _value_of(schema: Schema) -> Schema:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return branches[0] if len(branches) == 1 else schema
    return schema


def _is_kind(schema: Schema, kind: str) -> bool:
    return isinstance(schema, dict) and schema.get("type") == kind


def _facts(schema: Schema) -> tuple[object, ...]:
    if isinstance(schema, dict):
        scale = schema.get("scale", 0 if schema.get("logicalType") == "decimal" else None)
        return (*(schema.get(name) for name in _FACTS[:-1]), scale)
    return (schema if isinstance(schema, str) else None, None, None, None)


def _other(found: Schema, wanted: hive.HiveType) -> str:
    return f"is stored as {_text(found)}, not as {_text(_leaf(wanted) or str(wanted))}"


def _text(schema: Schema) -> str:
    if isinstance(schema, dict):
        parts = (schema.get("logicalType"), schema.get("type"), schema.get("precision"))
        return " ".join(str(part) for part in parts if part is not None)
    return str(schema)
