"""Undisturbed work: a warm-up before the campaign; the cleanup and the proof of erasure at its end.

All drivers start fast from the class archive of the first one, which runs a job of every kind on
separate tables, so that the archive holds what jobs need. The last driver compacts and cleans the
campaign's tables; after that they may contain nothing but what readers need. So no file may store a
row that was deleted or an earlier version of an updated row, and the proof of an erasure has to say
so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, JobStatus
from airflow_hiveacid.local.process import LocalServerError
from airflow_hiveacid.storage.stores.listing import list_directories, open_uploads
from airflow_hiveacid.storage.stores.locations import open_location, publishes_files, scheme_of
from tests.proofs.campaign.plans import Action, Plan, Table, draw
from tests.proofs.campaign.polls import Row
from tests.proofs.campaign.process import CampaignProcess
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.setting import Options, launch_spark

_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 0.1


def warm_up(options: Options, record: Record, endpoint: MetastoreEndpoint, db: str) -> None:
    """Write the class archive, unless it exists."""
    if options.classes.is_file():
        return
    record.say("making the class archive that drivers start from")
    process = launch_spark(options, options.folder / "warm-up", "driver", makes_classes=True)
    _do(process, endpoint, _jobs_of_every_kind(db))


def tidy_up(
    options: Options,
    folder: Path,
    endpoint: MetastoreEndpoint,
    db: str,
    rows: Mapping[Table, Sequence[Row]],
) -> list[str]:
    """Clean, compact and clean both tables; return the wrong results of the proofs of erasure.

    `folder` is that of the driver's process; `rows` are those that each table has in the end.
    """
    targets = [f"{db}.{table.value}" for table in Table]
    compactions = [
        maintenance.CompactSpec.of_table(t, choice=maintenance.CompactionChoice.MAJOR)
        for t in targets
    ]
    # The second cleaning may remove what the first one has seen to be obsolete.
    cleanings = [maintenance.CleanSpec.of_table(t, orphan_age_s=0.0) for t in (*targets, *targets)]
    process = launch_spark(options, folder, "driver")
    # Clean first: while an entry of a killed compaction is ready for cleaning, Hive 4.0.1 accepts
    # no other compaction.
    proofs = [
        (maintenance.ProveErasureSpec(target=f"{db}.{table.value}", where=where), stored)
        for table, kept in rows.items()
        for where, stored in stored_rows(kept).items()
    ]
    jobs: list[Job] = [*cleanings, *compactions, *cleanings, *(spec for spec, _ in proofs)]
    results = _do(process, endpoint, jobs)[-len(proofs) :]
    return [
        f"{spec.target}: not {stored} stored rows: {result.details}"
        for (spec, stored), result in zip(proofs, results, strict=True)
        if not proves(result, stored)
    ]


def stored_rows(kept: Sequence[Row]) -> dict[str, int]:
    """Return conditions on rows, and the number of stored rows that meet each.

    The first condition is for rows that are gone, with earlier versions of updated rows. The second
    one is for the kept rows, and shows that the search finds rows.
    """
    if not kept:
        return {"true": 0}
    listed = ", ".join(f"'{row[0]}|{row[1]}|{row[2]}'" for row in kept)
    row = "concat_ws('|', id, v, job)"
    return {f"{row} NOT IN ({listed})": 0, f"{row} IN ({listed})": len(kept)}


def proves(result: JobResult, stored: int) -> bool:
    """Return True if a proof of an erasure found this number of stored rows, and nothing else."""
    erasure = result.details["erasure"]
    if not isinstance(erasure, dict):
        return False
    return (erasure["proved"], erasure["rows"]) == (stored == 0, stored)


def litter(tables: str) -> list[str]:
    """Return paths in tidied tables other than one directory per partition, and open uploads."""
    found = []
    parted = f"{tables}/{Table.PARTED.value}"
    top = list_directories(*open_location(parted))
    partitions = [f"{parted}/{name}" for name in top if name.startswith("p=")]
    for place in (f"{tables}/{Table.BUCKETED.value}", *partitions):
        entries = list_directories(*open_location(place))
        shown = place.rpartition("/")[2]
        found += [f"{shown}/{name}" for name in entries if name.startswith("_tmp")]
        directories = [name for name in entries if name.startswith(("base", "delta", "delete"))]
        found += [f"{shown}/{name}" for name in directories[:-1]]
    uploads = open_uploads(tables) if publishes_files(scheme_of(tables)) else ()
    found += [f"an open upload to {upload.path}" for upload in uploads]
    return [*found, *(name for name in top if name.startswith("_tmp"))]


def _do(
    process: CampaignProcess, endpoint: MetastoreEndpoint, jobs: Sequence[Job]
) -> list[JobResult]:
    try:
        results = [
            _run(process, endpoint, f"campaign/{process.box.folder.name}/{number}", job)
            for number, job in enumerate(jobs)
        ]
        process.box.say_over()
        _wait(process, lambda: process.is_gone)
    finally:
        process.end()
    return results


def _jobs_of_every_kind(db: str) -> list[Job]:
    plans: dict[Action, Plan] = {}
    number = 0
    while len(plans) < len(Action):
        number += 1
        plan = draw(Random(number), number=number, confirmed=[*plans.values()])
        if plan.table is Table.PARTED:
            plans.setdefault(plan.action, plan)
    target = f"{db}.{Table.PARTED.value}"
    return [
        *(plan.job(db) for plan in plans.values()),
        maintenance.CompactSpec.of_table(target, choice=maintenance.CompactionChoice.MAJOR),
        maintenance.CleanSpec.of_table(target),
    ]


def _run(process: CampaignProcess, endpoint: MetastoreEndpoint, key: str, job: Job) -> JobResult:
    _wait(process, lambda: process.box.is_ready)
    attempt = str(AttemptId.new())
    process.box.give(
        JobSpec(
            job_key=key,
            metastore=endpoint,
            job=job,
            attempt=attempt,
            result_uri=process.box.answer_of(attempt).as_uri(),
        )
    )
    _wait(process, lambda: process.box.answer(attempt) is not None)
    result = process.box.answer(attempt)
    if result is None or result.status is JobStatus.FAILED:
        raise LocalServerError(f"a driver cannot do {key}: {result}")
    return result


def _wait(process: CampaignProcess, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LocalServerError(f"a driver does not answer; its log is {process.box.log}")
        time.sleep(_POLL_S)
