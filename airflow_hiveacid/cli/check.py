"""The command `check`, which tests whether operators and sensors can work on this machine.

If a step fails, its line says what to do, and the later steps still run. Like an operator, it uses
Spark only if the connection's engine allows it, and Spark is set up.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.exit_codes import CheckFailedError
from airflow_hiveacid.cli.output import Answer, Record, field, shown
from airflow_hiveacid.cli.spark_environment import output_of, spark_bin_dir
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import TableInfo, TransactionalKind
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.java_program import find_java, version_in
from airflow_hiveacid.jobs import Engine
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.supported_versions import JAVA, PYSPARK

_JAVA: Final = 17
_TIMEOUT_S: Final = 120.0
_MOST_TABLES: Final = 50
_SPARK_VERSION: Final = re.compile(r"version (\d+\.\d+\.\d+)")


_Step = tuple[str, Callable[[argparse.Namespace], str]]
"""A step's name, and the function that returns its result or raises its error."""


def check(options: argparse.Namespace) -> Iterator[str]:
    """Run all steps, and yield the result of each."""
    records: list[Record] = []
    failed: list[errors.HiveAcidError] = []
    steps = _steps(options)
    for name, run in steps:
        try:
            result, is_ok = run(options), True
        except errors.HiveAcidError as error:
            result, is_ok = str(error), False
            failed.append(error)
        records.append({"step": name, "is_ok": is_ok, "found": result})
        if options.output == "table":
            yield f"{'ok    ' if is_ok else 'FAILED'}  {name}: {printable(result)}\n"
    if options.output != "table":
        columns = (field("step"), field("is_ok"), field("found"))
        yield shown(Answer(records=records, columns=columns), options.output)
    if failed:
        raise CheckFailedError(failed=failed, of=len(steps))


def _steps(options: argparse.Namespace) -> tuple[_Step, ...]:
    why = _why_no_spark(options)
    if not why:
        return (*_METASTORE, *_SPARK, _RESULTS, *(() if options.job_in is None else (_JOB,)))
    without_spark = (
        f"not used: {why}. Large changes, large compactions and PySpark programs need Spark; all"
        " other work runs on the worker. To check Spark anyway, give --spark-bin-dir or --job-in"
    )
    return (
        *_METASTORE,
        ("Java", lambda _: "not used: only Spark needs Java"),
        ("spark-submit", lambda _: without_spark),
        ("tables", _tables),
        _RESULTS,
    )


def _why_no_spark(options: argparse.Namespace) -> str:
    """Return why no operator starts Spark unless its own arguments say so; "" if some may."""
    if options.spark_bin_dir or options.job_in is not None:
        return ""
    engine = cli_metastore.settings_of(options).engine
    if engine is Engine.WORKER:
        return "the connection's engine is 'worker'"
    if engine is Engine.SPARK or _bin_dir(options):
        return ""
    if options.conn_id is None:
        return "" if shutil.which("spark-submit") else "there is no spark-submit on PATH"
    from airflow_hiveacid.operators.submission.spark_target import (  # noqa: PLC0415 - needs Airflow
        SPARK_CONNECTION,
        has_connection,
    )

    is_there = has_connection(SPARK_CONNECTION)
    return "" if is_there else f"Airflow has no connection {SPARK_CONNECTION!r}"


def _metastore(options: argparse.Namespace) -> str:
    from airflow_hiveacid.metastore.client import server_states  # noqa: PLC0415 - needs Thrift

    answering, failures = server_states(cli_metastore.endpoint_of(options))
    with cli_metastore.connected(options) as client:
        summary = (
            f"a Hive {client.generation.value} metastore answers at {', '.join(answering)}; its"
            f" transactions time out after {client.txn_timeout_s:.0f} s"
        )
    return "; ".join((summary, *map(str, failures)))


def _settings(options: argparse.Namespace) -> str:
    from airflow_hiveacid.metastore.preflight import preflight  # noqa: PLC0415 - needs Thrift

    with cli_metastore.connected(options) as client:
        findings = preflight(client)
    if findings:
        raise errors.HiveAcidError("; ".join(map(str, findings)))
    return "dead transactions are ended"


def _java(_: argparse.Namespace) -> str:
    program = find_java(os.environ)
    if program is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in {home}/bin (JAVA_HOME)" if home else "on PATH"
        raise errors.ConfigurationError(
            f"there is no java {where}; install Java {_JAVA}, or set JAVA_HOME"
        )
    version = version_in(_output_of([program, "-version"]))
    if version is None or JAVA.fault(str(version)) == "too old":
        problem = "does not print its version" if version is None else "is too old"
        raise errors.ConfigurationError(
            f"{program} {problem}; Spark needs Java {_JAVA} or newer, Spark 3.5 Java"
            f" {JAVA.versions[0]} or newer"
        )
    return f"Java {version} ({program})"


def _spark(options: argparse.Namespace) -> str:
    program = _spark_submit(options)
    match = _SPARK_VERSION.search(_output_of([program, "--version"], _bin_dir(options)))
    if match is None:
        raise errors.ConfigurationError(f"{program} --version does not print a version of Spark")
    PYSPARK.check(match[1], newest=True)
    return f"Spark {match[1]} ({program})"


