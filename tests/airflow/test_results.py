"""What tasks return to XCom, and put into asset events: at most 16 KB, in one regular form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from airflow.sdk import Asset

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.ids import AttemptId, WriteId
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun, RowCounts, StatementResult
from airflow_hiveacid.jobs.metastore_statements import ShowLocks
from airflow_hiveacid.jobs.short_form import MOST_BYTES
from airflow_hiveacid.metastore.definitions import DefinitionOutcome
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator, run_in_metastore
from airflow_hiveacid.operators.statement_notes import StatementNote
from airflow_hiveacid.plan.conversion import ConversionOutcome
from airflow_hiveacid.plan.thresholds import DueDirectory, TableHealth
from airflow_hiveacid.sensors import HiveAcidCompactionNeededSensor, HiveAcidNewVersionSensor
from airflow_hiveacid.watch.compaction_due import _payload
from airflow_hiveacid.watch.health import CompactionNeed
from tests.support.airflow_support import context_of, run_task
from tests.support.results_page import fields_in_the_page

pytestmark = pytest.mark.usefixtures("connections")

MANY: Final = 32_767
_SPEC: Final = SimpleNamespace(generation=0, on_rerun=OnRerun.APPLY)


@pytest.fixture(scope="module")
def names() -> list[str]:
    """As many partitions as a metastore's call can name, with the longest values."""
    return [f"day={n:0>3996}" for n in range(MANY)]


class _Told(HiveAcidSqlOperator):
    """An operator whose jobs give the results that they are told."""

    template_fields = ()

    def tell(self, *results: JobResult) -> _Told:
        self._results = results
        return self

    def build_jobs(self) -> Sequence[Any]:
        return self._results

    def run_one(self, context: Any, number: int, job: Any) -> Any:  # noqa: ANN401, ARG002 - the operator's
        return _SPEC, job


def _told(*results: JobResult, **more: Any) -> _Told:  # noqa: ANN401
    return _Told(task_id="t", sql="DELETE FROM db.t", **more).tell(*results)


def _result(kind: str, details: dict[str, Any], partitions: Sequence[str] = ()) -> JobResult:
    return JobResult(
        kind=kind,
        job_key="k",
        status=JobStatus.COMMITTED,
        table="db.t",
        write_ids={"db.t": 3},
        partitions=tuple(partitions),
        details=details,
    )


def _row_change(names: list[str]) -> JobResult:
    directories = [f"hdfs://nn/t/{name}/delta_3_3" for name in names]
    return _result(
        "merge", {"directories": directories, "conflict_policy": {"db.t": "hive"}}, names
    )


def _transaction(names: list[str]) -> JobResult:
    narrow = StatementResult(kind="merge", table="db.t", rows=RowCounts())
    wide = replace(narrow, partitions=tuple(names))
    tables = [f"db.{n:0>100}" for n in range(1000)]
    return JobResult(
        kind="transaction",
        job_key="k",
        status=JobStatus.COMMITTED,
        table=", ".join(tables),
        write_ids=dict.fromkeys(tables, 3),
        details={
            "statements": [to_json(one) for one in (wide, *[narrow] * 99)],
            "directories": names,
            "conflict_policy": dict.fromkeys(tables, "hive"),
        },
    )


def _compaction(names: list[str]) -> JobResult:
    directories = [f"delta_{n:07}_{n:07}" for n in range(2000)]
    entries = [{"partition": n, "inputs": [], "outputs": ["base_9"]} for n in names]
    entries[0]["inputs"] = directories
    return _result("compact", {"compactions": entries, "conflict_policy": "hive"}, names)


def _compaction_of_tables(names: list[str]) -> JobResult:
    directories = [f"delta_{n:07}_{n:07}" for n in range(2000)]
    entries = [{"table": "db.t", "partition": n, "inputs": []} for n in names]
    entries[0]["inputs"] = directories
    skipped = [{"table": n, "why": "it is sorted"} for n in names]
    return _result("compact_tables", {"compactions": entries, "skipped": skipped}, [])


