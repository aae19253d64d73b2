"""The steps of every application: read the spec, run the body, write the result.

The spec is a JSON file shipped with the application (`--files`); `--spec` names it. The result,
perhaps a typed error, is written to the spec's `result_uri`, and gives the process's exit code
(`jobs.job.ExitCode`).

If `HIVEACID_STOP_AT=<step>` is set, the driver kills itself with SIGKILL when the transaction
reaches that step. Tests use this variable to prove that a job publishes all of its changes or none.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import posixpath
import pwd
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import pyspark
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import JsonValue, to_json
from airflow_hiveacid.format.known_secrets import without_secrets
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.jobs.contract import worker_lives
from airflow_hiveacid.jobs.job import ExitCode, JobError, JobResult, JobSpec, JobStatus, exit_code
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.preflight import log_findings
from airflow_hiveacid.spark.engine import jvm_of
from airflow_hiveacid.spark.engine.failures import (
    SPARK_ERRORS,
    job_failure,
    typed_failures,
    value_failure,
)
from airflow_hiveacid.spark.engine.progress import reported_stages
from airflow_hiveacid.spark.engine.session import await_executor, open_session
from airflow_hiveacid.spark.engine.store_tokens import endpoint_here
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    delete_file,
    exists,
    write_bytes,
)
from airflow_hiveacid.storage.stores.locations import open_location, traits_of
from airflow_hiveacid.supported_versions import JAVA, PYSPARK
from airflow_hiveacid.writing.job import StepClock

log = logging.getLogger("hiveacid")

# Steps at which a transaction can be aborted without a trace, and a cleaning pauses.
_FOLLOWED_STEPS: Final = frozenset(
    {"opened", "locked", "snapshot", "staged", "body_done", "table", "partition"}
)
_FOLLOWER_S: Final = 3600.0
_FOLLOWER_POLL_S: Final = 1.0
# Otherwise, PySpark logs each error as a line of JSON, and py4j logs that its connection closes.
_NOISY: Final = {
    "py4j": logging.WARNING,
    "SQLQueryContextLogger": logging.CRITICAL,
    "DataFrameQueryContextLogger": logging.CRITICAL,
}


class LogFormatter(logging.Formatter):
    """Formats the driver's log without secrets, and with other clients' names escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, with its traceback."""
        return printable(without_secrets(super().format(record)), keep="\n\t")


JobFunction = Callable[[JobContext], JobResult]


def main(kind: str, job_function: JobFunction) -> NoReturn:
    """Run one of our applications, and end the process with its code, without clean-up."""
    code = run_application(kind, job_function)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


def run_application(
    kind: str, job_function: JobFunction, argv: list[str] | None = None
) -> ExitCode:
    """Run one application in a session, stop the session, and return the result's exit code."""
    # Without the date, which Airflow's task log, or the container's log, adds.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name, level in _NOISY.items():
        logging.getLogger(name).setLevel(level)
    parser = argparse.ArgumentParser(prog=kind)
    parser.add_argument("--spec", required=True, help="name of the shipped job spec")
    name = parser.parse_args(argv).spec
    try:
        with typed_failures():
            PYSPARK.check(pyspark.__version__, newest=True)
            spark = open_session(f"hiveacid-{kind}")
            JAVA.check(str(jvm_of(spark).java.lang.System.getProperty("java.version")))
    except Exception as error:  # noqa: BLE001 - the process edge, as in run_spec
        return _without_session(name, error)
    try:
        with reported_stages(spark, kind):
            return run_spec(spark, job_function, name)
    finally:
        spark.stop()


def run_spec(spark: SparkSession, job_function: JobFunction, spec_name: str) -> ExitCode:
    """Run a job's spec in a session and write its result, even after a failure."""
    try:
        spec = read_spec(spec_name)
        check_answerable(spec)
    except errors.HiveAcidError as error:
        # No result can be written, so only the log and the exit code report the error.
        log.error("%s", error)  # noqa: TRY400 - the message needs no traceback
        return exit_code(error)
    started = time.monotonic()
    steps = StepClock()
    spark_app_id = spark.sparkContext.applicationId  # a user's program may end the session

    def reached(step: str) -> None:
        steps.reached(step)
        if step in _FOLLOWED_STEPS:
            check_worker(spec)

    try:
        await_follower(spec)
        if spec.start_timeout_s is not None:
            await_executor(spark, spec.start_timeout_s)
        endpoint = endpoint_here(spec.metastore, spark.sparkContext.getConf().get)
        with connect(endpoint) as client, typed_failures():
            log_findings(client)
            result = job_function(JobContext.of(spark, spec, client, reached))
        code = ExitCode.OK
    except Exception as raised:  # noqa: BLE001 - the process edge: every failure becomes a result
        failure = value_failure(raised, spec.job) or raised
        code = exit_code(failure)
        result = _failed(spec, failure)
    answer(
        spec,
        dataclasses.replace(
            result,
            seconds=round(time.monotonic() - started, 3),
            phases=steps.phases,
            spark_app_id=spark_app_id,
        ),
    )
    return code


def _without_session(spec_name: str, error: Exception) -> ExitCode:
    """Write why no session could start as the job's result, such as a login that was refused."""
    try:
        spec = read_spec(spec_name)
        answer(spec, _failed(spec, error))
    except Exception as second_error:
        # A login that is refused may prevent both.
        log.warning("cannot write the result: %s", second_error, exc_info=error)
        # The task shows the reason in one of the log's last lines, so it follows the traceback.
        log.error("cannot start a Spark session: %s", _job_error(error).message)  # noqa: TRY400 - as above
    return exit_code(error)


