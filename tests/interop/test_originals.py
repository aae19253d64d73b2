"""Rows of files that store no identity, loaded or from before a table was transactional: Hive and
we count them alike, and each changes and compacts what the other made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.jobs.maintenance import CompactionChoice, ConversionTarget, ConvertSpec
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.spark.reading.target import POSITION, Target, resolve_target
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.stores.listing import list_table
from tests.judges.bare import BareReader, identity_key
from tests.judges.engine import HiveJudge
from tests.judges.line_process import JudgeError
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab
from tests.unit.storage.orc_tables import write_plain

COLUMNS = {"id": "int", "name": "string"}
SCHEMA = "struct<id:int,name:string>"
UPSERT = (matched_update({"name": "s.name"}), INSERT_ALL)
Rows = list[list[Any]]


class Common:
    """A table that Hive and we share; compares what all see of it, identities included."""

    def __init__(self, lab: Lab, hive: HiveJudge, readers: Sequence[BareReader]) -> None:
        self.lab, self.hive, self.readers = lab, hive, readers
        self.name = f"{lab.db}.t"

    def ids(self, *readers: BareReader) -> list[int]:
        """The numbers of the rows, on which everybody agrees; all readers if none is named."""
        expected = self.hive.rows(self.name, with_identity=True)
        for how, found in self._ours():
            assert sorted(found, key=identity_key) == expected, how
        table, snapshot = self.lab.info("t"), self.lab.snapshot("t")
        for reader in readers or self.readers:
            for vectorized in (False, True):
                found = reader.read(
                    table.location.removeprefix("file:"),
                    snapshot.write_ids(table.ref).text(),
                    SCHEMA,
                    txns=snapshot.txns.text(),
                    buckets=table.num_buckets or -1,
                    vectorized=vectorized,
                )
                assert found == expected, (reader.version, vectorized)
        return sorted(row[1] for row in expected)

    def _ours(self) -> Iterable[tuple[str, Rows]]:
        lab = self.lab
        table, snapshot = lab.info("t"), lab.snapshot("t")
        target = resolve_target(lab.spark, lab.client, table, snapshot)
        yield "frame", _rows(target, target.scan(list(COLUMNS)))
        yield "frame of Arrow's", _rows(target, target.read_with_arrow(list(COLUMNS)))
        write_ids, txns = snapshot.write_ids(table.ref), snapshot.txns
        batches = scan(table.location, table.columns, write_ids, txns, with_identity=True)
        yield "scan", [list(row.values()) for batch in batches for row in batch.to_pylist()]

    def live(self) -> set[str]:
        """What kinds of directories are live."""
        table, snapshot = self.lab.info("t"), self.lab.snapshot("t")
        write_ids = snapshot.write_ids(table.ref)
        state = resolve(list_table(table.location), write_ids, snapshot.txns)
        return {d.text.partition("_")[0] for d in state.live} | {"file" for _ in state.originals}


def _rows(target: Target, frame: Any) -> Rows:  # noqa: ANN401 - a frame
    names = [c.name for c in target.table.columns]
    parts = [f"{POSITION}.{part}" for part in ("originalTransaction", "bucket", "rowId")]
    return [
        [dict(zip(("writeid", "bucketid", "rowid"), row[:3], strict=True)), *row[3:]]
        for row in frame.select(*parts, *names).collect()
    ]


@pytest.fixture
def common(
    lab4: Lab, hive_judge: HiveJudge, bare_reader_4: BareReader, bare_reader_3: BareReader
) -> Common:
    return Common(lab4, hive_judge, (bare_reader_4, bare_reader_3))


def files(folder: Path, *ids_of: Sequence[int]) -> str:
    for number, ids in enumerate(ids_of):
        write_plain(folder / f"part-{number}.orc", [{"id": i, "name": f"n{i}"} for i in ids])
    return f"file:{folder}"


def change(common: Common, both: BareReader, *, major: Callable[[], object]) -> None:
    """Ours and Hive's statements in turn on the rows 0 to 9 of a table, each compared."""
    lab, hive, name = common.lab, common.hive, common.name
    lab.delete("t", "id = 1")
    assert common.ids() == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    lab.merge("t", [(3, "m3"), (10, "m10")], list(COLUMNS), ["id"], UPSERT)
    lab.update("t", {"name": "'u9'"}, "id = 9")
    assert common.ids() == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    # From here on there are names that Hive 3.1 does not know.
    hive.execute(f"delete from {name} where id = 5")
    hive.execute(f"update {name} set name = 'h7' where id in (3, 7)")
    lab.delete("t", "id = 7")
    assert common.ids(both) == [0, 2, 3, 4, 6, 8, 9, 10]
    hive.execute(
        f"merge into {name} t using (select 8 id union all select 11 id) s on t.id = s.id"
        " when matched then delete when not matched then insert values (s.id, 'h11')"
    )
    assert common.ids(both) == [0, 2, 3, 4, 6, 9, 10, 11]
    major()
    assert common.ids(both) == [0, 2, 3, 4, 6, 9, 10, 11]
    assert common.live() == {"base"}
    lab.delete("t", "id = 0")
    hive.execute(f"delete from {name} where id = 2")
    assert common.ids(both) == [3, 4, 6, 9, 10, 11]


