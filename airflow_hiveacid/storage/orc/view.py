"""An ORC file shown to Arrow under another footer: flattened, renamed, cut to some stripes.

Arrow's batch reader streams with bounded memory, but it can leave out only whole top-level columns
and knows no part of a file. Both are matters of the footer, which is ours to give: `row` becomes
an empty struct in its place and its fields move up beside it, so that every column ID, and with it
every stream in the file, stays what it was. Columns are then called `c<column ID>`, whatever a
table calls them. Takes a tail and what to show; gives batches. Must not know what the columns
mean.

Timestamps can be shown in two further ways. Arrow counts nanoseconds in 64 bits, from 1677 to
2262, and refuses others; ORC stores seconds and nanoseconds in streams apart. The stream of
seconds is that of a long, so the type in the footer decides whether Arrow sees a timestamp or its
seconds; and with zeros in place of the seconds it sees the nanoseconds (`timestamps` puts them
together).
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError, CorruptFileError
from airflow_hiveacid.storage.orc.footer import OrcTail, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.read_ahead import ReadAhead
from airflow_hiveacid.storage.orc.splice import (
    Piece,
    Stretch,
    splice,
    stripe_footer,
    without_seconds,
)
from airflow_hiveacid.storage.orc.tail import serialize_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

DEFAULT_BATCH_ROWS: Final = 16 * 1024
# Where ORC looks for time zones; it wants the rules of UTC as well.
_TIME_ZONES: Final = "/usr/share/zoneinfo"
_TAIL_GUESS_BYTES: Final = 16 * 1024
TIMESTAMP_KINDS: Final = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})


class ShowTimestamps(enum.Enum):
    """What a timestamp column is shown as: itself, its seconds as a long, or its nanoseconds only.

    Seconds count from 2015-01-01. Nanoseconds are shown as a timestamp of that same second.
    """

    WHOLE = "whole"
    SECONDS = "seconds"
    NANOS = "nanos"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of a file is shown.

    `columns` are column IDs, each of which becomes a column `c<ID>` in this order. `flatten` is
    the ID of the struct below the root whose fields move up (None: the root's children are shown).
    `stripes` are 0-based; None shows all.
    """

    columns: tuple[int, ...]
    flatten: int | None = None
    stripes: tuple[int, ...] | None = None
    timestamps: ShowTimestamps = ShowTimestamps.WHOLE


def read_view(
    fs: pafs.FileSystem, tail: OrcTail, view: View, batch_rows: int = DEFAULT_BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Read what a view shows, in file order, at most `batch_rows` rows at a time.

    Raises:
        CorruptFileError: the file cannot be decoded.
        ConfigurationError: it cannot be decoded for want of a time zone database.
        LocationPermissionError: it may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    shown = _shown(tail, view)
    if not shown.footer.rows:
        return
    names = [f"c{column_id}" for column_id in view.columns]
    with file_errors("read", tail.path), _opened(fs, tail) as source:
        pieces, shown = _pieces(source, tail, shown, view)
        try:
            ahead = ReadAhead(source, tail, view.columns)
            fragment = pads.OrcFileFormat().make_fragment(splice(source, pieces, ahead))
            # One thread for one file: whoever reads many files decides how many at a time.
            scanner = fragment.scanner(
                columns=names, batch_size=batch_rows, batch_readahead=1, use_threads=False
            )
            yield from scanner.to_batches()
        except (OSError, EOFError, ValueError, pa.ArrowException) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            reason = str(error).partition("\n")[0]
            if not (Path(os.environ.get("TZDIR", _TIME_ZONES)) / "UTC").exists():
                raise ConfigurationError(
                    f"{tail.path} cannot be read without a time zone database: install tzdata on"
                    f" this machine or set TZDIR ({reason})"
                ) from error
            raise CorruptFileError(
                path=tail.path, reason=f"its rows cannot be decoded ({reason})"
            ) from error


def writer_time_zones(fs: pafs.FileSystem, tail: OrcTail, stripes: Iterable[int]) -> frozenset[str]:
    """The time zones that some stripes say their timestamps were written in; "" for none.

    Raises:
        CorruptFileError: a stripe footer is damaged.
        LocationPermissionError: the file may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    with file_errors("read", tail.path), _opened(fs, tail) as source:
        footers = (stripe_footer(source, tail, tail.footer.stripes[number]) for number in stripes)
        return frozenset(footer.writer_time_zone for footer in footers)


def _opened(fs: pafs.FileSystem, tail: OrcTail) -> pa.NativeFile:
    if tail.content is not None:
        return pa.BufferReader(tail.content)
    return fs.open_input_file(tail.path)


def _shown(tail: OrcTail, view: View) -> OrcTail:
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    # Arrow asks for none of these while it reads rows, and they may be many.
    del footer.statistics[:]
    del footer.metadata[:]
    if view.stripes is not None:
        _keep_stripes(footer, view.stripes)
    if view.flatten is not None:
        _lift(footer.types, view.flatten)
    root = footer.types[0]
    del root.field_names[:]
    root.field_names.extend(f"c{column_id}" for column_id in root.children)
    if view.timestamps is ShowTimestamps.SECONDS:
        for type_ in footer.types:
            if type_.kind in TIMESTAMP_KINDS:
                type_.kind = TypeKind.LONG
    return replace(tail, footer=footer, metadata=pb.Metadata())


def _keep_stripes(footer: pb.Footer, stripes: Collection[int]) -> None:
    kept = [pb.Stripe.FromString(footer.stripes[i].SerializeToString()) for i in sorted(stripes)]
    del footer.stripes[:]
    footer.stripes.extend(kept)
    footer.rows = sum(stripe.rows for stripe in kept)


def _lift(types: Any, struct_id: int) -> None:  # noqa: ANN401 - protobuf's container of types
    """Move the fields of a struct up to the root, right behind it; column IDs stay in order."""
    root, struct = types[0], types[struct_id]
    children = list(root.children)
    at = children.index(struct_id) + 1
    children[at:at] = struct.children
    del root.children[:]
    root.children.extend(children)
    del struct.children[:]
    del struct.field_names[:]


def _pieces(
    source: pa.NativeFile, tail: OrcTail, shown: OrcTail, view: View
) -> tuple[list[Piece], OrcTail]:
    """What the shown file consists of, and its tail."""
    pieces: list[Piece]
    if view.timestamps is ShowTimestamps.NANOS:
        timestamps = {i for i, t in enumerate(tail.types) if t.kind in TIMESTAMP_KINDS}
        chosen = range(len(tail.stripes)) if view.stripes is None else sorted(view.stripes)

        def values(number: int, column_id: int) -> int:
            statistics = tail.statistics(column_id, chosen[number])
            return max(statistics.values if statistics else 0, tail.stripes[chosen[number]].rows)

        pieces, footer = without_seconds(source, shown, timestamps, values)
        shown = replace(shown, footer=footer)
    else:
        end = max(stripe.offset + stripe.length for stripe in shown.stripes)
        pieces = [Stretch(offset=0, length=end)]
    end_bytes = serialize_tail(shown)
    # ORC looks for the tail in a stretch of this length, which else would reach into a stripe.
    gap = bytes(max(0, _TAIL_GUESS_BYTES - len(end_bytes)))
    return [*pieces, gap, end_bytes], shown
