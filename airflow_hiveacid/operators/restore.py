"""The operator that restores a table to an earlier version.

Example:
    HiveAcidRestoreOperator(task_id="undo", table="demo.orders", version=1234)
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.jobs.specs.maintenance import RestoreSpec
from airflow_hiveacid.operators.reporting.plan_text import restore_lines
from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT, LeftOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.jobs.results import JobResult

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
    template_fields: Sequence[str] = given_fields(
        "statement",
        "table",
        *_WHICH,
        "plan_only",
        *HiveAcidRowChangeOperator.template_fields,
    )

    template_fields_renderers: ClassVar[dict[str, str]] = {
        "statement": "sql",
        "conf": "json",
    }

    def __init__(
        self,
        *,
        table: str,
        version: int | str | LeftOut = LEFT_OUT,
        timestamp: datetime | str | LeftOut = LEFT_OUT,
        tag: str | LeftOut = LEFT_OUT,
        plan_only: bool | str = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.version = version
        self.timestamp = timestamp
        self.tag = tag
        self.plan_only = plan_only
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(_version, version=version)
        early.check(_timestamp, timestamp=timestamp)
        early.check(_tag, tag=tag)
        early.check(arguments.truth, plan_only=plan_only)
        given = [name for name in _WHICH if getattr(self, name) is not LEFT_OUT]
        if len(given) != 1:
            raise ConfigurationError(
                f"task {self.task_id!r}: give exactly one of version, timestamp and tag, found"
                f" {' and '.join(given) or 'none'}"
            )

    def build_job(self) -> RestoreSpec:
        """Return the spec of the restore that the rendered arguments describe."""
        version = VersionSpec.of(
            _version(self.version, "version"),
            _timestamp(self.timestamp, "timestamp"),
            _tag(self.tag, "tag"),
        )
        return RestoreSpec(
            target=arguments.table_name(self.table),
            version=version.text(),
            plan_only=arguments.truth(self.plan_only, "plan_only"),
        )

    def describe(self, result: JobResult) -> Sequence[str]:
        """Return one line for each partition that the job has changed or would change."""
        return restore_lines(result.details)


def _version(value: int | str | LeftOut, argument: str) -> int | None:
    return None if isinstance(value, LeftOut) else arguments.version(value, argument)


def _timestamp(value: datetime | str | LeftOut, argument: str) -> datetime | None:
    if isinstance(value, LeftOut):
        return None
    if not isinstance(value, datetime):
        arguments.text(value, argument)
    return VersionSpec.of(timestamp=value).timestamp


def _tag(value: str | LeftOut, argument: str) -> str | None:
    if isinstance(value, LeftOut):
        return None
    return VersionSpec.of(tag=arguments.text(value, argument)).tag
