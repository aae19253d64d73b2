"""The operator that tags a version of a table, without Spark."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any

from airflow.sdk import BaseOperator, Context

from airflow_hiveacid.airflow_names import RetryPolicy
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.records import time_text
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, DeclaredArguments, declaration, one_of
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting import task_view
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.operators.submission.run_identity import generation_of, key_of, note_delivered
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.text import as_of, name_text

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class TagAction(enum.Enum):
    """The action on a tag."""

    MAKE = "make"
    MOVE = "move"
    DROP = "drop"


class HiveAcidTagOperator(
    DeclaredArguments, ValueRendering, task_view.TaskView, PolicyRetries, BaseOperator
):
    """Make, move or drop a tag: a named version of a table whose files are kept.

    Hive no longer compacts or cleans a tagged table; use `HiveAcidCompactOperator` and
    `HiveAcidCleanOperator`. By default the first try tags the table's newest version, and retries
    use that version. If a user clears the task after a success, the next run tags the version that
    is newest then. It is safe to run the task again.

    Returns `{"table": ..., "tag": ..., "version": ..., "expires": ...}`; for a dropped tag,
    `version` and `expires` are None.

    Args:
        table: `db.table`.
        name: the tag's name.
        action: `make`, which fails if the tag exists for a different version; `move`, which moves
            an existing tag to this version; or `drop`, which succeeds even if there is no such tag.
        version: the number of the version. Without `version` and `timestamp`, the tag is for the
            newest version that no open write can change.
        timestamp: instead of `version`, a time: a datetime with a time zone, or an ISO 8601 string
            with a time zone.
        expires: when the version's files may be removed, given like `timestamp`. If neither
            `expires` nor `keep_for` is given, the files are never removed.
        keep_for: instead of `expires`, how long to keep the files from now on: `90 days`, `36
            hours`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        retry_policy: which errors to retry. By default, an input error fails the task at once.
            After any other error, `retries` and `retry_delay` apply.
        map_index_template: the label of a mapped task's instances; by default the table and the
            tag's name.
    """

    does = "Makes, moves or drops a tag of {table}: a name that keeps a version readable."
    returns = "the tag's name, version and expiry"
    shows_statement = True
    table: str
    action: str
    keep_for: str | arguments.LeftOut
    hive_acid_conn_id: str

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        table: kinds.Table,
        name: Annotated[str, Argument(arguments.tag_name)],
        action: Annotated[str, one_of(TagAction)] = TagAction.MAKE.value,
        version: kinds.Version = arguments.LEFT_OUT,
        timestamp: kinds.Moment = arguments.LEFT_OUT,
        expires: kinds.Moment = arguments.LEFT_OUT,
        keep_for: Annotated[
            str | arguments.LeftOut, Argument(arguments.or_left_out(arguments.duration_s))
        ] = arguments.LEFT_OUT,
        hive_acid_conn_id: kinds.ConnectionId = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = task_view.MAP_INDEX_TEMPLATE,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, map_index_template=map_index_template, **kwargs)
        self.take_arguments(locals())
        self._tagged: int | None = None
        self._check_together()

    def statement_text(self) -> str:
        """Return the task as SQL text, in Hive's syntax for tags of Iceberg tables."""
        table, name = self.value_of("table"), name_text(self.value_of("name"))
        action = self.value_of("action")
        if action is TagAction.DROP:
            return f"ALTER TABLE {table} DROP TAG IF EXISTS {name}"
        moment = self.value_of("timestamp")
        version = as_of(VersionSpec.of(self.value_of("version"), moment))
        verb = "CREATE OR REPLACE TAG" if action is TagAction.MOVE else "CREATE TAG"
        retention = (
            "" if self.keep_for is arguments.LEFT_OUT else f" RETAIN {str(self.keep_for).upper()}"
        )
        expires = self.value_of("expires")
        until = "" if expires is None else f" -- until {expires.isoformat()}"
        return f"ALTER TABLE {table} {verb} {name}{version}{retention}{until}"

    @task_view.with_short_traceback
    def execute(self, context: Context) -> dict[str, Any]:
        """Make, move or drop the tag, and return its version."""
        self._check_together()
        table, name = self.value_of("table"), self.value_of("name")
        action = self.value_of("action")
        hook = HiveAcidHook(self.hive_acid_conn_id)
        if action is TagAction.DROP:
            is_gone = hook.drop_tag(table, name)
            self.log.info(
                "tag %r of %s %s", name, table, "was dropped" if is_gone else "does not exist"
            )
            return {"table": table, "tag": name, "version": None, "expires": None}
        generation, moment = generation_of(context), self.value_of("timestamp")
        expires = self.value_of("expires")
        tag = hook.make_tag(
            table,
            name,
            VersionSpec.of(self.value_of("version"), moment),
            expires_s=None if expires is None else expires.timestamp(),
            keep_for_s=self.value_of("keep_for"),
            made_by=f"{key_of(context)}+{generation}" if generation else key_of(context),
            moves=action is TagAction.MOVE,
        )
        note_delivered(context, generation)
        self._tagged = tag.version
        self.log.info("tag %r of %s names version %s", name, table, tag.version)
        return {
            "table": table,
            "tag": name,
            "version": tag.version,
            "expires": None if tag.expires_s is None else time_text(tag.expires_s),
        }

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the table for OpenLineage, whose provider also calls this when the task ends."""
        from airflow_hiveacid.operators.reporting.lineage import lineage_of_version  # noqa: PLC0415 - for tasks only

        table = self.value_of("table")
        return lineage_of_version(self.hive_acid_conn_id, table, self._tagged)

    def _check_together(self) -> None:
        groups = (("version", "timestamp"), ("expires", "keep_for"))
        choices = [
            [name for name in group if getattr(self, name) is not arguments.LEFT_OUT]
            for group in groups
        ]
        wrong = next((" and ".join(names) for names in choices if len(names) > 1), None)
        if wrong is not None:
            raise ConfigurationError(f"task {self.task_id!r}: {wrong} are mutually exclusive")
        is_known = any(choices) and arguments.is_settled(self.action)
        if is_known and self.value_of("action") is TagAction.DROP:
            superfluous = " and ".join(names[0] for names in choices if names)
            raise ConfigurationError(
                f"task {self.task_id!r}: action drop needs only the name; remove {superfluous}"
            )