def _spark_submit(options: argparse.Namespace) -> str:
    directory = _bin_dir(options)
    program = shutil.which("spark-submit", path=directory)
    if program is None:
        raise errors.ConfigurationError(
            f"there is no spark-submit {f'in {directory}' if directory else 'on PATH'}. Set the"
            " option spark_bin_dir of section [hiveacid] to its directory; `spark-environment DIR`"
            " creates one in DIR/bin"
        )
    return program


def _bin_dir(options: argparse.Namespace) -> str | None:
    return spark_bin_dir(options.spark_bin_dir, options.conn_id)


def _tables(options: argparse.Namespace) -> str:
    """List a table's directory in each store: without Spark, only this machine reads files."""
    from airflow_hiveacid.metastore.listed_tables import every_table  # noqa: PLC0415 - needs Thrift
    from airflow_hiveacid.storage.stores.listing import list_files  # noqa: PLC0415 - needs pyarrow
    from airflow_hiveacid.storage.stores.locations import locate, open_location  # noqa: PLC0415 - as above

    tables: dict[str, TableInfo] = {}
    unlisted: list[str] = []

    def skip(db: str, error: errors.MetastoreCallError) -> None:
        unlisted.append(f"{db} ({error})")

    with cli_metastore.connected(options) as client:
        for _, table in islice(every_table(client, skip), _MOST_TABLES):
            if isinstance(table, TableInfo) and table.kind is not TransactionalKind.NONE:
                tables.setdefault(locate(table.location)[0], table)
    skipped = f"; without database {', '.join(unlisted)}" if unlisted else ""
    if not tables:
        none = f"none of the first {_MOST_TABLES} tables is transactional"
        return f"{none}, so no file was read{skipped}"
    for table in tables.values():
        list_files(*open_location(table.location))
    names = ", ".join(str(table.ref) for table in tables.values())
    return f"this machine can list the directory of {names}{skipped}"


def _result_dir(options: argparse.Namespace) -> str:
    from airflow_hiveacid.storage.stores.filesystem import (  # noqa: PLC0415 - needs pyarrow
        delete_directory,
        read_bytes,
        write_bytes,
    )
    from airflow_hiveacid.storage.stores.locations import open_location  # noqa: PLC0415 - as above

    directory = options.result_dir or cli_metastore.settings_of(options).result_dir
    if not directory:
        return "not set, so drivers must run on Airflow's workers (deploy mode client)"
    sent = uuid.uuid4().hex.encode()
    fs, path = open_location(f"{directory.rstrip('/')}/check-{sent.decode()}")
    write_bytes(fs, f"{path}/probe", sent)
    try:
        if read_bytes(fs, f"{path}/probe") != sent:
            raise errors.StorageError(
                f"{directory}: the check wrote a file, and read different content"
            )
    finally:
        delete_directory(fs, path)
    return f"{directory} can be written and read from this machine"


def _job(options: argparse.Namespace) -> str:
    """Insert one row into a new table with Spark on this machine, and drop the table again."""
    from airflow_hiveacid.jobs.packager import application_path, cached_archive  # noqa: PLC0415 - slow
    from airflow_hiveacid.metastore.definitions.new_table import define, ensure_table  # noqa: PLC0415 - needs Thrift

    program, name = _spark_submit(options), f"{options.job_in}.hiveacid_check_{uuid.uuid4().hex}"
    new = define(name, {"id": "bigint"})
    with cli_metastore.connected(options) as client, TemporaryDirectory() as directory:
        ensure_table(client, new)
        try:
            result_file = Path(directory) / "result.json"
            spec = JobSpec(
                job_key=f"hiveacid check/{name}",
                attempt=str(AttemptId.new(1)),
                metastore=cli_metastore.endpoint_of(options),
                job=InsertSpec(target=name, source=SourceSpec(columns=("id",), values=((1,),))),
                result_uri=f"file:{result_file}",
            )
            spec_file = Path(directory) / "spec.json"
            spec_file.write_text(spec.dump(), encoding="utf-8")
            command = [program, "--master", "local[1]", "--py-files", str(cached_archive())]
            command += [str(application_path(spec.kind)), "--spec", str(spec_file)]
            try:
                _output_of(command, _bin_dir(options))
            except errors.ConfigurationError:
                # The result of a failed job has the job's own error, which says more than this one.
                if not result_file.exists():
                    raise
            return _what_came_of(result_file)
        finally:
            client.drop_table(new.ref, purge=True)


def _what_came_of(result_file: Path) -> str:
    """Describe the job's result; if it failed, raise the job's error."""
    if not result_file.exists():
        raise errors.JobFailedError("spark-submit ended without a result of the job")
    result = JobResult.parse(result_file.read_text(encoding="utf-8"))
    if result.error is not None:
        raise result.error.rebuild()
    return f"inserted {result.rows.inserted} row in {result.seconds:.0f} s"


def _output_of(command: Sequence[str], bin_dir: str | None = None) -> str:
    # As in operators, the directory of spark-submit is the first on PATH, because spark-submit
    # looks for python3 there (spark_on_path).
    path = os.environ.get("PATH", os.defpath)
    first = "" if bin_dir is None else f"{bin_dir}{os.pathsep}"
    return output_of(command, path=f"{first}{path}", timeout_s=_TIMEOUT_S, most_lines=1)


_METASTORE: Final = (("metastore", _metastore), ("settings of the metastore", _settings))
_SPARK: Final = (("Java", _java), ("spark-submit", _spark))
_RESULTS: Final = ("result directory", _result_dir)
_JOB: Final = ("job of one row", _job)
