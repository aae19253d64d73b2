"""What a Spark application's end means for the task: a result, or the error it failed with.

Takes the result that the application left, its exit code and the failure of the submission; gives a
`JobResult` or raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from airflow_hiveacid.format.errors import InputError, JobFailedError
from airflow_hiveacid.jobs.results import ExitCode, JobResult, JobStatus
from airflow_hiveacid.jobs.specs import ProgramSpec

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.specs import JobSpec


def judge(
    spec: JobSpec,
    result: JobResult | None,
    *,
    exit_code: int | None,
    failure: Exception | None,
) -> JobResult:
    """Return the result of a job that did its work; raise for every other end.

    Args:
        spec: what was asked for.
        result: what the application left, if anything.
        exit_code: of the process that was run here, if it is known.
        failure: what the Spark provider raised, if it did.

    Raises:
        InputError: the application refused before it could read where its result goes.
        HiveAcidError: the typed error of the job, or JobFailedError if it left none.
    """
    if result is None:
        _raise_without_result(spec, exit_code, failure)
    if (result.job_key, result.kind) != (spec.job_key, spec.kind):
        raise JobFailedError(
            f"the result found belongs to {result.kind} {result.job_key}, not to {spec.kind}"
            f" {spec.job_key}; give each Airflow installation a result_dir of its own"
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
        message += f". Where its driver may not write {spec.result_uri}, its log says so"
    if isinstance(spec.job, ProgramSpec):
        message += _program_hint(spec.job, exit_code)
    if exit_code == ExitCode.BAD_INPUT:
        # It could not read its job, which names the result: another contract version, for one.
        raise InputError(message) from failure
    raise JobFailedError(message) from failure


def _program_hint(job: ProgramSpec, exit_code: int | None) -> str:
    """What a program of the user's own may lack, as sentences."""
    if not job.digest and "://" not in job.application:
        return f". There is no file {job.application} here; give a path that every worker has"
    return "" if exit_code else f". Does {job.application} end with acid.run(its function)?"


def summary(result: JobResult) -> str:
    """What a job came to, in one line."""
    return (
        f"{result.kind} of {result.table}: {result.status.value} rows={result.rows}"
        f" write_ids={dict(result.write_ids)} files={result.files} bytes={result.size_bytes}"
        f" seconds={result.seconds:.1f}"
    )
