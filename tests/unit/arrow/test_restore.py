"""Restores in one process: rows by row ID, files of insert-only tables, limits and kills."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow import Limits
from airflow_hiveacid.arrow.job import run_in_process
from airflow_hiveacid.format.errors import SparkNeededError, VersionGoneError
from airflow_hiveacid.format.table import (
    READS_ORIGINALS,
    Column,
    Constraints,
    FileFormat,
    TransactionalKind,
)
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun, RowCounts
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.jobs.statements import TruncateSpec, UpdateSpec
from airflow_hiveacid.plan import restoring
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import keep_readable
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import DAY, ROW, Lake, Make, Row, die
from tests.unit.arrow.test_statements import base_of
from tests.unit.lake.lakes import T, Warehouse, ids, rows
from tests.unit.storage.orc_tables import B0, B1, event, with_tail, write_acid, write_plain


@pytest.fixture
def warehouse(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Warehouse:
    return Warehouse(server, clock, tmp_path)


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change counts as many, so that partitions get a base."""
    monkeypatch.setattr(restoring, "_FEW_ROWS", 0)
    monkeypatch.setattr(restoring, "_FEW_SHARE", 0.0)


def to(version: int, *, plan_only: bool = False) -> RestoreSpec:
    text = VersionSpec.of(version, None, None).text()
    return RestoreSpec(target="default.s", version=text, plan_only=plan_only)


def told(result: JobResult) -> dict[str, tuple[str, int, int, int]]:
    """What the result says of each partition: how, and rows that come, go and stay."""
    details: Any = result.details
    return {
        one["partition"]: (one["how"], one["come"], one["go"], one["stay"])
        for one in details["restore"]
    }


def changed_everywhere(lake: Lake) -> list[Row]:
    """Change partitions in different ways after version 1; return the rows of that version."""
    lake.insert(
        (1, "one", "1.50", "2026-01-01", 1),
        (10, "ten", None, "2026-01-01", 1),
        (2, "two", None, "2026-01-02", 1),
        (4, "four", None, "2026-01-04", 1),
    )
    before = lake.rows
    lake.insert((5, "five", None, "2026-01-05", 1))
    lake.delete("id = 4")
    lake.run(UpdateSpec(target="default.s", set={"name": "'new'"}, where="id = 1"))
    return before


def test_a_restore_undoes_all_changes_of_partitions_since_the_version(parted: Lake) -> None:
    before = changed_everywhere(parted)
    untouched = [name for name in parted.directories if "2026-01-02" in name]
    planned = parted.run(to(1, plan_only=True))
    assert planned.status is JobStatus.PLANNED
    result = parted.run(to(1))
    assert parted.rows == before
    assert [name for name in parted.directories if "2026-01-02" in name] == untouched
    assert result.status is JobStatus.COMMITTED
    assert (
        told(result)
        == told(planned)
        == {
            "day=2026-01-01/part=1": ("delta", 1, 1, 1),
            "day=2026-01-04/part=1": ("delta", 1, 0, 0),
            "day=2026-01-05/part=1": ("delta", 0, 1, 0),
        }
    )
    assert result.rows == RowCounts(inserted=2, deleted=2)
    newest, *_ = history_of(parted.client, parted.table).versions
    assert (newest.operation, newest.inserted, newest.deleted) == ("restore", 2, 2)
    assert parted.server.locks == {}


def test_a_restore_reads_rows_of_other_buckets_than_their_files(lake: Lake) -> None:
    lake.insert((9, "own", None))
    path = lake.root / lake.files[0]
    rows = ({"id": number, "name": "a", "price": None} for number in (1, 2))
    events = [event(1, 0, row, bucket=bucket) for row, bucket in zip(rows, (B0, B1), strict=True)]
    write_acid(path, events, row=ROW)
    keep_readable(lake.client, lake.table.ref, "7 days")
    lake.run(TruncateSpec(target="default.s"))
    lake.run(to(1))
    assert lake.rows == [(1, "a", None), (2, "a", None)]