# ---- LOAD DATA -----------------------------------------------------------------------------------


@pytest.mark.promise("W10")
@pytest.mark.parametrize("who", ["ours", "Hive"])
@pytest.mark.long_cases("Hive")
def test_all_readers_read_the_same_rows_of_files_that_hive_or_we_loaded(
    common: Common, bare_reader_4: BareReader, tmp_path: Path, who: str
) -> None:
    lab, hive, name = common.lab, common.hive, common.name
    lab.table("t", COLUMNS, parameters={"orc.compress": "ZLIB"})
    lab.insert("t", [(99, "replaced")], list(COLUMNS))
    first = files(tmp_path / "first", range(4), range(4, 6))
    more = files(tmp_path / "more", [6], [7, 8], [9])
    if who == "ours":
        lab.load("t", first, overwrite=True)
        lab.load("t", more)
    else:
        hive.execute(f"load data inpath '{first}' overwrite into table {name}")
        hive.execute(f"load data inpath '{more}' into table {name}")
    assert common.ids() == list(range(10))

    def major() -> None:
        if who == "ours":
            hive.compact(name, None, "major")
            hive.clean()
        else:
            lab.compact("t", CompactionChoice.MAJOR)
            lab.clean("t")

    change(common, bare_reader_4, major=major)


def test_hives_minor_compaction_keeps_the_row_ids_of_loaded_rows(
    common: Common, bare_reader_4: BareReader, tmp_path: Path
) -> None:
    lab, hive, name = common.lab, common.hive, common.name
    lab.table("t", COLUMNS, parameters={ONLY_HIVE_4_READS: "true"})
    lab.load("t", files(tmp_path / "a", [0, 1], [2]))
    hive.execute(f"load data inpath '{files(tmp_path / 'b', [3, 4])}' into table {name}")
    lab.delete("t", "id IN (1, 2)")
    hive.compact(name, None, "minor")
    assert common.ids(bare_reader_4) == [0, 3, 4]
    lab.delete("t", "id = 3")
    hive.clean()
    # Ours is a major one where files have no identity of their own.
    lab.load("t", files(tmp_path / "c", [5, 6]))
    lab.delete("t", "id = 6")
    lab.compact("t", CompactionChoice.MINOR)
    assert common.ids(bare_reader_4) == [0, 4, 5]
    assert common.live() == {"base"}


def test_hive_refuses_or_rewrites_files_that_we_refuse_to_load(
    lab4: Lab, hive_judge: HiveJudge, tmp_path: Path
) -> None:
    name = f"{lab4.db}.t"
    for other in ("t", "other"):
        lab4.table(other, COLUMNS)
    lab4.table("buckets", COLUMNS, buckets=("id", 2))
    hive_judge.execute(f"insert into {name} values (1, 'a')")
    acid = next(lab4.root("t").glob("delta_*/bucket_*"))
    with pytest.raises(JudgeError, match=r"(?i)acid"):
        hive_judge.execute(f"load data inpath 'file:{acid}' into table {lab4.db}.other")
    place = files(tmp_path / "in", [1, 2, 3, 4])
    hive_judge.execute(f"load data inpath '{place}' into table {lab4.db}.buckets")
    (loaded,) = lab4.root("buckets").glob("delta_*")
    # By an INSERT: the files have the ACID columns, whatever those were that were loaded.
    assert {f.name[:7] for f in loaded.iterdir() if f.name[0] not in "._"} == {"bucket_"}


# ---- converted tables ----------------------------------------------------------------------------

BUCKETS = """create table {t} (id int, name string) clustered by (id) into 3 buckets
    stored as orc {p}"""
UNION = """insert into {t} select * from (
    select id, max(concat('n', id)) name from {s} where id < 4 group by id union all
    select id, max(concat('n', id)) name from {s} where id between 4 and 7 group by id) parts"""
