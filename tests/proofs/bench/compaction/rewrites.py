"""A measurement of a major compaction after random deletes, beside the rewrites of the peers.

Each system has its own process. All write the same sales with the same codec: a base, ten appends,
then one delete of 1 % of the base by key.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.proofs.bench import data, lab, recorder, sales, systems
from tests.proofs.bench.ground import Ground
from tests.proofs.bench.records import OURS, Record, read_records

_CASE: Final = "major, 1 % random deletes in {rows:,} rows"


def measure_rewrites(ground: Ground) -> None:
    """Measure our compaction, then each peer's in its own process."""
    case = _CASE.format(rows=_rows(ground))
    ours = [record.cpu_seconds for record in rewrite(ground, systems.SYSTEMS[OURS])]
    ground.found(f"{case}: the whole job", "CPU s", ours)
    for peer in ground.peers:
        path = lab.FOLDER / f"compaction-{peer}.json"
        command = [sys.executable, "-m", "tests.proofs.bench", "--compaction", "--system", peer]
        options = ["--records", path, "--scale", ground.scale, "--repeats", ground.recorder.repeats]
        cold = [] if ground.recorder.rehearses else ["--cold"]
        subprocess.run([*command, *map(str, options), *cold], check=True, cwd=lab.REPOSITORY)
        theirs = median(record.cpu_seconds for record in read_records(path))
        ground.found(case, f"of {peer}'s CPU", [one / theirs for one in ours], 0.5)


def rewrite(ground: Ground, system: systems.System) -> list[Record]:
    """Measure the compaction of one system, on copies of one table."""
    workload = data.generate(lab.FOLDER, data.Sizes(rows=_rows(ground)))
    table = system.create(ground.lab, "rewritten", sales.COLUMNS)
    table.overwrite(workload.base)
    for source in workload.appends:
        table.append(source)
    keys = ground.lab.folder / "gone.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(path) for path in workload.deletes]), keys)
    table.delete(keys)
    records = []
    for run in range(ground.recorder.repeats + ground.recorder.rehearses):
        fork = table.fork(f"rewritten_{run}")
        took = ground.measure(fork.compactions["major"])
        with fork.frame() as rows:
            recorder.require_sums(
                recorder.fingerprint(rows), workload.truth.changed, f"{system.name}'s compaction"
            )
        fork.drop()
        if run >= ground.recorder.rehearses:
            rows_left = workload.truth.changed.rows
            records.append(
                Record.of(_CASE, system.name, system.name, run, took, size_bytes=0, rows=rows_left)
            )
    table.drop()
    return records


def _rows(ground: Ground) -> int:
    return ground.size(4_000_000, 10_000)
