"""The operator that hands on what was changed in a table, range by range.

Example:
    HiveAcidChangesOperator(
        task_id="changes",
        table="demo.flights",
        location="hdfs://nn/feeds/flights",
        keys=["id"],
        net=True,
    )
"""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.jobs.changes import ChangesSpec, WhenGone
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_hiveacid.format.versions import VersionSpec
    from airflow_hiveacid.plan.arguments import LeftOut


class HiveAcidChangesOperator(HiveAcidSparkOperator):
    """Write the changes of a table since the last time, as Parquet, into a directory of their own.

    The feed, which is the directory `location`, remembers where it stopped: each range begins where
    the last one ended. It goes on exactly once: a retry of a range that is done answers what was
    done, and one that was killed does it again, whole. The first range is the whole table, all rows
    as inserts; with `since`, the changes after that version. Where nothing was changed that it
    tells of, the feed goes on, and there is nothing to take over. One task alone should go on with
    a feed: of two each gets the ranges that the other does not, and at the same time one of them
    fails, and goes on behind the other when it is tried again.

    It returns what it did: `details`, `ranges` has the new range, if it has rows, with `location`,
    `since`, `until` and `rows` by type of change; `until` beside it is the version that the feed
    has come to. A range that is the whole of a table without rows has a file without rows.

    Args:
        table: `db.table`, full ACID or insert-only.
        location: URI of the feed's directory.
        keys: columns that tell rows from each other: they make updates of deletes and inserts. By
            default those of the table's primary key, if it has one; none with an empty list. Where
            one may be NULL a MERGE by it finds no row to delete or update.
        net: leave out what came and went within a range; with keys, one change of a key at most.
        columns: which columns to write; all if there are none.
        where: a condition; the changes of the rows for which it holds.
        pre_images: whether rows that go are told with the values they had; else with their keys,
            partition and identity alone, which costs far less.
        since: the version after which the first range begins: a number, a moment (aware, or an ISO
            text), or `tag NAME`.
        until: the last version, as `since`; without it, the newest that no open write can change.
            Of a moment, the range ends below the lowest write that was open then.
        when_gone: what to do where a compaction or an overwrite has taken the history, or somebody
            has dropped a partition: `fail`, or write the `whole` table, all rows as inserts; such a
            range says `is_whole`. It has to end later than the last one, so a partition that is
            dropped fails tasks until somebody writes.
    """

    template_fields: Sequence[str] = (
        *HiveAcidSparkOperator.template_fields,
        "table",
        "location",
        "keys",
        "net",
        "columns",
        "where",
        "pre_images",
        "since",
        "until",
        "when_gone",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "where": "sql"}

    def __init__(  # noqa: PLR0913 - every one is a choice of its own
        self,
        *,
        table: str,
        location: str,
        keys: Sequence[str] | str | None = None,
        net: bool | str = False,
        columns: Sequence[str] | str = (),
        where: str | LeftOut = LEFT_OUT,
        pre_images: bool | str = True,
        since: int | str | datetime | VersionSpec | None = None,
        until: int | str | datetime | VersionSpec | None = None,
        when_gone: str = WhenGone.FAIL.value,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.location = location
        self.keys = keys
        self.net = net
        self.columns = columns
        self.where = where
        self.pre_images = pre_images
        self.since = since
        self.until = until
        self.when_gone = when_gone
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.text, location=location)
        early.check(arguments.optional_names, keys=keys)
        early.check(arguments.names, columns=columns)
        early.check(arguments.truth, net=net, pre_images=pre_images)
        early.check(arguments.optional_condition, where=where)
        early.check(arguments.optional_version, since=since, until=until)
        early.check(bind(arguments.choice, WhenGone), when_gone=when_gone)

    def build_job(self) -> ChangesSpec:
        """The range that the rendered arguments describe."""
        return ChangesSpec(
            target=arguments.table_name(self.table),
            location=arguments.text(self.location, "location"),
            keys=arguments.optional_names(self.keys, "keys"),
            is_net=arguments.truth(self.net, "net"),
            columns=arguments.names(self.columns, "columns"),
            where=arguments.optional_condition(self.where, "where"),
            pre_images=arguments.truth(self.pre_images, "pre_images"),
            since=arguments.optional_version(self.since, "since"),
            until=arguments.optional_version(self.until, "until"),
            when_gone=arguments.choice(WhenGone, self.when_gone, "when_gone"),
        )
