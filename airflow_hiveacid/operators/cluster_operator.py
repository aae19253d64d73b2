"""`SparkSubmitOperator`, with YARN and Kubernetes asked, bounded and told by us (`cluster_run`).

The Spark provider's own part of this fails for good where YARN has forgotten an application, cannot
end one that a retry has found again, waits in a queue without end, and asks Hadoop's command, also
without end, to end what it knows. On Kubernetes it asks another API server than `spark-submit`
does, reads the pod's name in the log, waits for a place without end, and looks every 20 seconds.
What it does elsewhere is untouched.
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
from airflow_hiveacid.operators.cluster_run import ClusterRun, tag_of
from airflow_hiveacid.operators.kill import stop_processes
from airflow_hiveacid.operators.kubernetes import DRIVER, EXECUTOR, ApiServer
from airflow_hiveacid.operators.kubernetes_login import login_of, server_of
from airflow_hiveacid.operators.kubernetes_settings import driver_of
from airflow_hiveacid.operators.negotiate import Negotiate
from airflow_hiveacid.operators.yarn import ResourceManager

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context
    from pydantic import JsonValue

    from airflow_hiveacid.format.errors import ApplicationNotStartedError
    from airflow_hiveacid.jobs.specs import JobSpec
    from airflow_hiveacid.operators.cluster_run import Bounds
    from airflow_hiveacid.operators.resumption import Resumable
    from airflow_hiveacid.operators.spark_target import SparkTarget

_FORGOTTEN: Final = "FORGOTTEN"
_LAST_S: Final = 1.0
_COMMAND_S: Final = 60.0


class ClusterSubmitOperator(SparkSubmitOperator):
    """The base of our operators; on YARN it needs a place where the resource manager is asked."""

    _target: SparkTarget | None = None
    _cluster: ClusterRun[Any] | None = None
    _driver_pod: str | None = None
    _is_killed: bool = False

    def prepare(self, target: SparkTarget, attempt: str, bounds: Bounds) -> None:
        """Make ready for one submission."""
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
            # Not the hook that submits: that is made when the settings are complete, to which
            # the Spark provider adds OpenLineage's as it executes.
            auth = self._get_hook()._yarn_rm_auth  # noqa: SLF001 - see `_get_hook`
            owner = self.proxy_user or (self.env_vars or {}).get("HADOOP_USER_NAME")
            manager = ResourceManager(addresses=target.resource_managers, auth=auth, user=owner)
            self._cluster = ClusterRun(manager, tag_of(attempt), bounds, is_killed=self._killed)

    def _get_hook(self) -> SparkSubmitHook:
        """The Spark provider's hook, which submits nothing for a task that is killed.

        A signal's handler ends what is running, and then the task goes on where it was.
        """
        if getattr(provider, "kube_client", None) is None:
            # Without the provider of Kubernetes the hook's own question for it is a NameError
            # (6.3.4). It asks nothing there that we do not ask ourselves.
            provider.kube_client = _Unused()  # type: ignore[attr-defined]  # or imported
        hook = super()._get_hook()
        submit = hook.submit

        def unless_killed(application: str = "", **more: Any) -> str | None:  # noqa: ANN401 - passed on
            if self._is_killed:
                raise InterruptedError("the task is killed")
            return submit(application, **more)

        hook.submit = unless_killed  # type: ignore[method-assign]
        if self._target is not None and self._target.resource_managers:
            # It would read the connection, which may leave this to yarn-site.xml.
            hook._yarn_rm_base_url = self._target.resource_managers[0]  # noqa: SLF001 - no public way
            if hook._yarn_rm_auth is None:  # noqa: SLF001 - as above
                # Else it would want a package where Spark has a keytab.
                hook._yarn_rm_auth = self._login(hook, self._target.realm)  # noqa: SLF001 - as above
        return hook

    def _login(self, hook: SparkSubmitHook, realm: str | None) -> Negotiate:
        """By Kerberos, as `spark-submit` does, where it is asked for."""
        given: Any = hook._connection  # noqa: SLF001 - what operator and connection come to
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
        """Why the submission was ended, if it waited too long."""
        return None if self._cluster is None else self._cluster.overdue

    def leave_another(self, notes: Resumable, spec: JobSpec) -> None:
        """End and forget a noted submission that does something else, if that is what is noted.

        Of several statements an earlier try may have been at a later one. While its driver ran on,
        a kill of this try would end this try's alone.

        Raises:
            ClusterUnavailableError: YARN does not say that it has ended.
            ClusterRefusedError: it does not let us order that.
            InterruptedError: the task is killed.
        """
        if not notes.is_of_another(spec):
            return
        self.log.warning("the driver of the last try runs another statement; submitting anew")
        self.end_left(notes)

    def end_left(self, notes: Resumable) -> None:
        """End and forget the submission that an earlier try has noted.

        Raises:
            ClusterUnavailableError: YARN does not say that it has ended.
            ClusterRefusedError: it does not let us order that.
            InterruptedError: the task is killed.
        """
        if self._cluster is not None and notes.attempt is not None:
            self._cluster.end_earlier(self._noted_id(notes), tag_of(notes.attempt))
        notes.forget()

    def answer_for_left(self, notes: Resumable) -> None:
        """From now on a kill of this task ends what an earlier try has noted."""
        if self._cluster is not None and notes.attempt is not None:
            self._cluster.answer_for(self._noted_id(notes), tag_of(notes.attempt))

    def _noted_id(self, notes: Resumable) -> str | None:
        known = notes.store.get(self.external_id_key)
        return str(known) if known else None

    def find_lost(self, notes: Resumable) -> None:
        """Note the application of a submission whose worker was lost before it could.

        Raises:
            ClusterUnavailableError: YARN does not say whether there is one.
            ClusterRefusedError: it does not let us ask.
        """
        attempt = notes.attempt_without(self.external_id_key)
        if self._cluster is None or attempt is None:
            return
        if (found := self._cluster.submitted(tag_of(attempt))) is not None:
            self.log.info("%s was submitted by a worker that is gone", found)
            notes.store.set(self.external_id_key, found)

    def watched(self) -> AbstractContextManager[None]:
        """Bound how long what the block submits may wait for its first container."""
        return nullcontext() if self._cluster is None else self._cluster.watched(self.stop_submit)

    def submit_job(self, context: Context) -> str | None:
        """Submit, and answer the application's ID."""
        with self.watched():
            if self._driver_pod is None or self._hook is None:
                return super().submit_job(context)
            # The Spark provider would look for the pod's name in what spark-submit logs.
            self._hook.submit(self.application)
            return self._driver_pod

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """How what an earlier try submitted stands; what YARN has forgotten is submitted anew.

        Whether that was committed the new driver learns from the table's ledger and the metastore.
        """
        if self._cluster is None:
            return super().get_job_status(external_id, context)
        found = self._cluster.status(str(external_id))
        if found is not None and found.is_ending:
            # As after a time-out: who followed it would wait for its end, and fail for it.
            self.log.info("%s is being ended; waiting for that", found.place)
            found = self._cluster.follow(str(external_id))
        if found is None:
            self.log.warning(
                "%s has forgotten %s; a new driver asks what it did",
                self._cluster.manager.name,
                external_id,
            )
            return _FORGOTTEN
        if found.has_ended:
            return "SUCCEEDED" if found.has_succeeded else "FAILED"
        return str(found.state)

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait for the application's end.

        Raises:
            ApplicationForgottenError: YARN knows nothing of it any more.
            RuntimeError: it did not end well; its result, if it left one, says why.
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
                self.log.error("the last words of %s:\n%s", found.place, words)
            raise RuntimeError(
                f"{found.id} ended as {found.state}, {found.final_status}: {found.diagnostics}"
            )

    def forget_driver(self) -> None:
        """Delete the pod of a driver whose result is read; one that failed stays, for its log."""
        if self._cluster is None or self._target is None or not self._target.is_kubernetes:
            return
        try:
            self._cluster.forget_succeeded()
        except (ClusterUnavailableError, ClusterRefusedError) as error:
            self.log.warning("%s", error)

    def stop_submit(self) -> None:
        """End `spark-submit` and all that it has started on this machine."""
        process = self.submit_process()
        with stop_processes(process):
            if process is not None and process.poll() is None:
                process.kill()

    def begin_end(self) -> threading.Thread:
        """Begin to end the submission, here and in the cluster; the answer does it.

        `spark-submit` goes first, so that nothing is submitted after YARN was asked what was.
        """
        self.stop_submit()
        if self._cluster is not None:
            return self._cluster.begin_end()
        end = threading.Thread(target=self._end_by_command, name="hiveacid-end", daemon=True)
        end.start()
        return end

    def finish_end(self, end: threading.Thread) -> None:
        """Give what `begin_end` began its last moment."""
        end.join(_LAST_S)
        if end.is_alive():
            self.log.warning("the cluster has not yet answered to the order to end the driver")
        else:
            self._after_submit()

    def submit_process(self) -> subprocess.Popen[str] | None:
        """The process of `spark-submit`, if there was one."""
        # No public way leads to it.
        return None if self._hook is None else self._hook._submit_sp  # noqa: SLF001

    def _killed(self) -> bool:
        return self._is_killed

    def _end_by_command(self) -> None:
        """Let Hadoop's own command end the driver, where it is installed and the ID was read."""
        hook: Any = self._hook
        known, program = getattr(hook, "_yarn_application_id", None), shutil.which("yarn")
        if known is None:
            return
        if program is None:
            self.log.warning("nobody knows where YARN could be told to end %s", known)
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
    """Stands where the Spark provider's hook looks whether Kubernetes' provider is installed."""
