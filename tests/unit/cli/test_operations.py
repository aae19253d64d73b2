"""The commands for operations, over a fake metastore: what blocks a table, and what helps."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from airflow_hiveacid.arrow import compaction
from airflow_hiveacid.cli.output import Answer, field, shown
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    MetastoreCallError,
    MetastoreUnavailableError,
)
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import staging_directory
from airflow_hiveacid.format.records import TimeBounds
from airflow_hiveacid.format.table import (
    Column,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
from airflow_hiveacid.maintenance.pauses import note_failure
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType, our_pool
from airflow_hiveacid.metastore.port import OpenTxn
from airflow_hiveacid.metastore.transactions.compaction_work import compacting
from airflow_hiveacid.operators.reporting import findings, survey as surveys
from airflow_hiveacid.operators.reporting.findings import Finding, Urgency, capped
from airflow_hiveacid.operators.reporting.survey import survey
from airflow_hiveacid.plan.compaction_policy import (
    COUNT_PARAMETER,
    RATIO_PARAMETER,
    GivenThresholds,
)
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.versions.history import VersionEntry
from airflow_hiveacid.writing.job import WritingJob
from tests.contract.fake_client import FakeClient
from tests.support.command_line import status_of
from tests.support.terms import job_terms
from tests.unit.cli.commands import COLUMNS, Records, Run, Warehouse
from tests.unit.storage.orc_tables import insert, write_acid

REF = TableRef("demo", "t")


@pytest.fixture
def warehouse(warehouse: Warehouse) -> Warehouse:
    """With a table of two deltas."""
    warehouse.table("t", 2)
    return warehouse


def test_tables_without_transactions_are_listed_only_with_the_option_all(
    client: FakeClient, run: Run, records: Records
) -> None:
    flat = TableRef("demo", "flat")
    client.create_table(NewTable(ref=flat, columns=COLUMNS, kind=TransactionalKind.NONE))
    client.set_table_parameters(REF, {"NO_AUTO_COMPACTION": "true"})
    (only,) = records("tables")
    assert (only["table"], only["kind"]) == ("demo.t", "full_acid")
    assert only["switched_off"] == ["NO_AUTO_COMPACTION"]
    assert [one["kind"] for one in records("tables", "Demo", "--all")] == ["flat", "full_acid"]
    assert "database nothing does not exist" in run("tables", "nothing", status=3)


def test_the_transactions_that_were_aborted_before_an_error_are_printed(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    txn_id, real = warehouse.opened(REF, writes=False), FakeClient.abort_txn

    def abort(self: FakeClient, number: TxnId) -> bool:
        if number == 998:
            raise MetastoreUnavailableError(
                uris=("thrift://gone:9083",), method="abort_txn", reason="gone"
            )
        return real(self, number)

    monkeypatch.setattr(FakeClient, "abort_txn", abort)
    assert status_of(["abort", str(txn_id), "998", "-o", "json"]) == 4
    assert json.loads(capsys.readouterr().out) == [{"txn_id": txn_id, "is_aborted": True}]


def test_tables_that_cannot_be_read_are_reported_after_the_others(
    client: FakeClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied, real = TableRef("demo", "denied"), FakeClient.get_table
    client.create_table(NewTable(ref=denied, columns=COLUMNS))

    def get_table(self: FakeClient, ref: TableRef) -> TableInfo:
        if ref == denied:
            raise MetastoreCallError(method="get_table", reason="no permission")
        return real(self, ref)

    monkeypatch.setattr(FakeClient, "get_table", get_table)
    monkeypatch.setattr(FakeClient, "list_tables", lambda *_: ("denied", "my-table", "t"))
    last = run("tables", "demo").splitlines()[-1]
    assert last.startswith("1 transactional table; 2 tables could not be read: demo.denied (")
    assert "no permission" in last
    assert "demo.my-table (" in last
    found = survey(client, ["demo.*"], GivenThresholds())
    states = {one.row.table: one.row.state for one in found.numbers}
    assert states == {"demo.denied": "unknown", "demo.my-table": "unknown", "demo.t": "fine"}


@pytest.mark.parametrize("form", ["table", "plain"])
def test_control_characters_in_printed_values_are_escaped(form: str) -> None:
    answer = Answer(records=[{"user": "\x1b]0;title\x07\nroot é"}], columns=(field("user"),))
    told = shown(answer, form)
    assert "\x1b" not in told
    assert "\\x1b]0;title\\x07\\nroot é" in told


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("text", ["\x1b[2J", "a\u202eb", "é\u2066", "\x9b"])
def test_unprintable_characters_in_records_are_escaped_without_loss(form: str, text: str) -> None:
    told = shown(Answer(records=[{"user": text}]), form)
    assert all(one.isprintable() or one == "\n" for one in told)
    parse = json.loads if form == "json" else yaml.safe_load
    assert parse(told) == [{"user": text}]


def test_csv_has_a_line_of_names_and_one_line_for_each_record() -> None:
    records = [
        {"table": "a.b", "is_kept": True, "tags": ["x", 'y"z']},
        {"table": "c,d\nüe\x1b", "ratio": 0.5, "tags": [], "stats": {"n": None}},
    ]
    told = shown(Answer(records=records, foot="2 tables"), "csv")
    assert told.startswith("table,is_kept,tags,ratio,stats\r\n")
    assert list(csv.reader(io.StringIO(told, newline="")))[1:] == [
        ["a.b", "true", 'x; y"z', "", ""],
        ["c,d\nüe\\x1b", "", "", "0.5", '{"n": null}'],
    ]
    assert shown(Answer(records=[]), "csv") == ""


def test_letters_outside_ascii_stay_readable_in_yaml() -> None:
    assert shown(Answer(records=[{"user": "名é"}]), "yaml") == "- user: 名é\n"


def test_characters_that_the_terminal_cannot_encode_are_escaped(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_table(NewTable(ref=TableRef("demo", "u"), columns=COLUMNS))
    client.set_table_parameters(TableRef("demo", "u"), {"hiveacid.readable.for": "7 über"})
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert status_of(["tables", "-o", "yaml"]) == 0
    assert b"7 \\xfcber" in ascii_only.buffer.getvalue()


def test_a_command_does_nothing_if_standard_output_is_closed(
    warehouse: Warehouse,
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    txn_id = warehouse.opened(REF, writes=False)
    monkeypatch.setattr(sys, "stdout", None)
    assert status_of(["abort", str(txn_id)]) == 2
    assert "standard output is closed, so nothing was done" in capsys.readouterr().err
    assert txn_id in client.valid_txns().open


def test_every_output_format_contains_the_same_records(run: Run) -> None:
    found = json.loads(run("tables", "-o", "json"))
    assert yaml.safe_load(run("tables", "-o", "yaml")) == found
    head, line = run("tables", "-o", "plain").splitlines()
    assert head.split()[:2] == ["table", "kind"]
    assert line.split()[:2] == ["demo.t", "full_acid"]
    drawn = run("tables").splitlines()
    assert drawn[-1] == "1 transactional table"
    assert "readable for" in head
    assert "readable for" not in drawn[0], "people do not see a column without any value"


def test_health_names_the_thresholds_that_are_reached(records: Records, run: Run) -> None:
    (fine,) = records("health", "demo.t")
    assert (fine["delta_count"], fine["why"]) == (2, None)
    (due,) = records("health", "demo.t", "--delta-count", "2")
    assert due["why"] == "2 delta directories (threshold 2)"
    assert "demo.t: 2 delta directories" in run("health", "demo.t")


def test_commands_use_the_tables_own_threshold_unless_an_option_sets_one(
    client: FakeClient, records: Records
) -> None:
    client.set_table_parameters(REF, {COUNT_PARAMETER: "2"})
    why = f"2 delta directories (threshold 2 by table parameter {COUNT_PARAMETER})"
    assert records("health", "demo.t")[0]["why"] == why
    assert records("plan", "demo.t")[0]["why"] == f"{why} and no base"
    assert f"is due: {why}" in records("explain", "demo.t")[0]["finding"]
    for options in (("--delta-count", "3"), ("--delta-count", "off")):
        assert records("health", "demo.t", *options)[0]["why"] is None
        assert records("plan", "demo.t", *options)[0]["kind"] == "none"
        assert records("explain", "demo.t", *options)[0]["state"] == "fine"


def test_commands_agree_on_further_thresholds(records: Records, run: Run) -> None:
    option = ("--also-when", "small_files=1,deleted_rows=1")
    why = "1 small files (threshold 1)"
    assert records("health", "demo.t", *option)[0]["why"] == why
    assert records("plan", "demo.t", *option)[0]["why"] == f"{why} and no base"
    assert f"is due: {why}" in records("explain", "demo.t", *option)[0]["finding"]
    refused = run("plan", "demo.t", "--also-when", "files=1", status=2)
    assert "has no threshold 'files'; allowed are aborted_transactions" in refused


def test_a_wrong_threshold_of_a_table_is_a_finding_and_does_not_fail_the_collection(
    client: FakeClient, records: Records
) -> None:
    client.set_table_parameters(REF, {COUNT_PARAMETER: "few", RATIO_PARAMETER: "0.3"})
    (one,) = survey(client, ["demo.*"], GivenThresholds()).numbers
    findings = [finding[2] for finding in one.details["findings"]]  # type: ignore[index,call-overload]
    assert one.row.state == "fine"
    assert f"{COUNT_PARAMETER}='few' is not a whole number of 1 or more" in findings[0]  # type: ignore[operator]
    assert findings[1].endswith(
        f"(threshold 10 deltas or 30 % by table parameter {RATIO_PARAMETER}"
        " or 1000 aborted transactions)"
    )  # type: ignore[union-attr]
    assert findings[0] in [found["finding"] for found in records("explain", "demo.t")]
    client.set_table_parameters(REF, {COUNT_PARAMETER: "2"})
    assert survey(client, ["demo.*"], GivenThresholds()).numbers[0].row.due == 1
    assert survey(client, ["demo.*"], GivenThresholds(delta_count=3)).numbers[0].row.due == 0


def test_the_collector_knows_rows_of_a_base_workers_of_ended_entries_and_the_oldest_transaction(
    warehouse: Warehouse, client: FakeClient, tmp_path: Path
) -> None:
    (numbers,) = survey(client, ["demo.*"], GivenThresholds()).numbers
    assert numbers.row.last_compaction_s == 0, "never compacted"
    assert numbers.details["thresholds"] == [[10, 0.1]]
    warehouse.write(REF, base=True)
    txn_id = warehouse.opened(REF, writes=False)
    client.request_compaction(REF, None, CompactionType.MAJOR)
    claim = client.find_next_compaction("w", worker_version="4")
    assert claim is not None
    client.mark_failed(claim)
    found = survey(client, ["demo.*"], GivenThresholds())
    assert found.workers == {str(claim.entry_id): "w"}
    assert [one[0] for one in found.oldest] == [txn_id]
    (numbers,) = found.numbers
    assert numbers.row.last_compaction_s is None, "an older base may have been a compaction's"
    rows = {one[1]: one[6] for one in numbers.details["directories"]}  # type: ignore[index,call-overload]
    assert rows["base_3"] == 1
    (tmp_path / "t" / "base_3" / "bucket_00000").write_bytes(b"damaged")
    (numbers,) = survey(client, ["demo.*"], GivenThresholds()).numbers
    rows = {one[1]: one[6] for one in numbers.details["directories"]}  # type: ignore[index,call-overload]
    assert (numbers.row.state, rows["base_3"]) == ("failed", None)


def test_a_table_shares_the_cause_of_its_state_but_not_of_a_less_urgent_finding(
    warehouse: Warehouse, client: FakeClient
) -> None:
    txn_id = warehouse.write(REF, ends=False)
    warehouse.write(REF)
    (due,) = survey(client, ["demo.*"], GivenThresholds(delta_count=2)).numbers
    assert (due.row.state, due.cause, due.remedy) == ("due", "", "")
    (blocked,) = survey(client, ["demo.*"], GivenThresholds(delta_count=3)).numbers
    assert blocked.row.state == "blocked"
    assert blocked.cause.startswith("later deltas have to wait for writers; open transactions:")
    assert blocked.remedy == f"wait for the writer to end, or end it with `abort {txn_id}`"


@pytest.mark.parametrize(("inserted", "state"), [(7, "fine"), (2**64, "unknown"), ([], "unknown")])
def test_a_number_that_the_pages_cannot_show_affects_only_its_table(
    client: FakeClient,
    monkeypatch: pytest.MonkeyPatch,
    inserted: Any,  # noqa: ANN401 - also of a wrong type
    state: str,
) -> None:
    """The pages ignore a whole document with such a number, with all its tables."""
    version = VersionEntry(
        number=99,
        committed=TimeBounds(),
        by="",
        operation="",
        is_readable=True,
        inserted=inserted,
    )
    past = SimpleNamespace(versions=[version], tags=())
    monkeypatch.setattr(surveys, "history_of", lambda *_, **__: past)
    (one,) = survey(client, ["demo.*"], GivenThresholds()).numbers
    assert one.row.state == state
    one.check()


def test_an_error_in_the_numbers_of_a_table_does_not_end_the_collection(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr(surveys, "_last_compaction", fail)
    (one,) = survey(client, ["demo.*"], GivenThresholds()).numbers
    assert one.row.state == "unknown"


def test_a_transaction_is_listed_with_its_job_and_tables_and_can_be_aborted(
    warehouse: Warehouse, run: Run, records: Records
) -> None:
    txn_id = warehouse.opened(REF, writes=False)
    (found,) = records("transactions")
    assert (found["txn_id"], found["job"], found["tables"]) == (txn_id, "etl/load", ["demo.t"])
    (lock,) = records("locks", "demo.t")
    assert (lock["txn_id"], lock["type"], lock["state"]) == (txn_id, "shared_read", "acquired")
    head, first = run("locks", "demo.t", "-o", "plain").splitlines()
    assert (head.split()[0], first.split()[0]) == ("lock", str(lock["lock_id"]))
    assert "1 of 2 transactions not aborted: 99" in run("abort", str(txn_id), "99", status=5)
    assert run("abort", str(txn_id)) == f"transaction {txn_id}: was already aborted\n"
    assert records("abort", str(txn_id)) == [{"txn_id": txn_id, "is_aborted": True}]
    assert records("locks") == records("transactions") == []
    assert [one["state"] for one in records("transactions", "--all")] == ["aborted"]
    assert "does not exist" in run("locks", "demo.nothing", status=3)


def test_the_locks_of_a_materialized_view_are_listed(
    warehouse: Warehouse, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn_id = warehouse.opened(REF, writes=False)
    monkeypatch.setattr(FakeClient, "get_source", FakeClient.get_table)
    monkeypatch.setattr(FakeClient, "get_table", None)  # it refuses what only Hive may change
    assert [lock["txn_id"] for lock in records("locks", "demo.t")] == [txn_id]


# ---- explain -------------------------------------------------------------------------------------


Explained = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def explained(records: Records, tmp_path: Path) -> Explained:
    """What `explain` says; it must change nothing."""

    def explain(*argv: str) -> list[tuple[str, str, str]]:
        before = sorted(tmp_path.rglob("*"))
        found = records("explain", "demo.t", *argv)
        assert sorted(tmp_path.rglob("*")) == before
        return [(one["about"], one["state"], f"{one['finding']} {one['remedy']}") for one in found]

    return explain


def test_explain_reports_a_table_that_needs_no_maintenance_as_fine(
    explained: Explained, run: Run
) -> None:
    (compaction, cleaning) = explained()
    assert compaction[:2] == ("compaction", "fine")
    thresholds = "10 deltas or 10 % or 1000 aborted transactions"
    assert f"not due: the table has 2 deltas, no base (threshold {thresholds})" in compaction[2]
    assert cleaning == ("cleaning", "fine", "nothing to remove ")
    assert run("explain", "demo.t").startswith("demo.t: full acid table at ")


def test_explain_lists_table_properties_that_block_maintenance_before_due_work(
    client: FakeClient, explained: Explained
) -> None:
    client.set_table_parameters(REF, {"NO_AUTO_COMPACTION": "true", "NO_CLEANUP": "true"})
    (switch, other, due) = explained("--delta-count", "2")
    assert switch[:2] == ("compaction", "blocked")
    assert "NO_AUTO_COMPACTION=true; set it to false" in switch[2]
    assert other[:2] == ("cleaning", "blocked")
    assert "NO_CLEANUP=true; set it to false" in other[2]
    assert due[:2] == ("compaction", "due")
    assert "2 delta directories (threshold 2)" in due[2]


@pytest.mark.parametrize("generation", MetastoreGeneration)
def test_a_compaction_at_work_is_among_the_locks_of_its_table_and_the_table_is_not_due(
    client: FakeClient,
    records: Records,
    explained: Explained,
    generation: MetastoreGeneration,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client.server.generation = generation
    monkeypatch.setattr("time.time", client.server.now_s)  # else its heartbeats are months old
    with compacting(
        client,
        job_terms("etl/compact", clock=client.server.clock),
        table=client.get_table(REF),
        partition=None,
        compaction_type=CompactionType.MAJOR,
    ) as work:
        txn_id = work.txn.txn_id
        assert {lock["txn_id"] for lock in records("locks", "demo.t")} == {txn_id}
        found = explained("--delta-count", "2")
        (collected,) = survey(client, ["demo.*"], GivenThresholds(delta_count=2)).numbers
        work.refuse("the test is over")
    assert ("compaction", "due") not in [(about, state) for about, state, _ in found]
    (text,) = (text for about, _, text in found if about == "locks")
    at_work = f"a compaction is at work in transaction {txn_id} (the table"
    assert f"{at_work}, tester@fake, hiveacid major compaction, acquired)" in text
    assert "`abort" not in text
    assert f"{at_work}, hiveacid major compaction, acquired)" in str(collected)
    assert "@fake" not in str(collected)
    assert ("compaction", "due") in [
        (about, state) for about, state, _ in explained("--delta-count", "2")
    ]


def test_explain_names_the_open_write_that_blocks_a_due_compaction(
    warehouse: Warehouse, explained: Explained
) -> None:
    txn_id = warehouse.write(REF, ends=False)
    warehouse.write(REF)
    held = explained("--delta-count", "3")[0]
    assert held[:2] == ("compaction", "blocked")
    assert "write ID 3 is open" in held[2]
    assert f"transaction {txn_id} (" in held[2]
    assert "job etl/load" in held[2]
    waiting = explained("--delta-count", "2")[1]
    assert waiting[:2] == ("compaction", "waiting"), "the two deltas before it can be compacted"


def test_explain_names_the_reader_that_keeps_files_and_the_command_to_abort_it(
    warehouse: Warehouse, client: FakeClient, explained: Explained
) -> None:
    txn_id = warehouse.opened(REF, writes=False, job="report/daily")
    warehouse.write(REF, base=True)
    kept = explained()[0]
    assert kept[:2] == ("cleaning", "blocked")
    assert kept[2].startswith(f"2 paths kept: transaction {txn_id} ")
    assert "report/daily" in kept[2]
    assert kept[2].endswith(f"`abort {txn_id}`")
    client.abort_txn(txn_id)
    assert explained()[0][:2] == ("cleaning", "due")


@pytest.mark.parametrize("generation", MetastoreGeneration)
def test_of_several_open_transactions_explain_names_the_one_that_has_the_write_id(
    warehouse: Warehouse,
    client: FakeClient,
    explained: Explained,
    monkeypatch: pytest.MonkeyPatch,
    generation: MetastoreGeneration,
) -> None:
    client.server.generation = generation
    lockless = client.open_txn()
    client.allocate_write_id(lockless, REF)
    reader = warehouse.opened(REF, writes=False, job="report/daily")
    later = warehouse.write(REF, ends=False)
    warehouse.write(REF)
    held = explained("--delta-count", "3")[0][2]
    assert f"transaction {lockless} (" in held
    assert f"transaction {reader}" not in held
    assert f"transaction {later}" not in held
    assert held.endswith(f"end it with `abort {lockless}`")
    (collected,) = survey(client, ["demo.*"], GivenThresholds(delta_count=3)).numbers
    assert collected.remedy.endswith(f"end it with `abort {lockless}`")
    monkeypatch.setattr(findings, "writer_of", lambda *_, **__: None)
    held = explained("--delta-count", "3")[0][2]
    assert f"transaction {reader} (" in held
    assert held.endswith("find it with `transactions` and `locks demo.t`, then `abort ID`")


def test_paths_kept_for_one_reader_are_one_finding_although_its_age_grows(
    warehouse: Warehouse,
    client: FakeClient,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (Column(name="k", type="int"),)
    table = client.get_table(warehouse.table("p", partition_columns=columns))
    client.add_partitions(table, [table.partition_name([str(k)]) for k in range(3)])
    for name in ("delta_1_1_0", "base_2"):
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, table.ref)
        for k in range(3):
            path = tmp_path / "p" / f"k={k}" / name / "bucket_00000"
            write_acid(path, [insert(write_id, 0, k)])
        if name == "base_2":
            client.open_txn()  # a reader of the delta
        client.commit_txn(txn_id)
    shown, calls = FakeClient.open_txns_info, iter(range(1000))

    def aging(self: FakeClient) -> tuple[OpenTxn, ...]:
        started_s = time.time() - 70 * next(calls)
        return tuple(replace(txn, started_s=started_s) for txn in shown(self))

    monkeypatch.setattr(FakeClient, "open_txns_info", aging)
    told = run("explain", "demo.p")
    assert told.count("paths kept") == 1
    assert "3 paths kept: transaction" in told


def test_explain_reports_queued_and_failed_compactions_with_their_messages(
    client: FakeClient, explained: Explained
) -> None:
    client.request_compaction(REF, None, CompactionType.MAJOR)
    waiting = explained("--delta-count", "2")[0]
    assert waiting[:2] == ("compaction", "waiting")
    assert "(major, by another client) of the table waits for a worker" in waiting[2]
    claim = client.find_next_compaction("w", worker_version="4")
    assert claim is not None
    claim = replace(claim, error_message="disk full")
    client.mark_failed(claim)
    failed = explained()[0]
    assert failed[:2] == ("compaction", "failed")
    assert "disk full" in failed[2]


@pytest.mark.promise("C17")
def test_health_and_explain_show_a_paused_partition_and_collected_findings_omit_the_error(
    client: FakeClient, run: Run, records: Records
) -> None:
    (whole,) = client.list_partitions(client.get_table(REF))
    for night in "12":
        error = CorruptFileError(path="hdfs://nn-7/t/bucket_00000", reason="cut off")
        note_failure(client.get_table(REF), whole, error, job_key=night, now_s=time.time())
    (one,) = records("health", "demo.t", "--delta-count", "2")
    assert one["why"].startswith("automatic compaction is paused since")
    assert "nn-7" in one["why"]
    assert "paused since" in run("health", "demo.t", "--delta-count", "2").splitlines()[-1]
    finding = records("explain", "demo.t", "--delta-count", "2")[0]
    assert (finding["about"], finding["state"]) == ("compaction", "blocked")
    assert finding["finding"].startswith("the table is due, but automatic compaction is paused")
    (numbers,) = survey(client, ["demo.*"], GivenThresholds(delta_count=2)).numbers
    assert (numbers.row.state, numbers.row.why) == (
        "blocked",
        "the table is due, but paused after failed jobs; `explain` has the reason",
    )
    assert "nn-7" not in json.dumps(numbers.details)


@pytest.mark.promise("C21")
def test_the_compactions_of_a_table_are_cancelled_and_listed(
    client: FakeClient, run: Run, records: Records
) -> None:
    client.request_compaction(REF, None, CompactionType.MAJOR)
    found = records("cancel", "demo.t", "--partition", "")
    assert found == [
        {"entry_id": 1, "partition": "", "kind": "major", "state": "initiated", "worker": None}
    ]
    assert client.show_compactions(REF)[0].state is CompactionState.REFUSED
    assert "0 compactions of demo.t cancelled" in run("cancel", "demo.t")
    assert "table demo.nothing: does not exist" in run("cancel", "demo.nothing", status=3)
    assert "demo.t: has no partition day=7" in run(
        "cancel", "demo.t", "--partition", "day=7", status=3
    )


def test_explain_limits_the_findings_of_one_kind_and_counts_the_rest() -> None:
    due = Finding(about="compaction", urgency=Urgency.DUE, what="due")
    fine = Finding(about="cleaning", urgency=Urgency.FINE, what="nothing to remove")
    said = [one.what for one in capped([*[due] * 7, fine])]
    assert said == [*["due"] * 5, "nothing to remove", "2 more findings of this kind"]


# ---- plan and compact ----------------------------------------------------------------------------


def test_a_plan_includes_a_compaction_that_a_different_client_requested(
    client: FakeClient, records: Records
) -> None:
    (fine,) = records("plan", "demo.t")
    assert fine["kind"] == "none"
    client.request_compaction(REF, None, CompactionType.MAJOR)
    before = client.show_compactions(REF)
    (asked,) = records("plan", "demo.t")
    assert asked["kind"] == "major"
    assert "; serves " in asked["why"]
    assert client.show_compactions(REF) == before


def test_a_compaction_is_planned_without_spark(client: FakeClient, records: Records) -> None:
    (below,) = records("plan", "demo.t")
    assert (below["kind"], below["done"]) == ("none", False)
    (due,) = records("plan", "demo.t", "--delta-count", "2")
    assert (due["kind"], due["inputs"]) == ("major", ["delta_1_1_0", "delta_2_2_0"])
    client.set_table_parameters(REF, {"NO_AUTO_COMPACTION": "true"})
    (switched_off,) = records("plan", "demo.t", "--delta-count", "2")
    assert "NO_AUTO_COMPACTION=true" in switched_off["why"]
    (asked,) = records("plan", "demo.t", "--choice", "minor")
    assert (asked["kind"], asked["why"]) == ("minor", "requested")
    assert client.show_compactions(REF) == ()


@pytest.mark.parametrize("choice", ["minor", "auto"])
def test_a_plan_says_that_no_delta_lies_below_the_open_write(
    warehouse: Warehouse, records: Records, choice: str
) -> None:
    warehouse.write(REF, base=True)
    (none,) = records("plan", "demo.t", "--choice", choice)
    assert none["why"] == "there is no delta"
    warehouse.write(REF, ends=False)
    (early,) = records("plan", "demo.t", "--choice", choice)
    warehouse.write(REF)
    (plan,) = records("plan", "demo.t", "--choice", choice)
    below = "there is no delta below write ID 4"
    assert plan["why"] == early["why"] == (below if choice == "auto" else f"{below}, which is open")


def _compacted(job: WritingJob) -> JobResult:
    outcome = CompactionOutcome(partition="", done=True, kind="minor", why="asked for")
    return JobResult(
        kind="compact",
        job_key=job.spec.job_key,
        status=JobStatus.COMMITTED,
        table="demo.t",
        details={"compactions": [to_json(outcome)]},
    )


def test_each_compact_command_starts_a_new_job(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[JobSpec] = []

    def compact(job: WritingJob) -> JobResult:
        jobs.append(job.spec)
        return _compacted(job)

    monkeypatch.setattr(compaction, "compact_in_process", compact)
    for _ in range(2):
        told = run("compact", "demo.t", "--choice", "minor").splitlines()
        assert told[-1].split() == ["(table)", "minor", "yes", "asked", "for"]
    expected = CompactSpec.of_table("demo.t", choice=CompactionChoice.MINOR)
    assert [job.job for job in jobs] == [expected, expected]
    assert len({job.job_key for job in jobs}) == 2, "a second command is no retry"


def test_a_small_compaction_runs_in_the_process_of_the_command(run: Run, tmp_path: Path) -> None:
    (line,) = run("compact", "demo.t", "-o", "plain").splitlines()[1:]
    assert line.split()[:2] == ["(table)", "none"]
    told = run("compact", "demo.t", "--delta-count", "2").splitlines()
    assert told[-1].split()[:2] == ["(table)", "major"]
    assert "base_0000002" in {path.name for path in (tmp_path / "t").iterdir()}


def test_a_large_compaction_runs_with_pyspark_or_names_the_environment_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable = "AIRFLOW__HIVEACID__SPARK_BIN_DIR"
    monkeypatch.delenv(variable, raising=False)
    small = partial(compaction.compact_in_process, most_bytes=1)
    monkeypatch.setattr(compaction, "compact_in_process", small)
    module = "airflow_hiveacid.spark.maintenance.compact_tables.compact_tables"
    monkeypatch.setattr(module, _compacted)
    monkeypatch.setattr("airflow_hiveacid.spark.engine.session.open_session", lambda _: None)
    due = ("compact", "demo.t", "--delta-count", "2")
    assert "asked for" in run(*due)
    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: iter(()))
    told = run(*due, status=2)
    assert "this environment has no PySpark, which the command needs because the compac" in told
    assert "create an environment with `spark-environment DIR` and run `DIR/bin/python" in told
    assert "use HiveAcidCompactOperator" in told
    program(tmp_path / "spark" / "python", "")
    monkeypatch.setenv(variable, str(tmp_path / "spark"))
    call = f"run `{tmp_path}/spark/python -m airflow_hiveacid compact demo.t`"
    assert call in run(*due, status=2)


# ---- clean ---------------------------------------------------------------------------------------


def test_a_cleaning_is_planned_and_done_without_spark(
    warehouse: Warehouse, tmp_path: Path, run: Run, records: Records
) -> None:
    warehouse.write(REF, base=True)
    before = sorted(tmp_path.rglob("*"))
    planned = records("clean", "demo.t", "--dry-run")
    assert [(one["action"], one["path"]) for one in planned] == [
        ("remove", "delta_1_1_0"),
        ("remove", "delta_2_2_0"),
    ]
    assert sorted(tmp_path.rglob("*")) == before
    assert "2 paths" in run("clean", "demo.t")
    assert [path.name for path in (tmp_path / "t").glob("[bd]*_*")] == ["base_3"]


DAY = (Column(name="day", type="int"),)


@pytest.mark.promise("K9")
def test_a_cleaning_lists_unknown_files_and_removes_old_ones_on_request(
    warehouse: Warehouse, client: FakeClient, run: Run, records: Records
) -> None:
    parts = warehouse.table("parts", partition_columns=DAY)
    stray = warehouse.root / "parts" / "stray"
    stray.write_text("rows")
    os.utime(stray, (1e9, 1e9))
    (one,) = records("clean", "demo.parts")
    assert (one["action"], one["path"], one["size_bytes"]) == ("none", "stray", 4)
    assert one["why"].startswith("unknown: no partition contains it; changed ")
    assert run("clean", "demo.parts").splitlines()[-1].endswith("removed, 0 kept, 1 unknown")
    short = run("clean", "demo.parts", "--remove-unknown-after", "1 hour", status=2)
    assert "must be 1 day or more" in short
    assert stray.exists()
    asked = ("clean", "demo.parts", "--remove-unknown-after", "30 days")
    (one,) = records(*asked)
    assert (one["action"], one["path"]) == ("keep", "stray")
    notes = TableNotes.of(client.get_table(parts))
    noted = notes.first_seen(PartitionName())["stray"]
    a_day_ago = replace(noted, at_s=noted.at_s - 86_400)
    notes.note_first_seen(PartitionName(), {"stray": a_day_ago})
    (one,) = records(*asked)
    assert (one["action"], one["path"]) == ("remove", "stray")
    assert not stray.exists()


def test_a_cleaning_dry_run_changes_no_queue_entry_and_removes_no_staged_files(
    warehouse: Warehouse, client: FakeClient, run: Run, records: Records
) -> None:
    parts = warehouse.table("parts", partition_columns=DAY)
    left = warehouse.root / "parts" / staging_directory("1-killed")
    left.mkdir()
    os.utime(left, (0, 0))
    client.request_compaction(parts, None, CompactionType.MAJOR, pool=our_pool(uuid.uuid4()))
    before = client.show_compactions(parts)
    (planned,) = records("clean", "demo.parts", "--dry-run")
    assert planned["action"] == "remove"
    assert client.show_compactions(parts) == before
    assert left.exists()
    run("clean", "demo.parts")
    assert [entry.is_at_work for entry in client.show_compactions(parts)] == [False]
    assert not left.exists()


# ---- check ---------------------------------------------------------------------------------------


def program(path: Path, said: str, status: int = 0) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {status}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with Java and Spark, which is the path; the metastore is set up well."""
    # a server before 4.2, which lacks that setting
    monkeypatch.setattr(
        FakeClient,
        "config_value",
        lambda _, name, default: default if "smallfiles" in name else "true",
    )
    directory = tmp_path / "bin"
    program(directory / "java", 'openjdk version "17.0.1" 2021-10-19')
    program(directory / "spark-submit", "Welcome to Spark version 4.1.4")
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    for name in ("JAVA_HOME", "AIRFLOW__HIVEACID__SPARK_BIN_DIR"):
        monkeypatch.delenv(name, raising=False)
    return directory


