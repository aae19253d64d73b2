"""Sources: late ones may be tried again, wrong ones not, and no digit of a timestamp is lost."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.statements import InsertSpec, MergeSpec, SourceSpec
from airflow_hiveacid.spark.engine.catalyst import resolved
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.reading.source import load_source
from airflow_hiveacid.spark.statements import insert
from tests.support.column_lists import columns_of
from tests.support.merge_clauses import UPSERT_ALL
from tests.support.spark_lab import Lab


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"format": "parquet", "location": "nothing"}, errors.SourceNotFoundError),
        ({"format": "parquet", "location": "empty"}, errors.SourceNotFoundError),
        ({"format": "csv", "location": "nothing"}, errors.SourceNotFoundError),
        ({"format": "paquet", "location": "empty"}, errors.SourceUnreadableError),
        (
            {"values": ((1,),), "columns": ("a",), "query": "select b from source"},
            errors.SourceUnreadableError,
        ),
        (
            {"values": ((1,),), "columns": ("a",), "query": "selec"},
            errors.SourceUnreadableError,
        ),
        ({"format": "parquet", "location": "half"}, errors.StorageError),
    ],
)
def test_a_missing_source_is_retryable_and_an_unreadable_source_is_not(
    spark: SparkSession, tmp_path: Path, source: dict[str, object], error: type[Exception]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "a.parquet").write_bytes(b"PAR1 and then nothing more")
    if "location" in source:
        source = {**source, "location": str(tmp_path / str(source["location"]))}
    with pytest.raises(error) as raised:
        load_source(spark, SourceSpec(**source), {})  # type: ignore[arg-type]
    assert type(raised.value) is error
    assert error is errors.StorageError or raised.value.retryable == (
        error is errors.SourceNotFoundError
    )


MOMENTS = ["2020-03-08 02:30:00.123456", "1969-12-31 23:59:58.999999", "1700-01-01 00:00:00", None]


def wall_clock(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)


def test_nanosecond_timestamps_of_parquet_are_inserted_exactly_in_any_time_zone(
    lab4: Lab, tmp_path: Path
) -> None:
    times = [wall_clock(text) for text in MOMENTS]
    nano, zoned = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "ts": pa.array(times, nano),
            "nested": pa.array(
                [{"t": t, "l": [t, None], "m": [("k", t)]} for t in times],
                pa.struct([("t", nano), ("l", pa.list_(nano)), ("m", pa.map_(pa.string(), nano))]),
            ),
            "instant": pa.array(times, zoned),
            "n": pa.array([1, 2, 3, None], pa.int64()),
        }
    )
    folder = tmp_path / "a b"
    folder.mkdir()
    pq.write_table(rows.slice(0, 2), folder / "1.parquet")
    pq.write_table(rows.slice(2), folder / "2.parquet")
    types = columns_of(
        "id bigint, ts timestamp, "
        "nested struct<t:timestamp,l:array<timestamp>,m:map<string,timestamp>>, "
        "instant timestamp, n bigint"
    )
    lab4.table("t", types)
    source = SourceSpec(format="parquet", location=str(folder))
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    expected = [
        (i, t, (t, [t, None], {"k": t}), t, n)
        for i, (t, n) in enumerate(zip(times, (1, 2, 3, None), strict=True))
    ]
    assert [(a, b, tuple(c), d, e) for a, b, c, d, e in lab4.rows("t")] == expected
    spec = MergeSpec(target=f"{lab4.db}.t", source=source, keys=("ts",), clauses=UPSERT_ALL)
    assert lab4.run(spec).rows.updated == 3
    lab4.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = load_source(lab4.spark, source, {})
        assert sorted(r.ts for r in frame.collect() if r.ts) == sorted(t for t in times if t)
    finally:
        lab4.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_timestamps_with_digits_below_the_microsecond_are_refused(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"ts": "timestamp"})
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"ts": pa.array([1_000, 1_001], pa.timestamp("ns"))}), file)
    source = SourceSpec(format="parquet", location=file.as_uri())
    with pytest.raises(errors.SourceUnreadableError, match=r"t\.parquet.*below the microsecond"):
        lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert lab4.rows("t") == []
    assert lab4.directories("t") == []


def test_source_files_with_different_timestamp_units_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    for i, unit in enumerate(("ns", "us")):
        table = pa.table({"ts": pa.array([1_000], pa.timestamp(unit))})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    source = SourceSpec(format="parquet", location=tmp_path.as_uri())
    with pytest.raises(errors.HiveAcidError), typed_failures():
        load_source(spark, source, {}).collect()


def test_an_insert_of_files_resolves_its_expressions_once(
    lab4: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab4.table("t", {"id": "int", "name": "string"})
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "1.parquet")
    seen: list[int] = []

    def counted(*asked: Any) -> Any:  # noqa: ANN401
        seen.append(len(asked[2]))
        return resolved(*asked)

    monkeypatch.setattr(insert, "resolved", counted)
    source = SourceSpec(
        format="parquet",
        location=tmp_path.as_uri(),
        query="SELECT id, name || hour(current_timestamp()) * 0 AS name FROM source LIMIT 5",
    )
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert lab4.rows("t") == [(1, "a0"), (2, "b0")]
    assert seen == [2]


def test_the_driver_reads_the_secret_of_a_source_option_from_the_environment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Derby opens an encrypted database only with the password that created it."""
    url, connect = f"jdbc:derby:{tmp_path}/db", spark._jvm.java.sql.DriverManager.getConnection
    connect(f"{url};create=true;dataEncryption=true;bootPassword=open-sesame").close()
    with pytest.raises(Exception, match="shutdown"):
        connect(f"{url};shutdown=true")
    options = {"url": url, "dbtable": "(VALUES 7) t (k)", "bootPassword": "env:BOOT_PASSWORD"}
    source = SourceSpec(format="jdbc", options=options, query="SELECT k FROM source")
    monkeypatch.setenv("BOOT_PASSWORD", "wrong-sesame")
    with pytest.raises(errors.StorageError):
        load_source(spark, source, {})
    monkeypatch.setenv("BOOT_PASSWORD", "open-sesame")
    assert [tuple(row) for row in load_source(spark, source, {}).collect()] == [(7,)]
