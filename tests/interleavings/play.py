"""One interleaving, from its scene to its checks.

A `Scene` says which metastore, which table and who acts. The table begins with two seeds a
partition. After the schedule is through, the world falls quiet: time passes beyond every time-out,
every job is tried again as Airflow would, the table is cleaned; then everything has to be right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from airflow_hiveacid.format import errors, ids
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.metastore.port import TxnState
from tests.interleavings import readers, stand_ins
from tests.interleavings.ground import is_own, leftovers
from tests.interleavings.hives import Hives
from tests.interleavings.scene import FOREIGN, REF, ROOT, Job
from tests.interleavings.watching import Watching
from tests.interleavings.world import TIMEOUT_S, Actor

_REMOVING: Final = frozenset({"hivecleaner", "truncate", "wipe", "drop"})
"""Who removes files and confirms nothing in the ledger."""


class Play(Hives, Watching):
    """One interleaving. Mutable."""

    def prepare(self) -> None:
        """Lay out the table, let everybody watch, and bring the actors on."""
        super().prepare()
        self.world.on_change = self.observe
        self.world.on_ended = self.ended
        self.world.on_removal = self.removal
        self.world.on_publishing = self.publishing
        self.world.on_waiting = self.waiting
        self.cast()

    def run(self, first: int = 0) -> None:
        stand_ins.enter(self.world)
        self.prepare()
        self.world.run(first)
        if self.world.violation is None and not self.world.is_abandoned:
            self._epilogue()

    def _epilogue(self) -> None:
        world = self.world
        self._let_go()
        self._check_outcomes()
        world.beats.clear()
        world.pass_time(TIMEOUT_S * 2)
        world.calm = Actor(-1, "afterwards", lambda: None)
        doings = {job.doing: job for job in self.jobs.values()}
        for number, (doing, job) in enumerate(sorted(doings.items()), 100):
            if self._needs_another_try(job):
                self._again(number, doing, job)
        if world.violation is None:
            self._quietly("clean", self.clean)
        self.is_clean = True
        world.is_dirty = True
        self.looked = ()
        world.look()
        self._check_left()

    def _let_go(self) -> None:
        """End the transactions of readers that have stayed."""
        client = self.world.client()
        with self.world.unseen():
            for txn_id in self.lingering:
                if self.world.server.txns[txn_id].state is TxnState.OPEN:
                    client.commit_txn(txn_id)
        self.lingering.clear()

    def _check_clean_failure(self, actor: Actor, job: Job) -> None:
        """A job that failed, and said so, has left nothing."""
        server = self.world.server
        with server.remembering():
            given = dict(server.write_ids.get(REF, {}))
        mine = {t for t, owner in self.world.owners.items() if owner is actor}
        write_ids = {w for t, w in given.items() if t in mine}
        left = [
            str(name)
            for p in self.scene.partitions
            for name in self.names_on_disk(p)
            if any(is_own(name, w) for w in write_ids)
            and f"{self.place(p)}/{name}" not in self.strangers
        ]
        left += [
            path for path in leftovers(self.world.disk.find(ROOT), ROOT) if str(job.attempt) in path
        ]
        notes = self.world.disk.find(f"{ROOT}/_hiveacid")
        left += [n for n in (notes if isinstance(notes, dict) else ()) if str(job.attempt) in n]
        if left:
            self.world.fail(f"{actor} failed ({actor.error!r}) and has left {left}")

    def _check_outcomes(self) -> None:  # noqa: C901 -- one check after another
        done = {doing for doing, _, _ in self.commits}
        for number, job in self.jobs.items():
            actor = self.world.actors[number]
            is_done = any(d.startswith(f"{job.doing}@") for d in done)
            if isinstance(actor.outcome, JobResult) and not is_done:
                self.world.fail(f"{actor} said {actor.outcome.status}, and nothing is committed")
            error = actor.error
            if isinstance(error, errors.HiveAcidError) and not actor.is_troubled:
                self._check_clean_failure(actor, job)
            if isinstance(error, errors.FencedError) and not any(
                j.key == job.key and j is not job and j.attempt.try_number >= job.attempt.try_number
                for j in self.jobs.values()
            ):
                self.world.fail(f"{actor} was fenced, and there is no newer try: {error}")
            if error is not None and not isinstance(error, errors.HiveAcidError):
                cause = error.__cause__ or error.__context__
                if str(error) != "the job was cancelled":
                    self.world.fail(f"{actor} broke: {error!r} {cause!r}")
        for actor in self.world.actors:
            error = actor.error
            is_known = error is None or isinstance(error, errors.HiveAcidError)
            if actor.number not in self.jobs and not is_known:
                self.world.fail(f"{actor} broke: {error!r}")

    def _needs_another_try(self, job: Job) -> bool:
        """Nearly every job; of those that have gone well, with nobody in trouble, one in four."""
        actors = self.world.actors
        is_quiet = all(not a.is_dead and not a.is_troubled and a.error is None for a in actors)
        return not is_quiet or not self._is_done(job) or self.world.borders % 4 == 0

    def _again(self, number: int, doing: str, job: Job) -> None:
        """Airflow tries the task again, whatever it believes to have happened."""
        if self.world.violation is not None:
            return
        newer = any(
            j.key == job.key and j.generation > job.generation and self._is_done(j)
            for j in self.jobs.values()
        )
        if newer:
            return
        calm = self.actor
        calm.number = number
        self.jobs[number] = dataclasses.replace(
            job, attempt=ids.AttemptId(9, f"{number:012x}"), generation=job.generation
        )
        was_done = self._is_done(job)
        # A change that met no row is committed, too; doing it again is as good as not.
        was_tried = any(d == f"{doing}@{self.incarnation}" for d, _, _ in self.commits)
        result = self._quietly(doing, lambda: self._retry(number, was_done=was_done))
        if isinstance(result, JobResult):
            if was_done and result.status is not JobStatus.ALREADY_DONE:
                self.world.fail(f"{doing} was done and was done again")
            if not was_tried and result.status is not JobStatus.COMMITTED:
                self.world.fail(f"{doing} was not done, and the retry says {result.status}")
        calm.number = -1

    def _retry(self, number: int, *, was_done: bool) -> object:
        """A retry. Of what Hive has removed since, nothing tells whether it was committed."""
        try:
            return self.do(self.jobs[number])
        except errors.EarlierRunUnknownError:
            if was_done and not _REMOVING.isdisjoint(self.scene.cast):
                return None
            raise

    def _is_done(self, job: Job) -> bool:
        doing = f"{job.doing}@{self.incarnation}"
        return any(d == doing and full for d, _, full in self.commits)

    def _quietly(self, what: str, act: Callable[[], object]) -> object:
        try:
            result = act()
        except errors.DirectoryExistsError as error:
            if not self.scene.has_strangers:
                self.world.fail(f"afterwards {what} fails: {error!r}")
            return None
        except Exception as error:  # noqa: BLE001 -- whatever it is, it must not be
            self.world.fail(f"afterwards {what} fails: {error!r}")
            return None
        self.world.look()
        return result

    def _check_left(self) -> None:  # noqa: C901 -- one check after another
        world, server = self.world, self.world.server
        if world.violation is not None:
            return
        if server.locks:
            world.fail(f"locks are left: {server.locks}")
        if any(txn.state is TxnState.OPEN for txn in server.txns.values()):
            world.fail("a transaction is left open")
        for path in FOREIGN:
            if world.disk.find(path) is None:
                world.fail(f"{path} is gone")
        for path in leftovers(world.disk.find(ROOT), ROOT):
            world.fail(f"{path} is left")
        write_ids, txns = self.snapshot_now()
        for _, found in self.everywhere():
            chosen = readers.hive_choice(found, write_ids, txns)
            idle = {name for name, _, _ in found} - {*chosen[0], *chosen[1]}
            if idle and not self.scene.has_tag:
                world.fail(f"not cleaned: {sorted(idle)} beside {chosen}")
