"""Compare a table's health with the thresholds of compaction, or with a sensor's limits."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.words import first_few
from airflow_hiveacid.maintenance.health import measure
from airflow_hiveacid.maintenance.pauses import pauses
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan.compaction_policy import GivenThresholds, HealthLimits, TableMeasures
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION
from airflow_hiveacid.plan.looks import LastLook, depends_on_time
from airflow_hiveacid.plan.thresholds import DueDirectory, TableHealth, due
from airflow_hiveacid.versions.keeping import opted_out_of
from airflow_hiveacid.watch import Observation

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionNeed:
    """The measurements of a table, and the partitions that need compaction.

    `table_id` distinguishes the table from an earlier table of the same name. `why_not` is the
    setting that switches off automatic compaction of the table, or None. `paused` has the reasons
    of partitions that would be due, but are paused after failed compactions. `look` is for the next
    poll of the same process.
    """

    table: str
    table_id: str
    healths: tuple[TableHealth, ...]
    due: tuple[DueDirectory, ...]
    why_not: str | None = None
    paused: Mapping[str, str] = field(default_factory=dict)
    look: LastLook | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.why_not is not None:
            return f"{self.table}: automatic compaction is off by {self.why_not}"
        paused = [f"{name}: {why}" if name else why for name, why in self.paused.items()]
        return "; ".join(filter(None, (self._summary, first_few(paused))))

    @property
    def _summary(self) -> str:
        if len(self.healths) == 1 and not self.healths[0].partition:
            return f"{self.table}: {_numbers(self.healths[0])}"
        worst = max(self.healths, key=lambda health: health.delta_count, default=None)
        worst_text = (
            "" if worst is None else f"; most deltas in {worst.partition}: {_numbers(worst)}"
        )
        return (
            f"{self.table}: {len(self.due)} of {len(self.healths)} partitions are due{worst_text}"
        )


def compaction_need(
    client: MetastorePort,
    ref: TableRef,
    partition: str | None,
    given: GivenThresholds,
    last: LastLook | None = None,
) -> CompactionNeed:
    """Measure a table once and find the partitions that are due for compaction.

    If the table's owner has switched off automatic compaction, no partition is due. A partition
    that is paused after failed compactions is not due. Thresholds that `given` leaves out are the
    table's own.
    """
    measured = measure(
        client,
        ref,
        partition,
        counts_rows=given.counts_rows,
        last=None if depends_on_time(given.also_limits) else last,
        reached=lambda table, healths: {
            entry.health.partition for entry in due(healths, given.policy_for(table))
        },
    )
    table = measured.table
    why_not = opted_out_of(table, NO_AUTO_COMPACTION)
    policy = given.policy_for(table)
    for complaint in policy.warnings:
        _log.warning("%s", complaint)
    reached = due(measured.healths, policy) if why_not is None else ()
    paused = pauses(table, [entry.health.partition for entry in reached], now_s=time.time())
    return CompactionNeed(
        table=str(ref),
        table_id=table.table_id,
        healths=measured.healths,
        due=tuple(entry for entry in reached if entry.health.partition not in paused),
        why_not=why_not,
        paused=paused,
        look=measured.look,
    )


def reached_limits(
    client: MetastorePort,
    ref: TableRef,
    partition: str | None,
    limits: HealthLimits,
    last: LastLook | None = None,
) -> Observation:
    """Measure a table once and find the limits that it has reached.

    Deleted rows are counted, and open transactions listed, only if there is a limit for them.
    """
    measured = measure(
        client,
        ref,
        partition,
        counts_rows=limits.deleted_rows is not None,
        small_file_bytes=limits.small_file_bytes,
        last=None if limits.counts_leftovers else last,
        reached=lambda _, healths: {
            limit.partition for limit in TableMeasures(healths=healths).reached(limits)
        },
    )
    oldest_s = None
    if limits.oldest_transaction_s is not None:
        readers = possible_readers(client, ref, measured.snapshot.txns)
        oldest_s = max((reader.open_for_s or 0 for reader in readers), default=None)
    measures = TableMeasures(
        healths=measured.healths,
        aborted_transactions=len(measured.snapshot.write_ids(ref).aborted),
        oldest_transaction_s=oldest_s,
    )
    reached = measures.reached(limits)
    if reached:
        summary = first_few([str(limit) for limit in reached])
    else:
        highest = measures.highest(limits)
        values = ", ".join(f"{name}={value:g}" for name, value in highest.items())
        summary = f"no limit is reached; highest values: {values}"
    return Observation(
        summary=f"{ref}: {summary}",
        findings=tuple(limit.record() for limit in reached),
        look=measured.look,
    )


def _numbers(health: TableHealth) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    return f"{health.delta_count} delta directories, {share}"
