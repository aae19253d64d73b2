"""Cleanings of many tables in one job, with real files and a stand-in for the metastore."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.names import METADATA_FILE, STAGING_PREFIX
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.jobs.short_form import MOST_BYTES, short_form
from airflow_hiveacid.maintenance import clean_tables, many_tables
from airflow_hiveacid.maintenance.clean import Cleaner, CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import CleanedTable, TablesCleaning
from airflow_hiveacid.plan.cleaning import Removal
from airflow_hiveacid.plan.keeping import NO_CLEANUP, READABLE_FOR
from airflow_hiveacid.storage.stores.listing import metadata_text
from tests.contract.fake_client import FakeClient
from tests.contract.manual_clock import ManualClock
from tests.support.steps import act_after, act_before, raises
from tests.support.tables import id_table, table_of
from tests.support.terms import job_spec

BASE = "base_0000002"
OLD = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


@dataclass
class Warehouse:
    """Tables below one directory: two inserts, and a base that replaces both."""

    client: FakeClient
    root: Path

    def table(
        self,
        name: str,
        parameters: Mapping[str, str] = {},
        *,
        kind: TransactionalKind = TransactionalKind.FULL_ACID,
        days: Sequence[str] = (),
    ) -> TableInfo:
        ref = TableRef("default", name)
        by = "day string" if days else ""
        table = id_table(
            self.client, ref, self.root / name, by=by, kind=kind, parameters=parameters
        )
        for _ in OLD if kind is not TransactionalKind.NONE else ():
            txn_id = self.client.open_txn()
            self.client.allocate_write_id(txn_id, ref)
            self.client.commit_txn(txn_id)
        places = [self.root / name]
        if days:
            self.client.add_partitions(table, [PartitionName(("day",), (day,)) for day in days])
            places = [self.root / name / f"day={day}" for day in days]
        for place in places:
            for directory in (*OLD, BASE):
                (place / directory).mkdir(parents=True)
                (place / directory / "bucket_00000").write_text("rows")
            (place / BASE / METADATA_FILE).write_bytes(metadata_text("compacted"))
        return table

    def sorted_table(self, name: str) -> None:
        """A table that the metastore would refuse now, but may have from earlier."""
        table = self.table(name)
        self.client.server.tables[table.ref] = replace(table, sort_columns=("id",))

    def clean(
        self,
        *tables: str,
        on_step: Callable[[str], None] = lambda _: None,
        **more: Any,  # noqa: ANN401 - fields of the spec
    ) -> JobResult:
        spec = CleanSpec(tables=tables or ("default.*",), **more)
        return clean_tables.clean_tables(self.client, spec, on_step).result(job_of(spec))

    def failed(self, **more: Any) -> errors.PartitionsFailedError:  # noqa: ANN401
        """Return the error of a job in which partitions fail."""
        with pytest.raises(errors.PartitionsFailedError) as caught:
            self.clean(**more)
        return caught.value

    def left(self, name: str) -> list[str]:
        return sorted(p.name for p in (self.root / name).iterdir() if p.name[0] not in "_.")


def job_of(spec: CleanSpec) -> JobSpec:
    return job_spec(spec, "dag/run/clean/-1")


@pytest.fixture
def warehouse(client: FakeClient, tmp_path: Path) -> Warehouse:
    return Warehouse(client, tmp_path)


def cleaned(result: JobResult) -> dict[str, Any]:
    found: Any = result.details["cleanings"]
    return {one["table"]: one for one in found}


def skipped(result: JobResult) -> dict[str, str]:
    found: Any = result.details["skipped"]
    return {one["table"]: one["why"] for one in found}


def before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Act before a partition is cleaned, or before each of a table."""

    def meet(cleaner: Cleaner, partition: PartitionInfo) -> None:
        if name in (str(cleaner.table.ref), f"{cleaner.table.ref} {partition.name}"):
            act()

    act_before(monkeypatch, Cleaner, "clean", meet)


