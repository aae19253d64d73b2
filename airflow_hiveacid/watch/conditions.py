"""What a sensor waits for, as a value: one class for each kind of condition of a table.

A condition polls its table once with a client of the metastore. Polls block, so a trigger calls
them outside the event loop. Airflow imports this module whenever it parses a DAG, so a poll imports
Thrift and Arrow itself.

Example:
    >>> condition = LockFree(table="db.t", lock=LockType.SHARED_READ)
    >>> condition.to_json()
    {'kind': 'LockFree', 'table': 'db.t', 'partition': None, 'lock': 'shared_read'}
    >>> Condition.from_json(condition.to_json()) == condition
    True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from airflow_hiveacid.format.codec import Codec, stored_as
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.compaction_policy import GivenThresholds, HealthLimits
from airflow_hiveacid.plan.looks import LastLook
from airflow_hiveacid.watch import CheckedVersion, Observation
from airflow_hiveacid.watch.compactions import ended_compactions

if TYPE_CHECKING:
    from airflow_hiveacid.watch.health import CompactionNeed

_CODEC: Final = Codec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(ABC):
    """A condition of a table (`db.table`), or of one partition (`month=1`)."""

    table: str
    partition: str | None = None

    @abstractmethod
    def observe(self, client: MetastorePort) -> Observation:
        """Poll the table once."""

    def after(self, observation: Observation) -> Self:  # noqa: ARG002 - for others
        """Return the condition for the next poll, which may use what this poll has checked."""
        return self

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef.parse(self.table)

    def to_json(self) -> dict[str, Any]:
        """Return the condition as plain values, for a trigger's arguments."""
        fields: Any = _CODEC.to_json(self)
        return {"kind": type(self).__name__, **fields}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the condition of `to_json`'s plain values."""
        fields = dict(data)
        condition = _CODEC.read(_KINDS[fields.pop("kind")], fields)
        if not isinstance(condition, cls):
            raise TypeError(f"expected {cls.__name__}, found {condition}")
        return condition

    def most_important_first(self, findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return findings in the order in which too many of them are cut."""
        return findings


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfHealth(Condition):
    """A condition of the partitions' health; a poll lists only what may have changed since `last`.

    Another process does not get `last`, so its first poll lists all partitions.
    """

    last: LastLook | None = field(default=None, compare=False, metadata=stored_as(None))

    def after(self, observation: Observation) -> Self:
        """Return the condition with the look of the poll."""
        return replace(self, last=observation.look)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionNeeded(_OfHealth):
    """A partition has reached a threshold of compaction; each such partition is a finding."""

    thresholds: GivenThresholds

    def need(self, client: MetastorePort) -> CompactionNeed:
        """Measure the table once."""
        from airflow_hiveacid.watch.health import compaction_need  # noqa: PLC0415 - brings Arrow

        return compaction_need(client, self.ref, self.partition, self.thresholds, self.last)

    def observe(self, client: MetastorePort) -> Observation:
        """Measure the table once."""
        need = self.need(client)
        findings = tuple(entry.record() for entry in need.due)
        return Observation(summary=str(need), findings=findings, look=need.look)

    def most_important_first(self, findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the partitions with the most deltas first."""
        return sorted(findings, key=lambda finding: -finding["delta_count"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(_OfHealth):
    """The table or a partition has reached a limit of its health; each such limit is a finding."""

    limits: HealthLimits

    def observe(self, client: MetastorePort) -> Observation:
        """Measure the table once."""
        from airflow_hiveacid.watch.health import reached_limits  # noqa: PLC0415 - brings Arrow

        return reached_limits(client, self.ref, self.partition, self.limits, self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionsEnded(Condition):
    """No compaction waits for a worker or is at work; `fail_on_failed` makes a failed one an error.

    The finding has the newest queue entry of each partition.
    """

    fail_on_failed: bool

    def observe(self, client: MetastorePort) -> Observation:
        """Poll the compaction queue once."""
        return ended_compactions(
            client, self.ref, self.partition, fail_on_failed=self.fail_on_failed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFree(Condition):
    """The metastore would grant a lock at once; without a partition, on the whole table."""

    lock: LockType

    def observe(self, client: MetastorePort) -> Observation:
        """Poll the locks once."""
        from airflow_hiveacid.watch.locks import free_lock  # noqa: PLC0415 - brings Arrow

        return free_lock(client, self.ref, self.partition, self.lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData(Condition):
    """The table has data after the version `since`; the finding has the partitions with it."""

    since: int
    checked: CheckedVersion | None = field(default=None, metadata=stored_as(None))

    def observe(self, client: MetastorePort) -> Observation:
        """Poll the versions once."""
        from airflow_hiveacid.watch.new_data import new_data  # noqa: PLC0415 - brings Arrow

        return new_data(client, self.ref, self.partition, self.since, checked=self.checked)

    def after(self, observation: Observation) -> Self:
        """Return the condition with the version that the poll has checked."""
        return replace(self, checked=observation.checked)


_KINDS: Final[Mapping[str, type[Condition]]] = {
    cls.__name__: cls
    for cls in (CompactionNeeded, LimitReached, CompactionsEnded, LockFree, NewData)
}
