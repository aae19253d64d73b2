"""The facts of a partition, without Spark: whether its compaction is due, and why.

Nothing is claimed, and no file is changed.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.codec import stored_as
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.many_tables import TableOrPartition
from airflow_hiveacid.maintenance.ownership import (
    Neighbours,
    check_known_writes,
    check_owner,
    check_place,
)
from airflow_hiveacid.maintenance.pauses import pauses
from airflow_hiveacid.metastore import compaction_queue as queue
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.transactions.compaction_work import (
    end_dead_entries,
    end_entry,
    waiting_requests,
)
from airflow_hiveacid.plan.compaction import (
    NO_DELTA,
    Appearance,
    CompactionPlan,
    NoCompaction,
    only_hive_4_reads,
    plan_compaction,
)
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.thresholds import CompactionPolicy, TableHealth, Threshold
from airflow_hiveacid.storage.acid.read.inspect import delete_events
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import publishes_files, scheme_of
from airflow_hiveacid.versions.keeping import opted_out_of

Requests = Mapping[PartitionName | None, queue.CompactionEntry]

NOTHING: Final = "none"
OVERDUE_S: Final = 7 * 86400.0
"""The age of its oldest delta at which a partition that is due comes before all younger ones."""

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """The outcome for one partition: compacted, planned, or not compacted for a reason.

    `bytes_in` and `bytes_out` are sizes of data files. `entry_id` is the ID of the queue entry, on
    4.x. `serves` describes another client's request that this compaction fulfilled. `is_hindered`
    is True if a compaction was due, but something prevented it. If a compaction is only planned,
    `score` (`CompactionPlan.score`) and `oldest_delta_s`, the age of the oldest delta in seconds,
    give its place in the job.
    """

    partition: str
    done: bool
    kind: str
    why: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    files: int = 0
    rows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    txn_id: int | None = None
    entry_id: int | None = None
    serves: str = ""
    is_hindered: bool = False
    score: float = field(default=0.0, metadata=stored_as(None))
    oldest_delta_s: float = field(default=0.0, metadata=stored_as(None))

    @property
    def is_overdue(self) -> bool:
        """True if earlier jobs have probably left the partition again and again."""
        return self.oldest_delta_s >= OVERDUE_S

    @property
    def rank(self) -> tuple[float, float]:
        """The place in the order of the work; overdue partitions first, the oldest of them first.

        Otherwise a large partition, which has a low score, would be left every night.
        """
        return (self.oldest_delta_s if self.is_overdue else 0.0, self.score)

    @property
    def text(self) -> str:
        """Describe the outcome."""
        if not self.done:
            return f"not compacted: {self.why}"
        directories = ", ".join(self.outputs)
        return (
            f"{self.kind} compaction into {directories} ({self.rows} rows, {self.bytes_out} bytes)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFacts:
    """The facts of a partition that decide whether to compact it.

    `known` is a snapshot from the beginning of the run, restricted to the write IDs that a
    compactor may process. It shows which partitions need no compaction; each compaction plans again
    under its own snapshot. `request` is another client's pending request, which our compaction also
    fulfils. `neighbours` are those of the job.
    """

    table: TableInfo
    partition: PartitionInfo
    spec: CompactSpec
    known: Snapshot
    request: queue.CompactionEntry | None = None
    neighbours: Neighbours = field(default_factory=Neighbours)

    @property
    def name(self) -> PartitionName:
        """The partition's name."""
        return self.partition.name

    @property
    def entry_id(self) -> int:
        """The ID of the request that waits in the queue; 0 if there is none."""
        return 0 if self.request is None else self.request.entry_id or 0

    @property
    def where(self) -> TableOrPartition:
        """The partition, as a job of many tables names it."""
        return TableOrPartition(table=self.table, partition=self.partition)

    def plan(self, client: MetastorePort) -> CompactionPlan | NoCompaction:
        """Return the plan that a compaction would have now; claim nothing.

        An automatic compaction skips a partition that is paused after failures. If the job serves
        the queue and there is nothing to compact, refuse the request, as Hive's worker does;
        otherwise it and its client would wait forever.
        """
        if self.spec.choice is CompactionChoice.QUEUED:
            return self._requested(client)
        plan = self._plan(client)
        if self.spec.choice is CompactionChoice.AUTO and isinstance(plan, CompactionPlan):
            name = str(self.name)
            for why in pauses(self.table, [name], now_s=time.time()).values():
                log.warning("%s: %s", f"{self.table.ref} {name}".rstrip(), why)
                return NoCompaction(why=why, is_hindered=True)
        return plan

    def _requested(self, client: MetastorePort) -> CompactionPlan | NoCompaction:
        if self.request is None:
            return NoCompaction(why="no request for it waits in the metastore's queue")
        plan = self._plan(client)
        if isinstance(plan, NoCompaction) and not (plan.is_hindered or self.spec.plan_only):
            end_entry(client, queue.ClaimedCompaction.of_entry(self.request), plan.why)
        return plan

    def _plan(self, client: MetastorePort) -> CompactionPlan | NoCompaction:
        with suppress(errors.NotEnoughHistoryError):  # `known` is too old
            return self._planned(client, self.known)
        return self._planned(client, snapshot_now(client, [self.table.ref]))

    def _planned(self, client: MetastorePort, snapshot: Snapshot) -> CompactionPlan | NoCompaction:
        """Return the plan; if there is nothing to do, name the writes that had to be left out.

        A compactor sees only writes below the lowest open write ID, and ignores directories above
        the end of the list of write IDs, which may end too early on a 4.0.1 metastore.
        """
        state = self.state(client, snapshot)
        plan = self._wanted(client, state)
        if isinstance(plan, CompactionPlan) or not state.invisible:
            return plan
        if self.spec.choice is CompactionChoice.AUTO:
            high = CompactorWriteIdList.of(snapshot.write_ids(self.table.ref)).high_watermark
            is_later = any(directory.high > high for directory in state.invisible)
            return _below(plan, f"write ID {high + 1}") if is_later else plan
        # With 'auto', the next job plans again; the other choices are worth a newer snapshot.
        snapshot = snapshot_now(client, [self.table.ref])
        plan = self._wanted(client, self.state(client, snapshot))
        if isinstance(plan, CompactionPlan):
            return plan
        write_ids = snapshot.write_ids(self.table.ref)
        listing = list_table(self.partition.location)
        # Would a compaction be needed if it could include all the writes that a reader sees?
        reader_state = resolve(listing, write_ids, snapshot.txns, self.table.kind)
        lowest = write_ids.min_open_write_id
        if isinstance(self._wanted(client, reader_state), NoCompaction):
            return plan if lowest is None else _below(plan, f"write ID {lowest}, which is open")
        if lowest is not None:
            why = f"write ID {lowest} is open, and a compaction includes only writes below it"
        else:
            why = (
                f"the metastore's list of writes now ends at {write_ids.high_watermark}, but a"
                " delta contains later writes. The list is complete again after the table's next"
                " write"
            )
        return NoCompaction(why=why, is_hindered=True)

    def _wanted(self, client: MetastorePort, state: AcidState) -> CompactionPlan | NoCompaction:
        """Return the plan for the job's choice, or for another client's request."""
        choice, request = self.spec.choice, self.request
        if request is None:
            return self.decide(client, state, choice)
        plan: CompactionPlan | NoCompaction
        if request.compaction_type is queue.CompactionType.MAJOR:
            plan = self.decide(client, state, CompactionChoice.MAJOR)
        elif choice is CompactionChoice.QUEUED:
            plan = self.decide(client, state, CompactionChoice.MINOR)
        else:
            plan = self.decide(client, state, choice)
            if isinstance(plan, NoCompaction):
                plan = self.decide(client, state, CompactionChoice.MINOR)
        if isinstance(plan, NoCompaction) or choice.insists:
            return plan
        return dataclasses.replace(plan, why=f"{plan.why}; serves {request.asked_by}")

    def state(self, client: MetastorePort, snapshot: Snapshot) -> AcidState:
        """Return the state of the partition that a compactor with this snapshot sees."""
        write_ids = CompactorWriteIdList.of(snapshot.write_ids(self.table.ref))
        listing = list_table(self.partition.location)
        check_known_writes(client, self.table, listing, write_ids, snapshot.txns)
        check_place(client, self.table, listing, self.neighbours, plan_only=self.spec.plan_only)
        return resolve(listing, write_ids, snapshot.txns, self.table.kind)

    def decide(
        self, client: MetastorePort, state: AcidState, choice: CompactionChoice
    ) -> CompactionPlan | NoCompaction:
        """Return the plan for a state, on this table's store and metastore."""
        knows_suffix = client.generation is not MetastoreGeneration.V3
        can_hide = knows_suffix and only_hive_4_reads(self.table.parameters)
        appears = Appearance.AT_ONCE
        if publishes_files(scheme_of(state.location)):
            appears = Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE
            if can_hide:
                appears = Appearance.HIDDEN
            elif not knows_suffix:
                appears = Appearance.FILE_BY_FILE
        policy = thresholds_of(self.table, self.spec)
        return plan_compaction(
            state,
            choice,
            policy,
            can_hide_until_commit=can_hide,
            kind=self.table.kind,
            appears=appears,
            health=self._health(state, policy) if choice is CompactionChoice.AUTO else None,
        )

    def _health(self, state: AcidState, policy: CompactionPolicy) -> TableHealth:
        """Measure a state; count deleted rows only if the policy has a threshold for them."""
        health = TableHealth.of(state, kind=self.table.kind, now_s=time.time())
        if Threshold.DELETED_ROWS not in policy.also_when:
            return health
        return dataclasses.replace(health, deleted_rows=delete_events(state))

    def outcome(self, plan: CompactionPlan | NoCompaction) -> CompactionOutcome:
        """Return the outcome of a plan that was not carried out."""
        name = str(self.name)
        if isinstance(plan, NoCompaction):
            return CompactionOutcome(
                partition=name, done=False, kind=NOTHING, why=plan.why, is_hindered=plan.is_hindered
            )
        return CompactionOutcome(
            partition=name,
            done=False,
            kind=plan.choice.value,
            why=plan.why,
            inputs=tuple(d.text for d in plan.inputs),
            bytes_in=plan.bytes_in,
        )

    def checked(self, outcome: CompactionOutcome) -> CompactionOutcome:
        """Return the outcome, unless something prevents a minor or major compaction.

        The user requested this compaction, so it is then an error (CompactionNotDoneError).
        """
        if outcome.is_hindered and self.spec.choice.insists and not self.spec.plan_only:
            raise errors.CompactionNotDoneError(
                table=self.table.ref,
                partition=outcome.partition,
                kind=self.spec.choice.value,
                why=outcome.why,
            )
        return outcome