def after_listing(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Act after the partitions of a table are listed."""

    def meet(_: FakeClient, table: TableInfo, __: None) -> None:
        if str(table.ref) == name:
            act()

    act_after(monkeypatch, clean_tables, "partitions_of", meet)


def test_every_matching_table_is_cleaned_and_no_other(warehouse: Warehouse) -> None:
    warehouse.table("a1")
    warehouse.table("a2", days=("1", "2"))
    warehouse.table("a3", kind=TransactionalKind.INSERT_ONLY)
    warehouse.table("b1")
    result = warehouse.clean("default.A*")
    assert result.status is JobStatus.COMMITTED
    assert (result.kind, result.table) == ("clean_tables", "default.A*")
    for left in (warehouse.left("a1"), warehouse.left("a3"), warehouse.left("a2/day=2")):
        assert left == [BASE]
    assert warehouse.left("b1") == sorted((*OLD, BASE))
    assert (result.files, result.size_bytes) == (8, 32)
    assert {name: one["partitions"] for name, one in cleaned(result).items()} == {
        "default.a1": 1,
        "default.a2": 2,
        "default.a3": 1,
    }
    details = result.details
    assert (details["tables"], details["partitions"], details["cleaned_partitions"]) == (3, 4, 4)


def test_a_second_cleaning_finds_nothing_to_do(warehouse: Warehouse) -> None:
    warehouse.table("a")
    assert warehouse.clean().status is JobStatus.COMMITTED
    again = warehouse.clean()
    assert (again.status, again.details["cleanings"]) == (JobStatus.NOTHING_TO_DO, [])
    assert (again.details["tables"], again.details["partitions"]) == (1, 1)


def test_a_plan_reports_what_would_be_removed_and_removes_nothing(warehouse: Warehouse) -> None:
    warehouse.table("a", days=("1", "2"))
    before = sorted(warehouse.root.rglob("*"))
    result = warehouse.clean(plan_only=True)
    assert result.status is JobStatus.PLANNED
    assert sorted(warehouse.root.rglob("*")) == before
    assert cleaned(result)["default.a"] == {
        "table": "default.a",
        "partitions": 2,
        "removed": 4,
        "removed_bytes": 16,
        "kept": 0,
        "kept_bytes": 0,
        "why_kept": "",
        "unknown": 0,
        "unknown_bytes": 0,
        "largest_unknown": "",
    }


@pytest.mark.promise("K4")
def test_kept_directories_are_counted_with_the_reason_for_the_largest(warehouse: Warehouse) -> None:
    warehouse.table("a")
    (warehouse.root / "a" / OLD[1] / "bucket_00000").write_text("many rows")
    result = warehouse.clean(retention_s=3600.0)
    assert result.status is JobStatus.NOTHING_TO_DO
    assert (result.details["kept"], result.details["kept_bytes"]) == (2, 13)
    assert "the retention of 1 h" in cleaned(result)["default.a"]["why_kept"]
    assert warehouse.left("a") == sorted((*OLD, BASE))


def test_the_reason_for_the_largest_contains_the_first_and_the_last_end_of_the_retention() -> None:
    ends = (("6 d", 9), ("1 d", 5), ("7 d", 2))
    outcomes = [
        CleaningOutcome(
            partition=f"day={size}",
            removed=(),
            kept=(Removal(path="p", why=f"the retention of 7 d ends in {end}", size_bytes=size),),
        )
        for end, size in ends
    ]
    found = CleanedTable.of(table_of(""), outcomes, ())
    assert found.why_kept == "the retention of 7 d ends in 1 d to 7 d"


@pytest.mark.parametrize("name", ["default.bad", "default.bad day=1"])
def test_a_failure_leaves_the_others_cleaned_and_a_retry_cleans_only_the_rest(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    warehouse.table("bad", days=("1", "2") if "day" in name else ())
    warehouse.table("good")
    with monkeypatch.context() as patch:
        before(patch, name, raises(errors.StorageError("the disk is full")))
        failure = warehouse.failed()
    assert failure.retryable
    assert failure.failed == {name: "the disk is full"}
    assert failure.done["default.good"] == "removed 2 (8 bytes), kept 0"
    assert all(text in str(failure) for text in ("default.*", name, "default.good"))
    assert warehouse.left("good") == [BASE]
    result = warehouse.clean()
    assert list(cleaned(result)) == ["default.bad"]
    assert result.files == 2


def test_a_metastore_that_did_not_answer_is_not_asked_whether_the_table_was_dropped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("bad")
    down = errors.MetastoreUnavailableError(uris=("thrift://hms",), method="m", reason="no answer")
    before(monkeypatch, "default.bad", raises(down))
    monkeypatch.setattr(many_tables.TableOrPartition, "is_dropped", lambda *_: pytest.fail("asked"))
    failure = warehouse.failed()
    assert failure.failed == {"default.bad": str(down)}


def test_a_table_whose_partitions_cannot_be_listed_leaves_the_others_cleaned(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("bad")
    warehouse.table("good")
    after_listing(monkeypatch, "default.bad", raises(errors.StorageError("no answer")))
    failure = warehouse.failed()
    assert (failure.failed, failure.of) == ({"default.bad": "no answer"}, 2)
    assert warehouse.left("good") == [BASE]


def test_a_failure_to_clean_the_other_places_of_a_table_fails_the_job(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", days=("1",))
    full = raises(errors.StorageError("the disk is full"))
    monkeypatch.setattr(Cleaner, "clean_staging", full)
    failure = warehouse.failed()
    assert failure.failed == {"default.a": "the disk is full"}
    assert failure.done == {"default.a": "removed 2 (8 bytes), kept 0"}


def test_staging_directories_of_crashed_writers_are_removed(warehouse: Warehouse) -> None:
    warehouse.table("a", days=("1",))
    staging = warehouse.root / "a" / f"{STAGING_PREFIX}x"
    staging.mkdir()
    (staging / "file").write_text("half")
    result = warehouse.clean(orphan_age_s=0.0)
    assert not staging.exists()
    assert (cleaned(result)["default.a"]["removed"], result.details["cleaned_partitions"]) == (3, 1)


@pytest.mark.parametrize("when", ["before its first look", "while it is cleaned"])
def test_a_table_that_is_dropped_meanwhile_is_skipped(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    gone = warehouse.table("gone")
    warehouse.table("good")

    def drop() -> None:
        warehouse.client.drop_table(gone.ref)
        shutil.rmtree(warehouse.root / "gone")

    if when == "before its first look":

        def meet(_: FakeClient, ref: TableRef, *__: object) -> None:
            if ref == gone.ref:
                drop()

        act_before(monkeypatch, clean_tables.TableCleaning, "of", meet)
    else:
        before(monkeypatch, "default.gone", raises(errors.StorageError("no such directory")))
        before(monkeypatch, "default.gone", drop)
    result = warehouse.clean()
    assert result.status is JobStatus.COMMITTED
    assert skipped(result) == {"default.gone": "it was dropped or renamed while the job ran"}
    assert warehouse.left("good") == [BASE]


def tidied(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The tables whose old notes are removed, with the partitions that decide which are old."""
    found: dict[str, list[str]] = {}

    def noted(table: TableInfo, outcomes: Sequence[CleaningOutcome], _: object) -> None:
        found[table.ref.name] = [outcome.partition for outcome in outcomes]

    monkeypatch.setattr(clean_tables, "forget_unreadable", noted)
    return found


def test_notes_are_removed_only_after_all_partitions_of_their_table_are_cleaned(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("bad", days=("1", "2"))
    warehouse.table("good", days=("1", "2"))
    warehouse.table("whole")
    staging = warehouse.root / "bad" / f"{STAGING_PREFIX}x"
    staging.mkdir()
    before(monkeypatch, "default.bad day=2", raises(errors.StorageError("the disk is full")))
    found = tidied(monkeypatch)
    with pytest.raises(errors.PartitionsFailedError):
        warehouse.clean(orphan_age_s=0.0)
    assert found == {"good": ["day=1", "day=2"], "whole": [""]}
    assert staging.exists()


def test_the_reason_of_a_table_is_that_of_its_largest_kept_directory(warehouse: Warehouse) -> None:
    kept = tuple(
        Removal(path=path, why=why, size_bytes=size)
        for path, why, size in (("a", "small", 1), ("b", "large", 3), ("c", "medium", 2))
    )
    outcome = CleaningOutcome(partition="", removed=(), kept=kept)
    assert CleanedTable.of(warehouse.table("a"), [outcome], ()).why_kept == "large"


def test_a_plan_removes_no_notes_and_ends_no_entries_of_the_queue(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.table("a", days=("1",))
    ended: list[str] = []
    monkeypatch.setattr(clean_tables, "end_dead_entries", lambda _, ref: ended.append(str(ref)))
    found = tidied(monkeypatch)
    warehouse.clean(plan_only=True)
    assert (found, ended) == ({}, [])
    warehouse.clean()
    assert (found, ended) == ({"a": ["day=1"]}, ["default.a"])


@pytest.mark.parametrize("plan_only", [False, True])
def test_a_table_whose_cleaning_is_switched_off_while_the_job_runs_keeps_its_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, plan_only: bool
) -> None:
    off = warehouse.table("off", days=("1", "2"))
    warehouse.table("good")
    before(
        monkeypatch,
        "default.off",
        lambda: warehouse.client.set_table_parameters(off.ref, {NO_CLEANUP: "true"}),
    )
    result = warehouse.clean(plan_only=plan_only)
    assert warehouse.left("off/day=1") == warehouse.left("off/day=2") == sorted((*OLD, BASE))
    assert warehouse.left("good") == (sorted((*OLD, BASE)) if plan_only else [BASE])
    found = cleaned(result)["default.off"]
    assert (found["removed"], found["kept"]) == (0, 4)
    assert "switched off by table parameter no_cleanup=true" in found["why_kept"]


def test_a_table_that_is_kept_readable_while_the_job_runs_keeps_its_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("a")
    before(
        monkeypatch,
        "default.a",
        lambda: warehouse.client.set_table_parameters(table.ref, {READABLE_FOR: "7 days"}),
    )
    warehouse.clean()
    assert warehouse.left("a") == sorted((*OLD, BASE))


@pytest.mark.parametrize("when", ["after its partitions are listed", "before its first partition"])
def test_a_table_that_is_created_again_meanwhile_is_skipped_with_its_files(
    warehouse: Warehouse, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    gone = warehouse.table("gone", days=("1",))
    warehouse.table("good")

    def create_again() -> None:
        if warehouse.client.get_table(gone.ref).table_id == gone.table_id:
            warehouse.client.drop_table(gone.ref)
            shutil.rmtree(warehouse.root / "gone")
            clock.advance(1.0)  # Hive 3.1 tells tables apart by the second of their creation
            warehouse.table("gone", days=("1",))

    hook = before if when == "before its first partition" else after_listing
    hook(monkeypatch, "default.gone", create_again)
    result = warehouse.clean()
    assert set(skipped(result).values()) == {"it was dropped or renamed while the job ran"}
    assert warehouse.left("gone/day=1") == sorted((*OLD, BASE))
    assert warehouse.left("good") == [BASE]


def test_a_pattern_without_a_match_does_nothing_and_the_log_says_so(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.table("a")
    result = warehouse.clean("other.*")
    assert result.status is JobStatus.NOTHING_TO_DO
    assert "no transactional table matches other.*" in caplog.messages


def test_tables_that_cannot_be_cleaned_are_skipped_with_the_reason(warehouse: Warehouse) -> None:
    warehouse.table("good")
    warehouse.table("flat", kind=TransactionalKind.NONE)
    warehouse.sorted_table("odd")
    warehouse.table("off", {NO_CLEANUP: "true"})
    result = warehouse.clean()
    assert list(cleaned(result)) == ["default.good"]
    reasons = skipped(result)
    assert sorted(reasons) == ["default.odd", "default.off"]
    assert "sorted" in reasons["default.odd"]
    assert "switched off by table parameter no_cleanup=true" in reasons["default.off"]
    assert warehouse.left("off") == sorted((*OLD, BASE))
    assert result.details["tables"] == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("default.none", errors.TableNotFoundError),
        ("default.flat", errors.NotTransactionalError),
        ("default.odd", errors.SortedTableError),
    ],
)
def test_a_table_that_is_named_without_a_wildcard_must_exist_and_be_supported(
    warehouse: Warehouse, name: str, error: type[Exception]
) -> None:
    warehouse.table("flat", kind=TransactionalKind.NONE)
    warehouse.sorted_table("odd")
    warehouse.table("good")
    with pytest.raises(error):
        warehouse.clean("default.g*", name)
    assert warehouse.left("good") == sorted((*OLD, BASE))


@pytest.mark.parametrize(
    "end", [errors.FencedError(job_key="k", txn_id=1, newer_txn_id=2), errors.TaskKilledError()]
)
def test_a_newer_copy_or_a_kill_ends_the_job_before_the_next_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, end: Exception
) -> None:
    monkeypatch.setattr(many_tables, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(many_tables, "_TABLES_IN_GROUP", 1)
    for name in ("a", "b", "c"):
        warehouse.table(name)
    before(monkeypatch, "default.b", raises(end))
    with pytest.raises(type(end)):
        warehouse.clean()
    assert warehouse.left("a") == [BASE]
    assert warehouse.left("c") == sorted((*OLD, BASE))


@pytest.mark.parametrize("step", ["table", "partition"])
def test_a_killed_job_stops_even_if_no_table_needs_cleaning(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(many_tables, "MOST_AT_ONCE", 1)
    for name in ("a", "b", "c"):
        warehouse.table(name)
    warehouse.clean()
    steps: list[str] = []

    def kill(name: str) -> None:
        steps.append(name)
        if steps.count(step) == 2:
            raise errors.TaskKilledError

    with pytest.raises(errors.TaskKilledError):
        warehouse.clean(on_step=kill)
    assert steps.count(step) == 2


def test_only_one_group_of_tables_is_in_memory_at_a_time(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_tables, "_TABLES_IN_GROUP", 2)
    for number in range(5):
        warehouse.table(f"t{number}")
    groups: list[list[str]] = []

    def note(_: TablesCleaning, __: FakeClient, tables: Sequence[TableInfo], ___: object) -> None:
        groups.append([table.ref.name for table in tables])
        listed.append(len(read))

    read: list[str] = []
    listed: list[int] = []
    tables_of = many_tables.transactional_tables

    def counted(client: FakeClient, names: Sequence[str], **only: Any) -> Any:  # noqa: ANN401
        for name, table in tables_of(client, names, **only):
            read.append(name)
            yield name, table

    monkeypatch.setattr(many_tables, "transactional_tables", counted)
    act_before(monkeypatch, TablesCleaning, "each_table", note)
    result = warehouse.clean()
    assert groups == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert listed == [2, 4, 5]
    assert len(cleaned(result)) == 5


def test_the_short_result_of_3000_tables_keeps_the_totals_and_the_largest_tables() -> None:
    run = TablesCleaning(spec=CleanSpec(tables=("warehouse.*",)), tables=3000, partitions=3000)
    for number in range(3000):
        run.cleaned.append(
            CleanedTable(
                table=f"warehouse.table_{number:04}",
                partitions=1,
                removed=2,
                removed_bytes=number,
                kept=1,
                kept_bytes=10,
                why_kept="transaction 5 may still read it",
            )
        )
        run.skipped[f"warehouse.odd_{number:04}"] = "it is sorted"
    result = run.result(job_of(run.spec))
    short: Any = short_form(result.to_json())
    assert len(JobResult.parse(result.dump()).dump()) > MOST_BYTES
    assert len(str(short)) <= MOST_BYTES
    assert (short["files"], short["size_bytes"]) == (6000, sum(range(3000)))
    details = short["details"]
    assert (details["tables"], details["cleaned_partitions"], details["kept"]) == (3000, 3000, 3000)
    assert details["cleanings"][0]["table"] == "warehouse.table_2999"
    for name in ("cleanings", "skipped"):
        assert len(details[name]) + details[f"{name}_omitted"] == 3000
