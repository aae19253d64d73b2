"""Tables that Hive's streaming ingest writes: readers see its committed rows, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from tests.contract.bench import wait_until
from tests.judges import bare, engine, streaming
from tests.support.spark_lab import Lab


@pytest.mark.judge
def test_rows_of_an_aborted_streaming_transaction_are_never_read(
    lab4: Lab, hive_judge: engine.HiveJudge
) -> None:
    lab4.table("t", {"id": "bigint", "name": "string"})
    lab4.insert("t", [(1, "before")], ["id", "name"])
    hive_judge.stream("open", db=lab4.db, table="t", txns=3)
    hive_judge.stream("write", rows=1, commit=True)
    hive_judge.stream("write", rows=2, commit=False)
    hive_judge.stream("write", rows=1, commit=True)
    hive_judge.stream("close")
    # The metastore forgets an aborted transaction that wrote nothing, unless it is the newest.
    empty = lab4.client.open_txn()
    lab4.client.abort_txn(empty)
    lab4.client.abort_txn(lab4.client.open_txn())
    wait_until(lambda: empty not in lab4.client.valid_txns().aborted, timeout_s=60.0)
    ref = lab4.info("t").ref
    assert lab4.client.valid_write_ids([ref], lab4.client.valid_txns())[ref].aborted == (3,)
    rows = [(1, "before"), (200, "streamed 0"), (400, "streamed 0")]
    query = f"select id, name from {ref} order by id"
    for choice in (None, CompactionChoice.MINOR, CompactionChoice.MAJOR):
        if choice is not None:
            assert lab4.compact("t", choice).status is JobStatus.COMMITTED
            lab4.clean("t")
            lab4.insert("t", [(1, "before")], ["id", "name"])
            rows = sorted([*rows, (1, "before")])
        assert lab4.rows("t") == rows
        assert [tuple(row) for row in hive_judge.execute(query)] == rows


def wait_for_growth(file: Path) -> None:
    size = file.stat().st_size if file.exists() else 0
    wait_until(lambda: file.exists() and file.stat().st_size > size, timeout_s=60.0)


@pytest.mark.promise("F9")
def test_a_file_that_a_streaming_writer_has_open_is_read_up_to_its_recorded_length(
    lab: Lab, server: LocalMetastore, bare_reader_4: bare.BareReader
) -> None:
    ref = lab.table("t", {"id": "bigint", "name": "string"}).ref
    lab.insert("t", [(1, "before")], ["id", "name"])
    rows = [(1, "before")]

    def assert_rows() -> None:
        assert lab.rows("t") == sorted(rows)
        # While 3.1.3's writer has the file open, Hive's readers skip its committed rows.
        if server.config.version != "4.0.1":
            return
        snapshot = lab.snapshot("t")
        found = bare_reader_4.read(
            lab.root("t"),
            snapshot.write_ids(ref).text(),
            "struct<id:bigint,name:string>",
            txns=snapshot.txns.text(),
        )
        assert sorted((row[1], row[2]) for row in found) == sorted(rows)

    for commits in (0, 2):  # so one writer dies before its first commit
        others = set(lab.client.valid_txns().open)
        with streaming.StreamingWriter(server.config.version, server.uri) as writer:
            first = writer.open(str(ref), txns=4)
            assert_rows()
            for write_id in range(first, first + commits):
                writer.write(rows=2, commit=True)
                rows += [(write_id * 100 + i, f"streamed {i}") for i in range(2)]
                assert_rows()
            if commits:
                writer.write(rows=1, commit=False)
                assert_rows()
            writer.pour()
            (delta,) = lab.root("t").glob(f"delta_{first:07d}_*")
            wait_for_growth(delta / "bucket_00000")
            assert_rows()
            writer.kill()
        assert_rows()
        # The metastore does the same when the dead writer's transactions time out.
        for txn_id in set(lab.client.valid_txns().open) - others:
            lab.client.abort_txn(txn_id)
        assert_rows()
    for choice in (CompactionChoice.MINOR, CompactionChoice.MAJOR):
        assert lab.compact("t", choice).status is JobStatus.COMMITTED
        assert_rows()
        lab.clean("t")
        assert_rows()