def _below(plan: NoCompaction, first: str) -> NoCompaction:
    """Return the decision; if there is no delta, its reason names the first write left out."""
    return dataclasses.replace(plan, why=plan.why.replace(NO_DELTA, f"{NO_DELTA} below {first}"))


def read_facts(
    client: MetastorePort,
    table: TableInfo,
    spec: CompactSpec,
    find: Callable[[Requests], Sequence[PartitionInfo]],
    neighbours: Neighbours | None = None,
) -> list[CompactionFacts]:
    """Read the facts of a table's partitions; unless `plan_only`, end entries of dead workers.

    `find` gets the pending requests of other clients, by partition (None is the whole table), and
    returns the partitions.
    """
    check_can_serve(client, spec.choice)
    neighbours = Neighbours() if neighbours is None else neighbours
    check_owner(client, table, neighbours, plan_only=spec.plan_only)
    if spec.choice is CompactionChoice.AUTO:
        for complaint in thresholds_of(table, spec).warnings:
            log.warning("%s", complaint)
    # Read the requests before taking the snapshot. Then the snapshot includes all writes before
    # the requests.
    pending = waiting_requests if spec.plan_only else end_dead_entries
    requests = {entry.partition: entry for entry in pending(client, table.ref)}
    first_snapshot = snapshot_now(client, [table.ref]).for_compactor()
    return [
        CompactionFacts(
            table=table,
            partition=partition,
            spec=spec,
            known=first_snapshot,
            request=requests.get(queue.in_queue(partition)),
            neighbours=neighbours,
        )
        for partition in find(requests)
    ]


