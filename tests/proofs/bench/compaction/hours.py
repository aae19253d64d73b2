"""A measurement of a simulated day: changes each hour, compactions by thresholds, cleanings.

Each hour updates 1 % of the rows, all over the table. The table must stay as quick to read, and
leave as few files and rows of the metastore, after the last compaction as after the first.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Final

from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec
from airflow_hiveacid.local.site import PostgresDatabase
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from tests.proofs.bench import acid, data, lab, queries, sales
from tests.proofs.bench.ground import Ground, cpu

_ROWS_OF_ALL: Final = """\
SELECT sum((xpath('/row/count/text()', query_to_xml(format(
'SELECT count(*) FROM %I', tablename), false, true, '')))[1]::text::int)
FROM pg_tables WHERE schemaname = 'public'"""


def measure_hours(ground: Ground) -> None:
    """Measure a day, or half of it with very few rows."""
    hours = ground.size(24, 12)
    rows = ground.size(1_000_000, 10_000)
    table = acid.AcidTable.create(ground.lab, "hours")
    table.overwrite(data.generate(lab.FOLDER, data.Sizes(rows=rows)).base)
    changed, compacted, reads, ends, left = 0, 0, [], [], []
    for hour in range(hours):
        changed += table.set_column("quantity", "quantity + 1", f"{sales.KEY} % 100 = {hour}")
        compaction = acid.run_job(ground.lab, CompactSpec.of_table(table.name))
        acid.run_job(ground.lab, CleanSpec.of_table(table.name))
        reads.append(ground.measure(lambda: _read(table)))
        if compaction.status is JobStatus.COMMITTED:
            compacted += compaction.size_bytes
            ends.append(hour + 1)
            left.append(_Left.of(table))
    days = [mean(cpu(reads[start:end])) for start, end in pairwise((0, *ends))]
    case = f"{hours} hours of 1 % of {rows:,} rows, {len(ends)} compactions"
    ground.found(
        f"{case}: reads before the last compaction", "of the first", days[-1] / days[0], 1.1
    )
    ground.found(f"{case}: bytes written", "of the changes", (changed + compacted) / changed)
    for what in ("files", "notes", "metastore_rows"):
        grown = getattr(left[-1], what) - getattr(left[0], what)
        ground.found(f"{case}: {what.replace('_', ' ')}", "more than after the first", grown, 0)
    table.drop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """What a cleaning leaves: data files, notes, and rows in all tables of the metastore."""

    files: int
    notes: int
    metastore_rows: int

    @classmethod
    def of(cls, table: acid.AcidTable) -> _Left:
        database = table.lab.database
        assert isinstance(database, PostgresDatabase)
        paths = [path for path in table.folder.rglob("*") if path.is_file()]
        notes = sum(HIDDEN_DIRECTORY in path.parts for path in paths)
        address = f"postgresql://{database.user}@{database.host}:{database.port}/{database.name}"
        answer = subprocess.run(
            ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "-c", _ROWS_OF_ALL, address],
            env={**os.environ, "PGPASSWORD": database.password},
            stdout=subprocess.PIPE,
            check=True,
        )
        rows = int(answer.stdout)
        return cls(files=len(paths) - notes, notes=notes, metastore_rows=rows)


def _read(table: acid.AcidTable) -> None:
    with table.frame() as rows:
        queries.read_everything(rows)
