"""A table for programs: scans, changes, history and maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from airflow_hiveacid.arrow import LIBRARY_LIMITS
from airflow_hiveacid.arrow.compaction import compact_in_process
from airflow_hiveacid.arrow.scan import schema_of
from airflow_hiveacid.arrow.statements import planned
from airflow_hiveacid.format.errors import CommitStateUnknownError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.lake.changes import Describe, TableChanges, run_changes
from airflow_hiveacid.lake.scans import Scan
from airflow_hiveacid.lake.session import HeldSnapshot, Session, without_spark
from airflow_hiveacid.lake.statements import simple_condition
from airflow_hiveacid.maintenance.clean_tables import clean_tables
from airflow_hiveacid.maintenance.health import measure
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.dml import check_readable
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.versions.history import TableHistory, history_of


class Table(TableChanges[JobResult]):
    """A table of a connection, with the definition that it had when it was loaded.

    The first scan takes a snapshot, which all later scans share, so they show the table at one
    point in time. A change through this table, or `refresh`, ends that: the next scan takes a new
    snapshot. A snapshot stays open, and cleaning, DROP and INSERT OVERWRITE wait for it, until the
    table and its scans are closed or forgotten, or the process ends. Each change is one transaction
    of its own. Mutable: it stores its snapshot.
    """

    def __init__(self, session: Session, info: TableInfo) -> None:
        super().__init__(info.ref)
        check_readable(info)
        self._session, self._info = session, info
        self._snapshot: HeldSnapshot | None = None

    @property
    def name(self) -> str:
        """The table's full name."""
        return str(self._ref)

    @property
    def schema(self) -> pa.Schema:
        """The columns and Arrow types of a scan, partition columns last."""
        return schema_of(self._info)

    def scan(  # noqa: PLR0913 - a read names columns, rows and a version
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> Scan:
        """Return a scan of rows; it reads when one of its methods is called.

        Args:
            columns: the columns to read, in this order; all by default.
            where: a condition in SQL: comparisons of columns with constants or parameters, IN,
                BETWEEN and IS NULL, joined with AND and OR. Partitions and stripes that cannot
                contain a row of it are not read.
            parameters: the values of the markers in the condition, such as `:day`, by name. A value
                has its Python type, or the type in a dict such as `{"type": "date", "value":
                "2026-01-01"}`.
            version: read the table with all committed changes up to this write ID.
            timestamp: read the table as it was at this moment, with a time zone.
            tag: read the version with this tag.

        Raises:
            UnknownColumnError: the table has no such column.
            ExpressionError: only Spark can evaluate the condition.
            TypeMismatchError: no cast turns a string in the condition into its column's type.
            LockNotAcquiredError: another transaction is overwriting the table.
            TableChangedError: the table's definition has changed since it was loaded; `refresh`
                loads it again.
            VersionUnknownError, VersionGoneError: when the scan is read, the version is unknown or
                cannot be read from the remaining files.

        Example:
            lake.table("demo.orders").scan(["id", "price"], "price > 10").to_pandas()
        """
        schema = schema_of(self._info, columns)
        condition = simple_condition(self._info, where, parameters)
        version_spec = VersionSpec.of(version, timestamp, tag)
        if self._snapshot is None or self._snapshot.is_closed:
            self._snapshot = self._session.snapshot(self._info)
        return Scan(self._snapshot, schema, condition, version_spec)

    def refresh(self) -> Table:
        """Load the table's definition again, let the next scan take a new snapshot; return self.

        Earlier scans keep the old snapshot.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        with self._session.connected() as client:
            self._info = client.get_source(self._ref)
        check_readable(self._info)
        self._snapshot = None
        return self

    def close(self) -> None:
        """End the snapshot; scans of it can no longer be read. The table itself stays usable."""
        if self._snapshot is not None:
            self._snapshot.close("its table was closed")
            self._snapshot = None

    def history(self, *, most: int | None = None) -> TableHistory:
        """Return the versions, newest first, with time, author, operation and readability.

        Args:
            most: the maximum number of versions; all by default.

        Raises:
            NotTransactionalError: the table has no versions.
            StorageError: the table's files or notes cannot be read.
        """
        with self._session.connected() as client:
            return history_of(client, client.get_table(self._ref), most=most)

    def health(self) -> tuple[TableHealth, ...]:
        """Return the deltas, sizes and small files of each partition; see `hiveacid health`.

        Raises:
            NotTransactionalError: the table is not transactional.
            StorageError: a directory cannot be listed.
        """
        with self._session.connected() as client:
            return measure(client, self._ref).healths

    def clean(
        self, *, dry_run: bool = False, retention_s: float = 0.0, orphan_age_s: float = 86400.0
    ) -> JobResult:
        """Remove files that no reader needs any more, and return what was removed and kept.

        Args:
            dry_run: only plan; nothing is removed.
            retention_s: how long a replaced directory is kept, in seconds.
            orphan_age_s: the minimum age of an abandoned writer's files to remove, in seconds.

        Raises:
            OtherOwnerError: the directory belongs to another table.
            PartitionsFailedError: some partitions failed; the others are done.
        """
        spec = CleanSpec.of_table(
            self.name, plan_only=dry_run, retention_s=retention_s, orphan_age_s=orphan_age_s
        )
        self._snapshot = None  # otherwise, this reader may be one that the cleaning waits for
        with self._session.job(spec) as job:
            return clean_tables(job.client, spec, lambda _: None).result(job.spec)

    def compact(
        self,
        choice: str = "auto",
        *,
        partition: str | None = None,
        max_bytes: int = LIBRARY_LIMITS.file_bytes,
    ) -> JobResult:
        """Join deltas into larger files in this process, each partition in its own transaction.

        Args:
            choice: `auto` compacts the partitions that need it, by the table's thresholds; `minor`
                joins the deltas of every partition, and `major` writes a new base.
            partition: the only partition to compact, such as `day=2026-01-31`.
            max_bytes: the largest size of the files to read, of all partitions together.

        Raises:
            SparkNeededError: there is more to read. Nothing was changed.
            CompactionNotDoneError: `minor` or `major` was blocked, as by another compaction.
            PartitionsFailedError: some partitions failed; the others are done.

        Example:
            lake.table("demo.orders").compact("major", partition="day=2026-01-31")
        """
        spec = CompactSpec.of_table(
            self.name,
            choice=arguments.choice(CompactionChoice, choice, "choice"),
            partition=arguments.partition_name(partition),
        )

        self._snapshot = None
        remedy = "Compact fewer partitions, raise max_bytes, or use HiveAcidCompactOperator"
        with self._session.job(spec) as job:
            return compact_in_process(job, max_bytes, remedy)

    def __repr__(self) -> str:
        info = self._info
        lines = [f"table {self._ref} ({info.kind.value}, {info.storage}) at {info.location}"]
        lines += [f"  {column.name}: {column.type}" for column in info.columns]
        lines += [f"  {c.name}: {c.type} (partition)" for c in info.partition_columns]
        return "\n".join(lines)

    def _run(self, describe: Describe) -> JobResult:
        with self._session.job() as job:
            with without_spark(self._ref):
                spec, work = describe(job)
                change = planned(spec, work, job.client)
            try:
                result = run_changes(self._session, job, spec, [change])
            except (CommitStateUnknownError, KeyboardInterrupt):
                # The user may have interrupted the commit. The next scan shows whether it was done.
                self._snapshot = None
                raise
        self._snapshot = None
        return result