@pytest.mark.usefixtures("bases")
def test_a_restore_writes_a_base_for_each_partition_with_many_changes(parted: Lake) -> None:
    before = changed_everywhere(parted)
    result = parted.run(to(1))
    assert parted.rows == before
    assert told(result)["day=2026-01-01/part=1"] == ("base", 1, 1, 1)
    for day in (1, 4, 5):
        assert f"day=2026-01-0{day}/part=1/base_0000005" in parted.directories
    assert "day=2026-01-02/part=1/base_0000005" not in parted.directories


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("buckets", [0, 3])
def test_every_kind_of_change_is_undone_in_any_table(
    make: Make, buckets: int, few: bool, request: pytest.FixtureRequest
) -> None:
    if not few:
        request.getfixturevalue("bases")
    bucketed: dict[str, Any] = {}
    if buckets:
        bucketed = {"bucket_columns": ("id",), "num_buckets": buckets}
    lake = make(**bucketed)
    lake.insert(*[(n, f"n{n}", "0.25") for n in range(20)])
    first = lake.rows
    lake.delete("id >= 5")
    lake.run(UpdateSpec(target="default.s", set={"price": "NULL"}, where="id = 3"))
    lake.insert((100, "late", None))
    last = lake.rows
    result = lake.run(to(1))
    assert lake.rows == first
    assert told(result)[""] == ("delta" if few else "base", 16, 2, 4)
    if few:
        lake.run(to(4))
        assert lake.rows == last


def test_a_restore_without_a_difference_is_noted_for_later_copies_of_its_job(lake: Lake) -> None:
    lake.insert((1, "a", None))
    assert lake.run(to(1), key="k").status is JobStatus.NOTHING_TO_DO
    lake.insert((2, "b", None))
    late = lake.run(to(1), key="k", attempt=2, on_rerun=OnRerun.SKIP)
    assert late.status is JobStatus.ALREADY_DONE
    assert len(lake.rows) == 2


@pytest.mark.parametrize("step", ["locked", "staged", "noted", "published"])
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("aborts", [False, True])
def test_a_killed_restore_is_repeated_exactly_once(
    parted: Lake, step: str, few: bool, request: pytest.FixtureRequest, *, aborts: bool
) -> None:
    if not few:
        request.getfixturevalue("bases")
    before = changed_everywhere(parted)
    die(parted, step, lambda: parted.run(to(1), key="k"), aborts=aborts)
    parted.run(to(1), key="k", attempt=2)
    assert parted.server.locks == {}, "the retry ends the transaction of the killed try"
    assert parted.rows == before
    parted.insert((7, "later", None, "2026-01-01", 1))
    again = parted.run(to(1), key="k", attempt=3, on_rerun=OnRerun.SKIP)
    assert again.status is JobStatus.ALREADY_DONE
    assert len(parted.rows) == len(before) + 1


def test_a_write_that_commits_before_the_locks_is_undone_too(parted: Lake) -> None:
    before = changed_everywhere(parted)
    other = parted.other()
    parted.at["opened"] = lambda: other.insert((2, "again", None, "2026-01-02", 1))
    result = parted.run(to(1))
    assert parted.rows == before
    assert told(result)["day=2026-01-02/part=1"] == ("delta", 0, 1, 1)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(rows=1), "rows must be searched, more than 1"),
        (Limits(memory_bytes=256), "rows must be searched, more than 1"),
        (Limits(changed_rows=3), "it changes more than 3 rows"),
    ],
)
def test_a_larger_restore_needs_spark_and_changes_nothing(
    parted: Lake, limits: Limits, why: str
) -> None:
    changed_everywhere(parted)
    before = parted.directories, parted.rows
    with pytest.raises(SparkNeededError, match=why):
        parted.run(to(1), limits=limits)
    assert ((parted.directories, parted.rows), parted.server.locks) == (before, {})


def test_rows_with_one_row_id_need_spark(lake: Lake) -> None:
    lake.insert((1, "a", None))
    (first,) = lake.root.glob("delta_*")
    twin = [event(1, 0, {"id": 1, "name": "twin", "price": None})]
    lake.insert((2, "b", None))
    write_acid(first / "bucket_00000", twin, twin, row=ROW)
    with pytest.raises(SparkNeededError, match="have the same row ID"):
        lake.run(to(1))


def test_a_version_that_is_gone_is_refused(lake: Lake) -> None:
    lake.insert((1, "a", None))
    base_of(lake, 7)
    with pytest.raises(VersionGoneError):
        lake.run(to(1))
    assert lake.rows == [(7, "foreign", None)]


def test_constraints_need_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.insert((1, "a", None))
    lake.insert((2, "b", None))
    monkeypatch.setattr(FakeClient, "constraints", lambda *_: Constraints(not_null={"id": "nn"}))
    with pytest.raises(SparkNeededError, match="CHECK or NOT NULL constraints"):
        lake.run(to(1))


