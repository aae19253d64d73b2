"""The base classes of operators whose jobs often need no Spark, for one table or many.

A cleaning, a small compaction, and a change of few rows by simple SQL need no Spark.
`EngineOperator.run_one` decides between the worker and a driver.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial as bind
from typing import TYPE_CHECKING, Annotated, Any, Final

from airflow.sdk import Context

from airflow_hiveacid.format import errors
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs import Engine
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactSpec, RestoreSpec
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.reporting.outlets import RerunTerms
from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.submission.spark_target import SPARK_CONNECTION, has_connection
from airflow_hiveacid.operators.submission.submission import may_change_store, may_change_user
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from airflow_hiveacid.writing.job import WritingJob

# If the worker fails with one of these errors, a driver may still succeed: the job needs Spark, or
# the driver may have other settings for the store.
_LEFT_TO_DRIVER: Final = (
    errors.ConfigurationError,
    errors.SparkNeededError,
    errors.StorageError,
    errors.UnsupportedTableError,
)

_WHY_SPARK: Final = "a Spark driver does this job, because %s"

# Before these steps end, a transaction can be aborted without a trace.
_ABORTABLE_STEPS: Final = frozenset({"opened", "locked", "snapshot", "staged", "body_done"})

EngineName = Annotated[str | None, setting(arguments.or_none(bind(arguments.choice, Engine)))]


class EngineOperator(HiveAcidSparkOperator):
    """Run a job on the worker as far as the job needs no Spark, if the task may use the worker.

    Args:
        engine: with `worker`, the worker does the job without Spark and Java, or the task fails.
            With `spark`, a Spark driver does everything. With `auto`, the worker does what needs no
            Spark. But a driver does everything if it would run as a different user than the worker:
            in cluster deploy mode, with a login for Spark, or with `env_vars`. The same applies if
            the task has `spark.hadoop.*` settings in `conf`, or a `properties_file`, or if the
            option `check_before_submit` is False, or if the worker cannot read or change the
            table's files. By default, the connection's `engine` applies, which is `auto` unless
            set (docs/how-to/change-rows-without-spark.md says which changes the worker can run).
    """

    engine: str | None

    @declaration
    def __init__(
        self,
        *,
        engine: EngineName = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    def result_now(self, job: JobSpec) -> JobResult | None:  # noqa: ARG002 - for subclasses
        """Return the job's result if it needs neither files nor the metastore; else None."""
        return None

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[RerunTerms, JobResult]:
        """Run a job on the worker, or, if necessary, with Spark."""
        if isinstance(job, MetastoreStatement):
            return super().run_one(context, number, job)
        if self._progress.is_woken or self._has_left_driver(context):
            return super().run_one(context, number, job)
        self._progress.began_s = time.time()
        hook = HiveAcidHook(self.hive_acid_conn_id)
        spec = self._build_spec(context, hook.settings, None, job=job, number=number)
        result = self.result_now(spec) or self._result_on_worker(hook, spec)
        if not isinstance(result, JobResult):
            self._submitter = None  # that of an earlier job
            with self._saying_why(result):
                return super().run_one(context, number, job)
        took_s = round(time.time() - self._progress.began_s, 3)
        result = dataclasses.replace(result, seconds=took_s)
        self.log.info("the worker did this job without Spark")
        self._report(result)
        return spec, result

    @property
    def chosen_engine(self) -> Engine | None:
        """The engine that the task's arguments choose, or None."""
        engine: Engine | None = self.value_of("engine")
        return engine

    def done_on_worker(
        self, client: MetastorePort, job: JobSpec, excused: tuple[type[errors.HiveAcidError], ...]
    ) -> JobResult:
        """Do a job in this process; raise an error of `excused` if a driver may succeed.

        Then nothing is changed, or, if only some partitions have failed, the others are done.
        """
        match job.job:
            case CleanSpec() as spec:
                from airflow_hiveacid.maintenance.clean_tables import clean_tables  # noqa: PLC0415 - needs Arrow
                from airflow_hiveacid.metastore.preflight import log_findings  # noqa: PLC0415 - for tasks only

                log_findings(client)
                return clean_tables(client, spec, self.check_alive).result(job)
            case CompactSpec() | RestoreSpec():
                pass
            case statement:
                from airflow_hiveacid.plan.statements.simple import simple_specs  # noqa: PLC0415 - for tasks only

                simple_specs(statement)  # what always needs Spark loads no Arrow, asks no server
        from airflow_hiveacid.arrow.without_pandas import let_pandas_wait  # noqa: PLC0415 - needs Arrow

        let_pandas_wait()
        if isinstance(job.job, CompactSpec):
            from airflow_hiveacid.arrow.compaction import prepared_compaction  # noqa: PLC0415 - needs Arrow

            return self.run_here(client, job, bind(prepared_compaction, excused=excused))
        from airflow_hiveacid.arrow.job import prepared_job  # noqa: PLC0415 - needs Arrow

        return self.run_here(client, job, prepared_job)

    def run_here(
        self,
        client: MetastorePort,
        job: JobSpec,
        prepared: Callable[[WritingJob], Callable[[], JobResult]],
    ) -> JobResult:
        """Run a job that writes in this process, as a driver does.

        `prepared` checks the job, and returns the function that runs it. What needs Spark ends
        there, so that the warnings about the metastore are only those of the engine that works.
        """
        from airflow_hiveacid.metastore.preflight import log_findings  # noqa: PLC0415 - for tasks only
        from airflow_hiveacid.metastore.transactions import JobTerms  # noqa: PLC0415 - needs Thrift
        from airflow_hiveacid.writing.job import StepClock, WritingJob  # noqa: PLC0415 - needs Arrow

        steps = StepClock()

        def on_step(step: str) -> None:
            steps.reached(step)
            if step in _ABORTABLE_STEPS:
                self.check_alive(step)

        # A driver reads the spec from JSON, so both engines see the same values.
        spec = JobSpec.parse(job.dump())
        terms = JobTerms.of(spec, on_step=on_step)
        run = prepared(WritingJob(spec=spec, client=client, terms=terms))
        log_findings(client)
        self._spec = job  # a kill of the task aborts the transactions of this attempt
        return dataclasses.replace(run(), phases=steps.phases)

    def _result_on_worker(
        self, hook: HiveAcidHook, job: JobSpec
    ) -> JobResult | errors.HiveAcidError | str:
        """Return the job's result, or why a driver must do it; empty if the engine is `spark`.

        The reason is an error if the worker has failed, and not only for the lack of Spark.
        """
        engine = self.chosen_engine or hook.settings.engine
        why_spark = self._why_spark() if engine is Engine.AUTO else ""
        if not why_spark and engine is not Engine.SPARK:
            excused = self._left_to_driver(engine)
            try:
                with self._with_advice(), hook.metastore() as client:
                    return self.done_on_worker(client, job, excused)
            except errors.HiveAcidError as error:
                needed: BaseException | None = error
                if isinstance(error, errors.TypeMismatchError) and self._has_spark():
                    # `unfit` sets this cause: with Spark, perhaps no row needs the failing cast.
                    needed = error.__cause__
                causes: tuple[BaseException | None, ...] = (needed,)
                if isinstance(error, errors.PartitionsFailedError):
                    causes = error.causes
                if self._is_killed or not any(isinstance(cause, excused) for cause in causes):
                    raise
                return self._why_left(error, needed)
        if why_spark:
            self.log.info(_WHY_SPARK, why_spark)
        return why_spark

    def _why_left(
        self, error: errors.HiveAcidError, needed: BaseException | None
    ) -> errors.HiveAcidError | str:
        """Log why a driver does a job that has failed here, and return the reason."""
        if isinstance(needed, errors.SparkNeededError):
            why_spark = ", ".join([needed.reason, *getattr(error, "__notes__", ())])
            self.log.info(_WHY_SPARK, why_spark)
            return why_spark if needed is error else error
        self.log.warning("the worker cannot do this job, so a Spark driver does it: %s", error)
        if isinstance(error, errors.PartitionsFailedError) and not any(
            cause.retryable for cause in error.causes
        ):
            return f"the worker cannot do this job: {error}"
        return error

    @contextmanager
    def _saying_why(self, why: errors.HiveAcidError | str) -> Iterator[None]:
        """If Spark cannot start, raise the worker's error, or say why Spark is needed."""
        try:
            yield
        except (errors.ConfigurationError, errors.JobFailedError) as error:
            submitter = self._submitter
            has_started = submitter is not None and submitter.process is not None
            if isinstance(error, errors.JobFailedError):
                # Without Java, `spark-submit` starts but no driver does.
                has_started = submitter is None or submitter.has_java
            if not why or has_started or self._is_killed:
                raise
            if isinstance(why, errors.HiveAcidError):
                why.add_note(f"Spark, which may succeed, cannot start: {error}")
                raise why from why.__cause__  # it knows whether a retry can help
            error.args = (f"{str(error).rstrip('.')}. Spark is needed because {why}",)
            raise

    def _left_to_driver(self, engine: Engine) -> tuple[type[errors.HiveAcidError], ...]:
        """Return the errors after which a driver may succeed, if there can be one."""
        if engine is Engine.WORKER:
            return ()
        # Otherwise, the lack of Spark would hide the worker's error, and whether to retry it.
        return _LEFT_TO_DRIVER if self._has_spark() else (errors.SparkNeededError,)

    def check_alive(self, step: str) -> None:  # noqa: ARG002 - the signature of `on_step`
        """Raise TaskKilledError if Airflow has killed the task; the job calls this at each step."""
        if self._is_killed:
            raise errors.TaskKilledError

    def _why_spark(self) -> str:
        """Return why a driver must do a job, whatever the job is, as a clause; else nothing."""
        from airflow_hiveacid.operators.submission.before_submit import may_ask_metastore  # noqa: PLC0415 - for tasks only

        if not may_ask_metastore():
            return "the option check_before_submit is False"
        if may_change_store(self._arguments()):
            return "it has settings for stores in conf or properties_file"
        target = self._resolve_target() if self._has_spark() else None
        if may_change_user(self._arguments(), target):
            return "the driver may run as a different user"
        return ""

    def _has_spark(self) -> bool:
        """Return False if Airflow lacks the default connection, so that no driver can run."""
        return self.spark_conn_id != SPARK_CONNECTION or has_connection(SPARK_CONNECTION)

    @contextmanager
    def _with_advice(self) -> Iterator[None]:
        try:
            yield
        except (errors.MetastoreUnavailableError, errors.MetastoreLoginError) as error:
            advice = "set check_before_submit=False in section [hiveacid]"
            if self.chosen_engine is Engine.WORKER:
                advice += " and remove the argument engine"
            error.add_note(
                f"This worker asked through connection {self.hive_acid_conn_id!r}, without Spark."
                f" If only Spark drivers may use the metastore, {advice}"
            )
            raise


class ManyTablesOperator(EngineOperator):
    """Run a job on all transactional tables that match the names and patterns in `tables`."""

    @property
    def linked_table(self) -> str:
        """Empty, because the task has several tables."""
        return ""

    @property
    def map_label(self) -> str:
        """The names and patterns of a mapped task."""
        return ", ".join(self.value_of("tables"))[:LONGEST_LABEL]

    def statement_text(self) -> str:
        """Return an empty string, because no SQL statement has several tables of a pattern."""
        return ""
