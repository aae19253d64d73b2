from __future__ import annotations

import json

import pytest

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    ContractVersionError,
    CorruptFileError,
    FencedError,
    JobFailedError,
    MetastoreUnavailableError,
    RetryableError,
    TableNotFoundError,
    WriteConflictError,
)
from airflow_hiveacid.format.known_secrets import forget_secrets, keep_secret
from airflow_hiveacid.jobs.job import ExitCode, JobError, JobResult, JobStatus, RowCounts, exit_code

RESULT = JobResult(
    kind="merge",
    job_key="dag/run/task/-1",
    status=JobStatus.COMMITTED,
    table="db.t",
    txn_id=7,
    write_ids={"db.t": 3},
    rows=RowCounts(inserted=1, updated=2, deleted=3),
    partitions=("month=1", "month=2"),
    files=4,
    size_bytes=5000,
    seconds=1.25,
    phases={"prepare": 0.5, "work": 0.75},
    spark_app_id="app-1",
    details={"why": ["a", {"b": None}], "n": 1},
)
FAILED = JobResult(
    kind="merge",
    job_key="k",
    status=JobStatus.FAILED,
    table="db.t",
    error=JobError(type="WriteConflictError", message="lost"),
)


@pytest.mark.parametrize("result", [RESULT, FAILED], ids=["committed", "failed"])
def test_a_result_survives_a_round_trip_through_json(result: JobResult) -> None:
    assert JobResult.parse(result.dump()) == result


def test_a_result_is_plain_json_for_other_tasks() -> None:
    body = RESULT.to_json()
    assert json.loads(json.dumps(body)) == body
    assert body["rows"] == {"inserted": 1, "updated": 2, "deleted": 3}
    assert body["status"] == "committed"


@pytest.mark.parametrize(
    ("changes", "older"),
    [
        ({"version": 0}, "application"),
        ({"version": 99}, "operator"),
        ({"colour": "red"}, "operator"),
        ({"details": []}, "application or the operator"),
        ({"status": "odd"}, "application or the operator"),
    ],
)
def test_a_result_of_a_different_release_names_the_older_side(
    changes: dict[str, object], older: str
) -> None:
    text = json.dumps(json.loads(RESULT.dump()) | changes)
    with pytest.raises(ContractVersionError) as caught:
        JobResult.parse(text)
    assert caught.value.side == older


def test_a_result_that_lacks_a_field_is_reported_as_from_an_older_application() -> None:
    body = json.loads(RESULT.dump())
    del body["files"]
    with pytest.raises(ContractVersionError, match=r"^the field files .* application is older"):
        JobResult.parse(json.dumps(body))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TableNotFoundError(table="db.t"), ExitCode.BAD_INPUT),
        (ContractVersionError(found=0, supported=1, side="operator"), ExitCode.BAD_INPUT),
        (MetastoreUnavailableError(uris=("x",), method="m", reason="r"), ExitCode.RETRYABLE),
        (WriteConflictError(txn_id=1, reason="r"), ExitCode.RETRYABLE),
        (CommitStateUnknownError(txn_id=1, reason="r"), ExitCode.COMMIT_UNKNOWN),
        (FencedError(job_key="k", txn_id=1, newer_txn_id=2), ExitCode.REFUSED),
        (CorruptFileError(path="p", reason="r"), ExitCode.REFUSED),
        (ZeroDivisionError(), ExitCode.UNEXPECTED),
        (KeyboardInterrupt(), ExitCode.UNEXPECTED),
    ],
    ids=lambda v: v.name if isinstance(v, ExitCode) else type(v).__name__,
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: ExitCode) -> None:
    assert exit_code(error) is code


def test_a_typed_error_is_rebuilt_with_its_type_and_message() -> None:
    error = WriteConflictError(txn_id=1, reason="db.t")
    again = JobError.of(error).rebuild()
    assert type(again) is WriteConflictError
    assert str(again) == str(error)
    assert again.retryable


@pytest.mark.parametrize("kind", [JobFailedError, ValueError])
def test_a_secret_in_a_note_of_an_error_is_masked(kind: type[Exception]) -> None:
    error = kind("no")
    error.add_note("for open sesame")
    keep_secret("open sesame")
    try:
        assert JobError.of(error).message.endswith("no\nfor ***")
    finally:
        forget_secrets()


def test_an_untyped_error_is_rebuilt_as_a_failed_job_with_its_type_and_message() -> None:
    again = JobError.of(KeyError("x")).rebuild()
    assert type(again) is JobFailedError
    assert str(again) == "KeyError: 'x'"
    assert not isinstance(again, RetryableError)


def test_a_job_without_statements_has_its_own_result_as_the_only_entry() -> None:
    for details in ({}, {"statements": []}):
        result = JobResult(
            kind="clean", job_key="k", status=JobStatus.COMMITTED, table="d.t", details=details
        )
        assert result.statements == [result.to_json()]