# ---- insert-only tables --------------------------------------------------------------------------


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO])
def test_a_restore_copies_the_files_of_an_insert_only_table(
    warehouse: Warehouse, format_: FileFormat
) -> None:
    day = {"partition_columns": DAY[:1]}
    warehouse.create(kind=TransactionalKind.INSERT_ONLY, format=format_, **day)
    jan, feb = dt.date(2026, 1, 1), dt.date(2026, 2, 1)
    with warehouse.connect() as lake:
        table = lake.table(T)
        table.append(rows(1, 2, 3, day=[jan, jan, feb]))
        table.append(rows(4, day=[jan]))
        with lake._session.job(to(1)) as job:
            with pytest.raises(SparkNeededError, match="its files have"):
                run_in_process(job, Limits(file_bytes=1))
            assert ids(table.refresh()) == [1, 2, 3, 4]
            table.close()
            result = run_in_process(job)
        assert ids(table.refresh()) == [1, 2, 3]
        assert told(result) == {"day=2026-01-01": ("base", 2, 3, 0)}


@pytest.mark.parametrize("version", [4, 6, None])
def test_a_restore_keeps_old_dates_of_original_files_without_a_calendar(
    warehouse: Warehouse, tmp_path: Path, version: int | None
) -> None:
    """In a base, the same bytes would be read as Hive's own: in the proleptic calendar."""
    warehouse.create(
        kind=TransactionalKind.INSERT_ONLY,
        columns=(Column(name="d", type="date"), Column(name="t", type="timestamp")),
        parameters={READS_ORIGINALS: "true"},
    )
    with warehouse.connect() as lake:
        table = lake.table(T)
        root = tmp_path / "s"
        row = pa.struct([("d", pa.date32()), ("t", pa.timestamp("s"))])
        day = dt.date(1500, 3, 1)  # 1500-02-20 in the hybrid calendar
        for name, value in (("000000_0", day), ("000001_0", dt.date(2020, 1, 1))):
            midnight = dt.datetime.combine(value, dt.time())
            path = write_plain(root / name, [{"d": value, "t": midnight}], row=row)
            if version is not None:
                with_tail(path, lambda footer, end: of_java(footer, end, version))
        modern = (root / "000001_0").read_bytes()
        new = pa.table({"d": pa.array([dt.date(2026, 1, 1)])})
        table.append(new)
        before = texts(table)
        assert "1500-02-20" in before[0]
        table.append(new)
        with lake._session.job(to(1)) as job:
            result = run_in_process(job)
        assert texts(table.refresh()) == before
        assert told(result)[""] == ("base", 3, 4, 0)
        copies = {path.name: path.read_bytes() for path in root.glob("base_*/0*")}
        assert len(copies) == 3
        assert modern in copies.values(), "a file without old dates is copied"


def of_java(footer: Any, postscript: Any, version: int) -> None:  # noqa: ANN401 - of protobuf
    footer.writer, postscript.writer_version = 0, version


def texts(table: Any) -> list[tuple[str, ...]]:  # noqa: ANN401 - a table of the library
    found = table.scan().to_arrow()
    columns = [found[name].cast(pa.string()).to_pylist() for name in ("d", "t")]
    return sorted(zip(*[[str(v)[:10] for v in column] for column in columns], strict=True))


def test_text_files_need_spark_because_they_do_not_state_their_rows(warehouse: Warehouse) -> None:
    warehouse.create(kind=TransactionalKind.INSERT_ONLY, format=FileFormat.TEXT)
    with warehouse.connect() as lake:
        lake.table(T).append(rows(1))
        lake.table(T).append(rows(2))
        with lake._session.job(to(1)) as job, pytest.raises(SparkNeededError, match="text files"):
            run_in_process(job)


def test_avro_files_are_counted_only_within_the_limit(warehouse: Warehouse) -> None:
    warehouse.create(kind=TransactionalKind.INSERT_ONLY, format=FileFormat.AVRO)
    with warehouse.connect() as lake:
        lake.table(T).append(rows(1))
        lake.table(T).append(rows(2))
        with lake._session.job(to(1, plan_only=True)) as job:
            with pytest.raises(SparkNeededError, match="its files have"):
                run_in_process(job, Limits(file_bytes=1))
            assert run_in_process(job).status is JobStatus.PLANNED
