"""The sensors that wait for health limits of a table, for its compactions, or for a free lock.

The sensors and their triggers call functions of `hooks`, which decide whether a condition is met.
`sensors.watching` polls and defers.

Example:
    wait = HiveAcidHealthSensor(task_id="wait", table="demo.flights", small_files=1000)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.short_form import OMITTED, short_form
from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.limits import LIMITS
from airflow_hiveacid.plan.thresholds import SMALL_FILE_BYTES
from airflow_hiveacid.sensors.watch import HiveAcidWatchSensor
from airflow_hiveacid.watch.conditions import (
    CompactionEndedTrigger,
    HealthTrigger,
    LockFreeTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.maintenance.health import HealthLook
    from airflow_hiveacid.plan.limits import HealthLimits
    from airflow_hiveacid.watch.compactions import QueueLook
    from airflow_hiveacid.watch.locks import LockLook

_LIMITS: Final = tuple(threshold.value for threshold in LIMITS)


class _ConditionSensor(HiveAcidWatchSensor):
    """Wait for a condition of a table or partition; the base class of this module's sensors."""

    def _place(self) -> tuple[MetastoreEndpoint, str, str | None]:
        """Return the metastore's endpoint, the table's name, and the partition's name."""
        return (
            HiveAcidHook(self.hive_acid_conn_id).endpoint(),
            arguments.table_name(self.table),
            arguments.partition_name(self.partition),
        )

    def answer(
        self,
        found: list[dict[str, Any]],
        context: Context,  # noqa: ARG002 - for other sensors
        *,
        omitted: int = 0,  # noqa: ARG002 - there is only one finding
    ) -> dict[str, Any] | None:
        """Return the finding, or None if the condition is not met."""
        return short_form(found[0]) if found else None


