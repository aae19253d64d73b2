"""Functions that return the assets of a table, for `outlets` and `schedule`.

A table's data and its need for compaction are two assets with different URIs. With a common URI,
each compaction would start a new compaction. The URI of a watched asset contains the watcher's
settings, because Airflow keeps only one set of watchers per asset. If two DAG files had different
settings for one URI, each file would delete the watcher of the other file.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from airflow.sdk import Asset, AssetWatcher

from airflow_hiveacid.assets.uris import Aspect, AssetUri
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.hooks.hive_acid import DEFAULT_CONNECTION
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.watch.compaction_due import CompactionDueTrigger
from airflow_hiveacid.watch.conditions import CompactionNeeded

_POLL_INTERVAL: Final = timedelta(minutes=1)
_REFIRE_AFTER: Final = timedelta(hours=1)


def hive_asset(table: str, *, hive_acid_conn_id: str = DEFAULT_CONNECTION) -> Asset:
    """Return the asset for a table's data.

    If this asset is an outlet of our operators, each task that changes the table adds an event to
    the asset.

    Args:
        table: `db.table`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.

    Raises:
        InvalidNameError: `table` is not the name of a table.
    """
    return _asset(table, hive_acid_conn_id, Aspect.DATA)


def partitions_asset(table: str, *, hive_acid_conn_id: str = DEFAULT_CONNECTION) -> Asset:
    """Return the asset for a table's changed partitions, for DAGs with a partitioned schedule.

    If this asset is an outlet of our operators, a task adds an event for each partition that it
    changed. The event's key is the partition's name. The key is `*` if the table has no partitions,
    or if the task changed more than 100 partitions. A statement that finds no row causes no event
    with a key. Events with a key start only DAGs with a partitioned schedule, such as
    `PartitionedAssetTimetable`.

    Args:
        table: `db.table`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.

    Raises:
        InvalidNameError: `table` is not the name of a table.
    """
    return _asset(table, hive_acid_conn_id, Aspect.PARTITIONS)


def compaction_asset(  # noqa: PLR0913 - each is a separate choice
    table: str,
    *,
    delta_count: int | str | None = None,
    delta_ratio: float | str | None = None,
    also_when: Mapping[str, float | str] | str | None = None,
    hive_acid_conn_id: str = DEFAULT_CONNECTION,
    poll_interval: timedelta = _POLL_INTERVAL,
    refire_after: timedelta = _REFIRE_AFTER,
) -> Asset:
    """Return the asset that gets an event when a table needs compaction.

    The triggerer polls the metastore, so the event may also follow a write of Hive, Trino or Spark.
    All tables of a database that have equal `poll_interval`s share one poll. The event's payload
    has the reason, the measured values and the partitions. After an event, the asset gets the next
    event when the table has been compacted and needs compaction again. If the table never stops
    needing compaction, the next event follows after `refire_after`, or at the next write after a
    compaction ended. If a table is dropped and created again, it counts as a new table.

    Settings that differ from the defaults are part of the asset's name and URI. So two DAGs with
    different settings for a table have two assets, each with a watcher.

    Args:
        table: `db.table`.
        delta_count: number of delta directories. By default (None), the table's own threshold
            applies, as for `HiveAcidCompactOperator`. `off` switches the threshold off.
        delta_ratio: size of the deltas as a share of the base's size. None and `off` as above.
        also_when: further thresholds by name, as for `HiveAcidCompactOperator`. They are measured
            after a write, and after `refire_after`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        poll_interval: time between two polls.
        refire_after: time after which an event is repeated. After `refire_after`, a table without
            writes is also measured again.

    Raises:
        InvalidNameError: `table` is not the name of a table.
        ConfigurationError: a threshold or a time is invalid.
    """
    poll_s, refire_s = poll_interval.total_seconds(), refire_after.total_seconds()
    if poll_s <= 0:
        raise ConfigurationError(f"poll_interval must be above 0 s, found {poll_s} s")
    if refire_s < 0:
        raise ConfigurationError(f"refire_after must be 0 s or more, found {refire_s} s")
    thresholds = arguments.thresholds(delta_count, delta_ratio, also_when)
    condition = CompactionNeeded(table=str(TableRef.parse(table)), thresholds=thresholds)
    trigger = CompactionDueTrigger(
        condition=condition.to_json(),
        hive_acid_conn_id=hive_acid_conn_id,
        poll_interval_s=poll_s,
        refire_after_s=refire_s,
    )
    settings = _settings(thresholds, poll_s, refire_s)
    defaults = _settings(
        GivenThresholds(), _POLL_INTERVAL.total_seconds(), _REFIRE_AFTER.total_seconds()
    )
    own = {name: text for name, text in settings.items() if text != defaults[name]}
    return _asset(table, hive_acid_conn_id, Aspect.COMPACTION, own, trigger)


def _settings(thresholds: GivenThresholds, poll_s: float, refire_s: float) -> dict[str, str]:
    """Return the settings of a watched asset as texts, in Airflow's order of a URI's query."""
    plain = thresholds.plain()
    return {
        "also_when": ",".join(f"{name}:{limit}" for name, limit in plain["also_when"].items()),
        "delta_count": str(plain["delta_count"]),
        "delta_ratio": str(plain["delta_ratio"]),
        "poll_interval_s": str(poll_s),
        "refire_after_s": str(refire_s),
    }


def _asset(
    table: str,
    conn_id: str,
    aspect: Aspect,
    settings: Mapping[str, str] = {},
    trigger: CompactionDueTrigger | None = None,
) -> Asset:
    ref = TableRef.parse(table)
    # Airflow requires that asset names are unique.
    name = str(ref) if conn_id == DEFAULT_CONNECTION else f"{conn_id}: {ref}"
    words = (name, aspect.value, *(f"{key}={value}" for key, value in settings.items()))
    uri = AssetUri(conn_id=conn_id, table=ref, aspect=aspect, query=urlencode(settings))
    return Asset(
        name=" ".join(filter(None, words)),
        uri=str(uri),
        watchers=[] if trigger is None else [AssetWatcher(name=f"watch {name}", trigger=trigger)],
    )
