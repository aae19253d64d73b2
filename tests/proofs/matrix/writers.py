"""The writers: each engine's own way to take a step.

Values are literals with their types, since every dialect reads those alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import MergeAction, MergeClause, MergeWhen
from tests.judges import engine3, line_process, trino
from tests.judges.engine import HiveJudge, SqlEngine
from tests.proofs.matrix.kinds import ALTERNATING, EXTRA, HIVE_3, HIVE_4, OURS, TRINO, Kind, Row
from tests.proofs.matrix.life import NotHereError
from tests.support.spark_lab import Lab

_GZIP: Final = (
    "Trino compresses text files, but their names (`00000_0`) do not show this. Hive and Trino"
    " itself rely on the name and read NULL, and this provider refuses such files. To avoid this,"
    " set hive.compression-codec=NONE"
)
_ELSEWHERE: Final = (
    f"{HIVE_4} writes the rows of dynamic partitions below the table's directory, even if a"
    " partition is elsewhere. No engine reads these rows, not even Hive (seen at its first"
    " INSERT). Write such tables with this provider"
)
_UPSERT: Final = (
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition="s.v < 0"),
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set={"v": "s.v"}),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    lab: Lab
    name: str
    kind: Kind

    @property
    def full_name(self) -> str:
        return f"{self.lab.db}.{self.name}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The current columns: data columns, then partition columns."""
        info = self.lab.info(self.name)
        return (*info.columns, *info.partition_columns)

    @property
    def partitions(self) -> list[str | None]:
        """Partition names for statements about one partition; [None] without partitions."""
        if not self.kind.partition_columns:
            return [None]
        info = self.lab.info(self.name)
        return [str(p.name) for p in self.lab.client.list_partitions(info)]

    @property
    def elsewhere(self) -> str:
        """The location of the partition outside the table's directory, next to that."""
        return f"{self.lab.info(self.name).location}_elsewhere"

    @property
    def widening(self) -> str:
        """The statement that adds `EXTRA`, in Hive's SQL."""
        cascade = " cascade" if self.kind.partition_columns else ""
        return f"alter table {self.full_name} add columns ({EXTRA.name} {EXTRA.type}){cascade}"

    def of_files(self, first: int) -> Table:
        """Return the flat table with the files of the LOAD DATA batch that begins with this row."""
        return replace(self, name=f"{self.name}_from_{first}")

    def place_of(self, rows: Sequence[Row]) -> str:
        """Return the location of the files that hold these rows."""
        return self.lab.info(self.of_files(int(str(rows[0][0]))).name).location


