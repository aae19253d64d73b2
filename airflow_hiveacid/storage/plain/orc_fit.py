"""Check that all readers read the same rows from an ORC file without ACID columns.

Readers could convert a different type. But Hive's compactor would fail, because it does not convert
a file's rows (OrcRawRecordMerger).
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.storage.orc import footer
from airflow_hiveacid.storage.values.calendars import may_have_old_days
from airflow_hiveacid.storage.values.converters import DATED_KINDS


def is_stored_as(types: Sequence[footer.OrcType], column_id: int, wanted: hive.HiveType) -> bool:  # noqa: PLR0911
    """Return whether a column is stored exactly as a Hive type, including all field names."""
    orc_type = types[column_id]
    facts = (orc_type.kind, orc_type.precision, orc_type.scale, orc_type.maximum_length)
    match wanted:
        case hive.PrimitiveType(name=name):
            return orc_type.kind == footer.PRIMITIVE_KINDS.get(name)
        case hive.DecimalType(precision=precision, scale=scale):
            is_alike = facts == (footer.TypeKind.DECIMAL, precision, scale, 0)
            return is_alike and not orc_type.lacks_precision
        case hive.CharType(length=length):
            return facts == (footer.TypeKind.CHAR, 0, 0, length)
        case hive.VarcharType(length=length):
            return facts == (footer.TypeKind.VARCHAR, 0, 0, length)
        case hive.ArrayType(element=element):
            return _are_stored_as(types, orc_type, footer.TypeKind.LIST, (element,))
        case hive.MapType(key=key, value=value):
            return _are_stored_as(types, orc_type, footer.TypeKind.MAP, (key, value))
        case hive.StructType(fields=fields):
            has_names = orc_type.field_names == tuple(name for name, _ in fields)
            return has_names and _are_stored_as(
                types, orc_type, footer.TypeKind.STRUCT, [field for _, field in fields]
            )
        case _:
            return False


def _are_stored_as(
    types: Sequence[footer.OrcType],
    found: footer.OrcType,
    kind: footer.TypeKind,
    below: Sequence[hive.HiveType],
) -> bool:
    if found.kind != kind or len(found.children) != len(below):
        return False
    return all(
        is_stored_as(types, child, child_type)
        for child, child_type in zip(found.children, below, strict=True)
    )


def are_old_values_known(tail: footer.OrcTail) -> bool:
    """Return whether all readers show the same values for all dates and timestamps of a file.

    Java's writer stores the calendar in the file since ORC 1.6, but other writers do not. Arrow
    writes negative nanoseconds before 1970, which Hive cannot read.
    """
    if tail.footer.writer == footer.Writer.JAVA and tail.calendar is not footer.OrcCalendar.UNKNOWN:
        return True
    dated = (i for i, type_ in enumerate(tail.types) if type_.kind in DATED_KINDS)
    return not (tail.rows and any(may_have_old_days(tail, i, first_s=0) for i in dated))
