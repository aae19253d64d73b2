"""The operator that adds a table's new changes to a change feed.

Example:
    HiveAcidChangeFeedOperator(
        task_id="changes",
        table="demo.flights",
        location="hdfs://nn/feeds/flights",
        keys=["id"],
        net=True,
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.jobs.specs.maintenance import ChangeFeedSpec, WhenGone
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration, one_of
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT
from airflow_hiveacid.plan.statements.parameters import check_early, job_with

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
        where: kinds.Condition = LEFT_OUT,
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