def _cleaning(names: list[str]) -> JobResult:
    entries = [{"partition": n, "removed": [], "kept": []} for n in names]
    entries[0]["removed"] = [{"path": name, "why": "replaced"} for name in names]
    return _result("clean", {"cleanings": entries}, names)


def _cleaning_of_tables(names: list[str]) -> JobResult:
    totals = {"partitions": 1, "removed": 1, "removed_bytes": 1, "kept": 0, "kept_bytes": 0}
    entries = [{"table": n, **totals, "why_kept": ""} for n in names]
    skipped = [{"table": n, "why": "it is sorted"} for n in names]
    counts = {"cleaned_partitions": 3, "kept": 0, "kept_bytes": 0, "tables": 3, "partitions": 3}
    return _result("clean_tables", {"cleanings": entries, "skipped": skipped, **counts}, [])


def _restore(names: list[str]) -> JobResult:
    entry = {"how": "delta", "come": 1, "go": 2, "stay": 3}
    return _result("restore", {"restore": [{"partition": n, **entry} for n in names]}, names)


def _rebalance(names: list[str]) -> JobResult:
    entry = {"is_due": True, "why": "", "files": 1, "new_files": 2, "size_bytes": 3, "rows": 4}
    return _result("rebalance", {"rebalance": [{"partition": n, **entry} for n in names]}, names)


def _conversion(names: list[str]) -> JobResult:
    outcome = ConversionOutcome(before="flat", after="full_acid", done=True, steps=tuple(names))
    return _result("convert", {"conversion": to_json(outcome)}, names)


def _feed(names: list[str]) -> JobResult:
    entry = {"since": 1, "until": 2, "is_whole": False, "rows": {"insert": 1}}
    ranges = [{"location": f"hdfs://nn/{name}", **entry} for name in names]
    return _result("change_feed", {"ranges": ranges, "until": 2})


def _query(names: list[str]) -> JobResult:
    class Hook:
        def run(self, *_: object, **__: object) -> DefinitionOutcome:
            return DefinitionOutcome(
                rows=tuple({"partition": name, "state": "held"} for name in names)
            )

    order: Any = SimpleNamespace(
        job_key="k",
        generation=0,
        attempt=str(AttemptId.new(1)),
        lock_timeout_s=1.0,
    )
    statement = ShowLocks()
    note = StatementNote(store=None, number=1, job=statement, order=order)
    return run_in_metastore(Hook(), statement, order, note)  # type: ignore[arg-type]


KINDS: Final = [
    (_row_change, [("partitions",), ("details", "directories")]),
    (_transaction, [("details", "directories")]),
    (_compaction, [("details", "compactions")]),
    (_compaction_of_tables, [("details", "compactions"), ("details", "skipped")]),
    (_cleaning, [("details", "cleanings")]),
    (_cleaning_of_tables, [("details", "cleanings"), ("details", "skipped")]),
    (_restore, [("details", "restore")]),
    (_rebalance, [("details", "rebalance")]),
    (_conversion, [("details", "conversion", "steps")]),
    (_feed, [("details", "ranges")]),
    (_query, [("details", "rows")]),
]


def _exact(found: Any, path: tuple[str, ...]) -> int:  # noqa: ANN401
    """The number of all entries of a list, as a downstream task would count them."""
    for name in path[:-1]:
        found = found[name]
    return len(found[path[-1]]) + int(found[f"{path[-1]}_omitted"])


