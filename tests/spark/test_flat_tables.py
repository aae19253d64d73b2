"""Tables without transactions as sources: rows of whoever wrote their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, PartitionName, TransactionalKind
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.sql.script import read_script
from tests.support.spark_lab import Lab

COLUMNS = {"id": "int", "name": "string"}


def run(lab: Lab, text: str, **options: object) -> None:
    for statement in read_script(text, lab.db):
        lab.run(statement.job, **options)  # type: ignore[arg-type]


def flat(lab: Lab, name: str, format_: FileFormat = FileFormat.ORC, **options: object) -> Path:
    table = lab.table(name, COLUMNS, kind=TransactionalKind.NONE, format_=format_, **options)  # type: ignore[arg-type]
    del table
    return lab.root(name)


def put(lab: Lab, path: Path, format_: FileFormat, *rows: tuple[int, str | None]) -> None:
    """Some rows in files below a directory, as somebody may have written them."""
    if format_ is FileFormat.TEXT:
        path.mkdir(parents=True, exist_ok=True)
        lines = [f"{i}\x01{name}\n" for i, name in rows]
        (path / "000000_0").write_text("".join(lines).replace("None", r"\N"))
        return
    frame = lab.spark.createDataFrame(list(rows), "id int, name string").coalesce(1)
    frame.write.mode("append").format(format_.value.lower()).save(str(path))


@pytest.fixture
def target(lab: Lab) -> Lab:
    lab.table("t", {**COLUMNS, "p": "int"})
    return lab


@pytest.mark.long_cases("3.1.3")
def test_queries_join_flat_tables_of_all_formats_with_acid_tables(target: Lab) -> None:
    lab, seen = target, []
    for name, format_ in (("o", FileFormat.ORC), ("q", FileFormat.PARQUET), ("x", FileFormat.TEXT)):
        root = flat(lab, name, format_)
        put(lab, root, format_, (1, f"{name}1"), (2, None))
        # As Hive on Tez writes a UNION ALL, and what it passes over.
        put(lab, root / "HIVE_UNION_SUBDIR_1" / "deep", format_, (3, f"{name}3"))
        put(lab, root / "_tmp", format_, (4, "hidden"))
        (root / "000009_0").touch()
    lab.insert("t", [(1, "t1", 1)], [*COLUMNS, "p"])

    def locked(step: str) -> None:
        if step == "staged":
            seen.append({str(lock.table) for lock in lab.client.show_locks() if lock.db == lab.db})

    run(
        lab,
        """
        INSERT INTO t SELECT o.id + 10, concat(o.name, q.name, x.name), t.p FROM o
            JOIN q ON o.id = q.id JOIN x ON q.id = x.id LEFT JOIN t ON t.id = o.id;
        DELETE FROM t WHERE name IN (SELECT concat(x.name, 'q3', x.name) FROM x)
            OR id IN (SELECT id + 11 FROM q WHERE name IS NULL AND id = 2);
        MERGE INTO t USING x ON t.id = x.id WHEN MATCHED THEN UPDATE SET name = x.name
            WHEN NOT MATCHED AND x.name IS NOT NULL THEN INSERT VALUES (x.id, x.name, 7)
        """,
        on_step=locked,
    )
    assert lab.rows("t") == [(1, "x1", 1), (3, "x3", 7), (11, "o1q1x1", 1), (12, None, None)]
    assert seen[0] == {"o", "q", "x", "t"}
    source = SourceSpec(table=f"{lab.db}.q")
    lab.run(InsertSpec(target=f"{lab.db}.t", source=source))
    assert len(lab.rows("t")) == 7
    with read_snapshot(lab.endpoint, [f"{lab.db}.o", f"{lab.db}.t"], job_key="k") as snapshot:
        assert read_table(lab.spark, f"{lab.db}.o", snapshot, where="id > 1").count() == 2


def test_partitions_of_a_flat_table_can_be_read(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", {**COLUMNS, "p": "int"})
    root = flat(lab, "f", FileFormat.PARQUET, partition={"p": "int"})
    info = lab.info("f")
    for value in (1, 2):
        (place,) = lab.client.add_partitions(info, [PartitionName(("p",), (str(value),))])
        path = root / f"p={value}"
        assert place.location.endswith(f"p={value}")
        put(lab, path, FileFormat.PARQUET, (value * 10, "a"), (value * 10 + 1, "b"))
    run(lab, "INSERT INTO t SELECT * FROM f WHERE p = 2; INSERT INTO t SELECT id, name, 0 FROM f")
    assert [(i, p) for i, _, p in lab.rows("t")] == [
        *((i, 0) for i in (10, 11, 20)),
        (20, 2),
        (21, 0),
        (21, 2),
    ]


def test_an_unsupported_flat_table_is_refused_with_its_name_and_the_reason(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", COLUMNS)
    flat(lab, "a", FileFormat.AVRO, parameters={"avro.schema.url": "hdfs:///a.avsc"})
    with pytest.raises(
        errors.UnsupportedTableError, match=r"\.a: takes its columns from avro\.schema\.url"
    ):
        run(lab, "INSERT INTO t SELECT * FROM a")
    flat(lab, "h", parameters={"storage_handler": "org.example.Handler"})
    with pytest.raises(errors.UnsupportedTableError, match=r"\.h: .*org\.example\.Handler"):
        run(lab, "INSERT INTO t SELECT h.* FROM h")
    put(lab, flat(lab, "d") / "delta_0000001_0000001_0000", FileFormat.ORC, (1, "x"))
    with pytest.raises(errors.UnsupportedFileError, match="a directory of a transactional table"):
        run(lab, "INSERT INTO t SELECT * FROM d")
    with pytest.raises(errors.NotTransactionalError, match=r"\.d"):
        run(lab, "INSERT INTO d SELECT * FROM t")
    assert lab.rows("t") == []
