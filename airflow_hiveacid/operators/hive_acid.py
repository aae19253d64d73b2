"""The operators: one per job, each naming its arguments and building its spec, and nothing else.

A constructor assigns, and checks what holds no template: a typo is an import error of its DAG.
`build_job` reads the rendered arguments. Mappings and lists are used throughout because Airflow
renders templates inside them.
"""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.jobs.specs import (
    CleanSpec,
    ColumnMatch,
    CompactionChoice,
    CompactSpec,
    InsertMode,
)
from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.operators.plan_text import cleaning_lines, compaction_lines
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.statement_specs import statement_spec
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan import statement_arguments as statements
from airflow_hiveacid.plan.arguments import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs import StatementSpec
    from airflow_hiveacid.plan.arguments import LeftOut


class HiveAcidMergeOperator(HiveAcidChangeOperator):
    """MERGE a source into a table in one transaction.

    Args:
        table: `db.table`, full ACID.
        source: where the rows come from: `{"format": "parquet", "location": ...}`,
            `{"table": ...}` or `{"values": [...], "columns": [...]}`, each with an optional Spark
            SQL `query` over the view `source`; or `{"tables": {"view": "db.t", ...}, "query": ...}`
            over several ACID tables. Beside `table`, `version`, `timestamp` or `tag` says as of
            when it is read; beside `tables`, `"versions": {"view": "version 12", ...}`.
        keys: columns that match a source row with a target row.
        clauses: WHEN clauses, the first that holds applies: `{"when": "matched" | "not_matched" |
            "not_matched_by_source", "action": "update" | "delete" | "insert"}` with optional
            `"condition"` and `"set"`, SQL over `t` (target) and `s` (source).
        condition: further condition of ON, such as `t.month = 1`, which also prunes partitions.
            None and a blank text are refused, here as in `clauses`; what is not meant is left out.
    """

    template_fields: Sequence[str] = (
        *HiveAcidChangeOperator.template_fields,
        "table",
        "source",
        "keys",
        "clauses",
        "condition",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "conf": "json",
        "source": "json",
        "clauses": "json",
        "condition": "sql",
    }

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any],
        keys: Sequence[str],
        clauses: Sequence[Mapping[str, Any]],
        condition: str | LeftOut = LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.source = source
        self.keys = keys
        self.clauses = clauses
        self.condition = condition
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        statements.check_source_early(early, source)
        early.check(statements.key_names, keys=keys)
        statements.check_clauses_early(early, clauses)
        early.check(arguments.optional_condition, condition=condition)

    def build_job(self) -> StatementSpec:
        """The merge that the rendered arguments describe."""
        return statement_spec(
            "merge",
            {
                "table": self.table,
                "source": self.source,
                "keys": self.keys,
                "clauses": self.clauses,
                "condition": self.condition,
            },
        )


class HiveAcidInsertOperator(HiveAcidChangeOperator):
    """INSERT INTO or INSERT OVERWRITE a table.

    Args:
        table: `db.table`.
        source: as for `HiveAcidMergeOperator`.
        mode: `append` or `overwrite`.
        columns: target columns in the source's order; empty means as `match` says.
        match: `name`, or `position` for the table's own order, partition columns without a value
            last, as Hive's INSERT has it.
        partition: values of partition columns that all rows get (static partition): texts, whole
            numbers, or None for NULL, which no template and no other task can give.
    """

    template_fields: Sequence[str] = (
        *HiveAcidChangeOperator.template_fields,
        "table",
        "source",
        "mode",
        "columns",
        "partition",
        "match",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "source": "json"}

    def __init__(  # noqa: PLR0913 - an INSERT says that much
        self,
        *,
        table: str,
        source: Mapping[str, Any],
        mode: str = InsertMode.APPEND.value,
        columns: Sequence[str] = (),
        partition: Mapping[str, str | int | None] = {},
        match: str = ColumnMatch.NAME.value,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.source = source
        self.mode = mode
        self.columns = columns
        self.partition = partition
        self.match = match
        self._nulls = statements.null_columns(partition)
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        statements.check_source_early(early, source)
        early.check(bind(arguments.choice, InsertMode), mode=mode)
        early.check(arguments.names, columns=columns)
        statements.check_partition_early(early, partition, self._nulls)
        early.check(bind(arguments.choice, ColumnMatch), match=match)

    def build_job(self) -> StatementSpec:
        """The insert that the rendered arguments describe."""
        return statement_spec(
            "insert",
            {
                "table": self.table,
                "source": self.source,
                "mode": self.mode,
                "columns": self.columns,
                "partition": self.partition,
                "match": self.match,
            },
            nulls=self._nulls,
        )


class HiveAcidUpdateOperator(HiveAcidChangeOperator):
    """UPDATE rows of a table.

    Args:
        table: `db.table`, full ACID.
        assignments: columns and the Spark SQL expressions they get.
        where: condition; every row if it is left out. None and a blank text are refused.
    """

    template_fields: Sequence[str] = (
        *HiveAcidChangeOperator.template_fields,
        "table",
        "assignments",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "conf": "json",
        "assignments": "json",
        "where": "sql",
    }

    def __init__(
        self,
        *,
        table: str,
        assignments: Mapping[str, str],
        where: str | LeftOut = LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.assignments = assignments
        self.where = where
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.assignments, assignments=assignments)
        early.check(arguments.optional_condition, where=where)

    def build_job(self) -> StatementSpec:
        """The update that the rendered arguments describe."""
        return statement_spec(
            "update",
            {"table": self.table, "assignments": self.assignments, "where": self.where},
        )


class HiveAcidDeleteOperator(HiveAcidChangeOperator):
    """DELETE rows of a table.

    Args:
        table: `db.table`, full ACID.
        where: condition; every row if it is left out. None and a blank text are refused.
    """

    template_fields: Sequence[str] = (*HiveAcidChangeOperator.template_fields, "table", "where")
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "where": "sql"}

    def __init__(
        self,
        *,
        table: str,
        where: str | LeftOut = LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.where = where
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.optional_condition, where=where)

    def build_job(self) -> StatementSpec:
        """The delete that the rendered arguments describe."""
        return statement_spec("delete", {"table": self.table, "where": self.where})


