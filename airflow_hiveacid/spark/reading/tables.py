"""Reading of ACID tables as frames, under a snapshot that the reader holds.

Frames are lazy, so use them only inside the snapshot's `with` block.

Example:
    with read_snapshot(metastore, ["demo.flights", "demo.planes"], job_key="report") as snapshot:
        flights = read_table(spark, "demo.flights", snapshot)
        flights.groupBy("carrier").count().show()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.plan.statements.parameters import where_parameters
from airflow_hiveacid.reading.snapshots import ReadSnapshot
from airflow_hiveacid.reading.table_view import Touched, touched_as_of
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.engine.parsed_sql import TextTerms
from airflow_hiveacid.spark.engine.session import give_store_settings
from airflow_hiveacid.spark.engine.store_tokens import give_store_tokens
from airflow_hiveacid.spark.reading.pruning import partitions_where
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.versions.past import past_of


def read_table(  # noqa: PLR0913 - a read names a table, its rows and columns, and a version
    spark: SparkSession,
    name: str,
    snapshot: ReadSnapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    parameters: Mapping[str, object] | None = None,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    tag: str | None = None,
) -> DataFrame:
    """Return a frame of a table's rows.

    Args:
        spark: the session.
        name: a table of the snapshot.
        snapshot: the snapshot under which the table is read.
        columns: the columns to read, in this order; all by default. Other columns are not read from
            files.
        where: a condition in Spark SQL over the table's columns. Partitions that cannot match are
            not listed. Files and parts of files that cannot match are not read. With a filter on
            the frame instead of `where`, all files are read.
        parameters: the values of the markers in `where`, such as `:day`, by marker name. A value
            has its Python type, or the type in a dict such as `{"type": "date", "value":
            "2026-01-01"}`.
        version: read the table with all committed changes up to this write ID.
        timestamp: read the table as it was at this moment, by the metastore's clock. The value is a
            datetime with a time zone, or an ISO string.
        tag: read the version with this tag.

    Returns:
        Data columns, then partition columns. Timestamps are TIMESTAMP_NTZ, in microseconds. A char
        has no padding, as in Hive's own functions and joins. A char equals a literal with trailing
        blanks only in a session with `spark.sql.readSideCharPadding=false`, as in sessions of
        `run`.

    Raises:
        ConfigurationError: the snapshot does not include this table.
        UnknownColumnError: the table has no such column.
        ExpressionError: the condition is invalid.
        UnsafeTextError: the condition would call Java or read files of the driver.
        VersionUnknownError, VersionDoubtfulError, VersionNotSettledError: the table has no such
            version, the version cannot be determined, or it could still change.
        VersionNotYetError: the requested time is in the future by the metastore's clock.
        VersionGoneError: there is no proof that the remaining files contain all rows of the
            version.
        StorageError: the files cannot be read.
    """
    give_store_settings(spark)
    give_store_tokens(spark)
    table, client = snapshot.table(name), snapshot.client
    spec = VersionSpec.of(version, timestamp, tag)
    past = None
    if not spec.is_now:
        past = past_of(client, table, spec, snapshot.snapshot, taken_s=snapshot.taken_s)
    marker_values = where_parameters(where, parameters)
    if where is None:
        return resolve_target(spark, client, table, snapshot.snapshot, past=past).rows(columns)
    moment = Moment.now(spark, TextTerms(parameters=marker_values))
    touched = Touched()
    if table.is_partitioned:
        touched = touched_as_of(
            client, table, past, lambda names: partitions_where(spark, table, names, where, moment)
        )
    target = resolve_target(spark, client, table, snapshot.snapshot, touched, past=past)
    return target.rows_where(where, moment, columns)
