"""A `SparkSubmitOperator` that polls, times out and kills YARN and Kubernetes applications itself.

The Spark provider's code for YARN fails permanently if YARN has forgotten an application. This code
cannot kill an application that a retry has resumed. It lets an application wait in a queue
indefinitely. It kills an application with Hadoop's command, without a time limit. The provider's
code for Kubernetes queries a different API server than `spark-submit` does, and reads the pod's
name from the log. This code also waits for a container indefinitely, and polls only every 20
seconds. For all other masters, the provider's code is used unchanged. See `cluster_run`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks import spark_submit as provider
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_hiveacid.format.errors import (
    ApplicationForgottenError,
    ClusterRefusedError,
    ClusterUnavailableError,
)
from airflow_hiveacid.operators.submission.cluster_run import ClusterRun, tag_of
from airflow_hiveacid.operators.submission.kill import stop_processes
from airflow_hiveacid.operators.submission.kubernetes import DRIVER, EXECUTOR, ApiServer
from airflow_hiveacid.operators.submission.kubernetes_login import login_of, server_of
from airflow_hiveacid.operators.submission.kubernetes_settings import driver_of
from airflow_hiveacid.operators.submission.negotiate import Negotiate
from airflow_hiveacid.operators.submission.yarn import ResourceManager

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context
    from pydantic import JsonValue

    from airflow_hiveacid.format.errors import ApplicationNotStartedError
    from airflow_hiveacid.jobs.specs.job import JobSpec
    from airflow_hiveacid.operators.submission.cluster_run import Bounds
    from airflow_hiveacid.operators.submission.resumption import Resumable
    from airflow_hiveacid.operators.submission.spark_target import SparkTarget

_FORGOTTEN: Final = "FORGOTTEN"
_LAST_S: Final = 1.0
_COMMAND_S: Final = 60.0


class ClusterSubmitOperator(SparkSubmitOperator):
    """The base of our Spark operators; on YARN, it needs the resource manager's address."""

    _target: SparkTarget | None = None
    _cluster: ClusterRun[Any] | None = None
    _driver_pod: str | None = None
    _is_killed: bool = False

    def prepare(self, target: SparkTarget, attempt: str, bounds: Bounds) -> None:
        """Set up the cluster client for one submission."""
        self._target, self._cluster, self._driver_pod = target, None, None
        if target.is_kubernetes:
            server = ApiServer(
                address=server_of(target.master),
                namespace=target.namespace,
                login=login_of(self.conf or {}, os.environ, is_cluster=target.is_cluster),
                role=DRIVER if target.is_cluster else EXECUTOR,
            )
            self._driver_pod = driver_of(target.namespace, tag_of(attempt))
            self._cluster = ClusterRun(server, tag_of(attempt), bounds, is_killed=self._killed)
        elif target.resource_managers:
            # Here, the hook is needed only for the login. The Spark provider creates a new hook for
            # the submission, after it has added OpenLineage's settings.
            auth = self._get_hook()._yarn_rm_auth  # noqa: SLF001 - see `_get_hook`
            owner = self.proxy_user or (self.env_vars or {}).get("HADOOP_USER_NAME")
            manager = ResourceManager(addresses=target.resource_managers, auth=auth, user=owner)
            self._cluster = ClusterRun(manager, tag_of(attempt), bounds, is_killed=self._killed)

    def _get_hook(self) -> SparkSubmitHook:
        """Return the Spark provider's hook, which submits nothing if the task is killed.

        When the signal handler returns, the task's code continues where it was interrupted, so the
        code could still submit.
        """
        if getattr(provider, "kube_client", None) is None:
            # In version 6.3.4 of the Spark provider, the hook raises a NameError if the Kubernetes
            # provider is not installed. The hook needs no client, because we query Kubernetes
            # ourselves.
            provider.kube_client = _Unused()  # type: ignore[attr-defined]  # or imported
        hook = super()._get_hook()
        submit = hook.submit

        def unless_killed(application: str = "", **more: Any) -> str | None:  # noqa: ANN401 - passed on
            if self._is_killed:
                raise InterruptedError("the task is killed")
            return submit(application, **more)

        hook.submit = unless_killed  # type: ignore[method-assign]
        if self._target is not None and self._target.resource_managers:
            # The hook reads the address only from the connection, but yarn-site.xml may be the only
            # file with the address.
            hook._yarn_rm_base_url = self._target.resource_managers[0]  # noqa: SLF001 - no public way
            if hook._yarn_rm_auth is None:  # noqa: SLF001 - as above
                # Otherwise, if Spark has a keytab, the hook requires an additional package.
                hook._yarn_rm_auth = self._login(hook, self._target.realm)  # noqa: SLF001 - as above
        return hook

    def _login(self, hook: SparkSubmitHook, realm: str | None) -> Negotiate:
        """Return the Kerberos login of `spark-submit`, for servers that require Kerberos."""
        given: Any = hook._connection  # noqa: SLF001 - the operator's and connection's settings merged
        variables = self.env_vars or {}
        keytab = given.get("keytab") or variables.get("KRB5_CLIENT_KTNAME")
        return Negotiate(
            client=given.get("principal"),
            keytab=keytab,
            cache=None if keytab else variables.get("KRB5CCNAME"),
            realm=realm,
        )

    @property
    def overdue(self) -> ApplicationNotStartedError | None:
        """The error if the submission was killed because it got no container in time, else None."""
        return None if self._cluster is None else self._cluster.overdue

    def leave_another(self, notes: Resumable, spec: JobSpec) -> None:
        """Kill an earlier try's application if it runs a different statement, and delete its notes.

        In a task with several statements, an earlier try may have reached a later statement. If
        that driver kept running, killing this task would not kill that driver.

        Raises:
            ClusterUnavailableError: YARN does not confirm that the application has ended.
            ClusterRefusedError: YARN does not allow us to kill the application.
            InterruptedError: the task is killed.
        """
        if not notes.is_of_another(spec):
            return
        self.log.warning("the driver of the last try runs another statement; submitting again")
        self.end_left(notes)

    def end_left(self, notes: Resumable) -> None:
        """Kill the application that an earlier try has submitted, and delete its notes.

        Raises:
            ClusterUnavailableError: YARN does not confirm that the application has ended.
            ClusterRefusedError: YARN does not allow us to kill the application.
            InterruptedError: the task is killed.
        """
        if self._cluster is not None and notes.attempt is not None:
            self._cluster.end_earlier(self._noted_id(notes), tag_of(notes.attempt))
        notes.forget()

    def answer_for_left(self, notes: Resumable) -> None:
        """From now on, if this task is killed, also kill the application of an earlier try."""
        if self._cluster is not None and notes.attempt is not None:
            self._cluster.answer_for(self._noted_id(notes), tag_of(notes.attempt))

    def _noted_id(self, notes: Resumable) -> str | None:
        known = notes.store.get(self.external_id_key)
        return str(known) if known else None

    def find_lost(self, notes: Resumable) -> None:
        """Find and store the ID of an application whose worker died after the submission.

        Raises:
            ClusterUnavailableError: YARN does not report whether there is such an application.
            ClusterRefusedError: YARN refuses the query.
        """
        attempt = notes.attempt_without(self.external_id_key)
        if self._cluster is None or attempt is None:
            return
        if (found := self._cluster.submitted(tag_of(attempt))) is not None:
            self.log.info("%s was submitted by a worker that has died", found)
            notes.store.set(self.external_id_key, found)

    def watched(self) -> AbstractContextManager[None]:
        """Limit the wait for the first container, for a submission in the `with` block."""
        return nullcontext() if self._cluster is None else self._cluster.watched(self.stop_submit)

    def submit_job(self, context: Context) -> str | None:
        """Submit the application and return its ID."""
        with self.watched():
            if self._driver_pod is None or self._hook is None:
                return super().submit_job(context)
            # The Spark provider's own method searches the log of spark-submit for the pod's name.
            self._hook.submit(self.application)
            return self._driver_pod

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """Return the state of an earlier try's application.

        If the cluster has forgotten the application, the caller submits again. The new driver
        checks the table's ledger and the metastore to find out whether the earlier driver
        committed.
        """
        if self._cluster is None:
            return super().get_job_status(external_id, context)
        found = self._cluster.status(str(external_id))
        if found is not None and found.is_ending:
            # The application is being killed, for example after a time-out. If this try resumed the
            # application, the try would fail, too.
            self.log.info("%s is being ended; waiting until it has ended", found.place)
            found = self._cluster.follow(str(external_id))
        if found is None:
            self.log.warning(
                "%s has forgotten %s; a new driver finds out what it did",
                self._cluster.manager.name,
                external_id,
            )
            return _FORGOTTEN
        if found.has_ended:
            return "SUCCEEDED" if found.has_succeeded else "FAILED"
        return str(found.state)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait until the application has ended.

        Raises:
            ApplicationForgottenError: the cluster has forgotten the application.
            RuntimeError: the application failed. The reason is in the application's result, if it
                has left one.
        """
        if self._cluster is None:
            super().poll_until_complete(external_id, context)
            return
        try:
            found = self._cluster.follow(str(external_id))
        finally:
            self._after_submit()
        if found is None:
            raise ApplicationForgottenError(
                application=str(external_id), cluster=self._cluster.manager.name
            )
        if not found.has_succeeded:
            if words := self._cluster.manager.last_words(found.id):
                self.log.error("the last log lines of %s:\n%s", found.place, words)
            raise RuntimeError(
                f"{found.id} ended as {found.state}, {found.final_status}: {found.diagnostics}"
            )

    def forget_driver(self) -> None:
        """Delete the pod of a driver that succeeded; a failed driver's pod is kept for its log."""
        if self._cluster is None or self._target is None or not self._target.is_kubernetes:
            return
        try:
            self._cluster.forget_succeeded()
        except (ClusterUnavailableError, ClusterRefusedError) as error:
            self.log.warning("%s", error)

    def stop_submit(self) -> None:
        """Kill `spark-submit` and all processes that it has started on this machine."""
        process = self.submit_process()
        with stop_processes(process):
            if process is not None and process.poll() is None:
                process.kill()

    def begin_end(self) -> threading.Thread:
        """Kill `spark-submit`, then start and return a thread that kills the application.

        `spark-submit` is killed first, so that it cannot submit anything after the search in YARN.
        """
        self.stop_submit()
        if self._cluster is not None:
            return self._cluster.begin_end()
        end = threading.Thread(target=self._end_by_command, name="hiveacid-end", daemon=True)
        end.start()
        return end

    def finish_end(self, end: threading.Thread) -> None:
        """Wait a short time for the thread that `begin_end` has started."""
        end.join(_LAST_S)
        if end.is_alive():
            self.log.warning("the cluster has not yet confirmed that it ends the driver")
        else:
            self._after_submit()

    def submit_process(self) -> subprocess.Popen[str] | None:
        """Return the process of `spark-submit`, or None if none was started."""
        # The hook has no public attribute for this process.
        return None if self._hook is None else self._hook._submit_sp  # noqa: SLF001

    def _killed(self) -> bool:
        return self._is_killed

    def _end_by_command(self) -> None:
        """Kill the driver with the `yarn` command.

        This method needs the command and the driver's ID.
        """
        hook: Any = self._hook
        known, program = getattr(hook, "_yarn_application_id", None), shutil.which("yarn")
        if known is None:
            return
        if program is None:
            self.log.warning("cannot end %s: no resource manager or yarn command is known", known)
            return
        try:
            command = [program, "application", "-kill", known]
            subprocess.run(command, check=True, timeout=_COMMAND_S, capture_output=True)  # noqa: S603 - a list of our own
        except (OSError, subprocess.SubprocessError) as error:
            self.log.warning("cannot end %s: %s", known, error)

    def _after_submit(self) -> None:
        hook: Any = self._hook
        if hook is None:
            return
        hook._run_post_submit_commands()  # noqa: SLF001 - the Spark provider's own way


class _Unused:
    """A placeholder for the Kubernetes client; the provider's hook only checks that one exists."""
