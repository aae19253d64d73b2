"""What every application does before and after its own story: read the spec, run, answer.

The spec is a JSON file shipped with the application (`--files`); `--spec` is its name. The result
goes to the spec's `result_uri`, typed errors included, and the process ends with the exit code that
stands for it (`jobs.results.ExitCode`).

`HIVEACID_STOP_AT=<step>` makes the driver kill itself with SIGKILL at a step border of the
transaction: that is how the tests prove that a job leaves all or nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import posixpath
import pwd
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    ResultUnwritableError,
    StorageError,
    StoreUnavailableError,
    WriteConflictError,
)
from airflow_hiveacid.jobs.codec import to_json
from airflow_hiveacid.jobs.results import ExitCode, JobError, JobResult, JobStatus, exit_code
from airflow_hiveacid.jobs.specs import JobSpec
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.preflight import preflight
from airflow_hiveacid.spark.container_login import endpoint_here
from airflow_hiveacid.spark.executors import await_executor
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.session import open_session
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    delete_file,
    exists,
    write_bytes,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hiveacid.jobs.codec import JsonValue

log = logging.getLogger("hiveacid")

Story = Callable[[JobContext], JobResult]


def main(kind: str, story: Story, argv: list[str] | None = None) -> None:
    """Run one application to its end and leave the process with its exit code."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    parser = argparse.ArgumentParser(prog=kind)
    parser.add_argument("--spec", required=True, help="name of the shipped job description")
    name = parser.parse_args(argv).spec
    spark = open_session(f"hiveacid-{kind}")
    try:
        code = run_spec(spark, story, name)
    finally:
        spark.stop()
    if code is not ExitCode.OK:
        sys.exit(int(code))


def run_spec(spark: SparkSession, story: Story, spec_name: str) -> ExitCode:
    """Run one job description in a session, and answer; failures become answers."""
    try:
        spec = read_spec(spec_name)
        check_answerable(spec)
    except HiveAcidError as error:
        # Nobody can be answered: the log and the exit code have to do.
        log.error("%s", error)  # noqa: TRY400 - the message says it all
        return exit_code(error)
    started = time.monotonic()
    spark_app_id = spark.sparkContext.applicationId  # a program of the user's may end the session
    try:
        if spec.start_timeout_s is not None:
            await_executor(spark, spec.start_timeout_s)
        here = endpoint_here(spec.metastore, spark.sparkContext.getConf().get)
        with connect(here) as client, typed_failures():
            for finding in preflight(client):
                log.warning("%s", finding)
            result = story(JobContext(spark=spark, spec=spec, client=client, on_step=stop_hook()))
        code = ExitCode.OK
    except Exception as error:  # noqa: BLE001 - the process edge: every failure becomes an answer
        code = exit_code(error)
        result = _failed(spec, error)
    answer(
        spec,
        dataclasses.replace(
            result,
            seconds=round(time.monotonic() - started, 3),
            spark_app_id=spark_app_id,
        ),
    )
    return code


def _failed(spec: JobSpec, error: Exception) -> JobResult:
    """Log an error, with its trace only if nobody foresaw it, and make it an answer."""
    trace = None if isinstance(error, HiveAcidError) else error
    log.error("%s failed: %s", spec.kind, error, exc_info=trace)
    return JobResult(
        kind=spec.kind,
        job_key=spec.job_key,
        status=JobStatus.FAILED,
        table=spec.job.target,
        details=_told_of(error),
        error=JobError.of(error),
    )


def _told_of(error: Exception) -> dict[str, JsonValue]:
    """What a result says of a conflict that was lost, beside the error's text."""
    if not isinstance(error, WriteConflictError):
        return {}
    return {"lost_against": to_json(error.winner), "conflict_policy": dict(error.policies)}


def read_spec(name: str) -> JobSpec:
    """Read the job description that was shipped under this name.

    Raises:
        ConfigurationError: it was not shipped.
        ContractVersionError: another version wrote it.
    """
    # YARN puts shipped files into the working directory; local and standalone modes into Spark's.
    for path in (Path(name), Path(SparkFiles.get(name))):
        if path.is_file():
            return JobSpec.parse(path.read_text(encoding="utf-8"))
    raise ConfigurationError(f"no job description {name!r} came with the application (--files)")


def check_answerable(spec: JobSpec) -> None:
    """See that a result can be written where the operator reads it, by writing beside it.

    Who found out with the result itself would fail a task whose change is committed.

    Raises:
        ResultUnwritableError: it cannot.
        StoreUnavailableError: not now.
    """
    if spec.result_uri is None:
        return
    try:
        _probe(spec.result_uri)
    except StoreUnavailableError as error:
        why = f"{error.reason} (the driver's user is {_user()}; nothing was begun)"
        raise StoreUnavailableError(
            location=spec.result_uri, action="write the result to", reason=why
        ) from error
    except HiveAcidError as error:
        raise ResultUnwritableError(
            place=spec.result_uri, user=_user(), reason=str(error)
        ) from error


def answer(spec: JobSpec, result: JobResult) -> None:
    """Write the result where the operator reads it, and the gist into the log."""
    log.info(
        "result table=%s status=%s rows=%s files=%d bytes=%d seconds=%.1f",
        result.table,
        result.status.value,
        result.rows,
        result.files,
        result.size_bytes,
        result.seconds,
    )
    if spec.result_uri is not None:
        _write(spec.result_uri, result.dump().encode())


def _probe(uri: str) -> None:
    """Write beside a result as it is written itself; of that nothing stays, nor a new directory."""
    probe = f"{uri}.probe"
    fs, path = open_location(probe)
    directory = posixpath.dirname(path)
    # A driver that dies before it answers leaves nothing that somebody would have to remove.
    is_new = traits_of(fs).keeps_directories and not exists(fs, directory)
    _write(probe, b"{}")
    try:
        if is_new:
            delete_directory(fs, directory)
        else:
            delete_file(fs, path)
    except StorageError as error:
        # Who reads the result removes what lies there.
        log.warning("the result can be written, and the file that tried it stays: %s", error)


def _write(uri: str, content: bytes) -> None:
    fs, path = open_location(uri)
    write_bytes(fs, path, content)


def _user() -> str:
    """Who this process is to a disk, and to a Hadoop that asks for no more than a name."""
    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run under a number that has no name
        name = f"number {number}"
    told = os.environ.get("HADOOP_USER_NAME")
    return f"{name} ({told} to Hadoop)" if told else name


def stop_hook() -> Callable[[str], None]:
    """What to call at step borders: a log line, and in tests the end of the process."""
    stop_at = os.environ.get("HIVEACID_STOP_AT")

    def reached(step: str) -> None:
        log.info("step=%s", step)
        if step == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
