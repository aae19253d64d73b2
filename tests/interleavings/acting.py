"""What each of the cast does: the product's own steps, and what Hive and its metastore do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from airflow_hiveacid.format import conflicts, ids, snapshot
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts
from airflow_hiveacid.maintenance.compaction_planner import Window
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.metastore.compaction_queue import CompactionType, in_queue
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.compaction_work import (
    cancel_compactions,
    end_dead_entries,
)
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.maintenance.compact_tables import SparkCompactions
from airflow_hiveacid.spark.writing import work as product
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import CheckedStatement as Statement
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.writing.compaction import Compactor
from airflow_hiveacid.writing.publish import SharedNotes
from tests.interleavings import stand_ins
from tests.interleavings.looking_back import LATE, REFUSED, LookingBack, Rows
from tests.interleavings.rows import Change, Commit, serial_states
from tests.interleavings.scene import ENDPOINT, FOREIGN, JOBS, OPERATIONS, REF, Job
from tests.interleavings.world import Actor
from tests.support.terms import job_terms


class Acting(LookingBack):
    def cast(self) -> None:
        counts: dict[str, int] = {}
        for number, word in enumerate(self.scene.cast):
            role, _, rest = word.partition("/")
            kind, _, where = role.partition("@")
            if kind in JOBS:
                if not rest:
                    counts[role] = counts.get(role, 0) + 1
                tries = [int(part) for part in rest.split("/")] if rest else []
                self._cast_job(number, role, kind, where, counts[role], tries)
            body = self.write if kind in JOBS else getattr(self, kind)
            self.world.actors.append(Actor(number, word, body))

    def _cast_job(
        self, number: int, role: str, kind: str, where: str, count: int, tries: list[int]
    ) -> None:
        scope = (where,) if where else self.scene.partitions
        attempt = ids.AttemptId(tries[0] if tries else 1, f"{number:012x}")
        generation = tries[1] if len(tries) > 1 else 0
        change = Change(kind, f"{role}{count}{'g' * generation}", scope)
        known = (self.partition_names[where],) if where else None
        self.jobs[number] = Job(
            change=change, attempt=attempt, generation=generation, partitions=known
        )

    def write(self) -> object:
        return self.do(self.jobs[self.actor.number])

    def do(self, job: Job) -> JobResult:
        """Run a write with the product's own steps."""
        client = self.world.client()
        spec = JobSpec(
            job_key=job.key,
            metastore=ENDPOINT,
            job=DeleteSpec(target=str(REF), where=f"{job.change.name} gen {job.generation}"),
            generation=job.generation,
            attempt=str(job.attempt),
            lock_timeout_s=30.0,
            conflict_policy=self.scene.policy,
        )
        table = client.get_table(REF)
        actor = self.actor

        def on_step(name: str) -> None:
            actor.step = name
            if name == "snapshot":
                actor.snapshot = actor.saw

        context = JobContext(
            spark=stand_ins.SPARK,
            spec=spec,
            client=client,
            terms=replace(JobTerms.of(spec, on_step=on_step), clock=self.world.clock),
        )
        return product.run_changes(
            context,
            [
                Statement(
                    spec=spec.job,
                    table=table,
                    operations=frozenset(OPERATIONS[job.change.kind]),
                    make_events=stand_ins.make_events(job.change),
                    partitions=lambda: Touched(names=job.partitions),
                )
            ],
        )

    def minor(self) -> object:
        return self._compact(CompactionChoice.MINOR)

    def major(self) -> object:
        return self._compact(CompactionChoice.MAJOR)

    def request(self) -> object:
        """Hive's initiator asks for major compactions."""
        client = self.world.client()
        for info in client.list_partitions(client.get_table(REF)):
            name = info.name if info.name.columns else None
            client.request_compaction(REF, name, CompactionType.MAJOR)
        return None

    def queued(self) -> object:
        """Our worker of Hive's queue serves the requests that wait."""
        return self._compact(CompactionChoice.QUEUED)

    def cancel(self) -> object:
        """A user cancels the compactions that wait or run."""
        return cancel_compactions(self.world.client(), REF)

    def _compact(self, choice: CompactionChoice) -> object:
        client, actor = self.world.client(), self.actor
        table = client.get_table(REF)
        requests = {}
        if choice is CompactionChoice.QUEUED:
            requests = {entry.partition: entry for entry in end_dead_entries(client, REF)}
        partitions = client.list_partitions(table)
        txns = client.valid_txns()
        known = snapshot.Snapshot(
            txn_id=None, txns=txns, tables=client.valid_write_ids([REF], txns)
        )
        outcomes, shared = [], SharedNotes.of(table)
        for partition in partitions:
            facts = CompactionFacts(
                table=table,
                partition=partition,
                spec=CompactSpec.of_table(str(REF), choice=choice),
                known=known,
                request=requests.get(in_queue(partition)),
            )
            job: Any = SimpleNamespace(
                policy_of=lambda _: self.scene.policy,
                terms=job_terms(
                    f"dag/run/compact{actor.number}/-1",
                    lock_timeout_s=30.0,
                    attempt=ids.AttemptId(1, f"{actor.number:012x}"),
                    clock=self.world.clock,
                    on_step=actor.reach,
                ),
            )
            compactor = Compactor(
                job=job,
                engine=SparkCompactions(stand_ins.SPARK),
                client=client,
                facts=facts,
                shared=shared,
                window=Window(),
            )
            outcomes.append(compactor.compact())
        return outcomes

    def clean(self) -> object:
        client = self.world.client()
        table = client.get_table(REF)
        partitions = client.list_partitions(table)
        cleaner = Cleaner(
            client=client,
            table=table,
            spec=CleanSpec.of_table(str(REF), retention_s=0.0, orphan_age_s=0.0),
            on_step=lambda _: None,
            now_s=self.world.now_s,
            overview=Overview.of(client, table),
        )
        outcomes = [cleaner.clean(partition) for partition in partitions]
        if table.is_partitioned:
            outcomes.append(cleaner.clean_staging())
        return outcomes

    def read(self) -> object:
        """Read twice under one snapshot; what was read counts if the transaction was alive."""
        seen: list[Rows] = []

        def look(client: MetastorePort, table: TableInfo, known: snapshot.Snapshot) -> Rows:
            write_ids = known.write_ids(REF)
            for _ in range(2):
                states = [
                    (info, resolve(list_table(info.location), write_ids, known.txns))
                    for info in client.list_partitions(table)
                ]
                rows = stand_ins.read_rows(states, write_ids)
                seen.append(tuple(sorted(row for row, _ in rows)))
            return seen[-1]

        last, commits = self.look_in_transaction(look)
        if self.actor.step in {REFUSED, LATE}:
            self.world.fail("a reader of what is there now was refused")
        states_ok = serial_states(self.before, commits)
        is_wrong = last is not None and any(rows not in states_ok for rows in seen)
        if is_wrong or len(set(seen)) > 1:
            self.world.fail(f"a reader saw {seen}, not twice one of {sorted(states_ok)}")
        return seen

    def kill(self) -> object:
        """An order to kill the first try of the first job, whenever it arrives.

        Who has asked for locks by then is found, whatever it does meanwhile.
        """
        first = min(self.jobs)
        job, owners = self.jobs[first], self.world.owners
        has_locked = any(
            owners[txn_id] is self.world.actors[first] for txn_id in self.world.server.has_locked
        )
        ended = abort_job(self.world.client(), job.key, job.attempt, [REF])
        self.is_killed = has_locked
        return ended

    def forget(self) -> object:
        """The metastore's own housekeeping."""
        self.world.before_call("forget_empty_transactions")
        self.world.server.forget_empty_transactions()
        self.world.server.clean_write_ids()
        return None

    def _foreign(self) -> tuple[MetastorePort, ids.TxnId, Actor]:
        """How Hive begins."""
        client, actor = self.world.client(), self.actor
        txn_id = client.open_txn()
        actor.foreign_txn = txn_id
        return client, txn_id, actor

    def _lock(
        self, client: MetastorePort, txn_id: ids.TxnId, lock_type: conflicts.LockType
    ) -> None:
        component = LockComponent(
            table=REF,
            lock_type=lock_type,
            operation=conflicts.DataOperation.UPDATE,
            is_transactional=True,
        )
        answer = client.lock(LockRequest(txn_id=txn_id, components=(component,), agent_info="hive"))
        while answer.state is conflicts.LockState.WAITING:
            self.world.sleep(0.5)
            answer = client.check_lock(answer.lock_id, txn_id)
        self.actor.snapshot = self.world.sequence

    def truncate(self) -> object:
        """Hive's TRUNCATE: an empty base under a write ID of its own."""
        is_v4 = self.scene.generation is conflicts.MetastoreGeneration.V4
        client, txn_id, _ = self._foreign()
        # Hive allocates before it locks, and may be overtaken as we might; that is its affair.
        self._lock(
            client, txn_id, conflicts.LockType.EXCL_WRITE if is_v4 else conflicts.LockType.EXCLUSIVE
        )
        write_id = client.allocate_write_id(txn_id, REF)
        for p in self.scene.partitions:
            self.world.before_call("hive writes")
            self.lay(f"{self.place(p)}/base_{write_id:07d}", b"[]")
            self.world.is_dirty = True
        self.world.before_call("hive has written")
        client.commit_txn(txn_id)
        return None

    def drop(self) -> object:
        """DROP TABLE and CREATE TABLE of the same name and place."""
        client, txn_id, actor = self._foreign()
        self._lock(client, txn_id, conflicts.LockType.EXCLUSIVE)
        actor.is_steady = True
        client.drop_table(REF)
        self.commits.append(
            (
                f"drop{self.incarnation}",
                Commit(Change("drop", "drop", ()), actor.snapshot, self.world.sequence),
                True,
            )
        )
        self.world.sequence += 1
        lab = self.world.disk.find("/lab")
        assert isinstance(lab, dict)
        lab.clear()
        self.world.is_dirty = True
        self.world.before_call("hive has dropped")
        self.make_table()
        for path in FOREIGN:
            self.world.disk.put(path, b"not ours")
        self.world.before_call("hive has made it again")
        client.commit_txn(txn_id)
        return None