@pytest.mark.usefixtures("machine")
def test_the_check_passes_on_a_complete_machine_and_leaves_no_probe_files(
    tmp_path: Path, run: Run
) -> None:
    told = run("check", "--result-dir", f"file:{tmp_path}/results").splitlines()
    assert [line.partition(":")[0] for line in told] == [
        "ok      metastore",
        "ok      settings of the metastore",
        "ok      Java",
        "ok      spark-submit",
        "ok      result directory",
    ]
    assert "Spark 4.1.4" in told[3]
    assert [*(tmp_path / "results").rglob("*")] == []


def test_the_check_passes_with_the_oldest_supported_java(machine: Path, run: Run) -> None:
    program(machine / "java", 'openjdk version "11.0.13" 2021-10-19')
    assert f"ok      Java: Java 11 ({machine}/java)" in run("check").splitlines()


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("name", "said", "status", "why"),
    [
        ("java", 'openjdk version "1.8.0_392"', 0, "is too old; Spark needs Java 17"),
        ("spark-submit", "JAVA_HOME is not set", 1, "ended with 1: JAVA_HOME is not set"),
        ("spark-submit", "Welcome to Spark version 3.4.4", 0, "PySpark 3.4.4 is too old"),
        ("spark-submit", "Welcome to Spark version 4.4.0", 0, "PySpark 4.4.0 is too new"),
    ],
)
def test_a_failed_check_step_reports_the_reason_and_the_other_steps_still_run(
    machine: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    said: str,
    status: int,
    why: str,
) -> None:
    program(machine / name, said, status)
    assert status_of(["check", "-o", "json"]) == 2
    printed = capsys.readouterr()
    steps = json.loads(printed.out)
    assert [one["is_ok"] for one in steps].count(True) == 4
    (failed,) = [one for one in steps if not one["is_ok"]]
    assert why in failed["found"]
    assert "1 of 5 steps failed" in printed.err


