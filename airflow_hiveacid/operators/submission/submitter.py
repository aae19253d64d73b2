"""The `Submitter`, which submits, follows and stops one job.

For masters other than YARN and Kubernetes, the hook does everything. On YARN and Kubernetes, it
only starts `spark-submit`, and a `ClusterRun` queries the cluster, because the provider's own code
fails permanently if YARN has forgotten an application, cannot kill one that a retry has resumed,
waits without time limits, and may query another API server than `spark-submit`. See
docs/decisions/clusters.md.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)
from airflow.sdk import Context

from airflow_hiveacid.airflow_names import AirflowException
from airflow_hiveacid.format import errors
from airflow_hiveacid.java_program import find_java
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus
from airflow_hiveacid.operators.reporting.links import page_url
from airflow_hiveacid.operators.submission import cluster_run, provider_names
from airflow_hiveacid.operators.submission.cluster_client import cluster_run_of
from airflow_hiveacid.operators.submission.driver_jvm import driver_jvm
from airflow_hiveacid.operators.submission.driver_log import DriverLog, log_command, log_last_lines
from airflow_hiveacid.operators.submission.kill import end_by_command, stop_processes, stop_submit
from airflow_hiveacid.operators.submission.kubernetes import driver_of
from airflow_hiveacid.operators.submission.result_file import ResultFile
from airflow_hiveacid.operators.submission.resumption import Resumable, StateStore
from airflow_hiveacid.operators.submission.spark_target import DriverPages, SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments, Submission
from airflow_hiveacid.operators.submission.user_settings import hide_given_secrets
from airflow_hiveacid.operators.submission.yarn import log_command as yarn_log_command

SUCCEEDED: Final = "SUCCEEDED"
ENDED: Final = (SUCCEEDED, "FAILED", "FORGOTTEN")
"""The statuses of drivers that are not followed; a FORGOTTEN driver is unknown to its cluster."""

_ID_KEY: Final = SparkSubmitOperator.external_id_key

log = logging.getLogger(__name__)


class Submitter:
    """Submits, follows and stops one job; on YARN, needs the resource manager's address.

    Args:
        arguments: the user's arguments, with the login of `spark-submit`.
        bounds: the longest waits for the cluster.
        is_durable: whether a retry resumes a submission instead of repeating it.
        is_killed: returns true if the task is killed. The flag belongs to the task, because a task
            may be killed before its first job or between two jobs.
        show: a function that is called with the driver's ID, and the URLs of its application and of
            its UI; an unknown URL is empty.
    """

    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        target: SparkTarget,
        *,
        attempt: str,
        arguments: SparkArguments,
        bounds: cluster_run.Bounds,
        store: StateStore | None,
        is_durable: bool,
        is_killed: Callable[[], bool],
        show: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        self.target, self._tag, self._is_killed = target, cluster_run.tag_of(attempt), is_killed
        self._show = show
        self._hook: SparkSubmitHook | None = None
        self._submission: Submission | None = None
        self._spec: JobSpec | None = None
        self._ended: cluster_run.Application | None = None
        self.has_java = True
        self._log = DriverLog()
        self.last_lines: list[str] = []
        self.has_secrets = False
        # The Spark provider stores the driver's ID, and the status of its pod, under these keys.
        keys = (_ID_KEY, provider_names.DRIVER_STATUS_KEY)
        self._kept = Resumable(store, keys) if store is not None and target.is_cluster else None
        self._is_durable = is_durable
        self._cluster = cluster_run_of(
            target,
            self._tag,
            arguments,
            bounds,
            is_killed=is_killed,
            seen=self._show_seen,
            show_log=self._log.show_new,
        )

    # ---- one job ---------------------------------------------------------------------------------

    def run(
        self, submission: Submission, context: Context, resume: Callable[[], object]
    ) -> Exception | None:
        """Submit a job or resume its driver, wait for the end, and return the exception, if any.

        `resume` calls `submit` and `follow`, or only follows an earlier try's driver. It is called
        only if we follow the target's drivers. The context is for OpenLineage.
        """
        self._spec = submission.spec
        notes = self.notes if self.target.is_followed else None
        # Not in `work`: if this fails, nothing is submitted, and there is no result to read.
        try:
            if notes is not None:
                self._leave_another(notes, submission.spec)
        except InterruptedError as exc:
            return exc

        def work() -> None:
            if notes is not None:
                self._find_lost(notes)
            # For a driver in a cluster, `submit` limits the wait for a container, but a resumed
            # driver has no such limit.
            with nullcontext() if self.target.is_cluster else self.watched():
                self._begin(submission, context)
                if self.target.is_followed:
                    resume()
                else:
                    self._spark_submit()

        return self._failure_of(work)

    def finish(
        self,
        submission: Submission,
        context: Context,
        driver_id: str,
        failure: BaseException | None,
    ) -> Exception | None:
        """Finish a job whose driver a trigger has followed, and return the exception, if any.

        From this call on, killing this task also kills the driver. `failure` is the exception with
        which the trigger's wait ended; if None, the cluster is asked how the driver ended.
        """
        self._spec = submission.spec

        def work() -> None:
            self._asked_cluster.answer_for(driver_id, self._tag)
            self._look_at(driver_id)
            if self.target.is_kubernetes:
                # On YARN, the user's commands already ran when `spark-submit` ended.
                self._begin(submission, context)
            if failure is None:
                self.follow(driver_id)
            else:
                self._after_submit()
                raise failure

        return self._failure_of(work)

    def _failure_of(self, work: Callable[[], None]) -> Exception | None:
        try:
            work()
        except (FileNotFoundError, PermissionError) as exc:
            requirement = "executable" if isinstance(exc, PermissionError) else "on PATH"
            raise errors.ConfigurationError(
                f"cannot run {exc.filename}: it is not {requirement}. Set spark_bin_dir (operator"
                " argument, or option of section [hiveacid]) to the directory of spark-submit;"
                " `python -m airflow_hiveacid spark-environment DIR` creates one in DIR/bin"
            ) from None
        except (AirflowException, RuntimeError, errors.ClusterError, InterruptedError) as exc:
            # If `watched` has stopped `spark-submit`, `exc` is only a consequence.
            overdue = None if self._cluster is None else self._cluster.overdue
            return overdue or exc
        finally:
            # The Spark provider does not close the pipe from its `spark-submit` process.
            if (process := self.process) is not None and process.stdout is not None:
                process.stdout.close()
        return None

    def submit(self) -> str:
        """Store notes for a retry, submit the job, and return the driver's ID."""
        hook, submission = self._at_work
        self._ended = None  # an earlier try's driver
        if self._kept is not None:  # not only if durable: this driver may commit before a retry
            self._kept.note(submission.spec)
        with self.watched():
            submission.check_new()
            self._spark_submit()
        if self.target.is_kubernetes:
            pod_id = driver_of(self.target.namespace, self._tag)
            self._asked_cluster.answer_for(pod_id, self._tag)
            self._look_at(pod_id)
            return pod_id
        if not (application_id := provider_names.yarn_application_id(hook)):
            raise RuntimeError("No YARN application id found after spark-submit completed.")
        log.info("YARN application submitted: %s", application_id)
        self._asked_cluster.answer_for(application_id, self._tag)
        self._show_driver(application_id)
        return application_id

    def status(self, driver_id: str) -> str:
        """Return the state of an earlier try's driver: in the cluster's words, or one of `ENDED`.

        If the cluster has forgotten the application, the caller submits the job again. The new
        driver checks the table's ledger and the metastore to find out whether the earlier driver
        committed.
        """
        cluster = self._asked_cluster
        self._show_driver(driver_id)
        application = cluster.status(driver_id)
        if application is not None:
            self._show_seen(application)
        if application is not None and application.is_ending:
            # The application is being killed, for example after a time-out. Do not resume an
            # application that is being killed, because this try would fail, too.
            log.info("%s is being killed; waiting until it has ended", application.display_name)
            application = cluster.follow(driver_id)
        if application is None:
            log.warning(
                "%s has forgotten %s; a new driver will check whether it committed",
                cluster.manager.name,
                driver_id,
            )
            return "FORGOTTEN"
        if application.has_ended:
            self._ended = application
            return SUCCEEDED if application.has_succeeded else "FAILED"
        return str(application.state)

    def follow(self, driver_id: str) -> None:
        """Wait until the driver has ended."""
        cluster = self._asked_cluster
        try:
            if self._spec is not None:
                self._result_file(self._spec).note_follower()
            application = cluster.follow(driver_id)
        finally:
            self._after_submit()
        self._ended = application
        if application is None:
            raise errors.ApplicationForgottenError(
                application=driver_id, cluster=cluster.manager.name
            )
        if not application.has_succeeded:
            raise RuntimeError(
                f"{application.id} ended as {application.state}, {application.final_status}:"
                f" {application.diagnostics}"
            )

    def collect(self, spec: JobSpec, failure: Exception | None) -> JobResult | None:
        """Return the job's result; if the job has ended, delete its files and notes.

        If the job has failed, log the last lines of its driver or, if no driver has started, those
        of `spark-submit`. Call this method only if the task is not killed.
        """
        notes, is_followed = self.notes, self.target.is_followed
        file = self._result_file(spec)
        try:
            result = file.read()
        except errors.HiveAcidError:
            self._show_last_lines(failure, has_result=True)
            raise
        if result is not None and result.spark_app_id:
            # No cluster has reported a driver on this machine.
            self._show_driver(application_id=result.spark_app_id)
        if result is None or result.status is JobStatus.FAILED:
            self._show_last_lines(failure, has_result=result is not None)
        ended = result is not None or failure is None
        # If not followed, the notes are of an earlier try, whose driver may still run on a failure.
        if notes is not None and (ended if is_followed else failure is None):
            # Delete the notes: a task that is cleared after its success would otherwise resume the
            # finished driver of its last run, and submit nothing.
            notes.forget()
        if self.target.is_cluster and ended:
            if result is not None:
                self._forget_driver()  # without a result, the log is needed
            _tidy(file.remove)
            if self.target.is_kubernetes:
                _tidy(file.remove_uploads)
        return result

    def _result_file(self, spec: JobSpec) -> ResultFile:
        # We store notes only about a driver that we follow. So these notes are from an earlier try
        # that knew the cluster's address, and its driver may still run.
        notes = self.notes if self.target.is_followed else None
        noted = None if notes is None else notes.result_uri
        return ResultFile(uri=str(noted or spec.result_uri))

    @property
    def exit_code(self) -> int | None:
        """The exit code of a driver on this machine, or None if it is unknown."""
        process = self.process
        return None if process is None or self.target.is_cluster else process.returncode

    @property
    def process(self) -> subprocess.Popen[str] | None:
        """The process of `spark-submit`, or None if none was started."""
        return None if self._hook is None else provider_names.submit_process(self._hook)

    def watched(self) -> AbstractContextManager[None]:
        """Limit how long a submission in the `with` block may wait for its first container."""
        if self._cluster is None:
            return nullcontext()
        return self._cluster.watched(lambda: stop_submit(self.process))

    # ---- earlier tries ---------------------------------------------------------------------------

    @property
    def notes(self) -> Resumable | None:
        """The notes about the last submission, or None if a retry cannot resume a submission."""
        return self._kept if self._is_durable else None

    def answer_for_left(self) -> None:
        """Register an earlier try's application, so that killing this task also kills it."""
        notes = self.notes
        if self._cluster is not None and notes is not None and notes.attempt is not None:
            self._cluster.answer_for(_noted_id(notes), cluster_run.tag_of(notes.attempt))

    def end_left(self) -> None:
        """Kill the application that an earlier try has submitted, and delete its notes."""
        if (notes := self.notes) is not None:
            self._end_left(notes)

    def _end_left(self, notes: Resumable) -> None:
        if self._cluster is not None and notes.attempt is not None:
            self._cluster.end_earlier(_noted_id(notes), cluster_run.tag_of(notes.attempt))
        notes.forget()

    def _leave_another(self, notes: Resumable, spec: JobSpec) -> None:
        """Kill an earlier try's application if it runs a different statement, and delete its notes.

        An earlier try may have reached a later statement; killing this task would not kill its
        driver.
        """
        if not notes.is_of_another(spec):
            return
        log.warning("the last try's driver runs a different statement; submitting again")
        self._end_left(notes)

    def _find_lost(self, notes: Resumable) -> None:
        """Find and store the ID of an application whose worker died after the submission.

        From this call on, killing this task also kills that application.
        """
        self.answer_for_left()
        attempt = notes.attempt_without(_ID_KEY)
        if self._cluster is None or attempt is None:
            return
        if (application_id := self._cluster.submitted(cluster_run.tag_of(attempt))) is not None:
            log.info("%s was submitted by a worker that has died", application_id)
            notes.store.set(_ID_KEY, application_id)

    # ---- a killed task ---------------------------------------------------------------------------

    def begin_end(self) -> threading.Thread | None:
        """Kill `spark-submit`, then start and return a thread that kills the application.

        `spark-submit` is killed first, so that it cannot submit anything after the thread's search
        for the application. If the target has no cluster that we query, do nothing, because
        `finish_end` kills the driver.
        """
        if not self.target.is_asked:
            return None
        stop_submit(self.process)
        if self._cluster is not None:
            return self._cluster.begin_end()
        return end_by_command(self._printed_id)

    def finish_end(self, end: threading.Thread | None, wait_s: float) -> None:
        """Wait for the thread of `begin_end`; if there is none, kill the driver here."""
        if end is None:
            if self._hook is not None:
                with stop_processes(self.process):
                    self._hook.on_kill()
            return
        end.join(wait_s)
        if end.is_alive():
            log.warning("the cluster has not yet confirmed that the driver is killed")
        else:
            self._after_submit()

    # ---- the hook and the cluster ----------------------------------------------------------------

    def _begin(self, submission: Submission, context: Context) -> None:
        arguments = _with_lineage(submission, context)
        self.has_secrets = hide_given_secrets(arguments, self.target)
        self._submission, self._hook = submission, provider_names.make_hook(arguments)
        if arguments.track_driver_via_k8s_api:
            provider_names.check_pod_tracking(self._hook)

    def _spark_submit(self) -> None:
        """Run `spark-submit` until it ends, unless the task is killed.

        After the signal handler returns, the interrupted code continues, and must not submit.
        """
        hook, submission = self._at_work
        if self._is_killed():
            raise InterruptedError("the task is killed")
        self.has_java = find_java(submission.environment) is not None
        with driver_jvm(submission):
            # Programs may write any bytes. The default of Python's pipes, an error, would end the
            # task while its driver continues.
            hook.submit(submission.application, encoding="utf-8", errors="replace")

    def _show_driver(
        self, driver_id: str = "", application_id: str = "", reported_ui: str = ""
    ) -> None:
        """Show the pages about a driver: those of the connection, else those of its cluster.

        On YARN, both IDs are the same, and the pages exist as soon as the driver is submitted.
        """
        target, cluster = self.target, self._cluster
        if target.is_yarn:
            application_id = application_id or driver_id
        application = target.application_page(driver_id, application_id)
        if not application and application_id and cluster is not None:
            application = page_url(cluster.manager.page_of(application_id))
        ui = target.pages.history(application_id) or page_url(reported_ui)
        # In client mode on Kubernetes, `driver_id` is an executor's pod.
        self._show(driver_id if target.is_cluster else application_id, application, ui)

    def _show_seen(self, found: cluster_run.Application) -> None:
        self._show_driver(found.id, found.application_id, found.ui_url)

    def _look_at(self, driver_id: str) -> None:
        """Show the pages about a driver; ask Kubernetes once for the application's ID.

        Otherwise, a task that defers, or times out while it waits, would not know the ID.
        """
        self._show_driver(driver_id)
        if not self.target.is_kubernetes or self.target.pages == DriverPages():
            return
        try:
            if (application := self._asked_cluster.manager.report(driver_id)) is not None:
                self._show_seen(application)
        except (errors.ClusterUnavailableError, errors.ClusterRefusedError) as error:
            log.warning("cannot link to the driver's pages: %s", error)

    def _show_last_lines(self, failure: Exception | None, *, has_result: bool) -> None:
        """Log the last lines of a failed job's driver or of `spark-submit`.

        A driver on this machine has already written all its output to the task's log. So its last
        lines are repeated only if there is no result, and thus no typed error.
        """
        if self._is_killed():
            return
        if self._ended is not None:
            self.last_lines = self._log.show_last(self._asked_cluster.manager, self._ended)
            return
        is_here = self.exit_code is not None or isinstance(failure, AirflowException)
        if is_here and not has_result and self._hook is not None:
            self.last_lines = provider_names.last_lines(self._hook)
            log_last_lines(self.last_lines)
        if self.target.is_yarn_cluster:
            self._show_log_command(failure)

    def _show_log_command(self, failure: Exception | None) -> None:
        if isinstance(failure, errors.ApplicationForgottenError):
            log_command(yarn_log_command(failure.application), "YARN has forgotten the driver")
        elif self._cluster is None and (application_id := self._printed_id):
            log_command(
                yarn_log_command(application_id), "the resource manager's address is unknown"
            )

    def _after_submit(self) -> None:
        if self._hook is not None:
            provider_names.run_post_submit_commands(self._hook)

    def _forget_driver(self) -> None:
        """Delete the pod of a driver that succeeded; a failed driver's pod is kept for its log."""
        if self._cluster is None or not self.target.is_kubernetes:
            return
        try:
            self._cluster.forget_succeeded()
        except (errors.ClusterUnavailableError, errors.ClusterRefusedError) as error:
            log.warning("%s", error)

    @property
    def _printed_id(self) -> str | None:
        return None if self._hook is None else provider_names.yarn_application_id(self._hook)

    @property
    def _asked_cluster(self) -> cluster_run.ClusterRun[Any]:
        if self._cluster is None:
            raise RuntimeError(f"no cluster is queried for {self.target.master}")
        return self._cluster

    @property
    def _at_work(self) -> tuple[SparkSubmitHook, Submission]:
        if self._hook is None or self._submission is None:
            raise RuntimeError("no job has started")
        return self._hook, self._submission


def _noted_id(notes: Resumable) -> str | None:
    driver_id = notes.store.get(_ID_KEY)
    return str(driver_id) if driver_id else None


def _with_lineage(submission: Submission, context: Context) -> SparkArguments:
    """Add OpenLineage's settings to the Spark settings, as the Spark provider's operator does."""
    conf = dict(submission.arguments.conf or {})
    if submission.adds_parent_job:
        conf = inject_parent_job_information_into_spark_properties(conf, context)
    if submission.adds_transport:
        conf = inject_transport_information_into_spark_properties(conf, context)
    return replace(submission.arguments, conf=conf)


def _tidy(remove: Callable[[], None]) -> None:
    try:
        remove()
    except errors.StorageError as error:
        log.warning("the driver has ended, but its files cannot be removed: %s", error)
