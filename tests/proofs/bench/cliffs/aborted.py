"""A measurement of readers whose snapshot has a million aborted write IDs.

The list of write IDs does not come from a metastore. A reader gets it as text, so the text is
invented, and parsed again for each question. The transaction, its lock and the list of
transactions are the metastore's. The cost of a real answer on the wire is not measured.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import COMPACTED_FORMAT, METADATA_FILE, BaseName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from tests.proofs.bench import acid, contender, files, records, yardsticks
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, cliff_rows
from tests.proofs.bench.ground import Ground

_PART: Final = "aborted"
_COMPACTED: Final = json.dumps({"thisFileVersion": "0", "dataFormat": COMPACTED_FORMAT})


def measure_aborted(ground: Ground) -> None:
    """Measure a table under a list without aborted IDs, and under one with very many.

    Its deltas are spread evenly among them; then everything, including aborted IDs, is one base.
    """
    others, count, size = ground.size(1_000_000), ground.size(100) + 1, ground.size(1_000, 100)
    step = others // (count - 1) + 1
    written = [i * step + 1 for i in range(count)]
    ground.begin(f"{others:,} aborted write IDs: making the tables")
    rows = cliff_rows(np.arange(count * size))
    loose = acid.AcidTable.create(ground.lab, f"{ground.name}_aborted_loose", CLIFF_COLUMNS)
    base = acid.AcidTable.create(ground.lab, f"{ground.name}_aborted_base", CLIFF_COLUMNS)
    flat = yardsticks.FlatOrc(spark=ground.lab.spark, path=ground.folder / "aborted-flat")
    events = []
    for i, write_id in enumerate(written):
        own = rows.slice(i * size, size)
        events.append(files.inserted(own, write_id))
        files.write_directory(loose.folder, files.delta(write_id), events[-1:])
        files.write_flat(flat.path / f"part-{i}.orc", own)
    name = BaseName(write_id=WriteId(written[-1]))
    files.write_directory(base.folder, name, events)
    (base.folder / str(name) / METADATA_FILE).write_text(_COMPACTED)
    one = yardsticks.FlatOrc(spark=ground.lab.spark, path=ground.folder / "aborted-one")
    files.write_flat(one.path / "part-0.orc", rows)
    for is_aborted in (False, True):
        text = _text(loose, written, is_aborted=is_aborted)
        aborted = len(ValidWriteIdList.parse(text).aborted)
        ground.begin(f"{aborted:,} aborted write IDs: scans")
        for prefix, table, beside in (("", loose, flat), ("base-", base, one)):
            seen = _Seen(table=table, text=text)
            sides: Mapping[str, contender.Readable] = {records.FLAT: beside, records.OURS: seen}
            ground.ask((_PART, aborted), rows.num_rows, sides, prefix=prefix)
    loose.drop()
    base.drop()
    shutil.rmtree(ground.folder)


def _text(table: acid.AcidTable, written: Sequence[int], *, is_aborted: bool) -> str:
    """Return a reader's list in which all write IDs between the written ones are aborted."""
    others = np.setdiff1d(np.arange(1, written[-1]), written) if is_aborted else np.array([], int)
    exceptions = ",".join(pa.array(others).cast(pa.string()).to_pylist())
    return f"{table.info.ref}:{written[-1]}:{(1 << 63) - 1}::{exceptions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A table under an invented list of write IDs."""

    table: acid.AcidTable
    text: str

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        with self.table.snapshot() as real:
            ids = {self.table.info.ref: ValidWriteIdList.parse(self.text)}
            snapshot = dataclasses.replace(real.snapshot, tables=ids)
            made_up = dataclasses.replace(real, snapshot=snapshot)
            yield self.table.rows(made_up, columns)

    @property
    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.table.folder.rglob("bucket_*"))
