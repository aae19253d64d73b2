"""The operator that gives a version of a table a name: no Spark, a few metastore calls and notes.

Example:
    HiveAcidTagOperator(
        task_id="closing",
        table="demo.ledger",
        name="closing-{{ data_interval_start | ds }}",
        keep_for="90 days",
    )
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.operators.run_identity import generation_of, key_of, note_delivered
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT, LeftOut
from airflow_hiveacid.plan.history import time_text
from airflow_hiveacid.plan.keeping import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context, RetryPolicy


class TagAction(enum.Enum):
    """What is done to a tag."""

    MAKE = "make"
    MOVE = "move"
    DROP = "drop"


class HiveAcidTagOperator(BaseOperator):
    """Make, move or drop a tag: a name for a version, whose files our cleaners leave in place.

    A table with a tag is kept: the server no longer compacts or cleans it by itself, operators of
    ours do. Which version is the present is settled once: a retry means what its first try meant. A
    clear of a task that has ended well means the present anew. Running again is safe.

    Returns `{"table": ..., "tag": ..., "version": ..., "expires": ...}`; of a tag that was dropped
    version and end are None.

    Args:
        table: `db.table`.
        name: of the tag.
        action: `make`, which fails where the name stands for another version; `move`, which takes
            it from there; or `drop`, which is content if there is none.
        version: the number of the version. Without it and `timestamp`, the newest that no open
            write can change.
        timestamp: or the state at this moment: aware, or an ISO text with its zone.
        expires: when its files may go, in the same words; never, if this and `keep_for` are left
            out.
        keep_for: or how long from now on they stay: `90 days`, `36 hours`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        retry_policy: by default, input errors fail at once and all else is retried as `retries` and
            `retry_delay` say.
    """

    template_fields: Sequence[str] = (
        "table",
        "name",
        "action",
        "version",
        "timestamp",
        "expires",
        "keep_for",
        "hive_acid_conn_id",
    )

    def __init__(  # noqa: PLR0913 - every one is a choice of its own
        self,
        *,
        table: str,
        name: str,
        action: str = TagAction.MAKE.value,
        version: int | str | LeftOut = LEFT_OUT,
        timestamp: datetime | str | LeftOut = LEFT_OUT,
        expires: datetime | str | LeftOut = LEFT_OUT,
        keep_for: str | LeftOut = LEFT_OUT,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.table = table
        self.name = name
        self.action = action
        self.version = version
        self.timestamp = timestamp
        self.expires = expires
        self.keep_for = keep_for
        self.hive_acid_conn_id = hive_acid_conn_id
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(_name, name=name)
        early.check(_action, action=action)
        early.check(_number, version=version)
        early.check(_moment, timestamp=timestamp, expires=expires)
        early.check(_seconds, keep_for=keep_for)
        self._check_together()

    def execute(self, context: Context) -> dict[str, Any]:
        """Do it, and answer what the tag stands for now.

        Raises:
            InputError: an argument is wrong, the table has no such version, or the tag is taken.
            VersionGoneError: not all of the version is there.
            KeepingRefusedError: the table cannot be kept right now; a retry helps.
            HiveAcidError: otherwise as of `make_tag`.
        """
        self._check_together()
        table, name = arguments.table_name(self.table), _name(self.name, "name")
        action = _action(self.action, "action")
        hook = HiveAcidHook(self.hive_acid_conn_id)
        if action is TagAction.DROP:
            is_gone = hook.drop_tag(table, name)
            self.log.info("tag %r of %s %s", name, table, "is gone" if is_gone else "was not there")
            return {"table": table, "tag": name, "version": None, "expires": None}
        generation, moment = generation_of(context), _moment(self.timestamp, "timestamp")
        expires = _moment(self.expires, "expires")
        tag = hook.make_tag(
            table,
            name,
            VersionSpec.of(_number(self.version, "version"), moment),
            expires_s=None if expires is None else expires.timestamp(),
            keep_for_s=_seconds(self.keep_for, "keep_for"),
            made_by=f"{key_of(context)}+{generation}" if generation else key_of(context),
            moves=action is TagAction.MOVE,
        )
        note_delivered(context, generation)
        self.log.info("tag %r of %s stands for version %s", name, table, tag.version)
        return {
            "table": table,
            "tag": name,
            "version": tag.version,
            "expires": None if tag.expires_s is None else time_text(tag.expires_s),
        }

    def _check_together(self) -> None:
        """See that the arguments do not contradict each other.

        Raises:
            ConfigurationError: they do.
        """
        groups = (("version", "timestamp"), ("expires", "keep_for"))
        given = [
            [name for name in group if getattr(self, name) is not LEFT_OUT] for group in groups
        ]
        wrong = next((" and ".join(names) for names in given if len(names) > 1), None)
        if wrong is not None:
            raise ConfigurationError(f"task {self.task_id!r}: {wrong} exclude each other")
        is_known = any(given) and arguments.is_settled(self.action)
        if is_known and _action(self.action, "action") is TagAction.DROP:
            found = " and ".join(names[0] for names in given if names)
            raise ConfigurationError(
                f"task {self.task_id!r}: a tag is dropped by its name alone, not by {found}"
            )


def _name(value: str, argument: str) -> str:
    return VersionSpec.of(tag=arguments.text(value, argument)).tag or ""


def _action(value: str, argument: str) -> TagAction:
    return arguments.choice(TagAction, value, argument)


def _number(value: int | str | LeftOut, argument: str) -> int | None:
    return None if isinstance(value, LeftOut) else arguments.version(value, argument)


def _moment(value: datetime | str | LeftOut, argument: str) -> datetime | None:
    if isinstance(value, LeftOut):
        return None
    if not isinstance(value, datetime):
        arguments.text(value, argument)
    return VersionSpec.of(timestamp=value).timestamp


def _seconds(value: str | LeftOut, argument: str) -> float | None:
    if isinstance(value, LeftOut):
        return None
    return duration(arguments.text(value, argument), argument)
