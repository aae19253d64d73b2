"""History, tags, keeping and past versions at the command line, over a fake metastore."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_hiveacid.arrow import Limits, job as arrow_job
from airflow_hiveacid.cli.output import shown
from airflow_hiveacid.cli.past import history_answer
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Owner, TimeBounds
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.storage.stores.table_notes import note_owner
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.history import ANOTHER_CLIENT, TableHistory, VersionEntry
from airflow_hiveacid.writing.job import WritingJob
from tests.contract.fake_client import FakeClient
from tests.support.command_line import rows_in
from tests.unit.cli.commands import Run, Warehouse
from tests.unit.storage.orc_tables import tombstone, write_acid

REF = TableRef("demo", "t")


@pytest.fixture
def warehouse(warehouse: Warehouse) -> Warehouse:
    """With a table of two versions."""
    warehouse.table("t", 2)
    return warehouse


def test_a_clone_changes_no_tag_and_no_guarantee_of_the_original(
    run: Run, client: FakeClient
) -> None:
    run("tag", "demo.t", "closing")
    table = client.get_table(REF)
    note_owner(table.location, Owner(metastore="original", table=REF, table_id="1"))
    before = VersionNotes.of(table).noted_tags()
    for command in (
        ("tag", "demo.t", "other"),
        ("tag", "demo.t", "closing", "--remove"),
        ("keep", "demo.t", "--readable-for", "7 days"),
        ("keep", "demo.t", "--off"),
    ):
        assert "of the metastore original" in run(*command, status=5)
    assert VersionNotes.of(table).noted_tags() == before
    assert client.get_table(REF) == table


def test_scan_and_inspect_read_a_past_version(run: Run) -> None:
    assert rows_in(run("scan", "demo.t", "--version", "1", "-o", "json")) == [[1, "n1"]]
    told = run("inspect", "demo.t", "--version", "1")
    assert "a reader sees writes up to 1\n" in told
    assert "invisible: write ID 2 is above the high watermark 1" in told


@pytest.mark.parametrize(
    ("option", "value", "why"), [("--version", "9", "version 9 yet"), ("--tag", "a", "tag 'a'")]
)
def test_a_missing_version_is_reported(run: Run, option: str, value: str, why: str) -> None:
    error = f"VersionUnknownError: table demo.t: has no {why}"
    assert error in run("scan", "demo.t", option, value, status=3)


def test_history_says_which_open_write_makes_later_versions_unreadable(
    warehouse: Warehouse, client: FakeClient, run: Run
) -> None:
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, REF)
    warehouse.write(REF)
    told = run("history", "demo.t")
    assert "the oldest readable version is 1, the newest 4;" in told
    assert "versions from 3 on are readable once the open write ID 3 has ended" in told
    client.abort_txn(txn_id)
    assert "has ended" not in run("history", "demo.t")
    client.allocate_write_id(client.open_txn(), REF)
    told = run("history", "demo.t")
    assert "the newest 4; versions from 5 on are readable once" in told


def test_history_of_a_table_whose_first_write_is_open_does_not_speak_of_dropped_partitions(
    warehouse: Warehouse, client: FakeClient, run: Run
) -> None:
    other = warehouse.table("new")
    client.allocate_write_id(client.open_txn(), other)
    told = run("history", str(other))
    waits = "versions from 1 on are readable once the open write ID 1 has ended"
    assert told.splitlines()[-1] == f"{other}: no version yet; {waits}"
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, other)
    client.commit_txn(txn_id)
    told = run("history", str(other))
    assert f"no version can be read by its number; the newest is 2; {waits}" in told


@pytest.mark.parametrize(
    ("open_write_id", "why"),
    [
        (None, ", because a partition was dropped"),
        (3, ", because files were cleaned or a partition was dropped"),
        (1, ""),
    ],
)
def test_history_says_why_no_version_can_be_read(open_write_id: int | None, why: str) -> None:
    found = TableHistory(
        table="d.t", oldest=0, newest=2, is_kept=False, versions=(), open_write_id=open_write_id
    )
    foot = f"d.t: no version can be read by its number{why}; the newest is 2"
    assert history_answer(found).foot.startswith(foot)


def test_history_prints_a_table_or_json(warehouse: Warehouse, run: Run) -> None:
    warehouse.write(REF, base=True)
    told = run("history", "demo.t")
    assert "the oldest readable version is 3, the newest 3" in told
    assert "another client" in told
    body = json.loads(run("history", "demo.t", "-o", "json", "--limit", "0"))
    assert [(v["number"], v["operation"], v["is_readable"]) for v in body] == [
        (3, "overwrite", True),
        (2, "insert", False),
        (1, "insert", False),
    ]
    assert len(json.loads(run("history", "demo.t", "-o", "json", "--limit", "1"))) == 1


def test_a_tag_is_created_listed_read_and_removed(warehouse: Warehouse, run: Run) -> None:
    asked = ["tag", "demo.t", "first", "--version", "1", "--keep-for", "2 days"]
    (made,) = json.loads(run(*asked, "-o", "json"))
    assert (made["tag"], made["version"]) == ("first", 1)
    assert made["expires"] > made["made"]
    assert json.loads(run("tag", "demo.t", "-o", "json")) == [made]
    warehouse.write(REF, base=True)
    assert rows_in(run("scan", "demo.t", "--tag", "first", "-o", "json")) == [[1, "n1"]]
    taken = run("tag", "demo.t", "first", "--version", "3", status=5)
    assert "has a tag 'first' for version 1" in taken
    run("tag", "demo.t", "first", "--remove")
    assert run("tag", "demo.t") == "demo.t: no tags\n"
    asked = ["tag", "demo.t", "now", "-o", "json", "--keep-for"]
    short, long = (json.loads(run(*asked, time))[0] for time in ("1 day", "9 years"))
    assert (long["version"], long["expires"] > short["expires"]) == (short["version"], True)
    run("tag", "demo.t", "now", "--remove")
    assert "no tag 'first'" in run("tag", "demo.t", "first", "--remove", status=3)


def test_a_user_without_a_name_can_make_a_tag(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 12345)
    run("tag", "demo.t", "first", "--version", "1")
    assert "first" in run("tag", "demo.t")


def test_own_takes_a_directory_and_names_the_earlier_owner(client: FakeClient, run: Run) -> None:
    location = client.get_table(REF).location
    assert "demo.t owns" in run("own", "demo.t")
    client.server.metastore_id = "another"
    told = run("clean", "demo.t", status=5)
    assert "python -m airflow_hiveacid own demo.t" in told
    (record,) = json.loads(run("own", "demo.t", "-o", "json"))
    assert record["location"] == location
    assert record["earlier_owner"].startswith("table demo.t of the metastore ")
    run("clean", "demo.t")


def test_keep_sets_and_removes_the_guarantee_of_readable_versions(
    client: FakeClient, run: Run
) -> None:
    run("keep", "demo.t", "--readable-for", "7 days")
    parameters = client.get_table(REF).parameters
    assert parameters["hiveacid.readable.for"] == "7 days"
    assert parameters["no_cleanup"] == "True"
    assert "earlier versions are kept" in run("history", "demo.t")
    (record,) = json.loads(run("tables", "-o", "json"))
    ours = ["no_auto_compaction", "no_cleanup"]
    assert (record["set_to_keep_versions"], record["switched_off"]) == (ours, [])
    client.set_table_parameters(REF, {"hiveacid.readable.for": None})  # as if only a tag were left
    (record,) = json.loads(run("tables", "-o", "json"))
    assert (record["set_to_keep_versions"], record["switched_off"]) == (ours, [])
    run("keep", "demo.t", "--off")
    (record,) = json.loads(run("tables", "-o", "json"))
    assert record["set_to_keep_versions"] == []
    assert not {"hiveacid.readable.for", "no_cleanup"} & set(client.get_table(REF).parameters)


def test_a_missing_tag_is_reported_with_the_existing_tags(run: Run) -> None:
    run("tag", "demo.t", "first", "--version", "1")
    assert "its tags are: first" in run("tag", "demo.t", "frist", "--remove", status=3)


@pytest.mark.parametrize(
    "command", [["history"], ["tag"], ["keep", "--readable-for", "7 days"], ["keep", "--off"]]
)
def test_history_tag_and_keep_refuse_a_flat_table_and_leave_it_unchanged(
    warehouse: Warehouse, client: FakeClient, run: Run, command: list[str]
) -> None:
    flat = warehouse.table("flat", kind=TransactionalKind.NONE)
    before = client.get_table(flat).parameters
    told = run(command[0], str(flat), *command[1:], status=5)
    assert "table demo.flat: is not transactional" in told
    assert client.get_table(flat).parameters == before


def test_keep_off_is_refused_until_the_tags_of_the_table_are_removed(
    client: FakeClient, run: Run
) -> None:
    run("tag", "demo.t", "first", "--version", "1")
    run("keep", "demo.t", "--readable-for", "7 days")
    before = client.get_table(REF).parameters
    told = run("keep", "demo.t", "--off", status=5)
    assert (
        "must be kept for tag 'first'; remove the tag first (`tag demo.t first --remove`)" in told
    )
    assert client.get_table(REF).parameters == before
    run("tag", "demo.t", "first", "--remove")
    run("keep", "demo.t", "--off")
    assert "hiveacid.readable.for" not in client.get_table(REF).parameters


def test_a_version_that_is_readable_only_by_its_tag_is_shown_as_tag() -> None:
    old = VersionEntry(
        number=1,
        committed=TimeBounds(),
        by=ANOTHER_CLIENT,
        operation="insert",
        is_readable=False,
        tags=("first",),
    )
    new = replace(old, number=2, is_readable=True, tags=())
    found = TableHistory(
        table="d.t", oldest=2, newest=3, is_kept=True, versions=(new, replace(old, tags=()), old)
    )
    told = shown(history_answer(found), "table")
    ends = [line.split()[-1] for line in told.splitlines() if "insert " in line]
    assert ends == ["yes", "no", "tag"]


def test_history_reports_that_a_new_table_has_no_version_yet(
    warehouse: Warehouse, run: Run
) -> None:
    warehouse.table("new")
    assert run("history", "demo.new") == "demo.new: no version yet\n"


def test_history_counts_only_unfinished_compactions(client: FakeClient, run: Run) -> None:
    client.request_compaction(REF, None, CompactionType.MAJOR)
    told = run("history", "demo.t")
    assert "; 1 unfinished compaction in the queue (initiated)" in told
    claim = client.find_next_compaction("w", worker_version="4")
    assert claim is not None
    client.mark_refused(claim)
    assert "compaction" not in run("history", "demo.t")


def test_history_prints_times_in_seconds_and_short_row_counts() -> None:
    seconds = 1_764_000_000.123
    one = VersionEntry(
        number=1,
        committed=TimeBounds(after_s=seconds - 0.004, by_s=seconds),
        by="etl",
        operation="merge",
        is_readable=True,
        inserted=1200,
        updated=3,
        deleted=0,
    )
    found = TableHistory(
        table="d.t",
        oldest=1,
        newest=2,
        is_kept=False,
        versions=(replace(one, committed=TimeBounds(by_s=seconds)), one),
    )
    told = shown(history_answer(found), "plain").splitlines()
    assert "by 2025-11-24 16:00:00" in told[1]
    assert "  2025-11-24 16:00:00" in told[2]
    assert "+1,200 ~3  " in told[2]


def test_restore_with_dry_run_counts_changed_rows_without_spark(
    client: FakeClient, run: Run, tmp_path: Path
) -> None:
    txn_id = client.open_txn()
    write_id = client.allocate_write_id(txn_id, REF)
    write_acid(tmp_path / "t" / "delete_delta_3_3_0" / "bucket_00000", [tombstone(1, 0, write_id)])
    client.commit_txn(txn_id)
    before = sorted(tmp_path.rglob("*"))
    told = run("restore", "demo.t", "--version", "1", "--dry-run")
    assert told.splitlines() == [
        "demo.t: restore to version 1: planned",
        "partition  how    rows added  removed  unchanged",
        "(table)    delta  1           1        0",
    ]
    (body,) = json.loads(run("restore", "demo.t", "--version", "2", "--dry-run", "-o", "json"))
    assert (body["status"], body["restore"]) == (
        "planned",
        [{"how": "delta", "come": 1, "go": 0, "stay": 1, "partition": ""}],
    )
    told = run("restore", "demo.t", "--version", "3", "--dry-run")
    assert told == "demo.t: restore to version 3: nothing to do\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_restore_to_a_removed_version_names_the_command_that_would_have_kept_it(
    warehouse: Warehouse, run: Run
) -> None:
    warehouse.write(REF, base=True)
    told = run("restore", "demo.t", "--version", "1", "--dry-run", status=5)
    assert "VersionGoneError: table demo.t: version 1 is compacted away" in told
    assert "keep demo.t --readable-for '7 days'" in told


def test_a_small_restore_runs_in_the_process_of_the_command(run: Run) -> None:
    told = run("restore", "demo.t", "--version", "1").splitlines()
    assert told[0] == "demo.t: restore to version 1: committed as version 3"
    assert told[2].split() == ["(table)", "delta", "0", "1", "1"]
    assert rows_in(run("scan", "demo.t", "-o", "json")) == [[1, "n1"]]


def test_a_large_restore_without_pyspark_names_the_operator_to_use(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(arrow_job.run_in_process, limits=Limits(rows=0))
    monkeypatch.setattr(arrow_job, "run_in_process", small)
    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: iter(()))
    told = run("restore", "demo.t", "--version", "1", status=2)
    assert "this environment has no PySpark, which the command needs because " in told
    assert "HiveAcidRestoreOperator" in told


def test_a_restore_that_changes_nothing_needs_no_pyspark(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: iter(()))
    told = run("restore", "demo.t", "--version", "2")
    assert told == "demo.t: restore to version 2: nothing to do\n"


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (["--version", "1"], "version 1"),
        (["--timestamp", "2026-01-31T02:00:00Z"], "timestamp 2026-01-31T02:00:00+00:00"),
        (["--tag", "good"], "tag good"),
    ],
)
def test_each_restore_command_starts_a_new_job_and_prints_the_committed_version(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: list[str], version: str
) -> None:
    jobs: list[WritingJob] = []

    def restore(job: WritingJob) -> JobResult:
        jobs.append(job)
        partition = {"partition": "", "how": "delta", "come": 1, "go": 2, "stay": 3}
        return JobResult(
            kind="restore",
            job_key=job.spec.job_key,
            status=JobStatus.COMMITTED,
            table="demo.t",
            write_ids={"demo.t": WriteId(3)},
            details={"restore": [partition]},
        )

    monkeypatch.setattr(arrow_job, "run_in_process", restore)
    assert run("restore", "demo.t", *asked).splitlines() == [
        f"demo.t: restore to {VersionSpec.parse(version)}: committed as version 3",
        "partition  how    rows added  removed  unchanged",
        "(table)    delta  1           2        3",
    ]
    (body,) = json.loads(run("restore", "demo.t", *asked, "-o", "json"))
    assert (body["status"], body["write_id"], body["restore"][0]["go"]) == ("committed", 3, 2)
    assert {job.spec.job for job in jobs} == {RestoreSpec(target="demo.t", version=version)}
    keys = [job.spec.job_key for job in jobs]
    assert {key.rpartition("/")[0] for key in keys} == {"command line/restore/demo.t"}
    assert len(set(keys)) == 2, "a second command is no retry"
