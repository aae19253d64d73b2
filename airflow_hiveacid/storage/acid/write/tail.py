"""Compose the tail of an ACID file from the tails of the encoders that wrote its parts, in order.

The `writer` field is that of the first part: 1 for ORC's C++ writer, 0 for a stripe that Java's
wrote. Hive ignores it; Trino needs it set, and recognizes our ACID files by `hive.acid.version`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_hiveacid.format import types as hive
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage import acid
from airflow_hiveacid.storage.orc.footer import (
    ACID_STATS,
    ACID_VERSION,
    KEY_INDEX,
    MAGIC,
    PRIMITIVE_KINDS,
    OrcCalendar,
    OrcTail,
    TypeKind,
)
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.statistics import keep_lengths_only, merge_stripes, restate_bounds
from airflow_hiveacid.storage.values.column_types import TypeNode, row_type, types_from

_ACID_VERSION: Final = b"2"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidFacts:
    """The facts about a file that the tails of the encoders do not contain.

    `stripe_keys` has the identity of each stripe's last row. `nul_column_ids` have NUL characters,
    and wrong statistics.
    """

    stripe_keys: Sequence[acid.RecordIdentifier]
    is_delete: bool
    nul_column_ids: Collection[int]


def copied_part(tail: OrcTail, number: int, copied: pb.Stripe) -> OrcTail:
    """Return the tail of a part of one copied stripe, stripe `number` (0-based) of `tail`."""
    footer, metadata = pb.Footer(), pb.Metadata()
    footer.CopyFrom(tail.footer)
    for field in ("stripes", "statistics", "metadata"):
        footer.ClearField(field)
    footer.stripes.append(copied)
    metadata.stripes.append(tail.metadata.stripes[number])
    footer.statistics.extend(merge_stripes(metadata.stripes))
    return replace(tail, footer=footer, metadata=metadata, content=None)


def acid_types(columns: Sequence[Column]) -> list[pb.Type]:
    """Return the types of an ACID file by column ID, with the lengths of char and varchar."""
    row_type(columns)  # raises for unions
    nodes = acid.type_tree(columns)
    root = pb.Type(
        kind=TypeKind.STRUCT,
        children=range(1, acid.ROW_COLUMN_ID + 1),
        field_names=acid.ROOT_NAMES,
    )
    row = pb.Type(
        kind=TypeKind.STRUCT,
        children=[node.column_id for node in nodes],
        field_names=[column.name for column in columns],
    )
    leaves = [pb.Type(kind=kind) for kind in acid.ROOT_KINDS[:-1]]
    return [root, *leaves, row, *(_type(node) for top in nodes for node in top.walk())]


def compose_tail(
    parts: Sequence[OrcTail], columns: Sequence[Column], facts: AcidFacts, *, path: str
) -> OrcTail:
    """Return the tail of the whole ACID file.

    The `parts`, at least one, have the offsets of their stripes in the file, and the same
    compression and row index stride.
    """
    tail = whole_tail(parts, acid_types(columns), facts.nul_column_ids, path=path)
    _add_user_metadata(tail.footer, facts)
    return tail


def plain_types(columns: Sequence[Column]) -> list[pb.Type]:
    """Return the types of a file of rows without identities, by column ID."""
    nodes = types_from(columns, 1)
    root = pb.Type(
        kind=TypeKind.STRUCT,
        children=[node.column_id for node in nodes],
        field_names=[column.name for column in columns],
    )
    return [root, *(_type(node) for top in nodes for node in top.walk())]


def whole_tail(
    parts: Sequence[OrcTail],
    types: Sequence[pb.Type],
    nul_column_ids: Collection[int],
    *,
    path: str,
) -> OrcTail:
    """Return the tail of the whole file, without the user metadata of ACID files.

    The `parts`, at least one, have the offsets of their stripes in the file, and the same
    compression and row index stride. `types` are in order of column ID.
    """
    first = parts[0]
    footer, metadata, postscript = pb.Footer(), pb.Metadata(), pb.PostScript()
    footer.CopyFrom(first.footer)
    postscript.CopyFrom(first.postscript)
    postscript.compression_block_size = max(part.compression_block_bytes for part in parts)
    del footer.stripes[:]
    for part in parts:
        footer.stripes.extend(part.footer.stripes)
        metadata.stripes.extend(part.metadata.stripes)
    footer.rows = sum(stripe.rows for stripe in footer.stripes)
    length = sum(stripe.length for part in parts for stripe in part.stripes)
    footer.content_length = length
    del footer.types[:]
    footer.types.extend(types)
    footer.calendar = OrcCalendar.PROLEPTIC_GREGORIAN
    if len(parts) > 1:
        del footer.statistics[:]
        footer.statistics.extend(merge_stripes(metadata.stripes))
    _withhold(footer, metadata, nul_column_ids)
    return OrcTail(
        path=path,
        file_length=len(MAGIC) + length,
        postscript=postscript,
        footer=footer,
        metadata=metadata,
    )


def key_index(keys: Sequence[acid.RecordIdentifier]) -> str:
    """Return the value of `hive.acid.key.index` (OrcRecordUpdater.KeyIndexBuilder).

    Example:
        >>> from airflow_hiveacid.storage.acid import RecordIdentifier
        >>> key_index([RecordIdentifier(2, 536870912, 9)])
        '2,536870912,9;'
    """
    return "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in keys)


def _add_user_metadata(footer: pb.Footer, facts: AcidFacts) -> None:
    inserts, deletes = (0, footer.rows) if facts.is_delete else (footer.rows, 0)
    del footer.metadata[:]
    for name, value in (
        (KEY_INDEX, key_index(facts.stripe_keys).encode()),
        (ACID_STATS, f"{inserts},0,{deletes}".encode()),
        (ACID_VERSION, _ACID_VERSION),
    ):
        footer.metadata.add(name=name, value=value)


def _withhold(footer: pb.Footer, metadata: pb.Metadata, nul_column_ids: Collection[int]) -> None:
    # Remove wrong statistics. The row index in the stripes has the same wrong bounds, so the stride
    # becomes 0: readers then ignore the index, and all other statistics.
    if nul_column_ids:
        footer.row_index_stride = 0
    for statistics in (footer.statistics, *(stripe.columns for stripe in metadata.stripes)):
        for column_id in nul_column_ids:
            keep_lengths_only(statistics[column_id])
        for column in statistics:
            restate_bounds(column)


def _type(node: TypeNode) -> pb.Type:
    children = [child.column_id for child in node.children]
    match node.type:
        case hive.DecimalType(precision=precision, scale=scale):
            type_ = pb.Type(kind=TypeKind.DECIMAL, precision=precision, scale=scale)
        case hive.CharType(length=length):
            type_ = pb.Type(kind=TypeKind.CHAR, maximum_length=length)
        case hive.VarcharType(length=length):
            type_ = pb.Type(kind=TypeKind.VARCHAR, maximum_length=length)
        case hive.ArrayType():
            type_ = pb.Type(kind=TypeKind.LIST, children=children)
        case hive.MapType():
            type_ = pb.Type(kind=TypeKind.MAP, children=children)
        case hive.StructType(fields=fields):
            names = [name for name, _ in fields]
            type_ = pb.Type(kind=TypeKind.STRUCT, children=children, field_names=names)
        case _:
            type_ = pb.Type(kind=PRIMITIVE_KINDS[str(node.type)])
    return type_
