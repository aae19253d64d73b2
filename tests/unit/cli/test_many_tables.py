"""Commands for all tables of a pattern: the worst table first, totals, and a status for cron."""

from __future__ import annotations

import csv
import io
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from airflow_hiveacid.format.errors import MetastoreUnavailableError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.transactions.compaction_work import compacting
from airflow_hiveacid.operators.reporting.survey import survey
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_terms
from tests.unit.cli.commands import Records, Run, Warehouse

QUERY = "hive_20261130101112_01234567-89ab-cdef-0123-456789abcdef"
DUE = ("--delta-count", "2")


def states_in(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["table"], one["state"]) for one in found]


def test_health_lists_the_worst_table_first_and_counts_the_others(
    warehouse: Warehouse, run: Run, records: Records
) -> None:
    warehouse.table("fine", 1)
    warehouse.table("due", 2)
    warehouse.table("most_due", 3)
    warehouse.table("off", parameters={"NO_AUTO_COMPACTION": "true"})
    gone = warehouse.table("gone")
    (warehouse.root / gone.name).rmdir()
    found = records("health", *DUE, status=7)
    assert states_in(found) == [
        ("demo.most_due", "due"),
        ("demo.due", "due"),
        ("demo.gone", "unknown"),
        ("demo.off", "switched off"),
    ]
    assert [(one["due"], one["deltas"]) for one in found[:2]] == [(1, 3), (1, 2)]
    assert found[0]["why"] == "the table is due: 3 delta directories (threshold 2)"
    assert "does not exist" in found[2]["why"]
    last = run("health", "demo.*", *DUE, status=7).splitlines()[-1]
    assert last == "2 due, 1 unknown, 1 switched off, 1 fine"
    assert ("demo.fine", "fine") in states_in(records("health", "demo.*", "--all", *DUE, status=7))
    read = [*csv.DictReader(io.StringIO(run("health", "*", *DUE, "-o", "csv", status=7)))]
    assert [(one["table"], one["deltas"]) for one in read][:2] == [
        ("demo.most_due", "3"),
        ("demo.due", "2"),
    ]


def test_a_table_that_is_switched_off_needs_a_person_only_if_it_is_due(
    warehouse: Warehouse, run: Run, records: Records
) -> None:
    for name in ("off", "other"):
        warehouse.table(name, 2, parameters={"NO_AUTO_COMPACTION": "true"})
    assert states_in(records("health")) == [
        ("demo.off", "switched off"),
        ("demo.other", "switched off"),
    ]
    (both,) = records("explain", "demo.*")
    assert (both["state"], both["tables"]) == ("switched off", ["demo.off", "demo.other"])
    assert run("explain", "demo.*").splitlines()[-1] == "2 switched off"
    blocked, due = records("explain", "demo.*", *DUE, status=7)
    assert (blocked["state"], due["state"], due["remedy"]) == ("blocked", "due", "")
    assert blocked["finding"].startswith("partitions are due, but automatic compaction is switched")
    assert blocked["remedy"] == "compact once with `compact TABLE --choice major`"
    (off, _) = records("health", *DUE, status=7)
    assert (off["state"], off["due"]) == ("blocked", 1)
    assert off["why"].startswith("the table is due, but automatic compaction is switched off by")


def test_the_status_of_health_says_whether_tables_are_due_blocked_or_fine(
    warehouse: Warehouse, run: Run
) -> None:
    assert run("health") == "no table\n"
    warehouse.table("a", 2)
    assert run("health").splitlines() == ["1 fine"]
    assert run("health", "demo.?", *DUE, status=6).splitlines()[-1] == "1 due"
    assert "demo.a: 2 delta directories" in run("health", "demo.a", *DUE)


@pytest.mark.parametrize(
    ("argv", "status", "why"),
    [
        ("health dmeo.*", 3, "no transactional table matches dmeo.*"),
        ("health dmeo.*", 3, "; did you mean demo.*?"),
        ("explain demo.x*", 3, "no transactional table matches demo.x*"),
        ("plan demo.x*", 3, "no transactional table matches demo.x*"),
        ("clean demo.x* --dry-run", 3, "no transactional table matches demo.x*"),
        ("health * --partition day=1", 2, "--partition needs one table"),
        ("clean demo.*", 2, "clean 'demo.*' needs --dry-run; HiveAcidCleanTablesOperator"),
        ("explain demo.ordrs", 3, "does not exist in the metastore; check the name"),
        ("explain demo.ordrs", 3, "; did you mean demo.orders?"),
        ("locks dem.order", 3, "; did you mean demo.orders?"),
        ("tables dmeo", 3, "database dmeo does not exist in the metastore; it has default, demo"),
        ("tables dmeo", 3, "; did you mean demo?"),
    ],
)
def test_tables_that_do_not_exist_are_an_error_that_names_similar_ones(
    warehouse: Warehouse, run: Run, argv: str, status: int, why: str
) -> None:
    warehouse.table("orders", 1)
    warehouse.table("customers")
    printed = run(*argv.split(), status=status)
    assert why in printed.splitlines()[-1]


