"""The operator that restores a table to an earlier version.

Example:
    HiveAcidRestoreOperator(task_id="undo", table="demo.orders", version=1234)
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT, LeftOut

_WHICH = ("version", "timestamp", "tag")


class HiveAcidRestoreOperator(HiveAcidRowChangeOperator):
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
        version: kinds.Version = LEFT_OUT,
        timestamp: kinds.Moment = LEFT_OUT,
        tag: Annotated[
            str | LeftOut, setting(arguments.or_left_out(arguments.tag_name))
        ] = LEFT_OUT,
        plan_only: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        names = [name for name in _WHICH if getattr(self, name) is not LEFT_OUT]
        if len(names) != 1:
            raise ConfigurationError(
                f"task {self.task_id!r}: give exactly one of version, timestamp and tag, found"
                f" {' and '.join(names) or 'none'}"
            )

    def build_job(self) -> RestoreSpec:
        """Return the spec of the restore that the rendered arguments describe."""
        version = VersionSpec.of(*map(self.value_of, _WHICH))
        return RestoreSpec(**self.job_arguments(), version=version.text())
