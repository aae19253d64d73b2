"""One sensor for each condition of a table, with its arguments and its result.

Example:
    wait = HiveAcidCompactionNeededSensor(task_id="wait", table="demo.flights", deferrable=True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from airflow.sdk import Context

from airflow_hiveacid.airflow_names import conf
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.jobs.maintenance import Off
from airflow_hiveacid.jobs.short_form import OMITTED, short_form, short_list
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of, setting
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.compaction_policy import LIMITS, GivenThresholds
from airflow_hiveacid.plan.thresholds import SMALL_FILE_BYTES, Threshold
from airflow_hiveacid.sensors.watch_sensor import HiveAcidWatchSensor
from airflow_hiveacid.watch import conditions

_MOST_MAPPED: Final = 1024  # Airflow's default of `max_map_length`
_OMITTED_KEY: Final = f"return_value{OMITTED}"
_ALL_OFF: Final[Mapping[str, Any]] = {
    "delta_count": Off.OFF,
    "delta_ratio": Off.OFF,
    "also_when": {Threshold.ABORTED_TRANSACTIONS.value: Off.OFF},  # the others have no default
}

_Number = Annotated[int | str | None, setting(arguments.health_limit)]
_Fraction = Annotated[float | str | None, setting(arguments.health_limit)]


class HiveAcidThresholdSensor(HiveAcidWatchSensor):
    """Wait until a partition reaches a threshold of compaction.

    The return value is a list with one entry for each partition that is due, so that the next task
    can be mapped over it. An entry has `partition`, the reason (`why`) and the measured values
    (`delta_count`, `delta_ratio`, bytes, ...). As JSON, the list has at most 16 KB. If a task is
    mapped over the list, the list has at most `[core] max_map_length` entries. If not all
    partitions fit, the list has the partitions with the most deltas, and the XCom
    `return_value_omitted` is the number of left-out partitions.

    The arguments are those of `HiveAcidWatchSensor`.
    """

    does = "Waits until {table}, or one of its partitions, needs compaction."
    returns = "the partitions that are due, with the measured values and the reason"

    def take_thresholds(self, given: Mapping[str, Any]) -> None:
        """Take the arguments as by `take_arguments`, and check the thresholds together."""
        self.take_arguments(given)
        own = {name: given[name] for name in _ALL_OFF if name in given}
        if arguments.is_settled(own):
            # `thresholds` reads all of them together; `own` gives an error the name of an argument.
            self.early_checks.check(lambda *_: self.thresholds(), **own)

    def thresholds(self) -> GivenThresholds:
        """Return the thresholds in the rendered arguments; all that are no argument are off."""
        own = {name: self.value_of(name) for name in _ALL_OFF if name in self.argument_table}
        return GivenThresholds(**{**_ALL_OFF, **own})

    def condition(self) -> conditions.CompactionNeeded:
        """Return the condition that the rendered arguments describe."""
        return conditions.CompactionNeeded(
            table=self.value_of("table"),
            partition=self.value_of("partition"),
            thresholds=self.thresholds(),
        )

    def result_of(
        self, findings: list[dict[str, Any]], context: Context, *, omitted: int = 0
    ) -> list[dict[str, Any]]:
        """Return the due partitions; if there are too many, return those with the most deltas.

        If a task is mapped over the list, return at most as many entries as Airflow can map. With
        more entries, this task would fail in every run, and no partition would be compacted.
        """
        result = short_list(self.condition().most_important_first(findings))
        due = len(findings) + omitted
        limit = conf.getint("core", "max_map_length", fallback=_MOST_MAPPED)
        if len(result) > limit and next(self.iter_mapped_dependants(), None) is not None:
            result = result[:limit]
        if left_out := due - len(result):
            self.log.warning(
                "%d partitions are due, but the result has only the %d with the most deltas:"
                " the result can have 16 KB, and mapping can have [core] max_map_length tasks. The"
                " remaining partitions are due at the next run",
                due,
                len(result),
            )
            context["ti"].xcom_push(_OMITTED_KEY, left_out)
            return result
        return findings


class HiveAcidDeltaCountSensor(HiveAcidThresholdSensor):
    """Wait until a table or partition has `delta_count` delta directories, including delete deltas.

    With `delta_count=10`, the wait ends when there are ten directories. By default, the table's own
    threshold applies, as for `HiveAcidCompactOperator`.
    """

    @declaration
    def __init__(self, *, delta_count: kinds.DeltaCount = None, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.take_thresholds(locals())


class HiveAcidDeltaRatioSensor(HiveAcidThresholdSensor):
    """Wait until the deltas have at least the fraction `delta_ratio` of the base's bytes.

    A table or partition without a base has no ratio, so the sensor never reports it. By default,
    the table's own threshold applies, as for `HiveAcidCompactOperator`.
    """

    @declaration
    def __init__(self, *, delta_ratio: kinds.DeltaRatio = None, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.take_thresholds(locals())


class HiveAcidCompactionNeededSensor(HiveAcidThresholdSensor):
    """Wait until a partition reaches `delta_count`, `delta_ratio` or a threshold in `also_when`.

    `HiveAcidCompactOperator` with `choice="auto"` compacts by the same thresholds, and has the same
    defaults. `off` switches a threshold off. If there is a threshold for `deleted_rows`, each poll
    reads the footers of the delete deltas that it lists.
    """

    @declaration
    def __init__(
        self,
        *,
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        also_when: kinds.AlsoWhen = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_thresholds(locals())


class HiveAcidHealthSensor(HiveAcidWatchSensor):
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
            until a major compaction. To count them, each poll reads the footers of the delete
            deltas that it lists.
        aborted_transactions: number of aborted writes that the metastore still lists for the table.
            If a Hive 4 metastore lists no committed write, this number is 1.
        oldest_transaction_s: age, in seconds, of the oldest open transaction that cleaning waits
            for.
        small_file_bytes: a file below this size counts as small.
        kwargs: see `HiveAcidWatchSensor`.
    """

    does = "Waits until the health of {table} reaches a limit."
    returns = "the limits that are reached, with the measured values and the partitions"

    @declaration
    def __init__(  # noqa: PLR0913 - one argument for each limit
        self,
        *,
        delta_count: _Number = None,
        delta_ratio: _Fraction = None,
        obsolete_directories: _Number = None,
        aborted_directories: _Number = None,
        small_files: _Number = None,
        deleted_rows: _Number = None,
        aborted_transactions: _Number = None,
        oldest_transaction_s: _Fraction = None,
        small_file_bytes: Annotated[int | str, setting(arguments.health_limit)] = SMALL_FILE_BYTES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        self.early_checks.check(arguments.health_limits, limits=self._given_limits())

    def condition(self) -> conditions.LimitReached:
        """Return the condition that the rendered arguments describe."""
        limits = arguments.health_limits(self._given_limits(), "limits")
        return conditions.LimitReached(**self.job_arguments(), limits=limits)

    def result_of(
        self,
        findings: list[dict[str, Any]],
        context: Context,  # noqa: ARG002 - for other sensors
        *,
        omitted: int = 0,
    ) -> dict[str, Any] | None:
        """Return the limits that are reached, or None if no limit is reached."""
        if not findings:
            return None
        table = self.value_of("table")
        return short_form({"table": table, "reached": [*findings], f"reached{OMITTED}": omitted})

    def _given_limits(self) -> dict[str, Any]:
        names = (*(threshold.value for threshold in LIMITS), "small_file_bytes")
        return {name: getattr(self, name) for name in names}


class HiveAcidCompactionSensor(HiveAcidWatchSensor):
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
    condition_type = conditions.CompactionsEnded

    @declaration
    def __init__(self, *, fail_on_failed: kinds.Switch = True, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidLockFreeSensor(HiveAcidWatchSensor):
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
    condition_type = conditions.LockFree

    @declaration
    def __init__(
        self,
        *,
        lock: Annotated[str, one_of(LockType)] = LockType.EXCLUSIVE.value,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidNewVersionSensor(HiveAcidWatchSensor):
    """Wait until a table has data that is newer than a version; compactions are not new data.

    The sensor ignores versions that an open write can still change. The result has `since`,
    `version` (the newest version that the sensor has checked), `partitions` (the partitions with
    new data) and `partitions_omitted`.

    Args:
        since: the last version whose data you already have; with 0, the sensor waits for the first
            data.
        kwargs: see `HiveAcidWatchSensor`.
    """

    does = "Waits until {table} has new data; compactions are not new data."
    returns = "the newest version and the partitions with new data"
    condition_type = conditions.NewData

    @declaration
    def __init__(
        self,
        *,
        since: Annotated[int | str, Argument(arguments.version)],
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