def test_an_error_of_a_suggestion_does_not_hide_the_first_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FakeClient) -> None:
        raise MetastoreUnavailableError(uris=("thrift://a:1",), method="m", reason="gone")

    monkeypatch.setattr(FakeClient, "list_databases", fail)
    assert run("explain", "demo.x", status=3).startswith("error: TableNotFoundError: ")


def test_explain_names_a_cause_once_with_all_tables_that_it_affects(
    warehouse: Warehouse, records: Records, run: Run
) -> None:
    refs = [warehouse.table(name, 1) for name in "abc"]
    txn_id = warehouse.opened(*refs, writes=False)
    for ref in refs[:2]:
        warehouse.write(ref, base=True)
    off = warehouse.table("off", parameters={"NO_CLEANUP": "true"})
    (warehouse.root / off.name).rmdir()
    found = records("explain", "demo.*", status=7)
    assert [(one["state"], one["tables"]) for one in found] == [
        ("blocked", ["demo.a", "demo.b"]),
        ("blocked", ["demo.off"]),
        ("unknown", ["demo.off"]),
    ]
    assert found[0]["finding"].startswith(f"paths are kept: transaction {txn_id} ")
    assert "etl/load" in found[0]["finding"]
    assert found[0]["remedy"] == f"wait, or end it with `abort {txn_id}`"
    assert run("explain", "demo.*", status=7).splitlines()[-1] == "3 blocked, 1 fine"


def test_explain_names_due_tables_together_and_one_table_with_its_details(
    warehouse: Warehouse, records: Records
) -> None:
    for name in "ab":
        warehouse.table(name, 2)
    (both,) = records("explain", "demo.*", *DUE, status=6)
    assert (both["state"], both["tables"]) == ("due", ["demo.a", "demo.b"])
    assert both["finding"] == "partitions are due; `plan` lists them"
    assert both["remedy"] == "run HiveAcidCompactOperator, or `compact TABLE`"
    (one,) = records("explain", "demo.[a]", *DUE, status=6)
    assert one["finding"] == "the table is due: 2 delta directories (threshold 2)"
    assert one["remedy"].endswith("`compact demo.a`")


