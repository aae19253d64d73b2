"""Rows that Spark writes itself: what is in the files, what is refused, what goes the other way."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem
from pyspark.errors import PySparkException

from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.jobs.statements import InsertMode, InsertSpec, SourceSpec
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab
from tests.support.steps import at

FS = LocalFileSystem()
JAVA, CPP = 0, 1


def insert(
    lab: Lab,
    folder: Path,
    rows: pa.Table,
    *,
    mode: InsertMode = InsertMode.APPEND,
    query: str | None = None,
) -> None:
    pq.write_table(rows, folder / "source.parquet", row_group_size=2_000)
    source = SourceSpec(format="parquet", location=str(folder / "source.parquet"), query=query)
    lab.run(InsertSpec(target=f"{lab.db}.t", source=source, mode=mode))


def files(lab: Lab, name: str = "t") -> list[Path]:
    return sorted(p for p in lab.root(name).rglob("bucket_*") if not p.name.startswith("."))


def writers(lab: Lab) -> set[int]:
    return {read_tail(FS, str(file)).footer.writer for file in files(lab)}


def test_cluster_settings_change_neither_the_layout_nor_the_number_of_files(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "t": "string"}, parameters={"orc.compress": "SNAPPY"})
    hadoop = lab4.spark.sparkContext._jsc.hadoopConfiguration()
    odd = {
        "orc.compress": "ZLIB",
        "orc.row.index.stride": "1000",
        "orc.bloom.filter.columns": "c0",
        "orc.write.format": "0.11",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
        "mapreduce.fileoutputcommitter.algorithm.version": "2",
        "mapreduce.output.basename": "out",
        "orc.stripe.row.count": "1000",
    }
    session = {"spark.sql.files.maxRecordsPerFile": "7", "spark.sql.orc.compression.codec": "lz4"}
    for key, value in odd.items():
        hadoop.set(key, value)
    for key, value in session.items():
        lab4.spark.conf.set(key, value)
    try:
        ids = list(range(25_000))
        insert(lab4, tmp_path, pa.table({"id": ids, "t": [f"{i:09}" for i in ids]}))
    finally:
        for key in odd:
            hadoop.unset(key)
        for key in session:
            lab4.spark.conf.unset(key)
    (file,) = files(lab4)
    tail = read_tail(FS, str(file))
    assert (tail.footer.writer, tail.compression.name, tail.row_index_stride) == (
        JAVA,
        "SNAPPY",
        10_000,
    )
    assert len(tail.stripes) == 1
    assert lab4.rows("t") == [(i, f"{i:09}") for i in ids]
    assert [p.name for p in lab4.root("t").iterdir() if p.name.startswith("_tmp")] == []
    (delta,) = lab4.directories("t")
    names = sorted(p.name for p in (lab4.root("t") / delta).iterdir() if p.suffix != ".crc")
    assert names == ["_orc_acid_version", "bucket_00000"]


def test_partitions_with_special_names_get_their_rows_in_one_file_each(
    lab4: Lab, tmp_path: Path
) -> None:
    names = [
        "a/b",
        "x=y",
        "%41",
        "ä€",
        " blank ",
        "",
        None,
        "Z",
        "z",
        "q" * 120,
        'quo"te',
        "back\\",
    ]
    lab4.table("t", {"id": "bigint"}, partition={"p": "string", "n": "int"})
    places = [names[i % len(names)] for i in range(600)]
    rows = {"id": list(range(600)), "p": places, "n": [i % 2 for i in range(600)]}
    insert(lab4, tmp_path, pa.table(rows))
    assert writers(lab4) == {JAVA}
    expected = sorted(((i, p or None, i % 2) for i, p in enumerate(places)), key=lambda row: row[0])
    assert sorted(lab4.rows("t"), key=lambda row: row[0]) == expected
    assert len(files(lab4)) == len({(p or None, n) for _, p, n in expected})
    for file in files(lab4):
        assert file.name == "bucket_00000"
    insert(lab4, tmp_path, pa.table({"id": [7], "p": ["Z"], "n": [1]}), mode=InsertMode.OVERWRITE)
    assert (7, "Z", 1) in lab4.rows("t")
    assert len([r for r in lab4.rows("t") if r[1:] == ("Z", 1)]) == 1


def test_values_that_do_not_fit_their_type_are_refused_and_nothing_is_written(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"v": "varchar(3)", "c": "char(2)", "t": "timestamp"})
    good = {"v": "äöü", "c": "ä ", "t": dt.datetime.fromisoformat("1969-12-31 23:59:59")}
    for name, value, words in (
        ("v", "abcd", r"column 'v' is varchar.*4 characters"),
        ("c", "äöü", r"column 'c' is char.*3 characters"),
        ("t", dt.datetime.fromisoformat("1969-12-31 23:59:59.500"), "the last second before 1970"),
    ):
        rows = pa.Table.from_pylist([good, {**good, name: value}])
        with pytest.raises(TypeMismatchError) as raised:
            insert(lab4, tmp_path, rows)
        assert re.search(words, str(raised.value)), str(raised.value)
        assert lab4.directories("t") == []
        assert not [p for p in lab4.root("t").iterdir() if p.name.startswith("_tmp")]
    insert(lab4, tmp_path, pa.Table.from_pylist([good]))
    assert lab4.rows("t") == [("äöü", "ä", good["t"])]
    assert writers(lab4) == {JAVA}


def test_text_that_is_not_utf_8_keeps_every_byte(lab4: Lab, tmp_path: Path) -> None:
    texts = [b"\xff\xfe", b"ok", b"\x80" * 3_000, b"\xe4ab" * 700, b""]
    lab4.table("t", {"id": "int", "s": "string"})
    rows = pa.table({"id": range(len(texts)), "s": pa.array(texts, pa.binary())})
    insert(lab4, tmp_path, rows, query="select id, cast(s as string) s from source")
    found = lab4.frame("t").selectExpr("id", "cast(s as binary) s").collect()
    assert {r.id: bytes(r.s) for r in found} == dict(enumerate(texts))


def test_a_merge_matches_rows_in_files_that_also_contain_invalid_utf_8(
    lab4: Lab, tmp_path: Path
) -> None:
    # Java orders bytes, and says of them what they are as text: bounds that shut the others out.
    texts = {"ä": b"\x80a", "😀": b"\xff\xff"}
    lab4.table("t", {"s": "string", "v": "int"})
    for text, no_text in texts.items():
        rows = pa.table({"s": pa.array([no_text, text.encode()], pa.binary()), "v": [0, 1]})
        insert(lab4, tmp_path, rows, query="select cast(s as string) s, int(v) v from source")
    for text in texts:
        clauses = [
            matched_update({"v": "2"}),
            INSERT_ALL,
        ]
        merged = lab4.merge("t", [(text, "3")], ["s", "v"], ["s"], clauses)
        assert (merged.rows.updated, merged.rows.inserted) == (1, 0)


def test_a_filter_finds_long_text_values(lab4: Lab, tmp_path: Path) -> None:
    # Java keeps only bounds of these, in footers and in the row index; ORC 1.5 would see nothing.
    texts = [chr(97 + i % 26) + "é" * 900 + str(i) for i in range(12_000)]
    lab4.table("t", {"id": "int", "s": "string"})
    insert(lab4, tmp_path, pa.table({"id": range(len(texts)), "s": texts}))
    (file,) = files(lab4)
    tail = read_tail(FS, str(file))
    statistics = tail.statistics(8)
    assert statistics is not None
    least, greatest = statistics.strings.minimum.decode(), statistics.strings.maximum.decode()
    assert least <= min(texts)
    assert greatest >= max(texts)
    assert len(greatest.encode()) <= 1024
    found = lab4.frame("t").where(f"s = '{texts[11_999]}'").collect()
    assert [r.id for r in found] == [11_999]


def test_an_invalid_cast_raises_sparks_own_error(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", {"v": "int"})
    rows = pa.table({"v": ["1", "x"]})
    with pytest.raises(PySparkException) as raised:
        insert(lab4, tmp_path, rows, query="select cast(v as int) v from source")
    assert "CAST_INVALID_INPUT" in str(raised.value).partition("\n")[0]
    assert lab4.directories("t") == []


def test_a_source_file_that_is_added_after_the_check_is_not_read(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", {"v": "string"})
    (tmp_path / "1.json").write_text(json.dumps({"v": "1"}))
    on_step = at("locked", lambda: (tmp_path / "2.json").write_text(json.dumps({"w": 1})))
    source = SourceSpec(format="json", location=str(tmp_path))
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source), on_step=on_step)
    assert lab4.rows("t") == [("1",)]


def test_rows_with_maps_are_written_by_our_own_writer(lab4: Lab) -> None:
    lab4.table("t", {"m": "map<string,int>"})
    source = SourceSpec(values=((1,),), query="select map('b', 1, 'a', 2) m from source")
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert writers(lab4) == {CPP}
    assert lab4.rows("t") == [({"b": 1, "a": 2},)]


@pytest.mark.parametrize(
    ("kind", "literal", "value", "writer"),
    [
        ("date", "date'1500-02-28'", dt.date(1500, 2, 28), JAVA),
        # Spark would move this one to the calendar of its day.
        ("timestamp", "timestamp_ntz'1500-02-28 12:00:00'", dt.datetime(1500, 2, 28, 12), CPP),  # noqa: DTZ001
    ],
    ids=["days", "times"],
)
def test_dates_and_times_before_the_gregorian_calendar_are_stored_unchanged(
    lab4: Lab, kind: str, literal: str, value: object, writer: int
) -> None:
    lab4.table("t", {"v": kind})
    source = SourceSpec(values=((1,),), query=f"select {literal} v from source")
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert writers(lab4) == {writer}
    assert lab4.rows("t") == [(value,)]


def test_a_char_is_stored_with_its_padding(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", {"c": "char(4)"})
    insert(lab4, tmp_path, pa.table({"c": ["ä", "abcd", "", None]}))
    assert writers(lab4) == {JAVA}
    stored = [row["c"] for file in files(lab4) for row in orc.read_table(file)["row"].to_pylist()]
    assert stored == ["ä   ", "abcd", "    ", None]
