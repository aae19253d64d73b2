"""A place of the campaign, with processes that only write down what is done to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobError, JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from tests.proofs.campaign.process import Box
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.schedule import Blow, Doom
from tests.proofs.campaign.seat import Role, Seat
from tests.proofs.campaign.work import Changes, Upkeep

ENDPOINT = MetastoreEndpoint(uris=("thrift://127.0.0.1:9083",))


@dataclass
class FakeProcess:
    """A process that is ready at once and does nothing."""

    box: Box
    done_to: list[str] = field(default_factory=list)
    has_ended: bool = False
    log_size: int = 0
    steps_taken: list[str] = field(default_factory=lambda: ["opened", "staged"])

    @property
    def is_gone(self) -> bool:
        return self.has_ended

    def kill(self) -> None:
        self.done_to.append("kill")
        self.has_ended = True

    def end(self) -> None:
        self.done_to.append("end")
        self.has_ended = True

    def freeze(self) -> None:
        self.done_to.append("freeze")

    def thaw(self) -> None:
        self.done_to.append("thaw")

    def steps(self, _offset: int) -> list[str]:
        return self.steps_taken

    def spec(self) -> JobSpec:
        """The job it was given."""
        return JobSpec.parse((self.box.folder / "job.json").read_text())

    def answer(self, status: JobStatus, *, error: str | None = None, write_id: int = 1) -> None:
        """Answer the job it was given."""
        spec = self.spec()
        result = JobResult(
            kind=spec.kind,
            job_key=spec.job_key,
            status=status,
            table=spec.job.target,
            write_ids={} if error else {spec.job.target: write_id},
            error=JobError(type=error, message="m") if error else None,
        )
        self.box.answer_of(spec.attempt).write_text(result.dump())
        self.box.say_answered(spec.attempt)


class Place:
    """A seat for writers under a clock by hand, and everything around it."""

    def __init__(self, folder: Path, *dooms: Doom | None) -> None:
        self.now = 0.0
        self.record = Record(
            version="4.0.1",
            file=folder / "events.jsonl",
            say=lambda _line: None,
            clock=lambda: self.now,
        )
        self.changes = Changes(1, "db", self.record)
        self.processes: list[FakeProcess] = []
        self.dooms = dooms
        self.folder = folder
        role = Role(name="writer-1", launch=self._launch, doom=self._doom, work=self.changes)  # type: ignore[arg-type]
        self.seat = Seat(role, ENDPOINT, self.record)

    def _launch(self, seat: str, life: int) -> FakeProcess:
        folder = self.folder / f"{seat}-{life}"
        folder.mkdir()
        process = FakeProcess(Box(folder=folder))
        process.box.say_ready()
        self.processes.append(process)
        return process

    def _doom(self, _seat: str, life: int) -> Doom | None:
        return self.dooms[life - 1] if life <= len(self.dooms) else None

    def pass_to(self, now: float) -> None:
        self.now = now
        for _ in range(3):
            self.seat.tick()

    @property
    def last(self) -> FakeProcess:
        return self.processes[-1]

    @property
    def troubles(self) -> list[str]:
        return [trouble.what for trouble in self.record.troubles]


def end(blow: Blow, *, after_jobs: int = 0) -> Doom:
    return Doom(blow=blow, after_jobs=after_jobs, delay_s=2.0, lasts_s=30.0)


def test_the_job_of_a_killed_driver_is_retried_with_the_same_job_key(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.KILL))
    place.pass_to(1.0)
    first = place.last.spec()
    place.pass_to(2.9)
    assert place.last.done_to == []
    place.pass_to(3.1)
    assert place.processes[0].done_to == ["kill"]
    again = place.last.spec()
    assert len(place.processes) == 2
    assert (again.job_key, again.job) == (first.job_key, first.job)
    assert AttemptId.parse(first.attempt).try_number == 1
    assert AttemptId.parse(again.attempt).try_number == 2
    place.last.answer(JobStatus.ALREADY_DONE, write_id=4)
    place.pass_to(4.0)
    assert place.changes.commits[1].write_id == 4
    assert place.last.spec().job_key == "campaign/change/2"
    assert place.record.kills_at == {"writer: staged": 1}
    assert place.troubles == []


def test_a_driver_is_not_killed_before_the_job_of_its_doom(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.KILL, after_jobs=1))
    place.pass_to(1.0)
    place.pass_to(10.0)
    place.last.answer(JobStatus.COMMITTED)
    place.pass_to(11.0)
    place.pass_to(13.1)
    assert place.processes[0].done_to == ["kill"]
    assert sorted(place.changes.commits) == [1]


def test_an_aimed_kill_waits_for_the_first_job_that_reaches_the_step(tmp_path: Path) -> None:
    aimed = Doom(blow=Blow.KILL, after_jobs=0, delay_s=0.1, lasts_s=30.0, aim="published")
    place = Place(tmp_path, aimed)
    place.pass_to(1.0)
    place.pass_to(20.0)
    place.last.answer(JobStatus.COMMITTED)
    place.pass_to(21.0)
    assert place.last.done_to == []
    place.last.steps_taken.append("published")
    place.pass_to(22.0)
    place.pass_to(22.2)
    assert place.processes[0].done_to == ["kill"]
    assert place.record.kills_at == {"writer: published": 1}


def test_a_driver_that_is_idle_at_its_time_is_killed_in_its_next_job(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.KILL))
    place.pass_to(1.0)
    place.changes.is_open = False
    place.last.answer(JobStatus.COMMITTED)
    place.pass_to(10.0)
    assert place.last.done_to == []
    place.changes.is_open = True
    place.pass_to(11.0)
    place.pass_to(11.6)
    assert place.processes[0].done_to == ["kill"]


def test_a_frozen_driver_is_thawed_and_continues_with_its_own_job(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.FREEZE))
    place.pass_to(1.0)
    place.pass_to(3.1)
    place.pass_to(33.0)
    assert place.last.done_to == ["freeze"]
    place.pass_to(33.2)
    assert place.last.done_to == ["freeze", "thaw"]
    place.last.answer(JobStatus.FAILED, error="TransactionAbortedError")
    place.pass_to(36.0)
    place.pass_to(38.0)
    assert AttemptId.parse(place.last.spec().attempt).try_number == 2
    assert len(place.processes) == 1
    assert place.troubles == []


def test_a_driver_can_be_killed_while_it_is_frozen(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.FREEZE_AND_KILL))
    for now in (1.0, 3.1, 33.2):
        place.pass_to(now)
    assert place.processes[0].done_to == ["freeze", "kill"]
    assert place.record.counts["kills"] == 1


def test_a_replaced_driver_is_thawed_while_its_successor_runs(tmp_path: Path) -> None:
    place = Place(tmp_path, end(Blow.REPLACE))
    place.pass_to(1.0)
    place.pass_to(3.1)
    zombie, heir = place.processes
    assert heir.spec().job_key == zombie.spec().job_key
    place.pass_to(33.2)
    assert zombie.done_to == ["freeze", "thaw"]
    assert not place.seat.is_idle
    zombie.answer(JobStatus.FAILED, error="FencedError")
    place.pass_to(33.3)
    assert zombie.done_to == ["freeze", "thaw", "end"]
    assert place.record.errors == {"zombie FencedError": 1}
    assert place.troubles == []


def test_a_commit_by_both_a_replaced_driver_and_its_successor_is_a_violation(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, end(Blow.REPLACE))
    place.pass_to(1.0)
    place.pass_to(3.1)
    zombie, heir = place.processes
    heir.answer(JobStatus.COMMITTED, write_id=2)
    place.pass_to(4.0)
    zombie.answer(JobStatus.COMMITTED, write_id=1)
    place.pass_to(33.2)
    assert place.troubles == ["doubled"]


@pytest.mark.parametrize("aim", [None, "staged"])
def test_a_driver_that_is_frozen_repeatedly_is_thawed_at_the_end(
    tmp_path: Path, aim: str | None
) -> None:
    place = Place(tmp_path, replace(end(Blow.STUTTER), aim=aim))
    for tenth in range(400):
        place.pass_to(tenth / 10)
    assert place.last.done_to.count("freeze") > 10
    assert place.last.done_to[-1] == "thaw"
    assert place.record.counts["blow stutter"] == 1


@pytest.mark.parametrize("blow", [Blow.FREEZE, Blow.STUTTER])
def test_a_driver_that_survives_a_blow_gets_the_next_blow(tmp_path: Path, blow: Blow) -> None:
    place = Place(tmp_path, end(blow), end(Blow.KILL))
    for now in (1.0, 3.1, 33.2):
        place.pass_to(now)
    place.last.answer(JobStatus.COMMITTED)
    place.pass_to(34.0)
    place.pass_to(36.1)
    assert place.processes[0].done_to[-1] == "kill"


@pytest.mark.parametrize(
    ("error", "troubles"),
    [
        ("WriteConflictError", []),
        ("LockNotAcquiredError", []),
        ("CommitStateUnknownError", []),
        ("CorruptFileError", ["unforeseen"]),
        ("JobFailedError", ["unforeseen"]),
    ],
)
def test_only_errors_that_a_retry_can_resolve_are_expected(
    tmp_path: Path, error: str, troubles: list[str]
) -> None:
    place = Place(tmp_path)
    place.pass_to(1.0)
    place.last.answer(JobStatus.FAILED, error=error)
    place.pass_to(2.0)
    assert place.troubles == troubles


def test_every_failure_is_expected_while_a_disk_is_full(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.pass_to(1.0)
    place.record.full_disks.append((1.5, None))
    place.last.answer(JobStatus.FAILED, error="StorageError")
    place.pass_to(2.0)
    assert place.troubles == []


def test_an_unexpected_end_of_a_driver_is_reported_and_its_job_is_retried(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.pass_to(1.0)
    place.last.has_ended = True
    place.pass_to(2.0)
    assert place.troubles == ["died"]
    assert place.last.spec().job_key == "campaign/change/1"


def test_a_closed_seat_starts_no_new_driver(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.pass_to(1.0)
    place.seat.close()
    assert place.last.box.is_over
    place.last.has_ended = True
    place.pass_to(2.0)
    assert len(place.processes) == 1
    assert place.seat.is_gone


def test_only_complete_answers_are_listed(tmp_path: Path) -> None:
    box = Box(folder=tmp_path)
    box.answer_of("1-a").write_text("{}")
    box.say_answered("1-a")
    box.answer_of("1-b").touch()  # its process was killed
    assert box.answers() == [tmp_path / "answer-1-a.json"]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(version="4.0.1", file=tmp_path / "events.jsonl", say=lambda _: None)


def jobs_of(upkeep: Upkeep) -> list[Job]:
    return [task.job for _ in range(200) if (task := upkeep.next()) is not None]


def test_a_compactor_serves_each_request_that_it_has_made(record: Record) -> None:
    requested: list[str] = []
    upkeep = Upkeep(
        1, "db", record, cleans=False, request=lambda t, p: requested.append(f"{t} {p}")
    )
    jobs = [job for job in jobs_of(upkeep) if isinstance(job, CompactSpec)]
    choices = Counter((job.is_of_table, job.choice) for job in jobs)
    queued = [n for (_, choice), n in choices.items() if choice is CompactionChoice.QUEUED]
    assert len(requested) == sum(queued)
    assert choices[False, CompactionChoice.QUEUED]
    assert choices[False, CompactionChoice.AUTO]
    assert {job.choice for job in jobs if job.is_of_table} == set(CompactionChoice)
    assert set(requested) == {"db.bucketed None", *(f"db.parted p={n}" for n in range(4))}


def test_a_cleaner_cleans_one_table_or_all(record: Record) -> None:
    jobs = jobs_of(Upkeep(1, "db", record, cleans=True))
    assert {job.target for job in jobs} == {"db.parted", "db.bucketed", "db.*"}


def test_a_cleaner_cancels_compactions_of_both_tables_but_not_always(record: Record) -> None:
    cancelled: list[str] = []
    jobs = jobs_of(Upkeep(1, "db", record, cleans=True, cancel=cancelled.append))
    assert 0 < len(cancelled) < len(jobs)
    assert set(cancelled) == {"db.parted", "db.bucketed"}