def _returned(*results: JobResult, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401
    """What a task with these results returns, and the `extra` of its asset's event."""
    asset, context = Asset(name="t", uri="hive://hms:10000/db/t"), context_of()
    returned = run_task(_told(*results, outlets=[asset], **more), context)
    extra = context["outlet_events"][asset].extra
    assert len(json.dumps(returned)) <= MOST_BYTES
    assert len(json.dumps(extra)) <= MOST_BYTES
    return returned, extra


@pytest.mark.parametrize(("kind", "paths"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_every_kind_of_result_fits_into_an_xcom_and_counts_its_omitted_entries(
    names: list[str], kind: Callable[[list[str]], JobResult], paths: list[tuple[str, ...]]
) -> None:
    result = kind(names)
    returned, extra = _returned(result)
    for path in paths:
        assert _exact(returned, path) == MANY
    assert returned["details"].keys() <= fields_in_the_page("Details", column=2)
    if "partitions" in extra:
        assert _exact(extra, ("partitions",)) == len(result.partitions)


def test_results_of_a_transaction_and_a_script_count_all_their_statements(names: list[str]) -> None:
    returned, extra = _returned(_transaction(names))
    assert _exact(returned["details"], ("statements",)) == _exact(extra, ("statements",)) == 100
    assert _exact(returned, ("write_ids",)) == 1000
    assert returned["table"].endswith(" and 991 more")
    returned, extra = _returned(_row_change(names), *[_row_change([])] * 49)
    assert _exact(returned, ("statements",)) == _exact(extra, ("statements",)) == 50
    assert _exact(returned["statements"][0], ("partitions",)) == MANY
    assert _exact(extra["statements"][0], ("partitions",)) == MANY


def test_a_small_result_is_complete_and_has_the_documented_fields(tmp_path: Path) -> None:
    returned, extra = _returned(_row_change(["day=1"]), result_dir=f"file:{tmp_path}")
    assert (returned["partitions"], returned["partitions_omitted"]) == (["day=1"], 0)
    assert (extra["partitions"], extra["partitions_omitted"]) == (["day=1"], 0)
    assert extra.keys() == fields_in_the_page("Asset event")
    assert returned.keys() == fields_in_the_page("Job")
    assert returned["result_uri"] is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_complete_result_is_kept_in_the_result_directory(tmp_path: Path, jobs: int) -> None:
    results = [_row_change([f"day={n}" for n in range(MANY)])] * jobs
    returned, _ = _returned(*results, result_dir=f"file:{tmp_path}")
    whole = json.loads(Path(returned["result_uri"].removeprefix("file:")).read_text())
    first = whole if jobs == 1 else whole["statements"][1]
    assert first["partitions"] == list(results[0].partitions)


def test_an_unwritable_result_directory_does_not_fail_a_committed_task(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    results = _row_change([f"day={n}" for n in range(MANY)])
    returned, _ = _returned(results, result_dir=f"file:{tmp_path}/file")
    assert returned["result_uri"] is None
    assert _exact(returned, ("partitions",)) == MANY


def test_a_sensor_lists_the_partitions_with_the_most_deltas_and_counts_the_omitted_ones(
    names: list[str],
) -> None:
    due = [
        {**TableHealth(table="db.t", location="/t", partition=name).record(), "delta_count": n}
        for n, name in enumerate(names)
    ]
    sensor = HiveAcidCompactionNeededSensor(task_id="s", table="db.t")
    context = context_of()
    answer = sensor.execute_complete(context, {"due": due})  # type: ignore[arg-type]
    assert [one["delta_count"] for one in answer][:2] == [MANY - 1, MANY - 2]
    assert len(json.dumps(answer)) <= MOST_BYTES
    assert len(answer) + context["ti"].xcoms["return_value_omitted"] == MANY


def test_the_result_of_new_data_and_the_event_of_a_due_table_fit_into_an_xcom(
    names: list[str],
) -> None:
    sensor = HiveAcidNewVersionSensor(task_id="s", table="db.t", since=1)
    event = {"due": [{"since": 1, "version": 2, "partitions": names}]}
    found = sensor.execute_complete(context_of(), event)  # type: ignore[arg-type]
    healths = [TableHealth(table="db.t", location="/t", partition=name) for name in names]
    need = CompactionNeed(
        table="db.t",
        table_id="7",
        healths=(),
        due=tuple(DueDirectory(health=health, reached=()) for health in healths),
    )
    payload = _payload(need, WriteId(1))
    for one in (found, payload):
        assert len(json.dumps(one)) <= MOST_BYTES
        assert _exact(one, ("partitions",)) == MANY
    assert payload["due"] == MANY
    assert payload.keys() == fields_in_the_page("Compaction event")
