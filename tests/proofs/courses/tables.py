"""One table of each system: the same rows and changes, each as the system's users write them."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset

from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.jobs.maintenance import (
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ProveErasureSpec,
)
from airflow_hiveacid.jobs.statements import (
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.lake.connection import Lake, connect
from airflow_hiveacid.lake.table import Table
from tests.proofs.bench import acid, systems
from tests.proofs.bench.lab import Lab
from tests.proofs.bench.queries import read_everything
from tests.proofs.bench.records import OURS
from tests.proofs.bench.sales import KEY, OPERATION
from tests.proofs.courses.cases import PARTS, UseCase
from tests.proofs.courses.rows import COLUMNS, DAY, VERSION, newest

IN_PYTHON: Final = f"{OURS}-python"
"""The system without Spark: the same tables, changed and read by a program in Python."""

_NAMES: Final = tuple(column.name for column in COLUMNS)


class CourseTable(Protocol):
    """A table of rows of `COLUMNS`. Changes take Parquet files, and return bytes written."""

    @property
    def system(self) -> str:
        """Its name in records."""
        ...

    def load(self, base: Path) -> int:
        """Write the first rows."""
        ...

    def upsert(self, source: Path, keys: Sequence[str]) -> int: ...
    def delete(self, keys: Path) -> int: ...

    def apply(self, log: Path) -> int:
        """Apply the newest event of each key."""
        ...

    def maintain(self, round_: int) -> int:
        """Do what the system's users do after each round."""
        ...

    def erase(self) -> int:
        """Remove deleted rows from all files."""
        ...

    def is_erased(self, rounds: int) -> bool | None:
        """Prove that no file has a row that a round deleted; None if the system proves nothing."""
        ...

    def read(self) -> int:
        """Read every column of every row, and return how many there are."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield every row, as the system's own reader reads it."""
        ...

    def drop(self) -> None: ...


def _newest_query(partitioned: bool) -> str:
    names = ", ".join((*_NAMES, OPERATION, *([DAY.name] if partitioned else [])))
    return (
        f"SELECT {names} FROM (SELECT *, row_number() OVER"
        f" (PARTITION BY {KEY} ORDER BY {VERSION} DESC) AS place FROM source) WHERE place = 1"
    )


# ---- ours ----------------------------------------------------------------------------------------

