"""One seat of the campaign: its processes run there one after the other, each until its doom.

`Seat.tick` is called repeatedly and never waits. The next driver retries the job of a struck one
under the same job key, as Airflow would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from tests.proofs.campaign.answers import Doing, note_answer
from tests.proofs.campaign.process import CampaignProcess
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.schedule import Blow, Doom
from tests.proofs.campaign.work import Task, Work

_START_S: Final = 120.0
_STUCK_S: Final = 240.0
_ZOMBIE_S: Final = 60.0
_STUTTER_STOPPED_S: Final = 0.4
_STUTTER_GOING_S: Final = 0.15
_LOCK_TIMEOUT_S: Final = 60.0
_RETRY_S: Final = 1.5
_SHORT_JOB_S: Final = 1.5


@dataclass(kw_only=True)
class _Zombie:
    """A stopped process whose job another process has taken over."""

    process: CampaignProcess
    doing: Doing
    wakes: float
    is_awake: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The role of a seat: how its processes start and end. A reader has no `work`."""

    name: str
    launch: Callable[[str, int], CampaignProcess]
    doom: Callable[[str, int], Doom]
    work: Work | None = None


class Seat:
    def __init__(self, role: Role, endpoint: MetastoreEndpoint, record: Record) -> None:
        self.name = role.name
        self.is_cursed = True
        self.is_closed = False
        self.processes: list[CampaignProcess] = []
        self._role = role
        self._work = role.work
        self._endpoint = endpoint
        self._record = record
        self._life = self._fates = 0
        self._process: CampaignProcess | None = None
        self._started = 0.0
        self._doom: Doom | None = None
        self._handed = 0
        self._strike_at: float | None = None
        self._thaw_at: float | None = None
        self._stutters_until: float | None = None
        self._toggle_at = 0.0
        self._is_stopped = False
        self._retry_at = 0.0
        self._task: Task | None = None
        self._doing: Doing | None = None
        self._zombies: list[_Zombie] = []

    @property
    def is_idle(self) -> bool:
        """True if nothing is in progress."""
        return self._task is None and self._doing is None and not self._zombies

    def tick(self) -> None:
        """Do what is due."""
        now = self._record.now_s
        self._tend_zombies(now)
        process = self._process
        if process is None:
            if not self.is_closed:
                self._start(now)
        elif process.has_ended:
            self._found_dead(process)
        elif not process.box.is_ready:
            if now > self._started + _START_S:
                self._lose(process, "did_not_start")
        else:
            self._tend(process, now)

    def close(self) -> None:
        """Ask the process to end after its current work."""
        self.is_closed = True
        if self._process is not None:
            self._process.box.say_over()

    @property
    def is_ready(self) -> bool:
        """True if a process is here and ready."""
        return self._process is not None and self._process.box.is_ready

    @property
    def is_gone(self) -> bool:
        """True if no process of this seat is left."""
        self.processes = [p for p in self.processes if not p.is_gone]
        return not self.processes

    def end(self) -> None:
        """Kill the remaining processes."""
        for process in self.processes:
            process.end()

    # The life of a process

    def _start(self, now: float) -> None:
        self._life += 1
        self._process = self._role.launch(self.name, self._life)
        self.processes = [p for p in self.processes if not p.is_gone]
        self.processes.append(self._process)
        self._started = now
        self._thaw_at = self._stutters_until = None
        self._draw_fate()
        self._record.note("started", seat=self.name, life=self._life, doom=self._doom)

    def _draw_fate(self) -> None:
        """Draw the next fault of the process, also after a fault that it survived."""
        self._fates += 1
        self._doom = self._role.doom(self.name, self._fates) if self.is_cursed else None
        self._handed, self._strike_at = 0, None

    def _found_dead(self, process: CampaignProcess) -> None:
        self._process = None
        if self.is_closed:
            return
        full = self._record.was_disk_full(self._record.now_s - _STUCK_S)
        self._record.note("died", seat=self.name, life=self._life, disk_was_full=full)
        if not full:
            self._record.trouble(
                "died", f"{self.name}, life {self._life}, by itself; {process.box.log}"
            )
        self._drop()

    def _lose(self, process: CampaignProcess, event: str) -> None:
        self._record.trouble(event, f"{self.name}, life {self._life}; {process.box.log}")
        process.end()
        self._process = None
        self._drop()

    def _drop(self) -> None:
        self._doing = None
        self._strike_at = self._thaw_at = self._stutters_until = None

    def _tend(self, process: CampaignProcess, now: float) -> None:
        if self._suffers(process, now):
            return
        if self._work is None:
            if self._doom is not None and self._handed == 0:
                self._handed = 1
                self._strike_at = now + self._doom.delay_s
        elif self._doing is None:
            self._give(process, self._work, now)
        else:
            self._watch(process, self._doing, now)
            self._hear(process, self._work, self._doing, now)

    def _watch(self, process: CampaignProcess, doing: Doing, now: float) -> None:
        """Look for the step that the end of this life waits for."""
        doom = self._doom
        if doom is None or doom.aim is None or self._strike_at is not None:
            return
        if self._handed > doom.after_jobs and doom.aim in process.steps(doing.offset):
            self._strike_at = now + doom.delay_s

    def _suffers(self, process: CampaignProcess, now: float) -> bool:
        """Strike the process if it is time; return True if it is gone or frozen."""
        if self._thaw_at is not None:
            if now >= self._thaw_at:
                self._wake(process)
            return True
        if self._is_due(now) and self._doom is not None:
            self._strike_at = None
            if self.is_cursed:
                self._strike(process, self._doom, now)
                return True
        if self._stutters_until is not None:
            self._stutter(process, now)
        return False

    def _is_due(self, now: float) -> bool:
        is_idle = self._work is not None and self._doing is None
        return self._strike_at is not None and now >= self._strike_at and not is_idle

    # Jobs

    def _give(self, process: CampaignProcess, work: Work, now: float) -> None:
        if self._task is None:
            self._task = work.next()
        task = self._task
        if task is None or now < self._retry_at:
            return
        attempt = task.next_attempt()
        spec = JobSpec(
            job_key=task.key,
            metastore=self._endpoint,
            job=task.job,
            attempt=attempt,
            lock_timeout_s=_LOCK_TIMEOUT_S,
            result_uri=process.box.answer_of(attempt).as_uri(),
        )
        offset = process.log_size
        process.box.give(spec)
        self._doing = Doing(task=task, attempt=attempt, began_s=now, offset=offset)
        self._record.note("given", seat=self.name, key=task.key, attempt=attempt)
        doom = self._doom
        if doom is not None and doom.aim is None and self._handed == doom.after_jobs:
            self._strike_at = now + doom.delay_s
        elif doom is not None and self._strike_at is not None and now >= self._strike_at:
            self._strike_at = now + doom.delay_s % _SHORT_JOB_S
        self._handed += 1

    def _hear(self, process: CampaignProcess, work: Work, doing: Doing, now: float) -> None:
        result = process.box.answer(doing.attempt)
        if result is None:
            if now > doing.began_s + _STUCK_S:
                self._lose(process, "stuck")
            return
        self._doing = None
        if self._judge(doing, result, is_zombie=False) or work.gives_up(doing.task):
            self._task = None
        else:
            self._retry_at = now + _RETRY_S

    def _judge(self, doing: Doing, result: JobResult, *, is_zombie: bool) -> bool:
        is_done = note_answer(self._record, self.name, doing, result, is_zombie=is_zombie)
        if is_done and self._work is not None:
            self._work.done(doing.task, result)
        return is_done

    # Blows

    def _strike(self, process: CampaignProcess, doom: Doom, now: float) -> None:
        doing = self._doing
        step = (process.steps(doing.offset) or ["before"])[-1] if doing else "between jobs"
        step = "reading" if self._work is None else step
        self._record.note(
            f"blow {doom.blow.value}",
            seat=self.name,
            life=self._life,
            step=step,
            key=doing.task.key if doing else None,
            attempt=doing.attempt if doing else None,
        )
        if doom.blow is Blow.KILL:
            self._kill(process, step)
        elif doom.blow is Blow.STUTTER:
            self._doom, self._stutters_until, self._toggle_at = None, now + doom.lasts_s, now
        elif doom.blow is Blow.REPLACE and doing is not None:
            process.freeze()
            self._zombies.append(_Zombie(process=process, doing=doing, wakes=now + doom.lasts_s))
            self._process = None
            self._drop()
        else:
            process.freeze()
            self._thaw_at = now + doom.lasts_s

    def _kill(self, process: CampaignProcess, step: str) -> None:
        process.kill()
        self._record.counts["kills"] += 1
        where = "read" if self._work is None else self.name.partition("-")[0]
        self._record.kills_at[f"{where}: {step}"] += 1
        self._process = None
        self._drop()

    def _wake(self, process: CampaignProcess) -> None:
        self._thaw_at = None
        if self._doom is not None and self._doom.blow is Blow.FREEZE_AND_KILL:
            self._kill(process, "frozen")
        else:
            process.thaw()
            self._draw_fate()

    def _stutter(self, process: CampaignProcess, now: float) -> None:
        is_over = self._stutters_until is not None and now >= self._stutters_until
        if now < self._toggle_at and not is_over:
            return
        if self._is_stopped or is_over:
            process.thaw()
            self._is_stopped = False
            self._toggle_at = now + _STUTTER_GOING_S
        else:
            process.freeze()
            self._is_stopped = True
            self._toggle_at = now + _STUTTER_STOPPED_S
        if is_over:
            self._stutters_until = None
            self._draw_fate()

    def _tend_zombies(self, now: float) -> None:
        for zombie in list(self._zombies):
            if now < zombie.wakes:
                continue
            if not zombie.is_awake:
                zombie.process.thaw()
                zombie.is_awake = True
                self._record.note("zombie_wakes", seat=self.name, attempt=zombie.doing.attempt)
            result = zombie.process.box.answer(zombie.doing.attempt)
            if result is not None:
                self._judge(zombie.doing, result, is_zombie=True)
            if result is not None or zombie.process.has_ended or now > zombie.wakes + _ZOMBIE_S:
                if result is None:
                    self._record.note("zombie_silent", attempt=zombie.doing.attempt)
                zombie.process.end()
                self._zombies.remove(zombie)
