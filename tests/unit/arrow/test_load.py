"""LOAD DATA in one process: files, partitions, limits, kills and restarts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow import Limits
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    SourceNotFoundError,
    SourceUnreadableError,
    SparkNeededError,
)
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus, OnRerun
from airflow_hiveacid.jobs.statements import DeleteSpec, LoadSpec, TransactionSpec
from tests.unit.arrow.lake import Lake, Make, die
from tests.unit.arrow.test_statements import base_of, retried
from tests.unit.storage.orc_tables import write_plain

TYPES = pa.struct([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(8, 2))])


def put(tmp_path: Path, **files: list[int]) -> LoadSpec:
    """Write ORC files with rows of these IDs; return the LOAD DATA of all of them."""
    (tmp_path / "in").mkdir(exist_ok=True)
    for name, ids in files.items():
        rows = [{"id": number, "name": name, "price": Decimal("1.50")} for number in ids]
        write_plain(tmp_path / "in" / name, rows, row=TYPES)
    return LoadSpec(target="default.s", location=f"file:{tmp_path}/in")


def ids(lake: Lake) -> list[int]:
    return [row[0] for row in lake.rows]


def stored(lake: Lake) -> dict[str, bytes]:
    """The files of the table, by their paths, without notes."""
    found = (p for p in lake.root.rglob("*") if p.is_file())
    paths = {str(p.relative_to(lake.root)): p.read_bytes() for p in found}
    return {path: data for path, data in paths.items() if not path.startswith("_")}


def test_files_are_copied_unchanged_in_the_order_of_their_names(lake: Lake, tmp_path: Path) -> None:
    lake.insert((9, "there", None))
    result = lake.run(put(tmp_path, b=[3], a=[1, 2]))
    assert (result.status, result.rows.inserted, result.files) == (JobStatus.COMMITTED, 3, 2)
    assert ids(lake) == [1, 2, 3, 9]
    copies = {name.rpartition("/")[2]: data for name, data in stored(lake).items()}
    assert copies["000000_0"] == (tmp_path / "in/a").read_bytes()
    assert copies["000001_0"] == (tmp_path / "in/b").read_bytes()
    lake.delete("id = 2")
    assert ids(lake) == [1, 3, 9]


def test_a_load_replaces_the_table_or_its_partition(parted: Lake, tmp_path: Path) -> None:
    parted.insert((7, "a", None, "2026-01-01", 1), (8, "b", None, "2026-01-02", 1))
    spec = put(tmp_path, a=[1])
    day = {"Day": "2026-01-01", "part": "1"}
    result = parted.run(LoadSpec(target="default.s", location=spec.location, partition=day))
    assert result.partitions == ("day=2026-01-01/part=1",)
    assert ids(parted) == [1, 7, 8]
    parted.run(LoadSpec(target="default.s", location=spec.location, partition=day, overwrite=True))
    assert ids(parted) == [1, 8]
    new = {"day": "2026-01-03", "part": None}
    parted.run(LoadSpec(target="default.s", location=spec.location, partition=new))
    assert ids(parted) == [1, 1, 8]
    with pytest.raises(SparkNeededError, match="'01' of part needs Spark's cast to int"):
        parted.run(
            LoadSpec(target="default.s", location=spec.location, partition={**new, "part": "01"})
        )
    with pytest.raises(ConfigurationError, match="give a value for every partition column"):
        parted.run(spec)


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_files_are_loaded_into_an_insert_only_table(
    make: Make, tmp_path: Path, format_: FileFormat
) -> None:
    lake = make(kind=TransactionalKind.INSERT_ONLY, format=format_)
    spec = put(tmp_path, a=[1, 2])
    if format_ is FileFormat.PARQUET:
        import pyarrow.parquet as pq  # noqa: PLC0415 - only here

        rows = [{"id": 1, "name": "a", "price": None}, {"id": 2, "name": "b", "price": None}]
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(TYPES))), tmp_path / "in/a")
    assert lake.run(spec).rows.inserted == 2
    (copy,) = stored(lake).values()
    assert copy == (tmp_path / "in/a").read_bytes()


def test_more_bytes_need_spark_and_change_nothing(lake: Lake, tmp_path: Path) -> None:
    spec = put(tmp_path, a=[1])
    (tmp_path / "in/b").write_text("no ORC file, and not read")
    with pytest.raises(SparkNeededError, match=r"its files have \d+ bytes, more than 10"):
        lake.run(spec, limits=Limits(file_bytes=10))
    assert (stored(lake), lake.server.locks) == ({}, {})


def test_wrong_files_are_refused_as_by_a_driver(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError):
        lake.run(LoadSpec(target="default.s", location=f"file:{tmp_path}/nix"))
    write_plain(tmp_path / "other", [{"x": 1}], row=pa.struct([("x", pa.int64())]))
    with pytest.raises(SourceUnreadableError, match="its columns are x"):
        lake.run(LoadSpec(target="default.s", location=f"file:{tmp_path}/other"))
    assert stored(lake) == {}


@pytest.mark.parametrize("step", ["locked", "staged", "noted", "published"])
@pytest.mark.parametrize("aborts", [False, True])
def test_a_killed_load_is_repeated_exactly_once(
    lake: Lake, tmp_path: Path, step: str, *, aborts: bool
) -> None:
    job: dict[str, Any] = {"job": put(tmp_path, a=[1]), "key": "load"}
    die(lake, step, lambda: lake.run(**job), aborts=aborts)
    lake.run(**job, attempt=2)
    assert lake.server.locks == {}, "the retry ends the transaction of the killed try"
    again = lake.run(**job, attempt=3, on_rerun=OnRerun.SKIP)
    assert again.status is JobStatus.ALREADY_DONE
    assert ids(lake) == [1]


def test_an_overtaken_load_copies_its_files_again(lake: Lake, tmp_path: Path) -> None:
    lake.insert((5, "a", None))
    lake.at["registered"] = lambda: base_of(lake, 7)
    result = lake.run(put(tmp_path, a=[1]))
    assert (retried(result)["how"], retried(result)["why"]) == (
        "in full",
        "it copies existing files",
    )
    assert ids(lake) == [1, 7]


def test_a_later_statement_of_the_transaction_sees_the_loaded_rows(
    lake: Lake, tmp_path: Path
) -> None:
    delete = DeleteSpec(target="default.s", where="id = 1")
    lake.run(TransactionSpec(statements=(put(tmp_path, a=[1, 2]), delete)))
    assert ids(lake) == [2]
