"""The operators that change rows or restore them, and the operator of change feeds.

A constructor checks each argument that contains no template. So a typo in an argument without a
template is an import error of the DAG. `build_job` reads the rendered arguments. Arguments are
mappings and lists, because Airflow renders the templates inside mappings and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, RestoreSpec, WhenGone
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of, setting
from airflow_hiveacid.operators.row_change import InProcessOperator, SimpleStatementOperator
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as statements
from airflow_hiveacid.plan.statements.parameters import check_early, job_with


def _check_truncated_early(early: arguments.EarlyChecks, value: object) -> None:
    if value and value is not arguments.LEFT_OUT:
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
    spec_type = specs.MergeSpec

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
        condition: kinds.Condition = arguments.LEFT_OUT,
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
    spec_type = specs.InsertSpec

    @declaration
    def __init__(  # noqa: PLR0913 - an INSERT has this many parts
        self,
        *,
        table: kinds.Table,
        source: kinds.Source,
        mode: Annotated[str, one_of(specs.InsertMode)] = specs.InsertMode.APPEND.value,
        columns: Annotated[Sequence[str], Argument(arguments.names)] = (),
        partition: kinds.PartitionValues = kinds.NO_VALUES,
        match: Annotated[str, one_of(specs.ColumnMatch)] = specs.ColumnMatch.NAME.value,
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
    spec_type = specs.UpdateSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        assignments: Annotated[
            Mapping[str, str], Argument(arguments.assignments, field="set", shown_as="json")
        ],
        where: kinds.Condition = arguments.LEFT_OUT,
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
    spec_type = specs.DeleteSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        where: kinds.Condition = arguments.LEFT_OUT,
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
    spec_type = specs.TruncateSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        partition: Annotated[
            Mapping[str, str | int] | arguments.LeftOut,
            Argument(statements.truncated_partition, check=_check_truncated_early),
        ] = arguments.LEFT_OUT,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())


class HiveAcidLoadOperator(SimpleStatementOperator):
    """Run LOAD DATA: check each file to its end, and copy the files into a table unchanged.

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

    does = "Checks each file to its end, and copies the files into {table}, in one transaction."
    spec_type = specs.LoadSpec

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


_WHICH = ("version", "timestamp", "tag")


class HiveAcidRestoreOperator(InProcessOperator):
    """Restore exactly the rows that a table had at a version, in one transaction.

    Every partition gets the version's rows. If a partition had no rows at that version, or did not
    exist yet, the task removes all its rows. The task does not write to an unchanged partition. The
    task locks each partition that differs from the version, as INSERT OVERWRITE does. The restore
    creates a new version and does not remove older versions.

    If the version can no longer be read, or a partition was dropped since then, the task fails and
    changes nothing. If this provider never wrote to a partition, the task may not notice that the
    partition was dropped. In this case, the restored table lacks the rows of the dropped partition.
    By default a major compaction or an overwrite makes older versions unreadable; `readable_for` of
    `HiveAcidCreateTableOperator` keeps versions for longer. Columns that were added after the
    version are NULL in the restored rows.

    In the result's details, `restore` has an entry for each partition that may differ. In an entry,
    `how` is the type of change: `delta`, `base` or `nothing`. `come`, `go` and `stay` are the
    numbers of added, removed and unchanged rows, in this order.

    Args:
        table: `db.table`, full ACID or insert-only.
        version: the number of the version to restore.
        timestamp: restore the table's state at this time: a datetime with a time zone, or an ISO
            8601 string with a time zone.
        tag: restore the version with this tag. Give exactly one of `version`, `timestamp` and
            `tag`.
        plan_only: report what would be changed, and change nothing.
    """

    does = "Restores {table} to an earlier version in one transaction."
    returns = "the status, the write ID, and the number of changed rows of each partition"
    shows_statement = True

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        version: kinds.Version = arguments.LEFT_OUT,
        timestamp: kinds.Moment = arguments.LEFT_OUT,
        tag: Annotated[
            str | arguments.LeftOut, setting(arguments.or_left_out(arguments.tag_name))
        ] = arguments.LEFT_OUT,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        names = [name for name in _WHICH if getattr(self, name) is not arguments.LEFT_OUT]
        if len(names) != 1:
            raise ConfigurationError(
                f"task {self.task_id!r}: give exactly one of version, timestamp and tag, found"
                f" {' and '.join(names) or 'none'}"
            )

    def build_job(self) -> RestoreSpec:
        """Return the spec of the restore that the rendered arguments describe."""
        version = VersionSpec.of(*map(self.value_of, _WHICH))
        return RestoreSpec(**self.job_arguments(), version=version.text())


