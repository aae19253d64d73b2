"""The operator that runs a stream into tables: a PySpark program, or a loop on the worker."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from airflow.sdk import Context

from airflow_hiveacid.format.errors import ConfigurationError, TaskKilledError
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, StreamSpec
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.statements import StreamTable
from airflow_hiveacid.operators.declaration import Argument, declaration, setting
from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
from airflow_hiveacid.operators.reporting.outlets import RerunTerms, count_stream
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from airflow_hiveacid.lake.streams import Batches


class HiveAcidStreamOperator(HiveAcidPySparkOperator):
    """Write a stream into tables, each batch as one transaction and exactly once.

    Give either `application`, a PySpark program that calls `acid.stream`, or `batches`, a function
    in Python whose batches the worker writes without Spark. The stream ends with its source, after
    `run_for`, or if the task is killed; the next run continues after the last committed batch. It
    appends to the tables in `inserts`, and updates the rows of those in `changes` whose keys exist.

    Args:
        application: path or URI of the program's file, as for `HiveAcidPySparkOperator`.
        batches: instead of `application`, the import path of a function. It gets the offsets of the
            last committed batch, or None, and yields `(rows, offsets)` as `StreamWriter.write`
            takes them; while there are no rows, it yields None at least every few seconds.
        stream: for `batches`, the name under which the tables' ledgers keep the offsets.
        keys: for `batches`, the key columns of the tables in `changes`.
        run_for: how long the stream runs, such as `55 minutes`; by default until its source ends.
    """

    does = "Writes a stream into tables, each batch exactly once."

    batches: str | None
    stream: str | None
    keys: Sequence[str] | str | None
    reads: Sequence[str] | str
    changes: Sequence[str] | str
    overwrites: Sequence[str] | str

    @declaration
    def __init__(
        self,
        *,
        application: Annotated[str, Argument()] = "",
        batches: Annotated[str | None, setting(arguments.or_none(arguments.text))] = None,
        stream: Annotated[str | None, setting(arguments.or_none(arguments.text))] = None,
        keys: Annotated[
            Sequence[str] | str | None, setting(arguments.or_none(arguments.names))
        ] = None,
        run_for: Annotated[
            str | None, Argument(arguments.or_none(arguments.duration_s), field="run_for_s")
        ] = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(application=application, **kwargs)
        self.take_arguments(locals())
        self._check_together()

    def build_job(self) -> StreamSpec:
        """Return the spec of the stream that the rendered arguments describe."""
        self._check_together()
        return StreamSpec(**self.job_arguments())

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[RerunTerms, JobResult]:
        """Run the stream on the worker, or its program with Spark."""
        if self.batches is None or not isinstance(job, StreamSpec):
            return super().run_one(context, number, job)
        self._progress.began_s = time.time()
        hook = HiveAcidHook(self.hive_acid_conn_id)
        spec = self._build_spec(context, hook.settings, None, job=job, number=number)
        result = self._loop(hook, spec, job)
        self._report(result)
        return spec, result

    def _loop(self, hook: HiveAcidHook, spec: JobSpec, job: StreamSpec) -> JobResult:
        from airflow_hiveacid.lake.session import Session  # noqa: PLC0415 - needs Arrow
        from airflow_hiveacid.lake.streams import StreamWriter  # noqa: PLC0415 - as above
        from airflow_hiveacid.writing.streams import APPEND, Stream, stream_tables  # noqa: PLC0415 - as above

        source = _function(self.value_of("batches"))
        keys = self.value_of("keys") or ()
        tables = [StreamTable(table=name) for name in job.inserts]
        tables += [StreamTable(table=name, keys=keys) for name in job.changes]
        with hook.metastore() as client:
            session = Session(
                client=client,
                endpoint=spec.metastore,
                lock_timeout_s=spec.lock_timeout_s,
                heartbeat_s=spec.heartbeat_s,
                conflict_policy=spec.default_conflict_policy,
                own_policy=spec.conflict_policy,
            )
            stream = Stream.named(self.value_of("stream"), stream_tables(tables, APPEND, ()))
            with session.job(job) as base:
                # All batches have this job key and attempt: a kill of the task aborts any of them.
                self._spec = stream.batch(base, 0).spec
            writer = StreamWriter(session, stream)
            continues_after = printable(str(writer.offsets))
            self.log.info("the stream continues after offsets %s", continues_after)
            result = writer.run(
                source,
                run_for_s=job.run_for_s,
                is_ending=lambda: self._is_killed,
                on_report=count_stream,
            )
        if self._is_killed:
            raise TaskKilledError(
                "the task was killed: its stream ended after the batch with offsets"
                f" {printable(str(writer.offsets))}"
            )
        return dataclasses.replace(result, kind=spec.kind, job_key=spec.job_key)

    def _check_together(self) -> None:
        is_loop, has_names = self.batches is not None, self.stream is not None
        problems = {
            "give either application, a PySpark program, or batches, a function": is_loop
            == bool(self.application),
            "a stream overwrites no table; remove overwrites": self.overwrites,
            "give stream, the name under which the ledger keeps the offsets, if and only if you"
            " give batches": is_loop != has_names,
            "reads and application_args are for application; remove them": is_loop
            and (self.reads or self.application_args),
            "with batches, list tables to merge in changes, and their key columns in keys": bool(
                self.changes and is_loop
            )
            != (self.keys is not None),
        }
        for problem, is_there in problems.items():
            if is_there:
                raise ConfigurationError(f"task {self.task_id!r}: {problem}")


def _function(path: str) -> Batches:
    module, _, name = path.rpartition(".")
    try:
        function: Batches = getattr(importlib.import_module(module), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"batches {path!r} cannot be imported: {error}; give the path of a function, such as"
            " 'streams.clicks.batches', in a module that the worker can import"
        ) from error
    return function