def check_can_serve(client: MetastorePort, choice: CompactionChoice) -> None:
    """Raise MetastoreVersionError if the metastore does not let our workers compact.

    For the choice 'queued', it must also have a queue with pools, which 3.1 has not.
    """
    if choice is CompactionChoice.QUEUED and client.generation is MetastoreGeneration.V3:
        raise errors.MetastoreVersionError(
            "choice 'queued' needs a Hive 4 metastore: only Hive's own workers can serve the queue"
            " of Hive 3.1. Use choice 'auto', which compacts by the thresholds"
        )
    # A server without pools would hand our workers requests for other tables.
    if client.missing_calls:
        raise errors.MetastoreVersionError(
            f"the metastore does not know {', '.join(client.missing_calls)}, so only Hive's own"
            " workers can compact there (ALTER TABLE ... COMPACT; docs/reference/distributions.md)"
        )


def thresholds_of(table: TableInfo, spec: CompactSpec) -> CompactionPolicy:
    """Return the thresholds that apply to a table in this job."""
    return GivenThresholds.of(spec).policy_for(table)


def why_switched_off(table: TableInfo, spec: CompactSpec) -> str | None:
    """Return the reason if the table's owner has turned automatic compaction off, else None."""
    why_not = opted_out_of(table, NO_AUTO_COMPACTION)
    if why_not is None or spec.choice is not CompactionChoice.AUTO:
        return None
    return (
        f"automatic compaction is switched off by {why_not}. Or request a minor or major compaction"
    )