class HiveAcidTruncateOperator(HiveAcidChangeOperator):
    """TRUNCATE a table, or some of its partitions: nothing is left, and no row is read for it.

    Readers who are at work are not disturbed; the files go when the table is cleaned.

    Args:
        table: `db.table`, full ACID or insert-only.
        partition: values of partition columns, as for `HiveAcidInsertOperator`: every partition
            that has them is meant, and there has to be one. All partitions if it is left out; what
            is empty is refused.
    """

    template_fields: Sequence[str] = (*HiveAcidChangeOperator.template_fields, "table", "partition")

    def __init__(
        self,
        *,
        table: str,
        partition: Mapping[str, str | int | None] | LeftOut = LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self._nulls = statements.null_columns(partition)
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        if partition and partition is not LEFT_OUT:
            statements.check_partition_early(early, partition, self._nulls)
        else:
            early.check(statements.truncated_partition, partition=partition)

    def build_job(self) -> StatementSpec:
        """The truncation that the rendered arguments describe."""
        return statement_spec(
            "truncate", {"table": self.table, "partition": self.partition}, nulls=self._nulls
        )


class HiveAcidCompactOperator(HiveAcidSparkOperator):
    """Compact a table or one of its partitions.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for every partition.
        choice: `auto` (by the thresholds), `minor` or `major`.
        delta_count: `auto` acts at this many delta directories.
        delta_ratio: `auto` acts when deltas hold this share of the base's bytes.
        plan_only: say what would be done, and do nothing.
    """

    template_fields: Sequence[str] = (
        *HiveAcidSparkOperator.template_fields,
        "table",
        "partition",
        "choice",
        "delta_count",
        "delta_ratio",
        "plan_only",
    )

    def __init__(  # noqa: PLR0913 - every one is a choice of its own
        self,
        *,
        table: str,
        partition: str | None = None,
        choice: str = CompactionChoice.AUTO.value,
        delta_count: int | str = 10,
        delta_ratio: float | str = 0.1,
        plan_only: bool | str = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.choice = choice
        self.delta_count = delta_count
        self.delta_ratio = delta_ratio
        self.plan_only = plan_only
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.partition_name, partition=partition)
        early.check(bind(arguments.choice, CompactionChoice), choice=choice)
        early.check(arguments.delta_count, delta_count=delta_count)
        early.check(arguments.delta_ratio, delta_ratio=delta_ratio)
        early.check(arguments.truth, plan_only=plan_only)

    def build_job(self) -> CompactSpec:
        """The compaction that the rendered arguments describe."""
        return CompactSpec(
            target=arguments.table_name(self.table),
            partition=arguments.partition_name(self.partition),
            choice=arguments.choice(CompactionChoice, self.choice, "choice"),
            delta_count=arguments.delta_count(self.delta_count, "delta_count"),
            delta_ratio=arguments.delta_ratio(self.delta_ratio, "delta_ratio"),
            plan_only=arguments.truth(self.plan_only, "plan_only"),
        )

    def describe(self, result: JobResult) -> Sequence[str]:
        """What is, or with `plan_only` would be, compacted: one line a partition."""
        return compaction_lines(result.details)


class HiveAcidCleanOperator(HiveAcidSparkOperator):
    """Remove directories that no reader can need any more, and what dead writers left behind.

    Args:
        table: `db.table`.
        partition: `month=1`, or None for every partition.
        retention_s: how long replaced directories stay after they were replaced.
        orphan_age_s: how old a staging directory must be to count as left behind.
        plan_only: list exactly what would go, and remove nothing.
    """

    template_fields: Sequence[str] = (
        *HiveAcidSparkOperator.template_fields,
        "table",
        "partition",
        "retention_s",
        "orphan_age_s",
        "plan_only",
    )

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        retention_s: float | str = 0.0,
        orphan_age_s: float | str = 86400.0,
        plan_only: bool | str = False,  # `dry_run` is the name of an operator's method in Airflow
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.retention_s = retention_s
        self.orphan_age_s = orphan_age_s
        self.plan_only = plan_only
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.partition_name, partition=partition)
        early.check(arguments.number, retention_s=retention_s, orphan_age_s=orphan_age_s)
        early.check(arguments.truth, plan_only=plan_only)

    def build_job(self) -> CleanSpec:
        """The cleaning that the rendered arguments describe."""
        return CleanSpec(
            target=arguments.table_name(self.table),
            partition=arguments.partition_name(self.partition),
            retention_s=arguments.number(self.retention_s, "retention_s"),
            orphan_age_s=arguments.number(self.orphan_age_s, "orphan_age_s"),
            dry_run=arguments.truth(self.plan_only, "plan_only"),
        )

    def describe(self, result: JobResult) -> Sequence[str]:
        """What is, or with `plan_only` would be, removed: one line a directory."""
        return cleaning_lines(result.details)