FLAT = {
    "copies": (
        "create table {t} (id int, name string) stored as orc {p}",
        "insert into {t} select id, concat('n', id) from {s} where id < 3",
        "insert into {t} select id, concat('n', id) from {s} where id between 3 and 5",
        "insert into {t} select id, concat('n', id) from {s} where id > 5",
    ),
    "buckets": (
        BUCKETS,
        "insert into {t} select id, concat('n', id) from {s} where id < 6",
        "insert into {t} select id, concat('n', id) from {s} where id >= 6",
    ),
    "directories of UNION ALL": (
        "create table {t} (id int, name string) stored as orc {p}",
        "set hive.optimize.union.remove=true",
        "set hive.merge.mapfiles=false",
        "set hive.mapred.supports.subdirectories=true",
        "set mapreduce.input.fileinputformat.input.dir.recursive=true",
        UNION,
        "set hive.optimize.union.remove=false",
        "insert into {t} select id, concat('n', id) from {s} where id > 7",
    ),
}
TRINO = "trino"
FOUND = {"copies": "*_copy_2", "buckets": "000002_0", TRINO: f"000000_{'20240101' * 5}"}


@pytest.mark.promise("C13", "D7", "D8")
@pytest.mark.parametrize("shape", [*FLAT, TRINO])
@pytest.mark.long_cases("copies", "buckets", "trino")
def test_hive_and_we_can_change_and_compact_a_converted_table(
    common: Common, bare_reader_4: BareReader, shape: str
) -> None:
    lab, hive, name = common.lab, common.hive, common.name
    hive.execute(f"create table {lab.db}.s (id int) stored as orc")
    hive.execute(f"insert into {lab.db}.s values {','.join(f'({i})' for i in range(10))}")
    properties = "tblproperties ('transactional'='false', 'orc.compress'='ZLIB')"
    for step in FLAT.get(shape, FLAT["copies"]):
        hive.execute(" ".join(step.format(t=name, s=f"{lab.db}.s", p=properties).split()))
    if shape == TRINO:  # a bucket's number, then as many digits as no integer has
        for file in sorted(lab.root("t").glob("0*")):
            copy = file.name.rpartition("_copy_")[2] if "_copy_" in file.name else "0"
            file.rename(file.with_name(f"{int(copy):06d}_{'20240101' * 5}"))
    assert list(lab.root("t").glob(FOUND.get(shape, "HIVE_UNION_SUBDIR_*/000000_0")))
    if shape in {"copies", TRINO}:
        hive.execute(
            f"alter table {name} set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')"
        )
    else:
        lab.run(ConvertSpec(target=name, to=ConversionTarget.FULL_ACID))
    assert common.ids() == list(range(10))

    def major() -> None:
        lab.compact("t", CompactionChoice.MAJOR)
        lab.clean("t")

    change(common, bare_reader_4, major=major)
    assert not list(lab.root("t").rglob("0*_*"))


def test_hive_refuses_to_convert_a_table_with_unexpected_file_names(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    name = f"{lab4.db}.t"
    hive_judge.execute(
        f"create table {name} (id int, name string) stored as orc"
        " tblproperties ('transactional'='false')"
    )
    hive_judge.execute(f"insert into {name} values (1, 'a')")
    (file,) = lab4.root("t").glob("0*")
    file.rename(file.with_name("part-00000-c000.snappy.orc"))
    with pytest.raises(JudgeError, match="Unexpected data file name format"):
        hive_judge.execute(
            f"alter table {name} set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')"
        )


@pytest.mark.parametrize("format_", ["orc", "parquet", "textfile"])
@pytest.mark.long_cases("textfile", "parquet")
def test_hive_reads_a_table_converted_to_insert_only_and_back_to_flat(
    lab4: Lab, hive_judge: HiveJudge, format_: str
) -> None:
    name = f"{lab4.db}.t"
    hive_judge.execute(
        f"create table {name} (id int, name string) partitioned by (p string) stored as {format_}"
        " tblproperties ('transactional'='false')"
    )
    shown = []

    def insert(number: int, partition: str) -> None:
        hive_judge.execute(f"insert into {name} partition (p='{partition}') values ({number}, 'a')")
        shown.append([number, "a", partition])
        assert hive_judge.rows(name) == shown

    insert(1, "x/ 1")
    insert(2, "x/ 1")
    insert(3, "y")
    lab4.run(ConvertSpec(target=name, to=ConversionTarget.INSERT_ONLY))
    assert hive_judge.rows(name) == shown
    assert [[*row] for row in lab4.rows("t")] == shown
    insert(4, "y")
    lab4.run(ConvertSpec(target=name, to=ConversionTarget.FLAT))
    assert hive_judge.rows(name) == shown
    insert(5, "y")
    assert hive_judge.execute(f"select count(*) from {name} where id > 0") == [[5]]