_NEWEST: Final = tuple(
    MergeClause(when=when, action=action, condition=f"s.{OPERATION} {is_}")
    for when, action, is_ in (
        (MergeWhen.MATCHED, MergeAction.DELETE, "= 'D'"),
        (MergeWhen.MATCHED, MergeAction.UPDATE, "<> 'D'"),
        (MergeWhen.NOT_MATCHED, MergeAction.INSERT, "<> 'D'"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable(acid.AcidTable):
    """Our table, changed by jobs of Spark, as the operators submit them."""

    case: UseCase

    @classmethod
    def of(cls, lab: Lab, name: str, case: UseCase) -> SparkTable:
        bucketed: dict[str, Any] = {}
        if case.buckets:
            bucketed = {"bucket_columns": (KEY,), "num_buckets": case.buckets}
        days = (DAY,) if case.days else ()
        made = acid.AcidTable.create(lab, name, COLUMNS, days, **bucketed)
        return cls(lab=lab, info=made.info, case=case)

    def load(self, base: Path) -> int:
        return self.overwrite(base)

    def apply(self, log: Path) -> int:
        return self._run(log_merge(self.name, log, self.case))

    def maintain(self, round_: int) -> int:  # noqa: ARG002 - of the protocol
        size_bytes = acid.run_job(self.lab, CompactSpec.of_table(self.name)).size_bytes
        acid.run_job(self.lab, CleanSpec.of_table(self.name))
        return size_bytes

    def erase(self) -> int:
        size_bytes = self._compact(CompactionChoice.MAJOR)
        acid.run_job(self.lab, CleanSpec.of_table(self.name))
        return size_bytes

    def is_erased(self, rounds: int) -> bool:
        proof = ProveErasureSpec(target=self.name, where=f"{KEY} % {PARTS} < {rounds}")
        details: Any = acid.run_job(self.lab, proof).details
        return bool(details["erasure"]["proved"])

    def read(self) -> int:
        with self.frame() as rows:
            ((count,),) = read_everything(rows)
        return int(str(count))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self.frame() as rows:
            yield from exported(rows, self.lab.folder / "exported")


def keys_of(case: UseCase) -> tuple[str, ...]:
    return (KEY, DAY.name) if case.days else (KEY,)


def log_merge(table: str, log: Path, case: UseCase) -> MergeSpec:
    """Return the MERGE of a log's newest events."""
    source = SourceSpec(
        format="parquet", location=str(log), query=_newest_query(partitioned=bool(case.days))
    )
    return MergeSpec(target=table, source=source, keys=keys_of(case), clauses=_NEWEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTable(SparkTable):
    """Our table, changed and read by a program in Python without Spark, which only loads it."""

    @property
    def system(self) -> str:
        return IN_PYTHON

    def upsert(self, source: Path, keys: Sequence[str]) -> int:
        with self._open() as table:
            return table.upsert(pq.read_table(source), keys).size_bytes

    def delete(self, keys: Path) -> int:
        with self._open() as table:
            return table.delete(keys=pq.read_table(keys)).size_bytes

    def apply(self, log: Path) -> int:
        with self._connected() as lake:
            return apply_log(lake, self.name, pq.read_table(log), self.case).size_bytes

    def maintain(self, round_: int) -> int:  # noqa: ARG002 - of the protocol
        with self._open() as table:
            size_bytes = table.compact().size_bytes
            table.clean()
            return size_bytes

    def read(self) -> int:
        return sum(batch.num_rows for batch in self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._open() as table:
            yield from table.scan().to_batches()

    def erase(self) -> int:
        with self._open() as table:
            size_bytes = table.compact("major").size_bytes
            table.clean()
            return size_bytes

    def _connected(self) -> Lake:
        return connect(self.lab.endpoint)

    @contextmanager
    def _open(self) -> Iterator[Table]:
        with self._connected() as lake:
            yield lake.table(self.name)


def apply_log(
    lake: Lake,
    table: str,
    log: pa.Table,
    case: UseCase,
    key: str | None = None,
    audit: str | None = None,
) -> JobResult:
    """Apply a log's newest events in one transaction, and append all events to `audit`."""
    keys = keys_of(case)
    upserts, deletes = newest(log)
    with lake.transaction(key=key) as txn:
        txn.table(table).delete(keys=deletes.select(list(keys)))
        txn.table(table).upsert(upserts, keys)
        if audit is not None:
            txn.table(audit).append(log.select([KEY, VERSION]))
    assert txn.result is not None
    return txn.result


# ---- the others ----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class _PeerTable(ABC):
    """A table of another format; `inner` knows its SQL."""

    inner: systems.DeltaTable | systems.IcebergTable
    case: UseCase
    lab: Lab

    @property
    def system(self) -> str:
        return self.inner.system

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def _expire(self) -> None: ...

    def load(self, base: Path) -> int:
        return self.inner.append(base)

    def upsert(self, source: Path, keys: Sequence[str]) -> int:  # noqa: ARG002 - its own
        return self._merge(
            source, "SELECT * FROM source", "WHEN MATCHED THEN UPDATE SET *", "THEN INSERT *"
        )

    def delete(self, keys: Path) -> int:
        return self.inner.delete(keys)

    def apply(self, log: Path) -> int:
        columns = (*_NAMES, *([DAY.name] if self.case.days else []))
        update = ", ".join(f"t.{name} = s.{name}" for name in columns)
        names, values = ", ".join(columns), ", ".join(f"s.{name}" for name in columns)
        is_delete = f"s.{OPERATION} = 'D'"
        return self._merge(
            log,
            _newest_query(partitioned=bool(self.case.days)),
            f"WHEN MATCHED AND {is_delete} THEN DELETE WHEN MATCHED THEN UPDATE SET {update}",
            f"AND NOT {is_delete} THEN INSERT ({names}) VALUES ({values})",
        )

    def maintain(self, round_: int) -> int:
        every = self.case.compacts_every
        return self._compact() if every and (round_ + 1) % every == 0 else 0

    def erase(self) -> int:
        size_bytes = self._compact()
        self._expire()
        return size_bytes

    def is_erased(self, rounds: int) -> None:  # noqa: ARG002 - of the protocol
        return

    def read(self) -> int:
        with self.inner.frame() as rows:
            ((count,),) = read_everything(rows)
        return int(str(count))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self.inner.frame() as rows:
            yield from exported(rows, self.lab.folder / "exported")

    def drop(self) -> None:
        self.inner.drop()

    def _compact(self) -> int:
        return self.inner.compactions["major"]()

    def _merge(self, source: Path, query: str, matched: str, not_matched: str) -> int:
        self.inner.spark.read.parquet(str(source)).createOrReplaceTempView("source")
        on = " AND ".join(f"t.{name} = s.{name}" for name in keys_of(self.case))
        return self.inner.run_sql(
            f"MERGE INTO {self.inner.name} t USING ({query}) s ON {on}"
            f" {matched} WHEN NOT MATCHED {not_matched}"
        )

    def _columns(self) -> str:
        columns = (*COLUMNS, *([DAY] if self.case.days else []))
        return ", ".join(f"{column.name} {column.type}" for column in columns)


@dataclass(kw_only=True)
class _Delta(_PeerTable):
    """It has no buckets."""

    def create(self) -> None:
        partitions = f" PARTITIONED BY ({DAY.name})" if self.case.days else ""
        self.inner.run_sql(
            f"CREATE TABLE {self.inner.name} ({self._columns()}) USING delta{partitions}"
        )

    def _expire(self) -> None:
        self.inner.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.inner.run_sql(f"VACUUM {self.inner.name} RETAIN 0 HOURS")


@dataclass(kw_only=True)
class _Iceberg(_PeerTable):
    def create(self) -> None:
        parts = [DAY.name] if self.case.days else []
        parts += [f"bucket({self.case.buckets}, {KEY})"] if self.case.buckets else []
        partitions = f" PARTITIONED BY ({', '.join(parts)})" if parts else ""
        properties = {"format-version": "3"}
        properties |= {f"write.{change}.mode": "merge-on-read" for change in _MERGED_ON_READ}
        texts = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        self.inner.run_sql(
            f"CREATE TABLE {self.inner.name} ({self._columns()}) USING iceberg{partitions}"
            f" TBLPROPERTIES ({texts})"
        )

    def _expire(self) -> None:
        catalog, table = self.inner.name.split(".", 1)
        self.inner.run_sql(
            f"CALL {catalog}.system.expire_snapshots(table => '{table}',"
            " older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        )


_MERGED_ON_READ: Final = ("delete", "update", "merge")


def exported(rows: Any, folder: Path) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a frame
    """Yield a frame's rows, by Parquet files that are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    rows.write.parquet(str(folder))
    yield from dataset.dataset(folder, format="parquet").to_batches()
    shutil.rmtree(folder)


# ---- the choice ----------------------------------------------------------------------------------


def create(lab: Lab, system: str, name: str, case: UseCase) -> CourseTable:
    """Create an empty table of a system."""
    if system in (OURS, IN_PYTHON):
        return {OURS: SparkTable, IN_PYTHON: PythonTable}[system].of(lab, name, case)
    kinds: Mapping[str, Callable[..., _PeerTable]] = {"delta": _Delta, "iceberg": _Iceberg}
    inner = systems.SYSTEMS[system].create(lab, name, COLUMNS)
    table = kinds[system](inner=inner, case=case, lab=lab)
    table.create()
    return table


SETTINGS: Final[Mapping[str, Any]] = {
    IN_PYTHON: systems.SYSTEMS[OURS].settings,
    **{name: system.settings for name, system in systems.SYSTEMS.items()},
}
"""For each system, a function that returns its session's settings, given a folder for its jars."""
