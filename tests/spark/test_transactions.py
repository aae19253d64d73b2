"""Several statements in one transaction: they see each other, and are seen together or not at all.

A failure of the random ones prints its seed; HIVEACID_SEED=<seed> runs that life again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    MergeSpec,
    MultiInsertSpec,
    SourceSpec,
    StatementSpec,
    TransactionSpec,
    UpdateSpec,
)
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.writing import event_files
from tests.support.merge_clauses import UPSERT_V
from tests.support.spark_lab import Lab, Row
from tests.support.spark_submit import submit
from tests.support.steps import StopError, stop_at
from tests.support.transaction_lives import NAMES, Life, run


def new_seed(capsys: pytest.CaptureFixture[str]) -> int:
    seed = int(os.environ.get("HIVEACID_SEED") or random.SystemRandom().randint(0, 1 << 30))
    with capsys.disabled():
        print(f"\nlife seed={seed}")  # noqa: T201 - how a failure is run again
    return seed


def live(life: Life, transactions: int) -> None:
    for _ in range(transactions):
        few = life.random.choice([0, event_files.MOST_EVENTS])
        step = life.random.choice([None, None, None, "staged", "published"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(event_files, "MOST_EVENTS", few)
            if step is None:
                run(life, life.random.randint(2, 4))
            else:
                with pytest.raises(StopError):
                    run(life, 2, on_step=stop_at(step))
                life.take_back()
        life.check()


@pytest.mark.long
@pytest.mark.promise("T24")
@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("partitioned", "buckets"),
    [(True, 0), (False, 2)],
    ids=["parts", "buckets"],
)
def test_random_transactions_leave_the_rows_of_the_model(
    lab4: Lab, partitioned: bool, buckets: int, capsys: pytest.CaptureFixture[str]
) -> None:
    life = Life(lab4, new_seed(capsys), partitioned=partitioned, buckets=buckets)
    run(life, 3)
    live(life, 3)
    lab4.compact("t", CompactionChoice.MINOR)
    lab4.compact("u", CompactionChoice.MAJOR)
    life.check()


@pytest.mark.promise("T24")
@pytest.mark.promise("W8")
def test_random_transactions_leave_the_rows_of_the_model_on_3x(
    lab3: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    life = Life(lab3, new_seed(capsys))
    run(life, 3)
    live(life, 2)


def values(*rows: Row) -> SourceSpec:
    return SourceSpec(values=tuple(rows), columns=NAMES)  # type: ignore[arg-type]


def together(
    lab: Lab, *statements: StatementSpec | MultiInsertSpec, **options: object
) -> JobResult:
    return lab.run(TransactionSpec(statements=statements), **options)  # type: ignore[arg-type]


@pytest.fixture
def pair(lab4: Lab) -> Lab:
    """Two tables with a row each."""
    for name in ("t", "u"):
        lab4.table(name, {"id": "bigint", "v": "int", "p": "int"})
        lab4.insert(name, [(1, 1, 1)], NAMES)
    return lab4


def deletes_all(lab: Lab, name: str) -> StatementSpec:
    return DeleteSpec(target=f"{lab.db}.{name}", where="true")


def adds_one(lab: Lab, name: str) -> StatementSpec:
    return UpdateSpec(target=f"{lab.db}.{name}", set={"v": "v + 1"})


def inserts(lab: Lab, name: str, *rows: Row, mode: InsertMode = InsertMode.APPEND) -> StatementSpec:
    return InsertSpec(target=f"{lab.db}.{name}", source=values(*rows), columns=NAMES, mode=mode)


def merges(lab: Lab, name: str, *rows: Row) -> StatementSpec:
    return MergeSpec(
        target=f"{lab.db}.{name}", source=values(*rows), keys=("id",), clauses=UPSERT_V
    )


def test_the_result_lists_each_statement_and_each_has_its_own_statement_id(pair: Lab) -> None:
    result = pair.run(
        TransactionSpec(
            statements=(
                inserts(pair, "t", (2, 2, 2), (3, 3, 3)),
                adds_one(pair, "t"),
                merges(pair, "t", (3, 30, 3), (4, 40, 4)),
                merges(pair, "t", (3, 31, 3), (4, 41, 4)),
                DeleteSpec(target=f"{pair.db}.t", where="id = 2"),
                DeleteSpec(target=f"{pair.db}.u", where="id = 77"),
            )
        )
    )
    assert pair.rows("t") == [(1, 2, 1), (3, 31, 3), (4, 41, 4)]
    told = [(s["kind"], s["table"], *s["rows"].values()) for s in result.details["statements"]]  # type: ignore[union-attr,index,call-overload]
    t, u = f"{pair.db}.t", f"{pair.db}.u"
    assert told == [
        ("insert", t, 2, 0, 0),
        ("update", t, 0, 3, 0),
        ("merge", t, 1, 1, 0),
        ("merge", t, 0, 2, 0),
        ("delete", t, 0, 0, 1),
        ("delete", u, 0, 0, 0),
    ]
    assert (result.rows.inserted, result.rows.updated, result.rows.deleted) == (3, 6, 1)
    assert (result.table, result.kind) == (f"{t}, {u}", "transaction")
    assert pair.directories("t") == [
        *(f"delete_delta_0000002_0000002_000{n}" for n in (1, 2, 3, 4)),
        "delta_0000001_0000001_0000",
        *(f"delta_0000002_0000002_000{n}" for n in (0, 1, 2, 3)),
    ]
    # A statement that changes nothing commits nothing for its table.
    assert pair.directories("u") == ["delta_0000001_0000001_0000"]


def test_an_overwrite_replaces_earlier_writes_of_its_own_transaction(pair: Lab) -> None:
    query = SourceSpec(tables={"n": f"{pair.db}.t"}, query="SELECT id, v * 10 AS v, p FROM n")
    together(
        pair,
        inserts(pair, "t", (2, 2, 2)),
        adds_one(pair, "t"),
        InsertSpec(target=f"{pair.db}.t", source=query, mode=InsertMode.OVERWRITE),
        InsertSpec(target=f"{pair.db}.t", source=query, mode=InsertMode.OVERWRITE),
        InsertSpec(
            target=f"{pair.db}.u",
            source=SourceSpec(tables={"n": f"{pair.db}.t"}, query="SELECT * FROM n"),
        ),
        DeleteSpec(
            target=f"{pair.db}.u",
            where="id IN (SELECT n.id FROM n WHERE n.v = 300)",
            tables={"n": f"{pair.db}.t"},
        ),
    )
    assert pair.rows("t") == [(1, 200, 1), (2, 300, 2)]
    assert pair.rows("u") == [(1, 1, 1), (1, 200, 1)]
    assert pair.directories("t") == ["base_0000002", "delta_0000001_0000001_0000"]


def test_a_change_after_an_overwrite_of_its_table_is_refused_before_the_job_starts(
    pair: Lab,
) -> None:
    before = pair.client.valid_txns().high_watermark
    over = inserts(pair, "t", (5, 5, 5), mode=InsertMode.OVERWRITE)
    for after in (inserts(pair, "t", (6, 6, 6)), adds_one(pair, "t"), deletes_all(pair, "t")):
        with pytest.raises(errors.StatementOrderError, match="statement 3 changes table"):
            together(pair, inserts(pair, "u", (9, 9, 9)), over, after)
    assert pair.client.valid_txns().high_watermark == before


def script(lab: Lab, text: str) -> list[StatementSpec | MultiInsertSpec]:
    jobs = [statement.job for statement in read_script(text, lab.db)]
    return [p for job in jobs for p in getattr(job, "statements", (job,))]


@pytest.mark.promise("W8")
def test_inserts_of_one_from_clause_read_the_tables_as_before_the_first_insert(pair: Lab) -> None:
    result = together(
        pair,
        inserts(pair, "t", (2, 2, 2)),
        *script(
            pair,
            """
            FROM t
            INSERT INTO t SELECT id + 10, v, p
            INSERT OVERWRITE TABLE u SELECT id + 100, v, p
            INSERT INTO t SELECT id + 20, v, p WHERE id IN (SELECT max(x.id) FROM t x);
            DELETE FROM t WHERE id = 11
            """,
        ),
    )
    assert pair.rows("t") == [(1, 1, 1), (2, 2, 2), (12, 2, 2), (22, 2, 2)]
    assert pair.rows("u") == [(101, 1, 1), (102, 2, 2)]
    told = [(s["kind"], s["rows"]["inserted"]) for s in result.details["statements"]]  # type: ignore[attr-defined]
    assert told == [("insert", 1), ("insert", 2), ("insert", 2), ("insert", 1), ("delete", 0)]
    # Alone, and each INSERT's rows are known by its statement ID (HIVE-16832).
    together(pair, *script(pair, "FROM t INSERT INTO t SELECT id, 7, 7 INSERT INTO t SELECT *"))
    pair.delete("t", "id > 2 OR v = 7")
    assert pair.rows("t") == [(1, 1, 1), (1, 1, 1), (2, 2, 2), (2, 2, 2)]


@pytest.mark.promise("W8")
def test_the_common_query_of_several_inserts_is_evaluated_once_and_at_one_time(pair: Lab) -> None:
    together(
        pair,
        *script(
            pair,
            """
            WITH r AS (SELECT id, cast(rand() * 1000000000 AS int) AS v FROM t)
            FROM r JOIN (SELECT rand() AS x, id FROM r) q ON q.id = r.id
            INSERT INTO t SELECT r.id + 10, r.v, cast(q.x * 1000000000 AS int)
            INSERT INTO u SELECT r.id + 10, r.v, cast(q.x * 1000000000 AS int)
            WHERE r.v IN (SELECT v FROM r);
            FROM t INSERT INTO t SELECT 20, cast(date_format(current_timestamp, 'SSSSSS') AS int), 1
            WHERE id = 1
            INSERT INTO u SELECT 20, cast(date_format(current_timestamp, 'SSSSSS') AS int), 1
            WHERE id = 1
            """,
        ),
    )
    assert [row[0] for row in pair.rows("t")] == [1, 11, 20]
    assert pair.rows("t") == pair.rows("u")


def test_an_invalid_common_query_of_inserts_is_refused_before_the_job_starts(pair: Lab) -> None:
    before = pair.client.valid_txns().high_watermark
    text = (
        "FROM (SELECT nothing FROM t) q INSERT INTO t SELECT 1, 1, 1 INSERT INTO u SELECT 1, 1, 1"
    )
    with pytest.raises(errors.SourceUnreadableError, match="nothing"):
        together(pair, adds_one(pair, "t"), *script(pair, text))
    assert pair.client.valid_txns().high_watermark == before


def test_static_partitions_are_compared_by_value_and_not_by_spelling(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab4.insert("t", [(1, 1, 1), (2, 2, 2)], NAMES)
    source = SourceSpec(values=((5, 5),), columns=("id", "v"))

    def static(p: str, mode: InsertMode) -> InsertSpec:
        target = f"{lab4.db}.t"
        return InsertSpec(target=target, source=source, partition={"p": p}, mode=mode)

    pair = (static("1", InsertMode.OVERWRITE), static("01", InsertMode.APPEND))
    with pytest.raises(errors.StatementOrderError):
        together(lab4, *pair)
    with pytest.raises(errors.SharedTargetError, match="INSERTs 1 and 2 of one FROM"):
        together(lab4, MultiInsertSpec(inserts=pair[::-1]))
    together(
        lab4,
        static("1", InsertMode.OVERWRITE),
        static("2", InsertMode.APPEND),
        static("3", InsertMode.OVERWRITE),
    )
    assert lab4.rows("t") == [(2, 2, 2), (5, 5, 1), (5, 5, 2), (5, 5, 3)]
    assert lab4.client.show_locks(lab4.info("t").ref) == ()


def test_a_later_statement_can_change_rows_in_a_partition_that_an_earlier_one_created(
    lab4: Lab,
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab4.insert("t", [(1, 1, 1)], NAMES)
    together(
        lab4,
        inserts(lab4, "t", (9, 9, 9), (8, 8, 8)),
        UpdateSpec(target=f"{lab4.db}.t", set={"v": "v + 1"}, where="p IN (1, 9)"),
        MergeSpec(
            target=f"{lab4.db}.t",
            source=values((8, 80, 8), (7, 70, 7)),
            keys=("id", "p"),
            clauses=UPSERT_V,
        ),
        DeleteSpec(target=f"{lab4.db}.t", where="p = 1"),
    )
    assert lab4.rows("t") == [(7, 70, 7), (8, 80, 8), (9, 10, 9)]


def test_all_statements_of_a_transaction_read_other_writes_from_one_snapshot(pair: Lab) -> None:
    """Somebody appends between the first statement and the second."""

    def append(step: str) -> None:
        if step == "staged" and not done:
            done.append(pair.insert("u", [(50, 50, 50)], NAMES))

    done: list[object] = []
    query = "SELECT id + 100 AS id, v, p FROM n"
    together(
        pair,
        inserts(pair, "u", (2, 2, 2)),
        InsertSpec(
            target=f"{pair.db}.t", source=SourceSpec(tables={"n": f"{pair.db}.u"}, query=query)
        ),
        on_step=append,
    )
    assert pair.rows("t") == [(1, 1, 1), (101, 1, 1), (102, 2, 2)]
    assert pair.rows("u") == [(1, 1, 1), (2, 2, 2), (50, 50, 50)]


@pytest.mark.promise("T15")
def test_a_conflict_in_one_table_undoes_the_changes_of_all_tables(lab: Lab) -> None:
    for name in ("t", "u"):
        lab.table(name, {"id": "bigint", "v": "int", "p": "int"}, partition={"q": "int"})
        lab.insert(name, [(1, 1, 1, 1)], [*NAMES, "q"])
    before = {name: lab.directories(name, "q=1") for name in ("t", "u")}
    rival = lab.client.clone(call_timeout_s=20.0)

    def overtake(step: str) -> None:
        """3.1 grants one update of a table at a time; there it is another's recorded change."""
        if step != "snapshot":
            return
        ref = lab.info("u").ref
        txn_id = rival.open_txn()
        write_id = rival.allocate_write_id(txn_id, ref)
        names = [p.name for p in rival.list_partitions(lab.info("u"))]
        rival.add_dynamic_partitions(txn_id, write_id, ref, names, DataOperation.UPDATE)
        rival.commit_txn(txn_id)

    with pytest.raises(errors.WriteConflictError):
        together(lab, adds_one(lab, "t"), adds_one(lab, "u"), on_step=overtake)
    for name in ("t", "u"):
        assert lab.rows(name) == [(1, 1, 1, 1)]
        assert lab.directories(name, "q=1") == before[name]
        assert list(lab.root(name).glob("_tmp*")) == []
        assert len(list(lab.root(name).glob("_hiveacid/*"))) == 4  # the insert's, and the owner


