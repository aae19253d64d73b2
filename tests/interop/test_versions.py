"""Lives of a table that every engine writes: each version is what Hive read when it was the newest.

Hive's own reader saves a copy after each step. At the end, and before somebody breaks a promise,
each copy equals what we read as of its version, or that version is refused by name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format import errors, ids, table
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.versions import VersionSpec, as_of_number, state_as_of
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.plan import restoring
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import keep, make_tag
from tests.judges.engine import HiveJudge
from tests.judges.engine3 import Hive3Engine
from tests.judges.trino import TrinoJudge, why_not
from tests.support.merge_clauses import UPSERT_V
from tests.support.spark_lab import Lab

COLUMNS: Final = {"id": "int", "v": "int", "name": "string"}
NAMES: Final = [*COLUMNS, "p"]
FULL_ACID: Final = table.TransactionalKind.FULL_ACID


def in_order(rows: Sequence[Sequence[object]]) -> list[list[Any]]:
    return sorted(([*row] for row in rows), key=json.dumps)


@dataclass
class Course:
    """A table `t`, who writes it, and the copies that Hive has read."""

    lab: Lab
    hive: HiveJudge
    trino: TrinoJudge | None = None
    copies: dict[int, list[list[Any]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.lab.db}.t"

    def do(self, step: Callable[[], object]) -> None:
        """Do something, and save what Hive reads then if there is a new version."""
        step()
        newest = self.lab.snapshot("t").write_ids(self.lab.info("t").ref).high_watermark
        rows = in_order(self.hive.rows(self.name))
        # Compactions and cleanings are none: they change no row.
        assert self.copies.setdefault(newest, rows) == rows

    def sql(self, text: str) -> Callable[[], object]:
        """A statement of Hive's."""
        return lambda: self.hive.execute(text.format(t=self.name))

    def by_trino(self, text: str) -> Callable[[], object]:
        """A statement of Trino's."""
        assert self.trino is not None
        trino = self.trino
        return lambda: trino.execute(text.format(t=self.name))

    def insert(self, *rows: tuple[object, ...]) -> Callable[[], object]:
        """Rows of ours."""
        return lambda: self.lab.insert("t", rows, NAMES)

    def as_of(self, **asked: object) -> list[list[Any]]:
        key = f"{self.lab.db}/{uuid.uuid4().hex}"
        with read_snapshot(self.lab.endpoint, [self.name], job_key=key) as snapshot:
            frame = read_table(self.lab.spark, self.name, snapshot, **asked)  # type: ignore[arg-type]
            return in_order([tuple(row) for row in frame.collect()])

    def check(self) -> list[int]:
        """See that every copy is what we read, or refused; gives the versions that were read.

        The history has said which.
        """
        history = history_of(self.lab.client, self.lab.info("t"))
        told = {v.number for v in history.versions if v.is_readable}
        answered = []
        for version, rows in self.copies.items():
            try:
                found = self.as_of(version=version)
            except errors.VersionGoneError as error:
                assert error.oldest == history.oldest  # noqa: PT017 - of each, not of one
                continue
            assert found == rows, version
            answered.append(version)
        assert told >= set(answered)
        assert not told & (set(self.copies) - set(answered))
        return answered