def test_explain_names_the_first_and_the_last_end_of_one_retention(
    warehouse: Warehouse, records: Records, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [0]
    monkeypatch.setattr(Cleaner, "_time_s", lambda _: 1e9 + 86400 * days[0])
    for day, name in ((0, "a"), (6, "b")):
        days[0] = day
        ref = warehouse.table(name, 1)
        run("keep", str(ref), "--readable-for", "7 days")
        warehouse.write(ref, base=True)
        run("clean", str(ref))
    (kept,) = records("explain", "demo.*", status=0)
    assert kept["tables"] == ["demo.a", "demo.b"]
    assert kept["finding"] == "paths are kept: the retention of 7 d ends in 1 d to 7 d"


def test_explain_names_each_tables_own_transaction_to_abort(
    warehouse: Warehouse, records: Records
) -> None:
    other, writers = warehouse.table("other"), list[TxnId]()
    for ref in (warehouse.table("a", 2), warehouse.table("b", 2)):
        # By its locks, this query of Hive may access only the other table.
        writers.append(warehouse.opened(other, job=QUERY))
        warehouse.client.allocate_write_id(writers[-1], ref)
        warehouse.write(ref)
    found = records("explain", "demo.[ab]", "--delta-count", "3", status=7)
    assert [(one["tables"], one["remedy"].split("`")[1]) for one in found] == [
        (["demo.a"], f"abort {writers[0]}"),
        (["demo.b"], f"abort {writers[1]}"),
    ]
    assert all(f"transaction {w}" in one["finding"] for w, one in zip(writers, found, strict=True))


def test_explain_names_each_tables_own_dead_compactor(
    warehouse: Warehouse, records: Records
) -> None:
    tables = [warehouse.client.get_table(warehouse.table(name, 2)) for name in "ab"]
    kind, clock = CompactionType.MAJOR, warehouse.client.server.clock
    with ExitStack() as left:
        works = [
            left.enter_context(
                compacting(
                    warehouse.client,
                    job_terms(f"etl/{table.ref.name}", clock=clock),
                    table=table,
                    partition=None,
                    compaction_type=kind,
                )
            )
            for table in tables
        ]
        found = records("explain", "demo.*", *DUE, status=6)[:2]
        for work in works:
            work.refuse("over")
    assert [(one["state"], one["tables"]) for one in found] == [
        ("due", ["demo.a"]),
        ("due", ["demo.b"]),
    ]
    assert all(
        f"`abort {w.txn.txn_id}`" in one["remedy"] for w, one in zip(works, found, strict=True)
    )


def test_the_writer_of_each_table_is_found_among_many_transactions_by_its_lock(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [warehouse.table(name, 2) for name in "abc"]
    writer = warehouse.opened(*refs)
    for ref in refs:
        warehouse.client.allocate_write_id(writer, ref)
    for _ in range(50):
        warehouse.client.open_txn()
    for ref in refs:
        warehouse.write(ref)
    calls = Counter[str]()
    valid_txns, valid_write_ids = FakeClient.valid_txns, FakeClient.valid_write_ids

    def counted(name: str, call: Any) -> Any:  # noqa: ANN401
        return lambda *given: (calls.update([name]), call(*given))[1]

    monkeypatch.setattr(FakeClient, "valid_txns", counted("valid_txns", valid_txns))
    monkeypatch.setattr(FakeClient, "valid_write_ids", counted("valid_write_ids", valid_write_ids))
    found = survey(warehouse.client, ["demo.*"], GivenThresholds(delta_count=3)).numbers
    assert {one.remedy.split("`")[1] for one in found} == {f"abort {writer}"}
    # Two for the table's state and its history, and one to confirm the only holder of a lock.
    assert calls == {"valid_txns": 6, "valid_write_ids": 9}


def test_plan_sums_up_each_table_that_is_due_failed_or_skipped(
    warehouse: Warehouse, run: Run, records: Records
) -> None:
    warehouse.table("due", 3)
    warehouse.table("fine", 1)
    warehouse.table("off", parameters={"NO_AUTO_COMPACTION": "true"})
    gone = warehouse.table("gone")
    (warehouse.root / gone.name).rmdir()
    found = records("plan", "demo.*", *DUE, status=7)
    assert states_in(found) == [
        ("demo.due", "due"),
        ("demo.gone", "unknown"),
        ("demo.off", "skipped"),
    ]
    assert (found[0]["due"], found[0]["directories"]) == (1, 3)
    assert "3 delta directories" in found[0]["why"]
    told = run("plan", "demo.*", *DUE, status=7).splitlines()
    assert told[-1] == "1 due, 1 unknown, 1 fine, 1 skipped"
    (warehouse.root / gone.name).mkdir()
    assert states_in(records("plan", "*", *DUE, status=6))[0] == ("demo.due", "due")
    assert run("plan", "demo.f*", *DUE) == "1 fine\n"


def test_a_planned_cleaning_sums_up_each_table_and_changes_nothing(
    warehouse: Warehouse, run: Run, records: Records
) -> None:
    warehouse.table("fine", 1)
    names = ("demo.old", "demo.older")
    refs = [warehouse.table(name, 2) for name in ("old", "older")]
    txn_id = warehouse.opened(*refs, writes=False)
    for ref in refs:
        warehouse.write(ref, base=True)
    before = sorted(warehouse.root.rglob("*"))
    found = records("clean", "demo.*", "--dry-run")
    assert states_in(found) == [(name, "waiting") for name in names]
    assert [(one["removed"], one["kept"]) for one in found] == [(0, 2), (0, 2)]
    assert "etl/load" in found[0]["why"]
    assert run("clean", "demo.*", "--dry-run").splitlines()[-1] == "2 waiting, 1 fine"
    warehouse.client.abort_txn(txn_id)
    found = records("clean", "demo.*", "--dry-run", status=6)
    assert states_in(found) == [(name, "due") for name in names]
    assert [(one["removed"], one["kept"]) for one in found] == [(2, 0), (2, 0)]
    assert sorted(warehouse.root.rglob("*")) == before
    (warehouse.root / "fine").rename(warehouse.root / "gone")
    found = records("clean", "demo.*", "--dry-run", status=7)
    assert states_in(found)[2:] == [("demo.fine", "unknown")]
    last = run("clean", "demo.*", "--dry-run", status=7).splitlines()[-1]
    assert last == "2 due, 1 unknown"