@pytest.mark.parametrize("is_option", [True, False])
def test_the_check_runs_spark_submit_with_its_directory_first_on_the_path_as_operators_do(
    machine: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_option: bool
) -> None:
    """As spark-environment makes it: spark-submit works only with the python3 beside it."""
    own = tmp_path / "spark" / "bin"
    own.mkdir(parents=True)
    (own / "spark-submit").write_text("#!/bin/sh\npython3\n")
    (own / "spark-submit").chmod(0o755)
    program(own / "python3", "Welcome to Spark version 4.1.4")
    program(machine / "python3", "no such file", 127)
    program(machine / "spark-submit", "another Spark", 1)
    if not is_option:
        monkeypatch.setenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR", str(own))
    told = run("check", *(("--spark-bin-dir", str(own)) if is_option else ())).splitlines()
    assert f"ok      spark-submit: Spark 4.1.4 ({own}/spark-submit)" in told


def test_the_check_exits_with_the_status_of_the_first_failed_step(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["check", "--metastore", "127.0.0.1:1", "--spark-bin-dir", str(machine.parent)]
    assert status_of(argv) == 4
    assert "3 of 5 steps failed" in capsys.readouterr().err


@pytest.fixture
def without_spark(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine after the README's first step: without Java and Spark."""
    monkeypatch.setenv("PATH", str(machine / "empty"))
    return machine


@pytest.mark.usefixtures("without_spark")
def test_the_check_passes_without_spark_and_lists_what_the_worker_reads(run: Run) -> None:
    told = run("check").splitlines()
    assert [line.partition(":")[0] for line in told] == [
        "ok      metastore",
        "ok      settings of the metastore",
        "ok      Java",
        "ok      spark-submit",
        "ok      tables",
        "ok      result directory",
    ]
    assert told[2].endswith("not used: only Spark needs Java")
    assert "not used: there is no spark-submit on PATH. Large changes" in told[3]
    assert told[4].endswith("can list the directory of demo.t")


@pytest.mark.parametrize("argv", [["--spark-bin-dir", "/nowhere"], ["--job-in", "demo"], []])
@pytest.mark.usefixtures("without_spark")
def test_a_user_who_asks_for_spark_is_told_that_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, run: Run, argv: list[str]
) -> None:
    if not argv:
        monkeypatch.setenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR", "/nowhere")
    assert f"{3 if '--job-in' in argv else 2} of" in run("check", *argv, status=2)


@pytest.mark.usefixtures("without_spark")
def test_a_store_that_the_worker_cannot_reach_fails_the_check(client: FakeClient, run: Run) -> None:
    for name, location in (("u", "nfs://x/u"), ("v", "nfs://x/v")):
        client.create_table(
            NewTable(ref=TableRef("demo", name), columns=COLUMNS, location=location)
        )
    assert "1 of 6 steps failed" in run("check", status=2)


@pytest.mark.usefixtures("without_spark")
def test_a_database_that_the_user_may_not_list_does_not_fail_the_check(
    client: FakeClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_database("closed")
    listed = FakeClient.list_tables

    def list_tables(self: FakeClient, db: str) -> tuple[str, ...]:
        if db == "closed":
            raise MetastoreCallError(method="get_all_tables", reason="Permission denied: user etl")
        return listed(self, db)

    monkeypatch.setattr(FakeClient, "list_tables", list_tables)
    told = run("check")
    assert "can list the directory of demo.t; without database closed (the metastore re" in told


@pytest.mark.usefixtures("without_spark")
def test_without_a_transactional_table_the_check_reads_no_files(
    client: FakeClient, run: Run
) -> None:
    client.drop_table(REF)
    assert "ok      tables: none of the first 50 tables is transactional" in run("check")


@pytest.mark.usefixtures("machine")
def test_an_unsuitable_metastore_setting_fails_the_check(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeClient, "config_value", lambda *_: "false")
    assert "1 of 5 steps failed" in run("check", status=5)


@pytest.mark.usefixtures("machine")
def test_a_check_job_without_a_result_fails_the_check_and_leaves_no_table(
    client: FakeClient, run: Run
) -> None:
    assert "1 of 6 steps failed" in run("check", "--job-in", "demo", status=4)
    assert client.list_tables("demo") == (REF.name,)
