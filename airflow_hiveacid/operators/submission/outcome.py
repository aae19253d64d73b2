"""The outcome of a Spark application: a result, or the error that the task raises.

Input is the application's result and exit code, and the exception of the submission. Output is a
`JobResult` or a typed error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from airflow_hiveacid.format.errors import InputError, JobFailedError
from airflow_hiveacid.jobs.results import ExitCode, JobResult, JobStatus
from airflow_hiveacid.jobs.specs.job import ProgramSpec

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.specs.job import JobSpec


def judge(
    spec: JobSpec,
    result: JobResult | None,
    *,
    exit_code: int | None,
    failure: Exception | None,
) -> JobResult:
    """Return the result of a successful job; raise an error for every other outcome.

    Args:
        spec: the job that was submitted.
        result: the result that the application left, if any.
        exit_code: the exit code of a local process, if it is known.
        failure: the Spark provider's exception, if any.

    Raises:
        InputError: the application failed before it could read the URI of its result file.
        HiveAcidError: the typed error in the job's result, or JobFailedError if there is no result.
    """
    if result is None:
        _raise_without_result(spec, exit_code, failure)
    if (result.job_key, result.kind) != (spec.job_key, spec.kind):
        raise JobFailedError(
            f"the result file belongs to {result.kind} {result.job_key}, not to {spec.kind}"
            f" {spec.job_key}; give each Airflow installation its own result_dir"
        ) from failure
    if result.error is not None:
        raise result.error.rebuild() from failure
    if result.status is JobStatus.FAILED:
        raise JobFailedError(f"{spec.kind} of {result.table} failed without an error") from failure
    return result


def _raise_without_result(
    spec: JobSpec, exit_code: int | None, failure: Exception | None
) -> NoReturn:
    ended = "" if exit_code is None else f" (exit code {exit_code})"
    message = f"the Spark application for {spec.kind} left no result{ended}; see the log above"
    if exit_code is None:
        message += f". Check the driver's log: it may be unable to write {spec.result_uri}"
    if isinstance(spec.job, ProgramSpec):
        message += _program_hint(spec.job, exit_code)
    if exit_code == ExitCode.BAD_INPUT:
        # The application could not read the job's spec, for example because the contract versions
        # differ. The result's URI is in the spec, so the application could not write a result.
        raise InputError(message) from failure
    raise JobFailedError(message) from failure


def _program_hint(job: ProgramSpec, exit_code: int | None) -> str:
    """Return a hint for the error message about the likely mistake in a user's program."""
    if not job.digest and "://" not in job.application:
        return f". There is no file {job.application} here; give a path that exists on every worker"
    return "" if exit_code else f". Does {job.application} end with acid.run(its function)?"