class HiveAcidHealthSensor(_ConditionSensor):
    """Wait until the health of a table reaches one of the given limits.

    A value reaches its limit if it is equal or higher. The limits for transactions apply to the
    table, and all other limits apply to each partition. The sensor counts only directories and
    files that a compaction would include: those of writes below the lowest open write. The sensor
    ignores the table's own thresholds for compaction, and the parameter `NO_AUTO_COMPACTION`. By
    default (None), the sensor does not watch a limit.

    The result has `table` and `reached`. For each reached limit, `reached` has an entry with
    `partition`, `measure`, `measured` and `limit`. Entries are sorted by how far the limit is
    exceeded; the highest excess comes first.

    Args:
        delta_count: number of delta directories, including delete deltas.
        delta_ratio: the deltas' bytes as a share of the base's bytes; without a base, there is no
            ratio.
        obsolete_directories: number of replaced directories that are not cleaned yet.
        aborted_directories: number of directories of aborted transactions.
        small_files: number of data files that readers read and that are smaller than
            `small_file_bytes`.
        deleted_rows: number of delete events. Each deleted or updated row leaves a delete event
            until a major compaction. To count them, each poll reads the footers of all delete
            deltas.
        aborted_transactions: number of aborted writes that the metastore still lists for the table.
            If a Hive 4 metastore lists no committed write, this number is 1.
        oldest_transaction_s: age, in seconds, of the oldest open transaction that cleaning waits
            for.
        small_file_bytes: a file below this size counts as small.
        kwargs: see `HiveAcidWatchSensor`.
    """

    does = "Waits until the health of {table} reaches a limit."
    returns = "the limits that are reached, with the measured values and the partitions"
    template_fields: Sequence[str] = given_fields(
        "table", "partition", *_LIMITS, "small_file_bytes", *HiveAcidWatchSensor.template_fields
    )

    def __init__(  # noqa: PLR0913 - one argument for each limit
        self,
        *,
        delta_count: int | str | None = None,
        delta_ratio: float | str | None = None,
        obsolete_directories: int | str | None = None,
        aborted_directories: int | str | None = None,
        small_files: int | str | None = None,
        deleted_rows: int | str | None = None,
        aborted_transactions: int | str | None = None,
        oldest_transaction_s: float | str | None = None,
        small_file_bytes: int | str = SMALL_FILE_BYTES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio
        self.obsolete_directories = obsolete_directories
        self.aborted_directories = aborted_directories
        self.small_files = small_files
        self.deleted_rows = deleted_rows
        self.aborted_transactions = aborted_transactions
        self.oldest_transaction_s = oldest_transaction_s
        self.small_file_bytes = small_file_bytes
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.health_limit, **self._given())
        early.check(arguments.health_limits, limits=self._given())

    def look(self) -> HealthLook:
        """Measure the table once."""
        from airflow_hiveacid.maintenance.health import look_at_limits  # noqa: PLC0415 - brings Thrift and Arrow

        return look_at_limits(*self._place(), self._limits())

    def trigger(self, **watch: Any) -> HealthTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that measures this table in the triggerer."""
        return HealthTrigger(limits=self._limits().record(), **watch)

    def answer(
        self,
        found: list[dict[str, Any]],
        context: Context,  # noqa: ARG002 - for other sensors
        *,
        omitted: int = 0,
    ) -> dict[str, Any] | None:
        """Return the limits that are reached, or None if no limit is reached."""
        if not found:
            return None
        table = arguments.table_name(self.table)
        return short_form({"table": table, "reached": [*found], f"reached{OMITTED}": omitted})

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_LIMITS, "small_file_bytes")}

    def _limits(self) -> HealthLimits:
        return arguments.health_limits(self._given(), "limits")


class HiveAcidCompactionSensor(_ConditionSensor):
    """Wait until no compaction of a table or partition waits for a worker or is at work.

    The sensor waits for compactions of Hive and of this provider, but not for the cleaning after a
    compaction. On Hive 3.1, this provider compacts without the queue, so the sensor waits only for
    Hive's compactions. On this release, the entries in the result have no ID. The result has
    `table` and `compactions`. The list `compactions` has each partition's newest entry in the
    queue; it is empty if the queue has no entry.

    Args:
        fail_on_failed: raise CompactionFailedError if the newest entry of a partition has failed,
            even if it failed before the sensor started. If Hive refused a request because there was
            nothing to compact, this is not a failure.
        kwargs: see `HiveAcidWatchSensor`.
    """

    does = "Waits until no compaction of {table} is waiting or at work."
    returns = "the newest entry of each partition in the compaction queue"
    template_fields: Sequence[str] = given_fields(
        "table", "partition", "fail_on_failed", *HiveAcidWatchSensor.template_fields
    )

    def __init__(self, *, fail_on_failed: bool | str = True, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.fail_on_failed = fail_on_failed
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.truth, fail_on_failed=fail_on_failed)

    def look(self) -> QueueLook:
        """Poll the compaction queue once."""
        from airflow_hiveacid.watch.compactions import look_at_queue  # noqa: PLC0415 - brings Thrift

        return look_at_queue(*self._place(), fail_on_failed=self._fails())

    def trigger(self, **watch: Any) -> CompactionEndedTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that polls this queue in the triggerer."""
        return CompactionEndedTrigger(fail_on_failed=self._fails(), **watch)

    def _fails(self) -> bool:
        return arguments.truth(self.fail_on_failed, "fail_on_failed")


class HiveAcidLockFreeSensor(_ConditionSensor):
    """Wait until the metastore would grant a lock on a table or partition at once.

    The sensor requests no lock, so another client may get a lock after the sensor has succeeded.
    The log lists the transactions that a request would wait for, with their users and jobs. The
    result has `table`, `partition` and `lock`.

    Args:
        lock: the lock that the next task needs: `exclusive` (overwrite, DDL), `excl_write` (Hive 4
            only), `shared_write` (update, delete, merge) or `shared_read` (insert, read).
        kwargs: see `HiveAcidWatchSensor`; if `partition` is None, the lock is on the whole table.
    """

    does = "Waits until a lock on {table} is free."
    returns = "the table, the partition and the type of lock"
    template_fields: Sequence[str] = given_fields(
        "table", "partition", "lock", *HiveAcidWatchSensor.template_fields
    )

    def __init__(self, *, lock: str = LockType.EXCLUSIVE.value, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.lock = lock
        arguments.EarlyChecks(self.task_id).check(arguments.lock_type, lock=lock)

    def look(self) -> LockLook:
        """Poll the locks once."""
        from airflow_hiveacid.watch.locks import look_at_locks  # noqa: PLC0415 - brings Thrift and Arrow

        return look_at_locks(*self._place(), arguments.lock_type(self.lock, "lock"))

    def trigger(self, **watch: Any) -> LockFreeTrigger:  # noqa: ANN401 - passed on
        """Return the trigger that polls these locks in the triggerer."""
        return LockFreeTrigger(lock=arguments.lock_type(self.lock, "lock"), **watch)
