"""Measures readers whose snapshot has a million aborted write IDs.

No metastore is asked for them: a list of write IDs is a plain value that a reader gets as text, so
the text is made up, and read anew for each question. The transaction, its lock and the list of
transactions are the metastore's. What its answer would cost on the wire is not measured.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import COMPACTED_FORMAT, METADATA_FILE, BaseName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from bench.acid import AcidTable
from bench.cliffs.deltas import delta
from bench.cliffs.files import inserted, write_directory, write_flat
from bench.cliffs.rows import CLIFF_COLUMNS, cliff_rows
from bench.flat import FlatOrc
from bench.records import FLAT, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from bench.cliffs.ground import Ground
    from bench.recorder import Readable

_PART: Final = "aborted"
_COMPACTED: Final = json.dumps({"thisFileVersion": "0", "dataFormat": COMPACTED_FORMAT})


def measure_aborted(ground: Ground) -> None:
    """The same table under a list without aborted IDs, and under one with very many.

    Its deltas lie evenly among them; then everything, aborted IDs too, is compacted into one base.
    """
    count, size = ground.sizes.aborted_deltas, ground.sizes.delta_rows
    step = ground.sizes.aborted // (count - 1) + 1
    written = [i * step + 1 for i in range(count)]
    ground.begin(f"{ground.sizes.aborted:,} aborted write IDs: making the tables")
    rows = cliff_rows(np.arange(count * size))
    loose = AcidTable.create(ground.lab, f"{ground.name}_aborted_loose", CLIFF_COLUMNS)
    base = AcidTable.create(ground.lab, f"{ground.name}_aborted_base", CLIFF_COLUMNS)
    flat = FlatOrc(spark=ground.lab.spark, path=ground.folder / "aborted-flat")
    events = []
    for i, write_id in enumerate(written):
        own = rows.slice(i * size, size)
        events.append(inserted(own, write_id))
        write_directory(loose.folder, delta(write_id), events[-1:])
        write_flat(flat.path / f"part-{i}.orc", own)
    name = BaseName(write_id=WriteId(written[-1]))
    write_directory(base.folder, name, events)
    (base.folder / str(name) / METADATA_FILE).write_text(_COMPACTED)
    one = FlatOrc(spark=ground.lab.spark, path=ground.folder / "aborted-one")
    write_flat(one.path / "part-0.orc", rows)
    for is_aborted in (False, True):
        text = _text(loose, written, is_aborted=is_aborted)
        aborted = len(ValidWriteIdList.parse(text).aborted)
        ground.begin(f"{aborted:,} aborted write IDs: scans")
        for prefix, table, beside in (("", loose, flat), ("base-", base, one)):
            seen = _Seen(table=table, text=text)
            sides: Mapping[str, Readable] = {FLAT: beside, OURS: seen}
            ground.ask((_PART, aborted), rows.num_rows, sides, prefix=prefix)
    loose.drop()
    base.drop()
    shutil.rmtree(ground.folder)


def _text(table: AcidTable, written: Sequence[int], *, is_aborted: bool) -> str:
    """The list of a reader for whom all write IDs between those that were written are aborted."""
    others = np.setdiff1d(np.arange(1, written[-1]), written) if is_aborted else np.array([], int)
    exceptions = ",".join(pa.array(others).cast(pa.string()).to_pylist())
    return f"{table.info.ref}:{written[-1]}:{(1 << 63) - 1}::{exceptions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A table under a list of write IDs that is made up."""

    table: AcidTable
    text: str

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Its rows."""
        with self.table.snapshot() as real:
            ids = {self.table.info.ref: ValidWriteIdList.parse(self.text)}
            snapshot = dataclasses.replace(real.snapshot, tables=ids)
            made_up = dataclasses.replace(real, snapshot=snapshot)
            yield self.table.rows(made_up, columns)

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(file.stat().st_size for file in self.table.folder.rglob("bucket_*"))
