"""The base classes of operators whose jobs often need no Spark, for one table or many.

A cleaning, and a change of few rows by simple SQL, need no Spark; a compaction needs it only if a
partition is due. `EngineOperator.run_one` decides between the worker and a driver.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial as bind
from typing import Annotated, Any, Final

from airflow.sdk import Context

from airflow_hiveacid.format import errors
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.engine import Engine
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.job import Job, JobSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.reporting.outlets import RerunTerms
from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL
from airflow_hiveacid.operators.spark_app import SPARK_CONNECTION, HiveAcidSparkOperator
from airflow_hiveacid.operators.submission.spark_target import has_connection
from airflow_hiveacid.operators.submission.submission import may_change_store, may_change_user
from airflow_hiveacid.plan import arguments

# If the worker fails with one of these errors, a driver may still succeed: the job needs Spark, or
# the driver may have other settings for the store.
_LEFT_TO_DRIVER: Final = (
    errors.ConfigurationError,
    errors.PartitionsFailedError,
    errors.SparkNeededError,
    errors.StorageError,
    errors.UnsupportedTableError,
)


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
        if result is None:
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

    def done_on_worker(self, client: MetastorePort, job: JobSpec) -> JobResult | None:
        """Do a job in this process; return its result, or None if it needs a driver.

        After the errors in `_LEFT_TO_DRIVER`, nothing is changed, and a driver may still succeed.
        """
        raise NotImplementedError

    def _result_on_worker(self, hook: HiveAcidHook, job: JobSpec) -> JobResult | None:
        """Return the job's result, or None, with the reason in the log, if a driver must do it."""
        engine = self.chosen_engine or hook.settings.engine
        why_spark = self._why_spark() if engine is Engine.AUTO else ""
        if not why_spark and engine is not Engine.SPARK:
            try:
                with self._with_advice(), hook.metastore() as client:
                    return self.done_on_worker(client, job)
            except _LEFT_TO_DRIVER as error:
                if engine is Engine.WORKER or self._is_killed:
                    raise
                if not isinstance(error, errors.SparkNeededError):
                    self.log.warning(
                        "the worker cannot do this job, so a Spark driver does it: %s", error
                    )
                    return None
                why_spark = ", ".join([error.reason, *getattr(error, "__notes__", ())])
        if why_spark:
            self.log.info("a Spark driver does this job, because %s", why_spark)
        return None

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
            if self.chosen_engine not in {None, Engine.AUTO}:
                name = "engine" if self.engine is not None else "on_worker"
                advice += f" and remove the argument {name}"
            error.add_note(
                f"This worker asked through connection {self.hive_acid_conn_id!r}, without Spark."
                f" If only Spark drivers may use the metastore, {advice}"
            )
            raise


class WorkerFirstOperator(EngineOperator):
    """Run a job on the worker as far as the job needs no Spark.

    Args:
        on_worker: an older word for `engine`: True means `worker`, and False means `spark`.
    """

    on_worker: bool | str | None

    @declaration
    def __init__(
        self,
        *,
        on_worker: Annotated[bool | str | None, setting(arguments.or_none(arguments.truth))] = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    @property
    def chosen_engine(self) -> Engine | None:
        """The engine that `engine` or `on_worker` chooses, or None; they must not differ."""
        engine, on_worker = super().chosen_engine, self.value_of("on_worker")
        older = None if on_worker is None else Engine.WORKER if on_worker else Engine.SPARK
        if engine is not None and older is not None and older is not engine:
            raise errors.ConfigurationError(
                f"task {self.task_id!r}: engine is {engine.value}, but on_worker={on_worker} means"
                f" {older.value}; remove on_worker"
            )
        return engine or older

    def done_on_worker(self, client: MetastorePort, job: JobSpec) -> JobResult | None:
        """Clean, or plan a compaction; return None if a partition must be compacted."""
        from airflow_hiveacid.maintenance.without_spark import done_on_worker  # noqa: PLC0415 - needs Arrow

        return done_on_worker(client, job, self.check_alive)


class ManyTablesOperator(WorkerFirstOperator):
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
