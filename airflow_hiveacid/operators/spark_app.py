"""How a task runs packaged Spark applications and gets their results back.

Takes jobs from a subclass, one for most; ships each as a JSON file beside the application and the
zip of our code, lets the Spark provider submit, and answers what the application wrote. The driver
owns the metastore transaction, so nothing of the table is touched here, except to abort when the
task is killed.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import (
    ApplicationNotStartedError,
    ClusterError,
    ConfigurationError,
    EarlierRunUnknownError,
    HiveAcidError,
    JobFailedError,
    StatementChangedError,
    StorageError,
)
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.packager import application_path, cached_archive
from airflow_hiveacid.jobs.specs import JobSpec
from airflow_hiveacid.operators import kubernetes_settings
from airflow_hiveacid.operators.cluster_operator import ClusterSubmitOperator
from airflow_hiveacid.operators.cluster_run import START_S, Bounds, own_settings, tag_of
from airflow_hiveacid.operators.kill import abort_attempt, stop_processes
from airflow_hiveacid.operators.outcome import judge, summary
from airflow_hiveacid.operators.outlets import describe_outlets
from airflow_hiveacid.operators.result_file import ResultFile
from airflow_hiveacid.operators.resumption import Resumable
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.operators.run_identity import generation_of, key_of, note_delivered
from airflow_hiveacid.operators.spark_target import SparkTarget, spark_on_path
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.metastore_statements import MetastoreStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow.sdk import Context, RetryPolicy

    from airflow_hiveacid.hooks.connection import MetastoreSettings
    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs import Job
    from airflow_hiveacid.operators.kill import Attempt
    from airflow_hiveacid.operators.outlets import Ordered

_SPARK_CONNECTION: Final = "spark_default"
_SIZING: Final = (
    "total_executor_cores",
    "executor_cores",
    "executor_memory",
    "driver_memory",
    "num_executors",
    "archives",
    "repositories",
    "yarn_queue",
)


class HiveAcidSparkOperator(ClusterSubmitOperator):
    """Run Hive ACID jobs with `spark-submit`; the base of every operator of this package.

    Everything that `SparkSubmitOperator` takes may be given too. What it returns, and so pushes to
    XCom, is the `JobResult` as JSON: rows by kind, files, bytes, write IDs, seconds. Of several
    jobs it is `{"statements": [...]}`, with one of these for each.

    Args:
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        spark_conn_id: connection of type `spark`, `spark_default` if none is named. It must exist.
        conn_id: the same under the name that `SparkSubmitOperator` has for it.
        spark_bin_dir: directory of `spark-submit`; by default option `spark_bin_dir` of section
            `[hiveacid]`, then PATH.
        lock_timeout_s: longest wait for locks; by default the connection's. With 0 none is waited
            for.
        conflict_policy: who may commit beside this task, `hive` or `strict`; by default what the
            table's property `hiveacid.conflict.policy` says, else the connection.
        heartbeat_s: seconds between heartbeats; by default half the metastore's own time-out.
        result_dir: URI of a directory for results in cluster deploy mode; by default the
            connection's.
        start_timeout_s: longest wait on YARN and Kubernetes for the first container, and on any
            cluster for the first executor; by default option `start_timeout_s` of section
            `[hiveacid]`, an hour.
        retry_policy: by default, input errors fail at once and all else is retried as `retries` and
            `retry_delay` say; see `hive_acid_retry_policy` for delays by kind of error.
        driver_memory: like the other sizing arguments of `SparkSubmitOperator`, templated.
    """

    template_fields: Sequence[str] = (
        *ClusterSubmitOperator.template_fields,
        *_SIZING,
        "deploy_mode",
        "hive_acid_conn_id",
        "spark_bin_dir",
        "lock_timeout_s",
        "conflict_policy",
        "heartbeat_s",
        "result_dir",
        "start_timeout_s",
    )

    def __init__(  # noqa: PLR0913 - named one by one so that default_args reach them
        self,
        *,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        spark_conn_id: str | None = None,
        conn_id: str | None = None,
        spark_bin_dir: str | None = None,
        lock_timeout_s: float | str | None = None,
        conflict_policy: str | None = None,
        heartbeat_s: float | str | None = None,
        result_dir: str | None = None,
        start_timeout_s: float | str | None = None,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        name: str = "",
        total_executor_cores: int | str | None = None,
        executor_cores: int | str | None = None,
        executor_memory: str | None = None,
        driver_memory: str | None = None,
        num_executors: int | str | None = None,
        archives: str | None = None,
        repositories: str | None = None,
        yarn_queue: str | None = None,
        deploy_mode: str | None = None,
        **kwargs: Any,  # noqa: ANN401 - passed on to the Spark provider's operator
    ) -> None:
        super().__init__(
            conn_id=spark_conn_id or conn_id or _SPARK_CONNECTION,
            name=name,
            retry_policy=retry_policy,
            **kwargs,
        )
        if conn_id and spark_conn_id and conn_id != spark_conn_id:
            raise ConfigurationError(
                f"task {self.task_id!r}: conn_id is {conn_id!r} and spark_conn_id is"
                f" {spark_conn_id!r}; they mean the same, so give one of them"
            )
        self.hive_acid_conn_id = hive_acid_conn_id
        self.spark_bin_dir = spark_bin_dir
        self.lock_timeout_s = lock_timeout_s
        self.conflict_policy = conflict_policy
        self.heartbeat_s = heartbeat_s
        self.result_dir = result_dir
        self.total_executor_cores = total_executor_cores
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.driver_memory = driver_memory
        self.num_executors = num_executors
        self.archives = archives
        self.repositories = repositories
        self.yarn_queue = yarn_queue
        self.deploy_mode = deploy_mode
        self.start_timeout_s = start_timeout_s
        self._spec: JobSpec | None = None
        early = arguments.EarlyChecks(self.task_id)
        early.check(
            arguments.optional_number,
            lock_timeout_s=lock_timeout_s,
            heartbeat_s=heartbeat_s,
            start_timeout_s=start_timeout_s,
        )
        early.check(arguments.optional_policy, conflict_policy=conflict_policy)

    def build_job(self) -> Job:
        """The job that the rendered arguments describe, of an operator that has one.

        Raises:
            InputError: an argument is wrong.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what its jobs are")

    def build_jobs(self) -> Sequence[Job | MetastoreStatement]:
        """The jobs that the rendered arguments describe, in order.

        Each is a transaction of its own and is done once: a retry passes over those that are done.
        Who gives statements for the metastore runs them, too, by a `run_one` of its own.

        Raises:
            InputError: an argument is wrong.
        """
        return (self.build_job(),)

    def execute(self, context: Context) -> dict[str, JsonValue]:  # type: ignore[override]  # it answers None
        """Run the jobs, one after another, and answer their results as JSON.

        Raises:
            InputError: the input was refused; the retry policy fails the task at once.
            HiveAcidError: a job failed; retrying may help and never applies a change twice.
        """
        done: list[tuple[Ordered, JobResult]] = []
        jobs = self.build_jobs()
        try:
            for number, job in enumerate(jobs, start=1):
                if len(jobs) > 1:
                    self.log.info("statement %d of %d", number, len(jobs))
                with self._placed(number):
                    done.append(self.run_one(context, number, job))
        except (StatementChangedError, EarlierRunUnknownError):
            # Told to look and to clear the task: that clear is a new order.
            note_delivered(context, generation_of(context))
            raise
        describe_outlets(self, context, done)
        note_delivered(context, done[-1][0].generation)
        results = [result.to_json() for _, result in done]
        return results[0] if len(results) == 1 else {"statements": results}

    def run_one(
        self, context: Context, number: int, job: Job | MetastoreStatement
    ) -> tuple[Ordered, JobResult]:
        """Run one job; answers how it was ordered, and its result.

        Raises:
            HiveAcidError: it failed.
        """
        if isinstance(job, MetastoreStatement):
            raise TypeError(f"{type(self).__name__} runs no {job.kind}")
        return self._run(context, job, key_of(context, number))

    @contextmanager
    def _placed(self, number: int) -> Iterator[None]:
        """Say of an error which job it is of, where the arguments have places."""
        try:
            yield
        except HiveAcidError as error:
            if place := self.place_of(number):
                error.add_note(place)
            raise

    def place_of(self, number: int) -> str:  # noqa: ARG002 - for subclasses
        """Where in the arguments a job is, by its number from 1; nothing if there is only one."""
        return ""

    def program_of(self, spec: JobSpec) -> tuple[str, Sequence[str]]:
        """The file that `spark-submit` runs for a job, and arguments of its own."""
        return str(application_path(spec.kind)), ()

    def rerun_terms(self) -> dict[str, Any]:
        """What of the job description says how a run is to be taken that was done before."""
        return {}

    def lock_timeout(self, settings: MetastoreSettings) -> float:
        """Longest wait for locks, in seconds."""
        found = arguments.optional_number(self.lock_timeout_s, "lock_timeout_s")
        return settings.lock_timeout_s if found is None else found

    def describe(self, result: JobResult) -> Sequence[str]:  # noqa: ARG002 - for subclasses
        """What the log should say of a result beside the one line of numbers."""
        return ()

    @property
    def under_way(self) -> Attempt | None:
        """Whose transactions a kill aborts, with those of earlier tries."""
        return self._spec

    def on_kill(self) -> None:
        """Abort the transactions of this submission and of earlier ones, then stop the driver.

        Airflow calls this in a signal handler and kills the task a few seconds later, so nothing
        here asks Airflow for anything, and every wait is short.
        """
        self._is_killed = True
        end = self.begin_end() if self._target is not None and self._target.is_asked else None
        if (attempt := self.under_way) is not None:
            abort_attempt(attempt)
        if end is not None:
            self.finish_end(end)
        elif self._hook is not None:
            with stop_processes(self.submit_process()):
                super().on_kill()

    def submit_job(self, context: Context) -> str | None:
        """Note where the result will be, then submit; for submissions that can be resumed."""
        if self._spec is not None and (store := context.get("task_state_store")) is not None:
            Resumable(store, (self.external_id_key,)).note(self._spec)
        return super().submit_job(context)

    def _run(self, context: Context, job: Job, key: str) -> tuple[JobSpec, JobResult]:
        """Run one job, and answer it as it was submitted, with its result."""
        settings = HiveAcidHook(self.hive_acid_conn_id).settings
        target = self._resolve_target()
        with tempfile.TemporaryDirectory(prefix="hiveacid-") as scratch:
            directory = Path(scratch)
            place = self._result_file(settings, target, directory)
            spec = self._build_spec(context, settings, place, job=job, key=key)
            spec_file = directory / f"{spec.kind}-{uuid.uuid4().hex}.json"
            spec_file.write_text(spec.dump(), encoding="utf-8")
            self._spec = spec
            with self._submission(target, spec, spec_file), spark_on_path(self._bin_dir()):
                failure = self._submit(context, target, spec)
            if self._is_killed:
                raise JobFailedError(
                    "the task was killed: its Spark driver is stopped, its transaction aborted"
                ) from failure
            result = self._collect(context, target, failure)
        if isinstance(failure, ApplicationNotStartedError):
            abort_attempt(spec)  # it may have started the moment it was ended
        if result is None and isinstance(failure, HiveAcidError):
            raise failure
        judged = judge(spec, result, exit_code=self._exit_code(target), failure=failure)
        self.log.info("%s", summary(judged))
        for line in self.describe(judged):
            self.log.info("%s", line)
        return spec, judged

    def meet_left(self, context: Context, attempt: str, *, ends: bool) -> None:
        """Answer for a driver that an earlier try has left, before the task does something itself.

        With `ends` it is ended now; in any case a kill of this task ends it.

        Raises:
            ClusterError: YARN does not say that it has ended, or does not let us order that.
            JobFailedError: the task was killed meanwhile.
        """
        store = context.get("task_state_store")
        if store is None or Resumable(store).attempt is None:
            return  # where nothing was submitted there may be no connection for Spark, either
        target = self._resolve_target()
        if (notes := self._resumable(context, target)) is None:
            return
        self.prepare(target, attempt, self._bounds())
        if not ends:
            self.answer_for_left(notes)
            return
        self.log.warning("the driver of the last try runs another statement; it is ended")
        try:
            self.end_left(notes)
        except InterruptedError as exc:
            raise JobFailedError("the task was killed") from exc

    def _resolve_target(self) -> SparkTarget:
        environment = {**os.environ, **(self.env_vars or {})}
        return SparkTarget.resolve(self._conn_id, self.deploy_mode, self.conf or {}, environment)

    def _resumable(self, context: Context, target: SparkTarget) -> Resumable | None:
        """The notes of a submission that a retry can take up again, if this is one."""
        store = context.get("task_state_store") if target.is_cluster and self.durable else None
        if store is None:
            return None
        # Where the Spark provider keeps a driver's ID, and that its pod has succeeded.
        return Resumable(store, (self.external_id_key, self._K8S_DRIVER_STATUS_KEY))

    def _build_spec(
        self,
        context: Context,
        settings: MetastoreSettings,
        result_file: ResultFile,
        *,
        job: Job,
        key: str,
    ) -> JobSpec:
        return JobSpec(
            job_key=key,
            generation=generation_of(context),
            attempt=str(AttemptId.new(context["ti"].try_number)),
            **self.rerun_terms(),
            metastore=settings.endpoint,
            job=job,
            lock_timeout_s=self.lock_timeout(settings),
            conflict_policy=arguments.optional_policy(self.conflict_policy, "conflict_policy"),
            default_conflict_policy=settings.conflict_policy,
            heartbeat_s=arguments.optional_number(self.heartbeat_s, "heartbeat_s"),
            result_uri=result_file.uri,
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

    @contextmanager
    def _submission(self, target: SparkTarget, spec: JobSpec, spec_file: Path) -> Iterator[None]:
        """Set what the parent class reads, and set it back, so that another try starts afresh."""
        archive = str(cached_archive())
        application, own_arguments = self.program_of(spec)
        changes: dict[str, Any] = {
            "application": application,
            # A driver on this machine reads the file where it is: YARN's client mode does not
            # show shipped files to the driver.
            "application_args": [
                "--spec",
                spec_file.name if target.is_cluster else str(spec_file),
                *own_arguments,
            ],
            "py_files": ",".join(filter(None, [archive, self.py_files])),
            "name": self.name or f"hiveacid-{spec.kind}-{spec.job.target}",
            "_hook": None,
            "_deploy_mode": target.deploy_mode,
            **{f"_{name}": getattr(self, name) for name in _SIZING},
        }
        if target.is_cluster:
            changes["files"] = ",".join(filter(None, [str(spec_file), self.files]))
        if target.is_yarn:
            changes["conf"] = own_settings(
                self.conf or {}, tag_of(spec.attempt), is_cluster=target.is_cluster
            )
        if target.is_yarn_cluster:
            changes |= self._yarn_tracking(target)
        if target.is_kubernetes:
            changes["conf"] = kubernetes_settings.own_settings(
                self.conf or {},
                tag_of(spec.attempt),
                namespace=target.namespace,
                result_uri=str(spec.result_uri),
                is_cluster=target.is_cluster,
            )
            changes["_track_driver_via_k8s_api"] = target.is_cluster
        before = {name: getattr(self, name) for name in changes if name != "_hook"}
        for name, value in changes.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def _yarn_tracking(self, target: SparkTarget) -> dict[str, Any]:
        # The parent refuses a durable submission that it cannot ask YARN about.
        if target.resource_managers:
            return {"_yarn_track_via_rm_api": True}
        self.log.warning(
            "connection %s has no yarn_resourcemanager_webapp_address, and no yarn-site.xml in"
            " HADOOP_CONF_DIR says it: a lost worker's driver cannot be found again, so the retry"
            " fences it through the metastore; nobody bounds the wait for a container",
            target.conn_id,
        )
        return {"durable": False}

    def _bounds(self) -> Bounds:
        given = arguments.optional_number(self.start_timeout_s, "start_timeout_s")
        if given is None:
            option = str(conf.get("hiveacid", "start_timeout_s", fallback=START_S))
            given = arguments.number(option, "option start_timeout_s of section [hiveacid]")
        return Bounds(start_s=given)

    def _submit(self, context: Context, target: SparkTarget, spec: JobSpec) -> Exception | None:
        """Let the Spark provider submit; answer its failure, which a typed error may explain.

        Raises:
            ClusterError: YARN does not end what an earlier try has submitted; nothing is.
        """
        if self._is_killed:
            return None
        self.prepare(target, spec.attempt, self._bounds())
        notes = self._resumable(context, target)
        try:
            if notes is not None:
                self.leave_another(notes, spec)
        except InterruptedError as exc:
            return exc
        try:
            if notes is not None:
                self.find_lost(notes)
            # In a cluster `submit_job` has it, since what a retry finds again is not submitted.
            with nullcontext() if target.is_cluster else self.watched():
                super().execute(context)
        except FileNotFoundError as exc:
            raise ConfigurationError(
                f"cannot run {exc.filename}: it is not on PATH. Set spark_bin_dir (operator"
                " argument, or option of section [hiveacid]) to the directory of spark-submit;"
                " `python -m airflow_hiveacid spark-environment DIR` makes one, DIR/bin"
            ) from exc
        except (AirflowException, RuntimeError, ClusterError, InterruptedError) as exc:
            return self.overdue or exc
        finally:
            # The Spark provider leaves the pipe to its process open.
            if (process := self.submit_process()) is not None and process.stdout is not None:
                process.stdout.close()
        return None

    def _collect(
        self, context: Context, target: SparkTarget, failure: Exception | None
    ) -> JobResult | None:
        """Read what the job left; afterwards a cleared task may submit again."""
        notes = self._resumable(context, target)
        uri = (notes and notes.result_uri) or (self._spec and self._spec.result_uri)
        file = ResultFile(uri=str(uri))
        result = file.read()
        ended = result is not None or failure is None
        if notes is not None and ended:
            # Without this, a task that is cleared after its success would be answered by the
            # driver of its last run instead of being submitted.
            notes.forget()
        if target.is_cluster and ended:
            if result is not None:
                self.forget_driver()  # else its log alone says why it left none
            self._tidy(file.remove)
            if target.is_kubernetes:
                self._tidy(file.remove_uploads)
        return result

    def _tidy(self, remove: Callable[[], None]) -> None:
        try:
            remove()
        except StorageError as error:
            self.log.warning("the driver is done, and what it left cannot be removed: %s", error)

    def _exit_code(self, target: SparkTarget) -> int | None:
        process = self.submit_process()
        return None if process is None or target.is_cluster else process.returncode
