"""One operator for each kind of job, with the job's arguments and a method that builds its spec.

A constructor checks each argument that contains no template. So a typo in an argument without a
template is an import error of the DAG. `build_job` reads the rendered arguments. Arguments are
mappings and lists, because Airflow renders the templates inside mappings and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from airflow_hiveacid.jobs.specs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.specs.statements import (
    ColumnMatch,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of
from airflow_hiveacid.operators.reporting.plan_text import cleaning_lines, compaction_lines
from airflow_hiveacid.operators.row_change import SimpleStatementOperator, StatementOperator
from airflow_hiveacid.operators.worker_first import WorkerFirstOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT, EarlyChecks, LeftOut
from airflow_hiveacid.plan.statements import arguments as statements

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.results import JobResult


def _check_truncated_early(early: EarlyChecks, value: object) -> None:
    if value and value is not LEFT_OUT:
        statements.check_partition_early(early, value, ())
    else:
        early.check(statements.truncated_partition, partition=value)


class HiveAcidMergeOperator(SimpleStatementOperator):
    """MERGE a source into a table in one transaction.

    Args:
        table: `db.table`, full ACID.
        source: where the rows come from: `{"format": "parquet", "location": ...}`, `{"table": ...}`
            or `{"values": [...], "columns": [...]}`. Each kind of source may also have a Spark SQL
            `query` over the view `source`. For several ACID tables: `{"tables": {"view": "db.t",
            ...}, "query": ...}`. To read an earlier version, add `version`, `timestamp` or `tag` to
            `table`, or `"versions": {"view": "version 12", ...}` to `tables`.
        keys: columns that must be equal in a source row and its target row.
        clauses: WHEN clauses. For each row, the first clause whose condition is true is applied. A
            clause is `{"when": "matched" | "not_matched" | "not_matched_by_source", "action":
            "update" | "delete" | "insert"}` with optional `"condition"` and `"set"`, which are SQL
            over `t` (target) and `s` (source).
        condition: an additional ON condition, such as `t.month = 1`, which also prunes partitions.
            To set no condition, omit the argument. None and a blank string are errors, also in
            `clauses`.
        parameters: values by marker name, for markers such as `:day` in `condition`, `clauses` and
            the source's `query`. A value becomes a literal of its own type and is never parsed as
            SQL. A value is a string, an int, a Decimal, a float, a date, a datetime (naive: the
            table's wall clock), True, False, None, or a list for `IN (:ids)`. A template renders to
            a string, so add the type: `{"type": "date", "value": "{{ ds }}"}`.
    """

    does = "Merges a source into {table} in one transaction."
    statement_type = MergeSpec

    @declaration
    def __init__(  # noqa: PLR0913 - a MERGE has this many parts
        self,
        *,
        table: kinds.Table,
        source: kinds.Source,
        keys: Annotated[Sequence[str], Argument(statements.key_names)],
        clauses: Annotated[
            Sequence[Mapping[str, Any]],
            Argument(
                statements.merge_clauses, check=statements.check_clauses_early, shown_as="json"
            ),
        ],
        condition: kinds.Condition = LEFT_OUT,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidInsertOperator(SimpleStatementOperator):
    """INSERT INTO or INSERT OVERWRITE a table.

    Args:
        table: `db.table`.
        source: as for `HiveAcidMergeOperator`.
        mode: `append`, or `overwrite`, which replaces only the partitions that receive rows from
            the source; all other partitions keep their rows. A full static `partition`, or a table
            without partitions, is replaced even if the source has no rows. To restore an earlier
            version, use `HiveAcidRestoreOperator`.
        columns: target columns in the order of the source's columns; if empty, `match` applies.
        match: how source columns are matched with target columns: by `name` or by `position`. The
            position is the table's column order, with dynamic partition columns last, as in Hive's
            INSERT.
        partition: the static partition: values of partition columns, as strings, integers, or None
            for NULL. Write None as a literal in the DAG; it must not come from a template or from a
            different task.
        parameters: values for the markers in the source's `query`, as for `HiveAcidMergeOperator`.
    """

    does = "Inserts rows into {table}, or overwrites its partitions, in one transaction."
    statement_type = InsertSpec

    @declaration
    def __init__(  # noqa: PLR0913 - an INSERT has this many parts
        self,
        *,
        table: kinds.Table,
        source: kinds.Source,
        mode: Annotated[str, one_of(InsertMode)] = InsertMode.APPEND.value,
        columns: Annotated[Sequence[str], Argument(arguments.names)] = (),
        partition: kinds.PartitionValues = kinds.NO_VALUES,
        match: Annotated[str, one_of(ColumnMatch)] = ColumnMatch.NAME.value,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidUpdateOperator(SimpleStatementOperator):
    """UPDATE rows of a table.

    Args:
        table: `db.table`, full ACID.
        assignments: Spark SQL expressions for the new values, by column.
        where: a condition that selects the rows to update; if omitted, every row is updated. None
            and a blank string are errors.
        parameters: values for the markers in `assignments` and `where`, as for
            `HiveAcidMergeOperator`.
    """

    does = "Updates rows of {table} in one transaction."
    statement_type = UpdateSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        assignments: Annotated[
            Mapping[str, str], Argument(arguments.assignments, field="set", shown_as="json")
        ],
        where: kinds.Condition = LEFT_OUT,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidDeleteOperator(SimpleStatementOperator):
    """DELETE rows of a table.

    Args:
        table: `db.table`, full ACID.
        where: a condition that selects the rows to delete; if omitted, every row is deleted. None
            and a blank string are errors.
        parameters: values for the markers in `where`, as for `HiveAcidMergeOperator`.
    """

    does = "Deletes rows of {table} in one transaction."
    statement_type = DeleteSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        where: kinds.Condition = LEFT_OUT,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidTruncateOperator(SimpleStatementOperator):
    """TRUNCATE a table or some of its partitions: remove all rows without reading them.

    Running queries can still read the old rows; cleaning removes the files later.

    Args:
        table: `db.table`, full ACID or insert-only.
        partition: values of partition columns, as for `HiveAcidInsertOperator`. Every partition
            with these values is truncated, and at least one must exist. None is an error: for NULL,
            use DELETE with `IS NULL`. If omitted, all partitions are truncated; an empty mapping is
            an error.
    """

    does = "Removes all rows of {table}, or of some of its partitions, in one transaction."
    statement_type = TruncateSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        partition: Annotated[
            Mapping[str, str | int] | LeftOut,
            Argument(statements.truncated_partition, check=_check_truncated_early),
        ] = LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidLoadOperator(StatementOperator):
    """Run LOAD DATA: copy files into a table unchanged, without reading their rows.

    The files must have the table's format, ORC or Parquet, and the table's columns. All files are
    checked before anything is written. The task does not delete the original files, so a retry
    finds them again.

    Args:
        table: `db.table`, full ACID or insert-only, without buckets.
        location: URI of a file, or of a directory that contains only files; names that begin with
            `_` or `.` are ignored.
        partition: values of all partition columns, as for `HiveAcidInsertOperator`.
        overwrite: whether the files replace the contents of the table, or of `partition`.
    """

    does = "Copies files into {table}, without reading their rows, in one transaction."
    statement_type = LoadSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        location: kinds.Text,
        partition: kinds.PartitionValues = kinds.NO_VALUES,
        overwrite: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidCompactOperator(WorkerFirstOperator):
    """Compact a table or one of its partitions.

    The worker plans the compaction, and starts Spark only if a partition is due; see `on_worker`.

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
            `{"small_files": 200, "oldest_delta_s": 604800}` or `small_files=200`:
            `aborted_transactions` (by default 1000, as in Hive), `oldest_aborted_s`,
            `deleted_rows`, `small_files`, `oldest_delta_s`. See `CompactionPolicy`. `off` as above.
        plan_only: report what would be compacted, and change nothing.
        on_worker: by default, a Spark driver plans the compaction if it would run as a different
            user than the worker (in cluster deploy mode, with a login for Spark, or with
            `env_vars`). The same applies if the task has `spark.hadoop.*` settings or a
            `properties_file`, or if the worker cannot read the table's files. With True, the worker
            always plans; with False, always a driver. A requested minor or major compaction always
            starts a driver.
    """

    does = "Compacts {table} or one of its partitions; its rows do not change."
    returns = (
        "the status, and for each partition the kind of compaction, its directories and the reason"
    )
    shows_statement = True

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: kinds.Table,
        partition: kinds.PartitionName = None,
        choice: kinds.Choice = CompactionChoice.AUTO.value,
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        also_when: kinds.AlsoWhen = None,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    def build_job(self) -> CompactSpec:
        """Return the spec of the compaction that the rendered arguments describe."""
        return CompactSpec.of_table(**self.job_arguments())

    def describe(self, result: JobResult) -> Sequence[str]:
        """Return one line for each partition that the job compacted or would compact."""
        return compaction_lines(result.details)


class HiveAcidCleanOperator(WorkerFirstOperator):
    """Remove directories that no reader needs any more, and directories of crashed writers.

    The worker cleans the table without Spark; see `on_worker`.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for every partition.
        retention_s: how many seconds a directory is kept after a newer directory has replaced it.
        orphan_age_s: minimum age, in seconds, of a staging directory that is treated as abandoned.
        remove_unknown_after: remove unknown files that have not changed for this time, such as `30
            days`; at least `1 day`. A cleaning must have found them a day before. By default,
            unknown files and directories are only listed.
        plan_only: list exactly what would be removed, and remove nothing.
        on_worker: by default, a Spark driver cleans the table if it would run as a different user
            than the worker (in cluster deploy mode, with a login for Spark, or with `env_vars`).
            The same applies if the task has `spark.hadoop.*` settings or a `properties_file`, or if
            the worker cannot change the table's files. With True, always the worker; with False,
            always a driver.
    """

    does = "Removes directories of {table} that no reader needs any more."
    returns = (
        "the status, and for each partition the directories that were removed or kept, and why"
    )

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

    def build_job(self) -> CleanSpec:
        """Return the clean job's spec from the rendered arguments."""
        return CleanSpec.of_table(**self.job_arguments())

    def describe(self, result: JobResult) -> Sequence[str]:
        """Return one line for each directory that the job has removed or would remove."""
        return cleaning_lines(result.details)