def _failed(spec: JobSpec, error: Exception) -> JobResult:
    trace = None if isinstance(error, errors.HiveAcidError) else error
    log.error("%s failed: %s", spec.kind, error, exc_info=trace)
    return JobResult(
        kind=spec.kind,
        job_key=spec.job_key,
        status=JobStatus.FAILED,
        table=spec.job.target,
        details=_details_of(error),
        error=_job_error(error),
    )


def _job_error(error: Exception) -> JobError:
    """Return an error as a part of the result, without the stack and plan of Spark's errors."""
    return JobError.of(job_failure(error) if isinstance(error, SPARK_ERRORS) else error)


def _details_of(error: Exception) -> dict[str, JsonValue]:
    if not isinstance(error, errors.WriteConflictError):
        return {}
    return {"lost_against": to_json(error.winner), "conflict_policy": dict(error.policies)}


def read_spec(name: str) -> JobSpec:
    """Read the job's spec that was shipped under this name."""
    # YARN puts shipped files into the working directory, other modes into Spark's.
    for path in (Path(name), *_shipped(name)):
        if path.is_file():
            return JobSpec.parse(path.read_text(encoding="utf-8"))
    raise errors.ConfigurationError(
        f"job spec {name!r} was not shipped with the application (--files)"
    )


def _shipped(name: str) -> Iterator[Path]:
    try:
        yield Path(SparkFiles.get(name))
    except (AssertionError, AttributeError):  # Spark has no context, so it has copied no file
        SparkContext._ensure_initialized()  # noqa: SLF001 - before this SparkConf is empty
        for uri in (SparkConf().get("spark.files") or "").split(","):
            if posixpath.basename(uri) == name:
                yield Path(urlsplit(uri).path)


def check_answerable(spec: JobSpec) -> None:
    """Check that the result can be written, by writing a probe file next to it.

    Otherwise, a task could fail to write it after its change is committed. An outage of the store
    (StoreUnavailableError) is temporary, other errors are not (ResultUnwritableError).
    """
    if spec.result_uri is None:
        return
    try:
        _probe(spec.result_uri)
    except errors.StoreUnavailableError as error:
        why = f"{error.reason} (driver user {_user()}; the job was not started)"
        raise errors.StoreUnavailableError(
            location=spec.result_uri, action="write the result to", reason=why
        ) from error
    except errors.HiveAcidError as error:
        raise errors.ResultUnwritableError(
            location=spec.result_uri, user=_user(), reason=str(error)
        ) from error


def await_follower(spec: JobSpec) -> None:
    """Wait until a worker or a trigger follows this driver in its cluster.

    If the task ends or its worker dies before that, no process would kill this driver, so the
    driver must not change anything. Raises TaskKilledError if nothing followed this driver within
    `start_timeout_s`.
    """
    if spec.follower_uri is None:
        return
    fs, path = open_location(spec.follower_uri)
    limit_s = _FOLLOWER_S if spec.start_timeout_s is None else spec.start_timeout_s
    began = time.monotonic()
    while not exists(fs, path):
        if time.monotonic() - began > limit_s:
            raise errors.TaskKilledError(
                f"the driver of {spec.job_key} has changed nothing: within {limit_s:g} s, neither a"
                f" worker nor the triggerer has written {spec.follower_uri} to show that it follows"
                " the driver. Either the task was ended just after its submission, or nobody could"
                " write this file: then give workers and the triggerer write access to result_dir"
            )
        time.sleep(_FOLLOWER_POLL_S)


def check_worker(spec: JobSpec) -> None:
    """Raise TaskKilledError if the process of the worker that waits for this driver has ended."""
    if spec.worker_file is not None and not worker_lives(spec.worker_file):
        raise errors.TaskKilledError(
            f"the worker of {spec.job_key} has ended without its driver, so nobody follows the"
            " driver: it ends, and aborts its transaction"
        )


def answer(spec: JobSpec, result: JobResult) -> None:
    """Write the result where the operator reads it, and log a summary."""
    log.info(
        "result status=%s table=%s inserted=%d updated=%d deleted=%d files=%d bytes=%d"
        " seconds=%.1f",
        result.status.value,
        result.table,
        *(result.rows.inserted, result.rows.updated, result.rows.deleted),
        result.files,
        result.size_bytes,
        result.seconds,
    )
    if spec.result_uri is not None:
        _write(spec.result_uri, result.dump().encode())


def _probe(uri: str) -> None:
    """Write a file next to the result, then remove it; also remove its directory if new."""
    probe = f"{uri}.probe"
    fs, path = open_location(probe)
    directory = posixpath.dirname(path)
    # Nothing of the probe must remain if the driver is killed before it writes its result.
    is_new = traits_of(fs).keeps_directories and not exists(fs, directory)
    _write(probe, b"{}")
    try:
        if is_new:
            delete_directory(fs, directory)
        else:
            delete_file(fs, path)
    except errors.StorageError as error:
        # The operator removes all files in that directory after it has read the result.
        log.warning("the result can be written, but its probe file was not removed: %s", error)


def _write(uri: str, content: bytes) -> None:
    fs, path = open_location(uri)
    write_bytes(fs, path, content)


def _user() -> str:
    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # in a container, the user ID may have no name
        name = f"number {number}"
    hadoop_user = os.environ.get("HADOOP_USER_NAME")
    return f"{name} ({hadoop_user} to Hadoop)" if hadoop_user else name
