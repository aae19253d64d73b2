"""Base class of the operators that run our packaged Spark applications.

A `Submitter` submits each job of a subclass, as a JSON file with the application and the zip of our
code. Only the driver opens and commits the metastore transaction; the worker only aborts that of a
killed task. A task that defers runs the same steps, but a trigger waits for the driver.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from airflow_hiveacid.airflow_names import AirflowTaskTimeout, RetryPolicy, TaskDeferred, conf
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.words import printable
from airflow_hiveacid.hooks.connection import MetastoreSettings
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs import START_TIMEOUT_S
from airflow_hiveacid.jobs.contract import locked
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, application_of
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.packager import application_path, cached_archive, scratch_errors
from airflow_hiveacid.jobs.short_form import is_short, short_form
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import DeclaredArguments, declaration, setting
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting import links, task_view
from airflow_hiveacid.operators.reporting.outlets import (
    RerunTerms,
    count_failure,
    count_job,
    describe_outlets,
)
from airflow_hiveacid.operators.reporting.plan_text import detail_lines, result_lines
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.operators.submission import deferral, provider_names
from airflow_hiveacid.operators.submission.cluster_run import Bounds
from airflow_hiveacid.operators.submission.kill import Attempt, abort_attempt
from airflow_hiveacid.operators.submission.outcome import judge
from airflow_hiveacid.operators.submission.result_file import ResultFile, keep_result
from airflow_hiveacid.operators.submission.resumption import Resumable
from airflow_hiveacid.operators.submission.run_identity import generation_of, key_of, note_delivered
from airflow_hiveacid.operators.submission.spark_target import (
    SPARK_CONNECTION,
    SparkTarget,
    spark_on_path,
)
from airflow_hiveacid.operators.submission.submission import Program, SparkArguments, Submission
from airflow_hiveacid.operators.submission.submitter import ENDED, SUCCEEDED, Submitter
from airflow_hiveacid.operators.submission.user_settings import check_settings, mask_secrets
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.text import statement_text

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_DEFAULT_QUEUE: Final = conf.get("operators", "default_queue", fallback="default")
# The longest waits for the kill of a driver: in a signal handler, and at the end of a process.
_LAST_S: Final = 1.0
_END_S: Final = 30.0
_Text = Annotated[str | None, setting()]
_Number = Annotated[float | str | None, setting(arguments.or_none(arguments.number))]
_Cores = Annotated[int | str | None, setting()]


class HiveAcidSparkOperator(
    DeclaredArguments, ValueRendering, task_view.TaskView, PolicyRetries, SparkSubmitOperator
):
    """Run Hive ACID jobs with `spark-submit`; the base class of the operators that use Spark.

    All arguments of `SparkSubmitOperator` are also allowed. The return value in XCom is the
    `JobResult` as JSON: rows by kind, files, bytes, write IDs, seconds. For several jobs, the
    return value is `{"statements": [...]}`, with one `JobResult` for each job. Long lists in the
    result are cut; see docs/reference/results.md.

    Args:
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        spark_conn_id: connection of type `spark`, by default `spark_default`. The connection must
            exist, except for jobs without Spark of tasks that use the default.
        conn_id: an alias of `spark_conn_id`, because `SparkSubmitOperator` has this argument.
        spark_bin_dir: directory of `spark-submit`; by default the option `spark_bin_dir` in section
            `[hiveacid]`, then PATH.
        lock_timeout_s: longest wait for locks; by default the connection's setting. With 0 the task
            does not wait.
        conflict_policy: `hive` or `strict`: the rule for which concurrent transactions conflict
            with this task's transaction. By default the table's property
            `hiveacid.conflict.policy`, then the connection's setting.
        heartbeat_s: seconds between heartbeats; by default half the metastore's transaction
            time-out.
        result_dir: URI of a directory for results in cluster deploy mode; by default the
            connection's setting.
        start_timeout_s: longest wait on YARN and Kubernetes for the first container, and on any
            cluster for the first executor. By default the option `start_timeout_s` in section
            `[hiveacid]`, whose default is one hour.
        deferrable: let the triggerer wait for a driver in YARN or Kubernetes, so that the task
            occupies no worker slot; the default is `[operators] default_deferrable`. If the driver
            runs on the worker, the task does not defer, and the log says why.
        retry_policy: which errors to retry. By default, an input error fails the task at once.
            After any other error, `retries` and `retry_delay` apply. `hive_acid_retry_policy`
            returns a policy with a delay for each kind of error.
        map_index_template: the label of a mapped task's instances; by default the table, and the
            partition or another argument that tells the instances apart.
        driver_memory: as in `SparkSubmitOperator`; here it is a template field. So are
            `executor_memory`, `executor_cores`, `total_executor_cores`, `num_executors`,
            `archives`, `repositories`, `yarn_queue`, `deploy_mode` and `name`.
    """

    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json"}
    operator_extra_links = (
        *task_view.TaskView.operator_extra_links,
        links.SparkApplicationLink(),
        links.SparkUiLink(),
    )

    spec_type: ClassVar[Callable[..., Any]]
    """The type of the job's spec, or a method that makes the spec."""
    keeps_whole_result: ClassVar[bool] = False
    """True if the result directory, if any, always gets the whole result."""

    hive_acid_conn_id: str
    spark_conn_id: str
    spark_bin_dir: str | None
    result_dir: str | None
    deploy_mode: str | None

    @declaration
    def __init__(  # noqa: PLR0913 - named one by one so that default_args apply to them
        self,
        *,
        hive_acid_conn_id: kinds.ConnectionId = HiveAcidHook.default_conn_name,
        spark_conn_id: _Text = None,
        conn_id: str | None = None,
        spark_bin_dir: _Text = None,
        lock_timeout_s: _Number = None,
        conflict_policy: Annotated[str | None, setting(arguments.conflict_policy)] = None,
        heartbeat_s: _Number = None,
        result_dir: _Text = None,
        start_timeout_s: _Number = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = task_view.MAP_INDEX_TEMPLATE,
        name: str = "",
        total_executor_cores: _Cores = None,
        executor_cores: _Cores = None,
        executor_memory: _Text = None,
        driver_memory: _Text = None,
        num_executors: _Cores = None,
        archives: _Text = None,
        repositories: _Text = None,
        yarn_queue: _Text = None,
        deploy_mode: _Text = None,
        **kwargs: Any,  # noqa: ANN401 - passed on to the Spark provider's operator
    ) -> None:
        super().__init__(
            conn_id=spark_conn_id or conn_id or SPARK_CONNECTION,
            name=name,
            retry_policy=retry_policy,
            map_index_template=map_index_template,
            **kwargs,
        )
        if type(self).program_of is HiveAcidSparkOperator.program_of:
            for argument in ("application", "application_args"):
                if kwargs.get(argument):
                    raise errors.ConfigurationError(
                        f"task {self.task_id!r}: {type(self).__name__} sets {argument} itself;"
                        " remove it, or use HiveAcidPySparkOperator for a program"
                    )
        if conn_id and spark_conn_id and conn_id != spark_conn_id:
            raise errors.ConfigurationError(
                f"task {self.task_id!r}: conn_id is {conn_id!r} and spark_conn_id is"
                f" {spark_conn_id!r}; they mean the same, so give only one of them"
            )
        spark_conn_id = spark_conn_id or conn_id or SPARK_CONNECTION
        self.take_arguments(locals())
        self.deferrable = deferrable
        self.driver_links = links.DriverLinks()
        self._progress = deferral.Progress()
        self._spec: JobSpec | None = None
        self._submitter: Submitter | None = None
        self._is_killed = False

    def build_job(self) -> Job:
        """Return the spec of the operator's only job, from the rendered arguments."""
        job: Job = type(self).spec_type(**self.job_arguments())
        return job

    def build_jobs(self) -> Sequence[Job | MetastoreStatement]:
        """Return the jobs that the rendered arguments describe, in order.

        Each job has its own transaction, and a retry skips the jobs that are already done. A
        subclass whose jobs include a `MetastoreStatement` overrides `run_one` to execute it.
        """
        return (self.build_job(),)

    @property
    def linked_table(self) -> str:
        """The only table that the jobs change; empty if there are several."""
        targets = {job.target for job in self.build_jobs()}
        return targets.pop() if len(targets) == 1 else ""

    def statement_text(self) -> str:
        """Return the task's job as SQL text; empty if no SQL statement expresses the job."""
        return statement_text(self.build_job())

    @task_view.with_short_traceback
    def execute(self, context: Context) -> dict[str, JsonValue]:  # type: ignore[override]  # the parent returns None
        """Run the jobs, one after another, and return their results as JSON.

        Raises:
            InputError: an input is invalid; the retry policy fails the task at once.
            HiveAcidError: a job failed; a retry may succeed, and never applies a change twice.
        """
        # Fix the keys of the task's jobs now: if this try fails, the next try needs the same keys.
        key_of(context)
        self._progress.begin(self.execution_timeout)
        links.show_table(self, context)
        return self._run_jobs(context)

    @task_view.with_short_traceback
    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, JsonValue]:
        """Read the result of the driver that the trigger followed, and run the remaining jobs."""
        self._progress.resume(event)
        self.driver_links.resume()
        return self._run_jobs(context)

    def _do_render_template_fields(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - Airflow's
        """Render templates, and register secrets, which Airflow then hides in the fields."""
        super()._do_render_template_fields(*given, **named)
        mask_secrets(self.conf, self.env_vars)

    def _run_jobs(self, context: Context) -> dict[str, JsonValue]:
        """Run the jobs in order, without those that this try finished before it deferred."""
        jobs, results = self.build_jobs(), self._progress.done
        try:
            for number, job in list(enumerate(jobs, start=1))[len(results) :]:
                if len(jobs) > 1:
                    self.log.info("statement %d of %d", number, len(jobs))
                with self._with_position(number):
                    results.append(self.run_one(context, number, job))
        except (errors.StatementChangedError, errors.EarlierRunUnknownError):
            # The error asks the user to check the table and clear the task. So record this
            # generation as finished, because the cleared task must begin a new generation.
            note_delivered(context, generation_of(context))
            raise
        describe_outlets(self, context, results)
        note_delivered(context, results[-1][0].generation)
        return self._short_result([result.to_json() for _, result in results])

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[RerunTerms, JobResult]:
        """Run one job; return the spec that was submitted, and the job's result."""
        if isinstance(job, MetastoreStatement):
            raise TypeError(f"{type(self).__name__} cannot run {job.kind}")
        return self._run(context, job, number)

    def _short_result(self, results: Sequence[dict[str, JsonValue]]) -> dict[str, JsonValue]:
        """Return the results for XCom; if they are too long, or a proof, store them in a file."""
        whole = results[0] if len(results) == 1 else {"statements": list(results)}
        short = short_form({"result_uri": None, **whole})
        if is_short(short) and not self.keeps_whole_result:
            return short
        result_dir = self.result_dir or HiveAcidHook(self.hive_acid_conn_id).settings.result_dir
        return short_form({"result_uri": keep_result(result_dir, whole), **whole})

    @contextmanager
    def _with_position(self, number: int) -> Iterator[None]:
        try:
            yield
        except errors.HiveAcidError as error:
            count_failure(error)
            if position := self.position_of(number):
                error.add_note(position)
            raise

    def position_of(self, number: int) -> str:  # noqa: ARG002 - for subclasses
        """Return a text for error messages that says where a job is in the arguments.

        `number` counts from 1. The position is empty if there is only one job.
        """
        return ""

    def program_of(self, spec: JobSpec) -> tuple[str, Sequence[str]]:
        """Return the file that `spark-submit` runs for a job, and the arguments for that file."""
        return str(application_path(application_of(spec.job))), ()

    def rerun_terms(self) -> dict[str, Any]:
        """Return the JobSpec fields that define what happens if the job is already done."""
        return {}

    def lock_timeout(self, settings: MetastoreSettings) -> float:
        """Return the longest wait for locks, in seconds."""
        timeout_s: float | None = self.value_of("lock_timeout_s")
        return settings.lock_timeout_s if timeout_s is None else timeout_s

    @property
    def under_way(self) -> Attempt | None:
        """The running attempt; if the task is killed, its transactions are aborted."""
        return self._spec

    def on_kill(self) -> None:
        """Abort the transactions of this submission and earlier submissions, then stop the driver.

        Airflow calls this method in a signal handler and kills the task a few seconds later. So
        this method makes no request to Airflow and never waits for long.
        """
        self._end_driver(wait_s=_LAST_S)

    def _end_driver(self, wait_s: float) -> None:
        # In a cluster, `begin_end` makes a new driver impossible. The wait for the end of this one
        # may outlast the task, so abort before: then the driver cannot commit.
        self._is_killed = True
        submitter = self._submitter
        end = None if submitter is None else submitter.begin_end()
        if (attempt := self.under_way) is not None:
            abort_attempt(attempt)
        if submitter is not None:
            submitter.finish_end(end, wait_s)

    # ---- OpenLineage's provider calls these methods, in the process of the task ------------------

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the tables that the task's jobs read and write, with their columns."""
        from airflow_hiveacid.operators.reporting.lineage import lineage_of  # noqa: PLC0415 - for tasks only

        return lineage_of(self.hive_acid_conn_id, self.build_jobs())

    def get_openlineage_facets_on_complete(
        self,
        task_instance: object,  # noqa: ARG002 - the provider's signature
    ) -> OperatorLineage[Any, Any]:
        """Return the tables as on start, with the versions and counts that the task wrote."""
        from airflow_hiveacid.operators.reporting.lineage import lineage_of  # noqa: PLC0415 - for tasks only

        results = [result for _, result in self._progress.done]
        return lineage_of(self.hive_acid_conn_id, self.build_jobs(), results)

    # ---- `ResumableJobMixin`: its `execute_resumable` calls these methods ------------------------

    def submit_job(self, context: Context) -> str:  # noqa: ARG002 - the SDK's signature
        """Submit the current job, and return its driver's ID; see `Submitter.submit`."""
        return self._at_work.submit()

    def get_job_status(self, external_id: object, context: Context) -> str:  # noqa: ARG002 - as above
        """Return the state of an earlier try's driver; see `Submitter.status`."""
        return self._at_work.status(str(external_id))

    def is_job_active(self, status: str) -> bool:
        """Return true to follow a driver in this state, or false to submit its job again."""
        return status not in ENDED

    def is_job_succeeded(self, status: str) -> bool:
        """Return true if a driver in this state has ended successfully."""
        return status == SUCCEEDED

    def poll_until_complete(self, external_id: object, context: Context) -> None:
        """Wait until the driver ends; see `Submitter.follow`."""
        if self.deferrable and self._why_not_deferred() is None:
            self._wait_in_triggerer(str(external_id), context)
        self._at_work.follow(str(external_id))

    # ---- one job ---------------------------------------------------------------------------------

    def _run(self, context: Context, job: Job, number: int) -> tuple[JobSpec, JobResult]:
        self._progress.began_s = time.time()
        hook = HiveAcidHook(self.hive_acid_conn_id)
        settings = hook.settings
        target = self._resolve_target()
        with ExitStack() as stack:
            with scratch_errors():
                scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-"))
            directory = Path(scratch)
            result_file = self._result_file(settings, target, directory)
            spec = self._build_spec(context, settings, result_file, job=job, number=number)
            if (woken := self._progress.woken_for(spec.job_key)) is not None:
                note = woken.note  # its driver may be that of an earlier try
                spec = replace(spec, attempt=note.attempt, result_uri=note.result_uri)
            spec_file = directory / f"{spec.kind}-{uuid.uuid4().hex}.json"
            # One of these files shows the driver that a process follows it, if one can (`JobSpec`).
            if target.is_followed:
                spec = replace(spec, follower_uri=result_file.follower_uri)
            elif not target.is_cluster:
                spec = replace(spec, worker_file=str(spec_file))
            with scratch_errors(str(spec_file)):
                spec_file.write_text(spec.dump(), encoding="utf-8")
                stack.enter_context(locked(spec_file))
            self._spec = spec
            submission = self._submission(target, spec, spec_file)
            with spark_on_path(self._bin_dir()):
                if woken is None:
                    self._check_before_submit(context, submission, hook)
                failure = self._submit(context, submission, woken)
            if self._is_killed:
                raise errors.TaskKilledError(
                    "the task was killed: its Spark driver was stopped, its transaction aborted"
                ) from None
            result = self._at_work.collect(spec, failure)
        if isinstance(failure, errors.ApplicationNotStartedError):
            abort_attempt(spec)  # the driver may have started just before the cluster ended it
        if result is None and isinstance(failure, errors.HiveAcidError):
            raise failure
        judged = judge(
            spec,
            result,
            exit_code=self._at_work.exit_code,
            failure=failure,
            has_java=self._at_work.has_java,
            said=self._at_work.last_lines,
        )
        self._report(judged)
        return spec, judged

    def _report(self, result: JobResult) -> None:
        took_s = time.time() - self._progress.began_s
        for line in (*detail_lines(result.details), *result_lines(result, took_s)):
            self.log.info("%s", printable(line))
        count_job(result, took_s)

    def _check_before_submit(
        self, context: Context, submission: Submission, hook: HiveAcidHook
    ) -> None:
        """Check a new submission, unless the state store has a note about an earlier try's driver.

        An earlier driver may have committed before its table was dropped or changed. If there is no
        note, the new driver makes these checks, too, before it reads the ledger. So the checks on
        the worker never fail a retry that would succeed.
        """
        from airflow_hiveacid.operators.submission.before_submit import check_before_submit  # noqa: PLC0415 - for tasks only

        check_settings(
            submission.target,
            self._arguments(),
            submission.environment,
            worker_queue=self.queue if self.queue != _DEFAULT_QUEUE else None,
        )
        if self._is_killed or self._has_left_driver(context):
            return
        check_before_submit(submission, hook)

    @staticmethod
    def _has_left_driver(context: Context) -> bool:
        store = context.get("task_state_store")
        return store is not None and Resumable(store).attempt is not None

    def take_over_left_driver(self, context: Context, attempt: str, *, ends: bool) -> None:
        """Take over the driver that an earlier try left running, or, if `ends` is true, stop it.

        Call this method before the task changes anything. Killing this task from now on also kills
        the driver. Raise ClusterError if YARN does not confirm that the driver has ended, and
        TaskKilledError if the task is killed during the call.
        """
        if not self._has_left_driver(context):
            return  # no earlier submission is stored, and there may be no Spark connection
        target = self._resolve_target()
        if not (target.is_cluster and self.durable):
            return
        self._submitter = submitter = self._submitter_for(context, target, attempt)
        if not ends:
            submitter.answer_for_left()
            return
        self.log.warning("the last try's driver runs a different statement; killing it")
        try:
            submitter.end_left()
        except InterruptedError as exc:
            raise errors.TaskKilledError from exc

    def _resolve_target(self) -> SparkTarget:
        environment = {**os.environ, **(self.env_vars or {})}
        return SparkTarget.resolve(
            self.spark_conn_id, self.deploy_mode, self.conf or {}, environment
        )

    def _build_spec(
        self,
        context: Context,
        settings: MetastoreSettings,
        result_file: ResultFile | None,
        *,
        job: Job,
        number: int,
    ) -> JobSpec:
        return JobSpec(
            job_key=key_of(context, number),
            generation=generation_of(context),
            attempt=str(AttemptId.new(context["ti"].try_number)),
            **self.rerun_terms(),
            metastore=settings.endpoint,
            job=job,
            lock_timeout_s=self.lock_timeout(settings),
            conflict_policy=self.value_of("conflict_policy"),
            default_conflict_policy=settings.conflict_policy,
            allow_unsafe_expressions=settings.allow_unsafe_expressions,
            heartbeat_s=self.value_of("heartbeat_s"),
            result_uri=None if result_file is None else result_file.uri,
            start_timeout_s=self._bounds().start_s,
        )

    def _result_file(
        self, settings: MetastoreSettings, target: SparkTarget, directory: Path
    ) -> ResultFile:
        if target.is_cluster:
            return ResultFile.shared(self.result_dir or settings.result_dir)
        return ResultFile.local(directory)

    def _bin_dir(self) -> str | None:
        configured: str | None = conf.get("hiveacid", "spark_bin_dir", fallback=None)
        return self.spark_bin_dir or configured

    def _submission(self, target: SparkTarget, spec: JobSpec, spec_file: Path) -> Submission:
        if target.is_yarn_cluster and not target.is_followed:
            self.log.warning(
                "connection %s has no yarn_resourcemanager_webapp_address, and HADOOP_CONF_DIR"
                " has no yarn-site.xml with this address. If a worker is lost, a retry cannot"
                " find its driver, so it fences the driver through the metastore. The wait for a"
                " container has no limit",
                target.conn_id,
            )
        application, own_arguments = self.program_of(spec)
        program = Program(
            application=application,
            own_arguments=own_arguments,
            archive=str(cached_archive()),
            spec_file=spec_file,
        )
        return replace(
            Submission.of(spec, self._arguments(), target, program=program),
            adds_parent_job=provider_names.adds_parent_job(self),
            adds_transport=provider_names.adds_transport(self),
        )

    def _arguments(self) -> SparkArguments:
        own = {"conn_id": self.spark_conn_id, **provider_names.kept_arguments(self)}
        names = {field.name for field in fields(SparkArguments)} - own.keys()
        return SparkArguments(**own, **{name: getattr(self, name) for name in names})

    def _bounds(self) -> Bounds:
        timeout_s = self.value_of("start_timeout_s")
        if timeout_s is None:
            option = str(conf.get("hiveacid", "start_timeout_s", fallback=START_TIMEOUT_S))
            timeout_s = arguments.number(option, "option start_timeout_s of section [hiveacid]")
        return Bounds(start_s=timeout_s)

    def _submit(
        self, context: Context, submission: Submission, woken: deferral.Woken | None
    ) -> Exception | None:
        """Run a job's driver, or finish one that a trigger followed; return the failure, if any."""
        if self._is_killed and woken is None:
            return None
        if woken is None:
            self.driver_links.forget(context["ti"].xcom_push)  # of an earlier job's driver
            self._warn_of_left_driver(context, submission.target)
        self._submitter = self._submitter_for(context, submission.target, submission.spec.attempt)
        if woken is not None:
            if self._is_killed:
                self.on_kill()  # the task was killed before it knew the driver
                return None
            with self._killing_after_unknown_errors(self._submitter):
                return self._submitter.finish(
                    submission, context, woken.note.application_id, woken.failure()
                )
        if self.deferrable and (why_not := self._why_not_deferred()) is not None:
            self.log.info("the task does not defer: %s", why_not)
        with self._killing_after_unknown_errors(self._submitter):
            return self._submitter.run(
                submission, context, resume=lambda: self.execute_resumable(context)
            )

    def _warn_of_left_driver(self, context: Context, target: SparkTarget) -> None:
        is_first = context["ti"].try_number == 1 or self._progress.done  # warn once a try
        if target.is_followed and not is_first and context.get("task_state_store") is None:
            self.log.warning(
                "Airflow below 3.3 keeps no state of tasks, so this retry cannot find a driver that"
                " an earlier try left in the cluster. It submits its job again; the table's ledger"
                " prevents a second commit"
            )

    @contextmanager
    def _killing_after_unknown_errors(self, submitter: Submitter) -> Iterator[None]:
        """Kill the driver after an error that is not ours.

        Our own errors say whether a driver may continue. After a time-out, Airflow calls `on_kill`.
        After any other error, nobody would follow the driver until the next try, if there is one.
        """
        try:
            yield
        except (errors.HiveAcidError, TaskDeferred, AirflowTaskTimeout):
            raise
        except BaseException:
            self.on_kill()
            if (process := submitter.process) is not None:
                process.wait()  # it was killed
            raise

    def _why_not_deferred(self) -> str | None:
        return deferral.why_not_deferred(self._at_work.target, self._arguments())

    def _wait_in_triggerer(self, application_id: str, context: Context) -> NoReturn:
        from airflow_hiveacid.operators.submission.handover import HANDOVER  # noqa: PLC0415 - for tasks only
        from airflow_hiveacid.operators.submission.trigger import ApplicationTrigger  # noqa: PLC0415 - for tasks only

        if self._spec is None:
            raise RuntimeError("no job has started")
        self.log.info("the triggerer waits until %s has ended", application_id)
        shows_log = not self._at_work.has_secrets
        if not shows_log:
            self.log.info(
                "the triggerer does not show the driver's log, because it does not know the secrets"
                " in conf and env_vars, which the log may contain"
            )
        HANDOVER.expect(context["ti"], lambda: self._end_driver(wait_s=_END_S))
        note = self._progress.note(application_id, self._spec, self._at_work.notes)
        self.defer(
            trigger=ApplicationTrigger(
                note=note.to_json(),
                hive_acid_conn_id=self.hive_acid_conn_id,
                spark_conn_id=self.spark_conn_id,
                client=deferral.client_arguments(self._arguments()),
                start_timeout_s=self._bounds().start_s,
                shows_log=shows_log,
            ),
            method_name=self.execute_complete.__name__,
        )

    def _submitter_for(self, context: Context, target: SparkTarget, attempt: str) -> Submitter:
        push = context["ti"].xcom_push
        return Submitter(
            target,
            attempt=attempt,
            arguments=self._arguments(),
            bounds=self._bounds(),
            store=context.get("task_state_store"),
            is_durable=self.durable,
            is_killed=lambda: self._is_killed,
            show=lambda driver, application, ui: self.driver_links.show(
                driver, application, ui, push
            ),
        )

    @property
    def _at_work(self) -> Submitter:
        if self._submitter is None:
            raise RuntimeError("no job has started")
        return self._submitter
