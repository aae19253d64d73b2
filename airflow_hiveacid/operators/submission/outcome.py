"""The outcome of a Spark application: a result, or the error that the task raises.

The error contains all known facts and has no Python cause, so Airflow prints it last, without the
stack trace of `spark-submit`.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final, NoReturn

from airflow_hiveacid.airflow_names import AirflowException
from airflow_hiveacid.format.errors import InputError, JobFailedError
from airflow_hiveacid.format.known_secrets import beginning_of
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.jobs.job import ExitCode, JobResult, JobSpec, JobStatus, ProgramSpec

# A line with an exception, in Java or Python, or with an error of spark-submit or our driver.
_REASON: Final = re.compile(
    r"(?:^|Caused by: |Exception in thread \"[^\"]*\" |^\d\d:\d\d:\d\d ERROR )"
    r"((?:[A-Za-z_$][\w$]*\.)*[\w$]*(?:Exception|Error)\b.*|(?<=ERROR ).*)"
)
_LONGEST_REASON: Final = 500

# If a signal kills a process, a shell reports 128 plus the signal's number.
_KILLED: Final = (-signal.SIGKILL, 128 + signal.SIGKILL)


def judge(  # noqa: PLR0913 - all that is known of a driver
    spec: JobSpec,
    result: JobResult | None,
    *,
    exit_code: int | None,
    failure: Exception | None,
    has_java: bool = True,
    said: Sequence[str] = (),
) -> JobResult:
    """Return the result of a successful job, or raise an error for a failed job.

    `failure` is the exception of the submission. `has_java` is false if `spark-submit` ran on this
    worker, which has no Java. `said` are the last lines of the driver or of `spark-submit`.
    """
    if result is None:
        _raise_without_result(spec, exit_code, failure, has_java=has_java, said=said)
    if (result.job_key, result.kind) != (spec.job_key, spec.kind):
        raise JobFailedError(
            f"the result file belongs to {result.kind} {result.job_key}, not to {spec.kind}"
            f" {spec.job_key}; give each Airflow installation its own result_dir"
        ) from None
    if result.error is not None:
        raise result.error.rebuild() from None
    if result.status is JobStatus.FAILED:
        raise JobFailedError(f"{spec.kind} of {result.table} failed without an error") from None
    return result


def _raise_without_result(
    spec: JobSpec,
    exit_code: int | None,
    failure: Exception | None,
    *,
    has_java: bool,
    said: Sequence[str],
) -> NoReturn:
    message = f"{spec.kind} of {spec.job.target}: the Spark application left no result"
    if exit_code is not None:
        message += f" (exit code {exit_code})"
    # The text of an AirflowException has only the command and its last output. The log has both.
    elif failure is not None and not isinstance(failure, AirflowException):
        message += f": {failure}"
    reasons = [match[1] for line in said if (match := _REASON.search(line))]
    if reasons:
        reason = beginning_of(printable(reasons[-1]), _LONGEST_REASON).rstrip(".")
        message += f", but wrote: {reason}"
    message += _advice(spec, exit_code, has_java=has_java)
    if exit_code == ExitCode.BAD_INPUT:
        # The application could not read the job's spec, for example because the contract versions
        # differ. Without the spec, the application had no URI for its result, so it wrote no
        # result.
        raise InputError(message) from None
    raise JobFailedError(message) from None


def _advice(spec: JobSpec, exit_code: int | None, *, has_java: bool) -> str:
    if exit_code in _KILLED:
        return (
            ". The driver was killed by SIGKILL: if the worker ran out of memory, give it more, or"
            " lower driver_memory. A retry repeats no committed change"
        )
    if exit_code and not has_java:
        return (
            ". This worker has no Java: JAVA_HOME has no bin/java; or JAVA_HOME is not set, and"
            " PATH has no java. Install Java 17, or set JAVA_HOME to its directory"
        )
    if isinstance(spec.job, ProgramSpec) and (hint := _program_hint(spec.job, exit_code)):
        return hint
    if exit_code is None:
        return f". See the driver's log: it may be unable to write {spec.result_uri}"
    if exit_code == ExitCode.BAD_INPUT:
        return ". It could not read its job: the driver's last lines above say why"
    return ". The driver's last lines above may say why. A retry repeats no committed change"


def _program_hint(job: ProgramSpec, exit_code: int | None) -> str:
    if not job.digest and "://" not in job.application:
        return f". There is no file {job.application} here; give a path that exists on every worker"
    return "" if exit_code else f". Does {job.application} end with acid.run(its function)?"
