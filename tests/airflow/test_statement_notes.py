"""The note of a statement, as a retry and a cleared run of the task read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import RerunRefusedError, StatementChangedError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun
from airflow_hiveacid.jobs.metastore_statements import DropTable
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.metastore.definitions import Before
from airflow_hiveacid.operators.statement_notes import Order, StatementNote
from tests.support.airflow_support import StateStore

DROP = DropTable(target="d.t")
BEFORE = Before(table_id="7.1")
DONE = JobResult(kind="drop_table", job_key="job", status=JobStatus.COMMITTED, table="d.t")


def note(store: StateStore, job: Any = DROP, **order: Any) -> StatementNote:  # noqa: ANN401
    terms: dict[str, Any] = {
        "job_key": "job",
        "generation": 0,
        "attempt": "1-00c0ffee0001",
        "on_rerun": OnRerun.APPLY,
        "metastore": MetastoreEndpoint(uris=("thrift://hms:9083",)),
        "lock_timeout_s": 1.0,
        "targets": ("d.t",),
    }
    return StatementNote(store=store, number=1, job=job, order=Order(**{**terms, **order}))


def test_the_note_of_a_started_statement_is_read_only_by_its_retry() -> None:
    """A cleared run, a changed statement, and a statement of a different number ignore it."""
    store = StateStore()
    note(store).begin(BEFORE)
    assert note(store).before() == BEFORE
    assert note(store, generation=1).before() is None
    assert note(store, DropTable(target="d.u")).before() is None
    assert replace(note(store), number=2).before() is None
    assert note(store).already() is None


@pytest.mark.parametrize(
    ("job", "on_rerun", "expected"),
    [
        (DROP, OnRerun.APPLY, None),
        (DROP, OnRerun.SKIP, JobStatus.ALREADY_DONE),
        (DROP, OnRerun.FAIL, RerunRefusedError),
        (DropTable(target="d.u"), OnRerun.APPLY, None),
        (DropTable(target="d.u"), OnRerun.SKIP, StatementChangedError),
        (DeleteSpec(target="d.t"), OnRerun.SKIP, None),
    ],
)
def test_on_rerun_decides_whether_a_cleared_run_repeats_a_completed_statement(
    job: Any,  # noqa: ANN401
    on_rerun: OnRerun,
    expected: object,
) -> None:
    store = StateStore()
    note(store).end(DONE)
    later = note(store, job, on_rerun=on_rerun, generation=1)
    if isinstance(expected, type):
        with pytest.raises(expected):  # type: ignore[call-overload]
            later.already()
        return
    found = later.already()
    assert (found.status if found else None) is expected
    assert note(store).before() is None


def test_a_statement_note_of_a_different_release_is_ignored() -> None:
    store = StateStore()
    note(store).end(DONE)
    (key,) = store
    store[key]["result"] = "{}"
    assert note(store).already() is None