def why_not_led(kind: Kind, writer: str) -> str | None:
    """Return why an engine cannot run the life of such a table at all; None if it can."""
    if writer == HIVE_3 and kind.flat:
        return f"{HIVE_3} uses a separate metastore, which has no converted tables"
    if writer == TRINO and kind.format is FileFormat.TEXT:
        return _GZIP
    if kind.elsewhere and writer in {HIVE_4, ALTERNATING}:
        return _ELSEWHERE
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OurWriter:
    """Our jobs, as their applications run them."""

    table: Table
    name: str = OURS

    def insert(self, rows: Sequence[Row]) -> None:
        self._try(lambda lab, t: lab.insert(t, rows, self._names))

    def load(self, rows: Sequence[Row]) -> None:
        self._try(lambda lab, t: lab.load(t, self.table.place_of(rows)))

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._try(lambda lab, t: lab.overwrite(t, rows, self._names))

    def delete(self, where: str) -> None:
        self._try(lambda lab, t: lab.delete(t, where))

    def update(self, values: Mapping[str, str], where: str) -> None:
        self._try(lambda lab, t: lab.update(t, values, where))

    def upsert(self, rows: Sequence[Row]) -> None:
        self._try(lambda lab, t: lab.merge(t, rows, self._names, ["id"], _UPSERT))

    def minor(self) -> None:
        self._try(lambda lab, t: lab.compact(t, CompactionChoice.MINOR))

    def major(self) -> None:
        def both(lab: Lab, name: str) -> None:
            lab.compact(name, CompactionChoice.MAJOR)
            lab.clean(name)

        self._try(both)

    def widen(self) -> None:
        self.table.lab.script(self.table.widening)

    def empty(self) -> None:
        self._try(lambda lab, t: lab.truncate(t))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.table.columns]

    def _try(self, act: Callable[[Lab, str], object]) -> None:
        try:
            act(self.table.lab, self.table.name)
        except UnsupportedTableError as error:
            raise NotHereError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _SqlWriter:
    """An engine that takes SQL."""

    table: Table
    engine: SqlEngine
    name: str

    def insert(self, rows: Sequence[Row]) -> None:
        self._run(f"insert into {self.target} {self._values(rows)}")

    def delete(self, where: str) -> None:
        self._run(f"delete from {self.target} where {where}")

    def update(self, values: Mapping[str, str], where: str) -> None:
        told = ", ".join(f"{name} = {value}" for name, value in values.items())
        self._run(f"update {self.target} set {told} where {where}")

    def upsert(self, rows: Sequence[Row]) -> None:
        names = [column.name for column in self.table.columns]
        given = ", ".join(f"s.{name}" for name in names)
        self._run(
            f"merge into {self.target} t using ({self._selected(rows)}) s on t.id = s.id"
            " when matched and s.v < 0 then delete when matched then update set v = s.v"
            f" when not matched then insert {self._into(names)} values ({given})"
        )

    @property
    def target(self) -> str:
        """The engine's name of the table."""
        return self.table.full_name

    def _run(self, sql: str) -> None:
        self.engine.execute(sql)

    def _into(self, names: Sequence[str]) -> str:
        return f"({', '.join(names)})"

    def _values(self, rows: Sequence[Row]) -> str:
        return f"values {', '.join(f'({self._literals(row)})' for row in rows)}"

    def _selected(self, rows: Sequence[Row]) -> str:
        names = [column.name for column in self.table.columns]
        first, *others = (
            [self._literal(c, v) for c, v in zip(self.table.columns, row, strict=True)]
            for row in rows
        )
        named = ", ".join(f"{v} as {n}" for v, n in zip(first, names, strict=True))
        return " union all ".join(
            f"select {told}" for told in (named, *(", ".join(other) for other in others))
        )

    def _literals(self, row: Row) -> str:
        columns = self.table.columns
        return ", ".join(self._literal(c, v) for c, v in zip(columns, row, strict=True))

    def _literal(self, column: Column, value: object) -> str:
        text = "null" if value is None else "'" + str(value).replace("'", "''") + "'"
        return f"cast({text} as {column.type.replace('string', self._text_type)})"

    @property
    def _text_type(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveWriter(_SqlWriter):
    """Hive 4.0.1."""

    engine: HiveJudge
    name: str = HIVE_4

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._run(f"insert overwrite table {self.target}{self._partitions} {self._values(rows)}")

    def insert(self, rows: Sequence[Row]) -> None:
        self._run(f"insert into {self.target}{self._partitions} {self._values(rows)}")

    def load(self, rows: Sequence[Row]) -> None:
        self._run(f"load data inpath '{self.table.place_of(rows)}' into table {self.target}")

    @property
    def _partitions(self) -> str:
        keys = ", ".join(c.name for c in self.table.kind.partition_columns)
        return f" partition ({keys})" if keys else ""

    def minor(self) -> None:
        for partition in self.table.partitions:
            self.engine.compact(self.target, partition, "minor")

    def major(self) -> None:
        for partition in self.table.partitions:
            self.engine.compact(self.target, partition, "major")
        self.engine.clean()

    def widen(self) -> None:
        self._run(self.table.widening.replace(self.table.full_name, self.target))

    def empty(self) -> None:
        self._run(f"truncate table {self.target}")

    def _into(self, names: Sequence[str]) -> str:  # noqa: ARG002 - Hive takes all, in order
        return ""

    def _values(self, rows: Sequence[Row]) -> str:
        return f"select * from ({self._selected(rows)}) s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive3Writer(HiveWriter):
    """Hive 3.1.3, which has its own metastore.

    The other metastore is updated with its changes: as many write IDs, and the partitions. The
    files are the same.
    """

    engine: engine3.Hive3Engine  # type: ignore[assignment] # it compacts by the same name
    mirror: HiveWriter
    name: str = HIVE_3

    @classmethod
    def beside(cls, mirror: HiveWriter, engine: engine3.Hive3Engine) -> Hive3Writer:
        """Return a writer of a table that both metastores know; see `why_not_led`."""
        table, kind = mirror.table, mirror.table.kind
        info = table.lab.info(table.name)
        parts = ", ".join(f"{c.name} {c.type}" for c in info.partition_columns)
        properties = {
            "transactional": "true",
            "bucketing_version": str(kind.bucketing_version),
            **({"transactional_properties": "insert_only"} if kind.is_insert_only else {}),
        }
        told = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        formats = {FileFormat.ORC: "orc", FileFormat.PARQUET: "parquet", FileFormat.AVRO: "avro"}
        found = cls(table=table, engine=engine, mirror=mirror)
        engine.execute(
            f"create table {found.target} ({', '.join(f'{c.name} {c.type}' for c in info.columns)})"
            + (f" partitioned by ({parts})" if parts else "")
            + (
                f" clustered by ({', '.join(kind.bucketed_by)}) into {kind.buckets} buckets"
                if kind.buckets
                else ""
            )
            + f" stored as {formats.get(kind.format, 'textfile')} location '{info.location}'"
            + f" tblproperties ({told})"
        )
        if kind.elsewhere:
            engine.execute(f"alter table {found.target} add partition ({kind.elsewhere})")
            engine.execute(
                f"alter table {found.target} partition ({kind.elsewhere})"
                f" set location '{table.elsewhere}'"
            )
        return found

    @property
    def target(self) -> str:
        """The table's name in its own metastore; see `_SqlWriter`."""
        return f"default.{self.table.name}"

    def widen(self) -> None:
        """Add a column in both metastores; see `Writer`."""
        HiveWriter.widen(self)
        self.mirror.widen()

    def follow(self) -> None:
        """Update the other metastore with the changes of the table."""
        lab, info = self.table.lab, self.table.lab.info(self.table.name)
        told = self.engine.describe(self.target)
        if info.is_partitioned:
            names = [info.partition_name(p["values"]) for p in told["partitions"]]
            known = {p.name for p in lab.client.list_partitions(info)}
            lab.client.add_partitions(info, [name for name in names if name not in known])
        wanted = ValidWriteIdList.parse(told["valid_write_id_list"])
        while (
            lab.snapshot(self.table.name).write_ids(info.ref).high_watermark < wanted.high_watermark
        ):
            txn = lab.client.open_txn()
            write_id = lab.client.allocate_write_id(txn, info.ref)
            if wanted.is_visible(write_id):
                lab.client.commit_txn(txn)
            else:
                lab.client.abort_txn(txn)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrinoWriter(_SqlWriter):
    engine: trino.TrinoJudge
    name: str = TRINO

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Add rows, since the table is empty; see `Writer`."""
        self.insert(rows)

    def load(self, rows: Sequence[Row]) -> None:
        """Refuse, since Trino has no LOAD DATA; see `Writer`."""
        raise NotHereError(f"Trino has no LOAD DATA for {len(rows)} rows")

    def minor(self) -> None:
        """Refuse, since Trino has no compaction; see `Writer`."""
        raise NotHereError("Trino compacts nothing")

    def major(self) -> None:
        """Refuse, since Trino has no compaction; see `Writer`."""
        raise NotHereError("Trino compacts nothing")

    def widen(self) -> None:
        if self.table.kind.is_insert_only and self.table.kind.partition_columns:
            raise NotHereError("Trino adds no column to partitions: Hive would read NULL in it")
        self._run(f"alter table {self.target} add column {EXTRA.name} varchar")

    def empty(self) -> None:
        if self.table.kind.is_insert_only:
            raise NotHereError("Trino deletes no rows here")
        self._run(f"delete from {self.target}")

    def insert(self, rows: Sequence[Row]) -> None:
        if self.table.kind.format is FileFormat.TEXT:
            raise NotHereError(_GZIP)
        try:
            self._run(f"insert into {self.target} {self._values(rows)}")
        except line_process.JudgeError as error:
            if "insert-only" in str(error).lower() or "transactional" in str(error).lower():
                raise NotHereError(str(error)) from error
            raise

    @property
    def _text_type(self) -> str:
        return "varchar"
