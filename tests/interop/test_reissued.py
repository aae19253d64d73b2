"""Files that got another write ID after their first one was overtaken, before other readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WriterOptions
from airflow_hiveacid.storage.stores.staging import MARKERS
from tests.interop.conftest import AgreedRows
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab

COLUMNS = {"id": "bigint", "name": "string", "at": "timestamp", "price": "decimal(9,2)"}
SCHEMA = f"struct<{','.join(f'{name}:{type_}' for name, type_ in COLUMNS.items())}>"
MANY = 2_000
QUERY = (
    "SELECT id, concat('n', id) AS name, timestamp'2020-02-29 12:00:00' AS at,"
    f" CAST(id / 4 AS decimal(9,2)) AS price FROM range({MANY})"
)
UPSERT = (matched_update({"name": "s.name"}), INSERT_ALL)


def overwrite(lab: Lab, table: TableInfo) -> Callable[[str], None]:
    """What overwrites a table once while a job is at work, with no rows, and takes no lock."""
    place = table.location.removeprefix("file:")
    left = ["registered"]

    def on_step(step: str) -> None:
        if left != [step]:
            return
        left.clear()
        txn_id = lab.client.open_txn()
        write_id = lab.client.allocate_write_id(txn_id, table.ref)
        path = f"{place}/base_{write_id:07d}"
        with AcidFileWriter(
            LocalFileSystem(),
            f"{path}/bucket_00000",
            table.columns,
            WriterOptions(),
            is_delete=False,
        ) as writer:
            writer.close()
        with LocalFileSystem().open_output_stream(f"{path}/_orc_acid_version") as marker:
            marker.write(MARKERS["_orc_acid_version"])
        lab.client.commit_txn(txn_id)

    return on_step


def how(result: JobResult) -> object:
    retried: Any = result.details["retried"]
    return retried["how"]


@pytest.mark.promise("O4")
def test_hive_reads_files_that_were_republished_under_a_higher_write_id(
    lab4: Lab, agreed_rows: AgreedRows
) -> None:
    lab = lab4
    table = lab.table("t", COLUMNS, parameters={"orc.compress": "ZLIB"})
    target = f"{lab.db}.t"
    insert = InsertSpec(target=target, source=SourceSpec(query=QUERY, tables={}))
    result = lab.run(insert, on_step=overwrite(lab, table))
    assert (result.status, how(result)) == (JobStatus.COMMITTED, "metadata")
    lab.update("t", {"name": "upper(name)"}, "id % 7 = 0")
    lab.delete("t", "id % 11 = 0")
    more = [(1, "one", None, None), (MANY + 1, "more", None, None)]
    lab.merge("t", more, list(COLUMNS), ["id"], UPSERT)
    wanted = {i: (f"N{i}" if i % 7 == 0 else f"n{i}", i / 4) for i in range(MANY) if i % 11} | {
        1: ("one", 0.25),
        MANY + 1: ("more", None),
    }

    def check() -> None:
        found = agreed_rows(
            table.location.removeprefix("file:"),
            lab.snapshot("t").write_ids(table.ref).text(),
            SCHEMA,
        )
        rows = {row[1]: (row[2], row[4]) for row in found}
        assert len(found) == len(wanted)
        assert {i: (n, None if p is None else float(p)) for i, (n, p) in rows.items()} == wanted
        write_ids = {row[0]["writeid"] for row in found}
        assert write_ids == {3, 4, 6}  # the first try's was 1, the overwrite's 2, the delete's 5
        assert [tuple(row)[:2] for row in lab.rows("t")] == sorted(
            (i, name) for i, (name, _) in wanted.items()
        )

    check()
    lab.compact("t", CompactionChoice.MAJOR)
    check()


@pytest.mark.promise("O4")
def test_an_insert_hidden_by_a_concurrent_overwrite_is_republished_above_it(
    lab3: Lab, agreed_rows: AgreedRows
) -> None:
    lab = lab3
    table = lab.table("t", COLUMNS, parameters={"orc.compress": "ZLIB"})
    place = table.location.removeprefix("file:")
    result = lab.insert("t", [(1, "a", None, None)], list(COLUMNS), on_step=overwrite(lab, table))
    assert how(result) == "metadata"
    (row,) = agreed_rows(place, lab.snapshot("t").write_ids(table.ref).text(), SCHEMA)
    assert row[:3] == [{"writeid": 3, "bucketid": 536870912, "rowid": 0}, 1, "a"]