@pytest.mark.long
@pytest.mark.parametrize("step", ["published", "committed"])
def test_a_killed_transaction_leaves_all_or_nothing_and_its_retry_applies_it_once(
    pair: Lab, tmp_path: Path, step: str
) -> None:
    job = TransactionSpec(
        statements=(
            inserts(pair, "t", (2, 2, 2)),
            adds_one(pair, "t"),
            adds_one(pair, "u"),
            inserts(pair, "u", (2, 2, 2)),
        )
    )
    key = f"{pair.db}/both"
    killed = submit(tmp_path, pair.endpoint, job, job_key=key, stop_at=step)
    assert killed.code != 0, killed.log
    is_done = step == "committed"
    assert pair.rows("t") == ([(1, 2, 1), (2, 3, 2)] if is_done else [(1, 1, 1)])
    assert pair.rows("u") == ([(1, 2, 1), (2, 2, 2)] if is_done else [(1, 1, 1)])
    again = pair.run(job, job_key=key)
    assert again.status is (JobStatus.ALREADY_DONE if is_done else JobStatus.COMMITTED)
    assert pair.rows("t") == [(1, 2, 1), (2, 3, 2)]
    assert pair.rows("u") == [(1, 2, 1), (2, 2, 2)]
    assert len(again.details["statements"]) == 4  # type: ignore[arg-type]


def test_an_error_names_the_number_of_its_statement(pair: Lab) -> None:
    bad = UpdateSpec(target=f"{pair.db}.u", set={"nothing": "1"})
    with pytest.raises(errors.UnknownColumnError) as caught:
        together(pair, adds_one(pair, "t"), bad)
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
    twice = merges(pair, "u", (1, 5, 5), (1, 6, 6))
    with pytest.raises(errors.MergeCardinalityError) as at_work:
        together(pair, adds_one(pair, "t"), twice)
    assert at_work.value.__notes__ == ["in statement 2 of the transaction"]
    assert pair.rows("t") == [(1, 1, 1)]
    with pytest.raises(errors.ConfigurationError, match="1 to 4096 statements"):
        together(pair)
