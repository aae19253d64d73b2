"""The operators that maintain tables: compact, clean, convert, spread rows, prove an erasure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial as bind
from typing import Annotated, Any

from airflow.sdk import Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ConfigurationError, ErasureNotProvedError
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of, setting
from airflow_hiveacid.operators.reporting.plan_text import erasure_lines
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.worker_first import EngineOperator, ManyTablesOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.rebalancing import MOST_FILES
from airflow_hiveacid.plan.statements.parameters import check_early, job_with


class HiveAcidCompactOperator(EngineOperator):
    """Compact a table or one of its partitions.

    By default, the worker compacts the due partitions itself if they have at most 256 MiB to read
    in all. Otherwise, it starts a Spark driver; see `engine`.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for every partition.
        choice: `auto` (by the thresholds below), `minor`, `major`, or `queued` (as the requests of
            other clients in the metastore's queue say, and nothing else; Hive 4 only). If something
            prevents the compaction, `minor` and `major` fail the task, and a retry may succeed;
            `auto` and `queued` leave the compaction to a later run.
        delta_count: `auto` compacts if there are at least this many delta directories. By default
            (None), the table's own threshold applies: the number in its parameter
            `compactorthreshold.hive.compactor.delta.num.threshold`, or else 10. `off` switches the
            threshold off.
        delta_ratio: `auto` compacts if the deltas have at least this fraction of the base's bytes.
            By default (None), the fraction in the table parameter
            `compactorthreshold.hive.compactor.delta.pct.threshold`, or else 0.1. `off` as above.
        also_when: further thresholds of `auto` by name, for example
            `{"small_files": 200, "oldest_delta_s": 604800}` or `small_files=200`. Their names are
            `aborted_transactions` (by default 1000, as in Hive), `oldest_aborted_s`,
            `deleted_rows`, `small_files`, `oldest_delta_s`. See `CompactionPolicy`. `off` as above.
        plan_only: report what would be compacted, and change nothing.
    """

    does = "Compacts {table} or one of its partitions; its rows do not change."
    returns = (
        "the status, and for each partition the kind of compaction, its directories and the reason"
    )
    shows_statement = True
    spec_type = maintenance.CompactSpec.of_table

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: kinds.Table,
        partition: kinds.PartitionName = None,
        choice: kinds.Choice = maintenance.CompactionChoice.AUTO.value,
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        also_when: kinds.AlsoWhen = None,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidCleanOperator(EngineOperator):
    """Remove directories that no reader needs any more, and directories of crashed writers.

    The worker cleans the table without Spark; see `engine`.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for every partition.
        retention_s: how many seconds a directory is kept after a newer directory has replaced it.
        orphan_age_s: minimum age, in seconds, of a staging directory that is treated as abandoned.
        remove_unknown_after: remove unknown files that have not changed for this time, such as `30
            days`; at least `1 day`. A cleaning must have found them a day before. By default,
            unknown files and directories are only listed.
        plan_only: list exactly what would be removed, and remove nothing.
    """

    does = "Removes directories of {table} that no reader needs any more."
    returns = (
        "the status, and for each partition the directories that were removed or kept, and why"
    )
    spec_type = maintenance.CleanSpec.of_table

    @declaration
    def __init__(  # noqa: PLR0913 - the operator's interface
        self,
        *,
        table: kinds.Table,
        partition: kinds.PartitionName = None,
        retention_s: kinds.Seconds = 0.0,
        orphan_age_s: kinds.Seconds = 86400.0,
        remove_unknown_after: kinds.UnknownAge = None,
        plan_only: kinds.Switch = False,  # not `dry_run`, which is a method of Airflow's operators
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidCleanTablesOperator(ManyTablesOperator):
    """Clean all transactional tables with matching names, with one task.

    Partitions of all tables are cleaned side by side, each as by `HiveAcidCleanOperator`. If a
    table or partition fails, the others are cleaned nevertheless. Then the task fails, and a retry
    cleans only what is left. Tables that this provider cannot clean are skipped, and the log gives
    the reason. If a table is named without a wildcard, it must exist and be supported. The worker
    cleans the tables without Spark; see `engine`.

    Args:
        tables: names or patterns, such as `sales.*` or `demo.orders`.
        retention_s: as for `HiveAcidCleanOperator`, like the next two.
        orphan_age_s: minimum age, in seconds, of a staging directory that is treated as abandoned.
        remove_unknown_after: remove unknown files that have not changed for this time.
        plan_only: report what would be removed, and remove nothing.
    """

    does = "Removes directories that no reader needs, of all transactional tables with these names."
    returns = (
        "the status, the number of tables and partitions, and for each table with something to"
        " remove or keep the numbers of its directories, and why they are kept"
    )

    spec_type = maintenance.CleanSpec

    @declaration
    def __init__(
        self,
        *,
        tables: kinds.Tables,
        retention_s: kinds.Seconds = 0.0,
        orphan_age_s: kinds.Seconds = 86400.0,
        remove_unknown_after: kinds.UnknownAge = None,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidConvertOperator(HiveAcidSparkOperator):
    """Convert a flat table to a transactional table, or the reverse, without changing its rows.

    During the conversion, the table is locked exclusively. The rows are counted and hashed before
    and after the conversion. If the counts or the hashes differ, the task changes nothing. A table
    that is already of the requested kind is not changed. A full-ACID table is replaced with a flat
    copy, and the original is renamed to `<name>__acid`. A later conversion to `full_acid` renames
    the original table back to `<name>` if both tables have equal rows.

    Args:
        table: `db.table`.
        to: `full_acid` (from a flat ORC table), `insert_only` (from a flat table) or `flat`.
        plan_only: report the steps, or why the conversion is impossible, and change nothing.
    """

    does = "Converts {table} between flat and transactional, without changing its rows."
    returns = "the status and the steps of the conversion"
    shows_statement = True
    spec_type = maintenance.ConvertSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        to: Annotated[str, one_of(maintenance.ConversionTarget)],
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidCompactTablesOperator(ManyTablesOperator):
    """Compact all transactional tables with matching names, with one task.

    Each partition is compacted in its own transaction, several at a time. If a partition fails, the
    others are compacted nevertheless. Then the task fails, and a retry compacts only partitions
    that still need it. Tables that this provider cannot compact are skipped, and the log gives the
    reason. If a table is named without a wildcard, it must exist and be supported. The worker
    compacts, or starts one Spark driver if there is much to read; see `HiveAcidCompactOperator`.

    Args:
        tables: names or patterns, such as `sales.*` or `demo.orders`.
        choice: `auto` (by the thresholds below), `minor`, `major` or `queued`, as for
            `HiveAcidCompactOperator`. With `queued`, the task is a worker of Hive's compaction
            queue: it compacts the partitions for which a request of another client waits there, the
            oldest first. Needs a Hive 4 metastore.
        delta_count: `auto` compacts a partition that has at least this many delta directories. By
            default, each table's own threshold applies, as for `HiveAcidCompactOperator`.
        delta_ratio: `auto` compacts a partition if its deltas have at least this fraction of the
            base's bytes. By default, each table's own threshold applies.
        also_when: further thresholds of `auto`, as for `HiveAcidCompactOperator`.
        max_bytes: the most bytes that all compactions of this task may read; by default no limit.
            Partitions whose oldest delta is at least seven days old come first, then those for
            which later reads save most per byte that their compaction reads. The others are left
            for a later task. At least one is compacted.
        pools: with `queued`, serve only the requests of these pools; by default of all.
        until: the end of the window, as a time of day with its zone (`05:00 Europe/Zurich`) or as a
            moment (`2026-11-27T05:00+01:00`). The time of day is the first one after the DAG run's
            `run_after`. From then on, the task starts no partition. What is committed stays, the
            task succeeds, and `window_ended` in its result is true. A retry within the window
            continues. A retry after it does nothing.
        at_end: `finish` lets the running partitions finish; `stop` aborts their transactions, and
            removes what they have staged.
        plan_only: report what would be compacted, and change nothing.
    """

    does = "Compacts all transactional tables with matching names; their rows do not change."
    returns = (
        "the status, the number of tables and partitions, and for each partition that was due the"
        " kind of compaction and the reason"
    )
    choice: str
    pools: Sequence[str] | str | None

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        tables: kinds.Tables,
        choice: kinds.Choice = maintenance.CompactionChoice.AUTO.value,
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        also_when: kinds.AlsoWhen = None,
        max_bytes: Annotated[
            int | str | None, Argument(arguments.or_none(arguments.positive_number))
        ] = None,
        pools: kinds.OptionalNames = None,
        until: Annotated[str | None, setting(arguments.window_end)] = None,
        at_end: Annotated[str, one_of(maintenance.AtEnd)] = maintenance.AtEnd.FINISH.value,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        self._began: datetime | None = None
        if arguments.is_settled(choice):
            self.early_checks.check(bind(_check_pools, choice), pools=pools)

    def build_job(self) -> maintenance.CompactSpec:
        """Return the spec of the compactions that the rendered arguments describe."""
        values = self.job_arguments()
        _check_pools(self.choice, self.pools, "pools")
        end = self.value_of("until")
        # Only in a task is it known when the window began.
        until_s = None if end is None or self._began is None else end.after(self._began).timestamp()
        return maintenance.CompactSpec(**values, until_s=until_s)

    def _run_jobs(self, context: Context) -> dict[str, JsonValue]:
        if (end := self.value_of("until")) is not None:
            # The run began the window. So all tries of the run have the same window.
            self._began = context["dag_run"].run_after
            self.log.info("the window ends at %s", end.after(self._began).isoformat())
        return super()._run_jobs(context)

    def result_now(self, job: JobSpec) -> JobResult | None:
        """Return the result if the window has ended."""
        if self._began is None:  # no window, so do not load Arrow for it
            return None
        from airflow_hiveacid.maintenance.compaction_planner import TablesPlan, Window  # noqa: PLC0415 - needs Arrow

        spec = self.build_job()
        return TablesPlan.ended(spec).result(job) if Window.of(spec).is_over else None


def _check_pools(choice: str, pools: Sequence[str] | str | None, argument: str) -> None:
    served = (
        arguments.choice(maintenance.CompactionChoice, choice, "choice")
        is maintenance.CompactionChoice.QUEUED
    )
    if pools is not None and not served:
        raise ConfigurationError(
            f"{argument} needs choice='queued', found {choice!r}; change the choice, or leave out"
            f" {argument}"
        )


def _buckets(value: int | str, argument: str) -> int:
    number = arguments.whole_number(value, argument)
    if not 1 <= number <= MOST_FILES:
        raise ConfigurationError(f"{argument} must be from 1 to {MOST_FILES}, found {number}")
    return number


def _lower_names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in arguments.names(value, argument))


class HiveAcidRebalanceOperator(HiveAcidRowChangeOperator):
    """Spread the rows of a full-ACID table or one of its partitions evenly over files.

    The task serves the same purpose as `ALTER TABLE ... COMPACT 'rebalance'` in Hive 4, but works
    with every supported metastore. Each partition is overwritten with its own rows: all files of a
    partition have the same number of rows, except for one row. All partitions are overwritten in
    one transaction, which counts the rows before it commits.

    Rows get new row IDs. So the task takes an exclusive lock on the partition, or without
    `partition` on the table, and waits for readers and writers. The overwrite creates a new
    version, and ends the readability of earlier versions, unless versions are kept.

    If the rows of a partition are already spread evenly over the files of a base, and no order is
    requested, the partition is not rewritten. A partition without rows is not rewritten, either. If
    file names and footers show that no partition must be rewritten, the task takes no exclusive
    lock. In a bucketed table, a hash determines each row's file, so the task fails.

    In the result's details, `rebalance` has an entry for each partition.

    Args:
        table: `db.table`, full ACID and not bucketed.
        partition: `month=1`, or None for every partition.
        buckets: the number of files of each partition. By default (None), one file for each 256 MiB
            of the partition's data files.
        order_by: columns by which the rows of each partition are sorted, ascending and with NULL
            first. The first file has the lowest values. So a query that selects a range of values
            reads fewer files and stripes.
        plan_only: report what would be changed, and change nothing.
    """

    does = "Spreads the rows of {table} evenly over files; its rows do not change."
    returns = "the status, the write ID, and the numbers of files and rows of each partition"
    shows_statement = True
    spec_type = maintenance.RebalanceSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        partition: kinds.PartitionName = None,
        buckets: Annotated[int | str | None, Argument(arguments.or_none(_buckets))] = None,
        order_by: Annotated[Sequence[str] | str, Argument(_lower_names)] = (),
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class HiveAcidProveErasureOperator(HiveAcidSparkOperator):
    """Prove that no file of a table stores a row that satisfies a condition.

    The task looks at every file below the directories of the table and its partitions. It also
    looks at files that readers ignore: replaced, aborted, staged and hidden files, and files of
    dropped partitions. The task changes nothing and takes no lock. Delete the rows, compact
    (`major`) and clean the table first.

    The result is the proof: `erasure` in `details` (docs/reference/results.md). It contains
    numbers, paths and reasons, but no value of a row, of `where` or of `parameters`. If there is a
    result directory, the whole result is always stored there. If a file still stores such a row, or
    cannot be read, the task pushes the result to XCom and then fails with `ErasureNotProvedError`.

    Args:
        table: `db.table`, full ACID or insert-only.
        where: the condition that selects the erased rows, in Spark SQL, as for
            `HiveAcidDeleteOperator`. NULL counts as false, as in SQL. Put personal data into
            `parameters`, because the condition's text may occur in error messages.
        parameters: values for the markers in `where`, as for `HiveAcidMergeOperator`.
        locations: URIs of more directories with copies of rows, such as change feeds, the trash, or
            snapshots of a directory. Each of their files must be an ORC, Parquet or Avro file with
            all columns that `where` uses.
    """

    does = "Proves that no file of {table} stores the rows of a condition; changes nothing."
    returns = (
        "whether the erasure is proved, the numbers of files, and the files that still store such"
        " rows or cannot be read, with the reasons"
    )
    keeps_whole_result = True

    table: str
    parameters: Mapping[str, Any]

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        where: Annotated[str, Argument(arguments.condition, shown_as="sql")],
        parameters: kinds.Parameters = kinds.NO_VALUES,
        locations: kinds.Names = (),
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        check_early(self.early_checks, parameters, [where])

    def build_job(self) -> maintenance.ProveErasureSpec:
        """Return the spec of the proof that the rendered arguments describe."""
        return job_with(maintenance.ProveErasureSpec(**self.job_arguments()), self.parameters)

    def _run_jobs(self, context: Context) -> dict[str, JsonValue]:
        """Run the job; push its result to XCom even if the erasure is not proved."""
        result = super()._run_jobs(context)
        details: Any = result["details"]
        if not details.get("erasure", {}).get("proved"):
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, result)
            raise ErasureNotProvedError(
                table=self.table, found=". ".join(erasure_lines(details, most=3))
            )
        return result