_Version = Annotated[
    int | str | datetime | VersionSpec | None,
    Argument(arguments.or_none(arguments.version_text)),
]


class HiveAcidChangeFeedOperator(HiveAcidSparkOperator):
    """Write a table's changes since the last run to Parquet files in a new directory.

    The directory `location` contains the feed. Each run writes one range of versions. A note in the
    directory records the last version of each range, and the next range begins after that version.
    No change is written twice. A retry of a finished range returns the range's result. A retry of a
    killed run writes the whole range again. The first range contains the changes after `since`.
    Without `since`, the first range contains the whole table, with all rows as inserts. If a range
    has no changes, the task writes no files but advances the feed.

    Only one task should advance a feed. If two tasks advance a feed, each task gets only some of
    the ranges. If two such tasks run at the same time, one task fails. The retry of the failed task
    continues after the range of the successful task.

    In the result, `details["ranges"]` contains the new range, unless the range has no changes. The
    entry of a range has `location`, `since`, `until` and, in `rows`, the number of rows by type of
    change. `details["until"]` is the version that the feed has reached. If the range contains the
    whole table and the table is empty, the range has one file without rows.

    Args:
        table: `db.table`, full ACID or insert-only.
        location: URI of the feed's directory.
        keys: columns that identify a row. If a delete and an insert have equal keys, the task
            writes one update instead. By default the columns of the table's primary key, if it has
            one; an empty list means no keys. If a key value is NULL, a MERGE of the feed by that
            key finds no row to delete or update.
        net: leave out each row that is inserted and deleted within the range. With keys, write at
            most one change per key.
        columns: the columns to write; by default all columns.
        where: a condition on rows; the task writes only changes of rows that satisfy the condition.
        parameters: values for the markers in `where`, as for `HiveAcidMergeOperator`. All ranges of
            a feed must have the same parameters.
        pre_images: whether the feed contains all values of deleted rows, and all old values of
            updated rows. Without `pre_images`, the feed contains only the keys, partition and row
            ID of these rows, and the task is much faster.
        since: the version after which the first range begins: a number, a time (a datetime with a
            time zone, or an ISO 8601 string), or `tag NAME`.
        until: the last version, given like `since`; by default, the newest version that no open
            write can change. If `until` is a time, the range ends before the lowest write ID that
            was open then.
        when_gone: what to do if a compaction or an overwrite has removed the history, or if a
            partition was dropped: `fail` or `whole`. With `whole`, the job writes the whole table
            with all rows as inserts and flags the range as `is_whole`. A new range must end at a
            later version than the last range. So after a partition is dropped, the task fails until
            another write to the table commits.
    """

    does = "Writes the changes of {table} since the last run to Parquet files."
    returns = "the new range with its location, versions and numbers of rows"
    parameters: Mapping[str, Any]

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: kinds.Table,
        location: kinds.Text,
        keys: kinds.OptionalNames = None,
        net: Annotated[bool | str, Argument(arguments.truth, field="is_net")] = False,
        columns: kinds.Names = (),
        where: kinds.Condition = arguments.LEFT_OUT,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        pre_images: kinds.Switch = True,
        since: _Version = None,
        until: _Version = None,
        when_gone: Annotated[str, one_of(WhenGone)] = WhenGone.FAIL.value,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        check_early(self.early_checks, parameters, [where])

    def build_job(self) -> ChangeFeedSpec:
        """Return the spec of the range that the rendered arguments describe."""
        return job_with(ChangeFeedSpec(**self.job_arguments()), self.parameters)