def test_versions_of_a_table_that_hive_and_we_write_equal_the_rows_that_hive_read(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    course = Course(lab4, hive_judge)
    lab4.table("t", COLUMNS, partition={"p": "int"})
    name = course.name
    course.do(course.insert((1, 1, "a", 1), (2, 2, None, 1), (3, 3, "c", 2)))
    course.do(course.sql("insert into {t} partition (p=1) values (4, 4, 'd'), (5, null, 'e')"))
    course.do(course.sql("update {t} set v = v + 100 where id in (1, 3)"))
    hive_judge.compact(name, "p=1", "minor")
    hive_judge.clean()
    keep(lab4.client, lab4.info("t"))
    course.do(course.sql("insert overwrite table {t} partition (p=2) values (6, 6, 'f')"))
    lab4.compact("t", CompactionChoice.MAJOR, "p=1")
    course.do(lambda: lab4.delete("t", "id = 4"))
    assert course.check() == [1, 2, 3, 4, 5]  # a minor compaction takes none, and the rest is kept
    lab4.clean("t")
    assert course.check() == [4, 5]  # but what a cleaning removes is gone


@pytest.fixture
def wide_lab(lab4: Lab, tmp_path: Path) -> Lab:
    """A database whose place is told: Trino wants it so."""
    db = f"lab_{uuid.uuid4().hex[:12]}"
    lab4.client.create_database(db, f"file:{tmp_path}/{db}")
    return replace(lab4, db=db)


@pytest.mark.long
def test_readable_versions_of_a_table_that_every_engine_writes_equal_their_copies(
    wide_lab: Lab, hive_judge: HiveJudge, hive_metastore: LocalMetastore
) -> None:
    assert why_not() is None
    lab, name = wide_lab, f"{wide_lab.db}.t"
    lab.table("t", COLUMNS, partition={"p": "int"}, buckets=("id", 2))
    with TrinoJudge(hive_metastore.uri) as trino:
        course = Course(lab, hive_judge, trino)
        _before_it_is_kept(course)
        before, readable = [*course.copies], course.check()
        assert readable
        assert readable == before[-len(readable) :]  # one oldest, and all from there on
        course.do(lambda: _keep(lab))
        newest = VersionSpec.of(version=max(course.copies))
        make_tag(lab.client, lab.info("t"), "kept", newest)
        tagged = course.copies[max(course.copies)]
        _while_it_is_kept(course)
        assert course.check() == [*readable, *(v for v in course.copies if v > before[-1])]
        course.do(lambda: lab.clean("t"))
        course.do(course.insert((70, 70, "last", 1)))
        kept = course.check()
        assert len(kept) < len(course.copies)
        assert course.as_of(tag="kept") == tagged
        # Somebody else compacts: from then on nobody knows what his cleaner has removed.
        ref = lab.info("t").ref
        course.do(lambda: lab.client.set_table_parameters(ref, {"no_cleanup": None}))
        course.do(lambda: hive_judge.compact(name, "p=0", "major"))
        course.do(hive_judge.clean)
        course.do(lambda: lab.clean("t"))
        course.do(course.sql("insert into {t} partition (p=0) values (71, 71, 'end')"))
        assert set(course.check()) <= {*kept, max(course.copies)}
        with pytest.raises(errors.VersionGoneError, match="is missing"):
            course.as_of(tag="kept")  # Hive's cleaner knows no tags
    assert len(course.copies) > 20


def _before_it_is_kept(course: Course) -> None:
    do, sql, by_trino = course.do, course.sql, course.by_trino
    lab, hive = course.lab, course.hive
    do(course.insert(*((i, i, f"n{i}", i % 3) for i in range(12))))
    do(sql("insert into {t} partition (p=1) values (20, 20, 'hive'), (21, null, null)"))
    do(by_trino("insert into {t} values (30, 30, 'trino', 1), (31, null, 'trino', 5)"))
    do(sql("update {t} set v = v * 2 where id % 2 = 0"))
    do(lambda: lab.delete("t", "id IN (3, 20)"))
    do(by_trino("delete from {t} where id = 31 and p = 5"))  # in one file; of several it fails
    do(lambda: lab.update("t", {"name": "concat(name, '!')"}, "p = 0"))
    assert course.check() == [*course.copies]
    do(lambda: hive.compact(course.name, "p=1", "minor"))
    assert course.check() == [*course.copies]
    do(hive.clean)
    do(sql("delete from {t} where p = 2 and id > 6"))
    do(lambda: lab.compact("t", CompactionChoice.MAJOR, "p=0"))
    do(lambda: lab.clean("t"))
    do(by_trino("insert into {t} values (32, 32, 'trino', 0), (33, 33, 'trino', 2)"))
    do(lambda: hive.compact(course.name, "p=2", "major"))
    do(hive.clean)


def _while_it_is_kept(course: Course) -> None:
    do, sql, by_trino = course.do, course.sql, course.by_trino
    lab, hive = course.lab, course.hive
    do(course.insert((40, 40, "ours", 1), (41, 41, "ours", 2)))
    do(sql("insert into {t} partition (p=0) values (50, 50, 'hive')"))
    do(lambda: lab.merge("t", [(40, 4, "m", 1), (42, 42, "m", 1)], NAMES, ["id"], UPSERT_V))
    do(by_trino("insert into {t} values (34, 34, 'trino', 1), (36, 36, 'trino', 9)"))
    do(lambda: lab.compact("t", CompactionChoice.MINOR))
    do(sql("update {t} set name = 'hive' where id in (34, 40, 50)"))
    do(by_trino("delete from {t} where id = 36 and p = 9"))
    do(lambda: lab.compact("t", CompactionChoice.MAJOR))
    do(sql("insert overwrite table {t} partition (p=2) values (60, 60, 'over')"))
    do(lambda: lab.delete("t", "id = 50"))
    do(course.insert((61, 61, None, 2), (62, 62, None, 7)))
    do(sql("truncate table {t} partition (p=1)"))
    do(by_trino("insert into {t} values (35, 35, 'trino', 1)"))
    do(sql("delete from {t} where id = 61"))
    do(hive.clean)  # which leaves it alone


def _keep(lab: Lab) -> None:
    """Keep a table once nothing of it is with a cleaner any more."""
    entries = lab.client.show_compactions(lab.info("t").ref)
    assert not [e for e in entries if e.state is CompactionState.READY_FOR_CLEANING]
    keep(lab.client, lab.info("t"))


@dataclass
class Course3:
    """A table of Hive 3.1.3's; its metastore is its own, and lists are all that it tells."""

    hive: Hive3Engine
    name: str
    copies: dict[int, list[list[Any]]] = field(default_factory=dict)

    def now(self) -> ValidWriteIdList:
        return ValidWriteIdList.parse(self.hive.describe(self.name)["valid_write_id_list"])

    def do(self, text: str) -> None:
        self.hive.execute(text.format(t=self.name))
        rows = in_order(self.hive.rows(self.name))
        assert self.copies.setdefault(self.now().high_watermark, rows) == rows

    def check(self) -> list[int]:
        """See that every copy is what we read, or refused; gives the versions that were read."""
        newest, answered = self.now(), []
        told = self.hive.describe(self.name)
        txns, place = ValidTxnList.parse(told["valid_txn_list"]), told["location"]
        columns = [table.Column(name=n, type=t) for n, t in COLUMNS.items()]
        for version, rows in self.copies.items():
            then = as_of_number(newest, ids.WriteId(version))
            try:
                state = state_as_of(
                    list_table(place), now=newest, then=then, txns=txns, kind=FULL_ACID, kept=None
                )
            except errors.VersionGoneError:
                continue
            batches = scan(place, columns, then, txns, state=state)
            found = [[row[n] for n in COLUMNS] for each in batches for row in each.to_pylist()]
            assert in_order(found) == rows, version
            answered.append(version)
        return answered


@pytest.mark.long
def test_readable_versions_of_a_table_of_hive_3_equal_their_copies(
    hive_3_new_york: Hive3Engine,
) -> None:
    hive = hive_3_new_york
    course = Course3(hive, f"default.t_{uuid.uuid4().hex[:8]}")
    hive.execute(
        f"create table {course.name} (id int, v int, name string) clustered by (id) into 2 buckets"
        " stored as orc tblproperties ('transactional'='true')"
    )
    for number in range(6):
        course.do(f"insert into {{t}} values ({number}, {number}, 'n'), ({number + 50}, 0, null)")
        course.do(f"update {{t}} set v = v + 1000 where id = {number}")
        course.do(f"delete from {{t}} where id = {number + 50}")
        if number == 1:
            hive.compact(course.name, None, "minor")
            assert course.check() == [*course.copies]
            hive.clean()
            assert course.check() == [*course.copies]
        if number == 3:
            hive.compact(course.name, None, "major")
            assert course.check() == [12]
            hive.clean()
    course.do("insert overwrite table {t} select id, v, 'over' from {t} where id < 3")
    course.do("insert into {t} values (90, 90, 'end')")
    assert course.check() == [19, 20]
    assert len(course.copies) == 20


@pytest.mark.parametrize("few", [True, False], ids=["deltas", "bases"])
@pytest.mark.long_cases("bases")
def test_hive_reads_every_row_of_a_restored_table_to_the_nanosecond(
    lab4: Lab, hive_judge: HiveJudge, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(restoring, "_FEW_ROWS", 0)
        monkeypatch.setattr(restoring, "_FEW_SHARE", 0.0)
    columns = {"id": "int", "at": "timestamp", "c": "char(4)", "a": "array<timestamp>"}
    lab4.table("t", columns, partition={"p": "string"})
    course = Course(lab4, hive_judge)
    row = (
        "{id}, timestamp '2020-01-01 00:00:00.12345678{id}', 'x',"
        " array(timestamp '1600-02-03 04:05:06.000000007')"
    )
    rows = [row.format(id=i) for i in range(6)]
    course.do(
        course.sql(
            "insert into {t} partition (p) "
            + " union all ".join(f"select {text}, 'a{i % 2}'" for i, text in enumerate(rows))
        )
    )
    keep(lab4.client, lab4.info("t"))
    course.do(course.sql("delete from {t} where id = 2"))
    course.do(course.sql("update {t} set c = 'y' where id = 3"))
    course.do(course.sql(f"insert overwrite table {{t}} partition (p='a1') select {rows[5]}"))
    course.do(course.sql(f"insert into {{t}} partition (p='new') select {rows[5]}"))
    for version in (1, 4, 2, 5, 3):
        result = lab4.restore("t", version)
        course.copies[result.write_ids[course.name]] = course.copies[version]
        assert in_order(hive_judge.rows(course.name)) == course.copies[version]
    course.do(course.sql("update {t} set c = 'z' where id in (1, 5)"))
    course.do(course.sql("delete from {t} where id = 4"))
    lab4.compact("t", CompactionChoice.MAJOR)
    assert in_order(hive_judge.rows(course.name)) == course.copies[max(course.copies)]
