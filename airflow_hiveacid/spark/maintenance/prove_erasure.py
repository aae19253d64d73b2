"""The proof that no file of a table stores a row that satisfies a condition.

The job changes nothing, and takes no lock, so that cleaners do not wait for it. As files may appear
meanwhile, such as the result of an earlier compaction, it lists all files again until a listing has
no new one. A listing may miss a file that is being renamed, but the next has it, so the proof holds
for the time of the last but one.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ErasureNotProvedError, StorageError
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionInfo, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ProveErasureSpec
from airflow_hiveacid.maintenance.stored_files import (
    LIVE,
    StillThere,
    StoredFile,
    noted_values,
    stored_files,
)
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.plan.statements.dml import check_cleanable
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.maintenance.stored_search import How, SearchResult, StoredSearch
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.spark.writing.context import JobContext

_MOST_LISTINGS: Final = 8


def prove_erasure(job: JobContext) -> JobResult:
    """Look for the rows in every file; return the document in the result's `details`."""
    spec = job.job_of(ProveErasureSpec)
    table = job.client.get_table(TableRef.parse(spec.target))
    check_cleanable(table)
    search = StoredSearch(
        spark=job.spark,
        table=table,
        where=spec.where,
        moment=Moment.now(job.spark, job.text_terms(spec.parameters)),
    )
    columns = [column.name for column in search.used]  # checks the condition, too
    snapshot = snapshot_now(job.client, [table.ref])
    looked: dict[StoredFile, SearchResult] = {}
    files: list[StoredFile] = []
    partitions: Sequence[PartitionInfo] = ()
    times: list[float] = []
    while len(times) < _MOST_LISTINGS:
        job.terms.on_step("listing")
        times.append(time.time())
        partitions = job.client.list_partitions(table)
        files = stored_files(table, partitions, spec.locations)
        new = search.look([file for file in files if file not in looked])
        looked |= new
        if len(times) > 1 and all(result.how is How.WITHOUT_ROWS for result in new.values()):
            break
    else:
        raise ErasureNotProvedError(
            table=table.ref, found="new files kept appearing during the search"
        )
    results = {file: looked[file] for file in files}
    noted = noted_values(table, [f for f in files if results[f].how is How.WITHOUT_ROWS])
    failures = {
        file: result
        for file, result in results.items()
        if result.rows or result.how is How.NOT_READ
    }
    return job.result(
        JobStatus.NOTHING_TO_DO,
        table.ref,
        {
            "erasure": {
                "proved": not failures,
                "listed_at": dt.datetime.fromtimestamp(times[-2], dt.UTC).isoformat(),
                "txn_high_watermark": snapshot.txns.high_watermark,
                "write_id": snapshot.write_ids(table.ref).high_watermark,
                "columns": columns,
                "parameters": sorted(spec.parameters),
                **_counts(results.values()),
                "locations": [
                    {"location": location, "files": sum(file.root == location for file in files)}
                    for location in dict.fromkeys((table.location, *spec.locations))
                ],
                "dropped_partitions_in_notes": [
                    *sorted(noted.names - {str(info.name) for info in partitions})
                ],
                "notes_not_searched": [
                    {"path": uri, "why": why} for uri, why in noted.not_searched.items()
                ],
                "left": _left(job, search, snapshot, failures),
                "looked_at": [
                    {"path": file.uri, "size_bytes": file.entry.size_bytes, "how": result.how.value}
                    for file, result in results.items()
                ],
            }
        },
    )


def _counts(looked: Iterable[SearchResult]) -> dict[str, JsonValue]:
    ways = [result.how for result in looked]
    return {
        "files": len(ways),
        **{f"files_by_{how.name.lower()}": ways.count(how) for how in How},
        "rows": sum(result.rows for result in looked),
    }


def _left(
    job: JobContext,
    search: StoredSearch,
    snapshot: Snapshot,
    left: Mapping[StoredFile, SearchResult],
) -> list[JsonValue]:
    if not left:
        return []
    table = search.table
    reasons = StillThere.of(job.client, table, job.terms.on_step)
    entries: list[JsonValue] = []
    visible: str | None = None
    for file, result in left.items():
        why = "it is outside the table"
        if not file.is_outside:
            why = reasons.why(file.partition, file.below)
        if why == LIVE and result.rows:
            visible = _visible(job, search, snapshot) if visible is None else visible
            why = visible
        entries.append(
            {
                "path": file.uri,
                "partition": str(file.name or ""),
                "size_bytes": file.entry.size_bytes,
                "rows": None if result.how is How.NOT_READ else result.rows,
                "why": f"{result.why_not}; {why}" if result.why_not else why,
            }
        )
    return entries


def _visible(job: JobContext, search: StoredSearch, snapshot: Snapshot) -> str:
    """Return why the current state has such rows: they are not deleted, or not compacted."""
    target = resolve_target(job.spark, job.client, search.table, snapshot)
    try:
        rows = target.rows_where(search.where, search.moment).count()
    except StorageError:
        return LIVE
    if rows:
        return f"readers see {rows} such rows in the table; delete them first"
    return "its rows are deleted, but it belongs to the current state; run a major compaction"
