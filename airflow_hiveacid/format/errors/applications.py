"""Errors of Spark applications and of the clusters that run them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from itertools import islice
from typing import Final

from airflow_hiveacid.format.errors.tree import ClusterError, HiveAcidError, RetryableError

# A list of a million write IDs, or of ten thousand partitions, would fill logs and XComs.
_MOST_SHOWN: Final = 20


class ClusterKind(Enum):
    """The kind of cluster manager; the value is the manager's name in error messages."""

    YARN = "YARN's resource manager"
    KUBERNETES = "the API server of Kubernetes"


_ADDRESS: Final[Mapping[ClusterKind, str]] = {
    ClusterKind.YARN: (
        "The address is yarn_resourcemanager_webapp_address of the Spark connection, else the"
        " address in yarn-site.xml in HADOOP_CONF_DIR"
    ),
    ClusterKind.KUBERNETES: (
        "The address is the Spark connection's master. The login is that of spark-submit:"
        " settings spark.kubernetes.authenticate.*, else KUBECONFIG, else the pod's service account"
    ),
}
_LOGIN: Final[Mapping[ClusterKind, str]] = {
    ClusterKind.YARN: (
        "With Kerberos, the login is principal and keytab of the operator or Spark connection,"
        " else the tickets of KRB5CCNAME or the keytab of KRB5_CLIENT_KTNAME. Without Kerberos,"
        " the user is proxy_user, HADOOP_USER_NAME or the worker's user. For any other login, set"
        " yarn_rm_auth of the operator. Allow the user to view and kill the application. A running"
        " application continues and may commit"
    ),
    ClusterKind.KUBERNETES: (
        "The login is that of spark-submit: settings spark.kubernetes.authenticate.*, else"
        " KUBECONFIG, else the pod's service account. Allow that login to get, list and delete"
        " pods of the namespace. A running driver continues and may commit"
    ),
}


class ClusterUnavailableError(ClusterError, RetryableError):
    """The cluster manager gave no usable response."""

    def __init__(self, *, kind: ClusterKind, asked: str, reason: str) -> None:
        self.kind, self.asked, self.reason = kind, asked, reason
        super().__init__(f"request to {kind.value} for {asked} failed: {reason}. {_ADDRESS[kind]}")


class ClusterRefusedError(ClusterError):
    """The cluster manager responds, but rejects our login or does not permit the request."""

    def __init__(self, *, kind: ClusterKind, asked: str, reason: str) -> None:
        self.kind, self.asked, self.reason = kind, asked, reason
        super().__init__(
            f"{kind.value} refused the request for {asked}: {reason}. {_LOGIN[kind]}; the next try"
            " first checks whether the application committed"
        )


class ApplicationNotStartedError(ClusterError, RetryableError):
    """An application got no container in time, so the operator killed it; it wrote nothing.

    `queue` is the YARN queue or the Kubernetes namespace. `queue_kind` is "queue" or "namespace".
    """

    def __init__(  # noqa: PLR0913 - one message for both kinds of cluster
        self,
        *,
        application: str,
        queue: str,
        waited_s: float,
        diagnostics: str,
        queue_kind: str = "queue",
        waited_for: str = "YARN to start its driver's or application master's container",
    ) -> None:
        self.application, self.queue = application, queue
        self.waited_s, self.diagnostics = waited_s, diagnostics
        what = f"{application} in {queue_kind} {queue}" if application else "spark-submit"
        why = diagnostics.strip() or "the cluster gave no reason"
        super().__init__(
            f"{what} waited {waited_s:.0f} s for {waited_for} and was killed: {why}. Nothing was"
            " written. To allow a longer wait, raise start_timeout_s (operator argument, or option"
            " of section [hiveacid])"
        )


class ApplicationForgottenError(ClusterError, RetryableError):
    """The cluster has forgotten a submitted application, and the application stored no result."""

    def __init__(self, *, application: str, cluster: str = "YARN") -> None:
        self.application = application
        super().__init__(
            f"{cluster} no longer knows {application}, which left no result. It may have"
            " committed: a retry first checks the metastore and does not repeat a committed change"
        )


class ExecutorsMissingError(ClusterError, RetryableError):
    """The cluster provides no executor for a running driver, so the job did not start."""

    def __init__(self, *, application: str, master: str, waited_s: float) -> None:
        self.application, self.master, self.waited_s = application, master, waited_s
        super().__init__(
            f"{application} at {master} waited {waited_s:.0f} s for its first executor: the"
            " cluster or queue is full, or no node is large enough for one executor. The job did"
            " not start. To allow a longer wait, raise start_timeout_s (operator argument, or"
            " option of section [hiveacid])"
        )


class PartitionsFailedError(RetryableError):
    """Maintenance failed for some partitions; `done` has the results of the others.

    `causes` are the errors whose texts are in `failed`, if this process has raised them.
    """

    def __init__(
        self,
        *,
        table: object,
        failed: Mapping[str, str],
        of: int,
        done: Mapping[str, str],
        causes: Collection[HiveAcidError] = (),
    ) -> None:
        self.table, self.failed, self.of, self.done = str(table), dict(failed), of, dict(done)
        self.causes = tuple(causes)
        super().__init__(
            f"table {table}: {len(self.failed)} of {of} partitions failed; the others are done and"
            f" need not be repeated. Failed:{_first_of(self.failed)}"
            + (f"\nDone:{_first_of(self.done)}" if self.done else "")
        )


def _first_of(lines: Mapping[str, str]) -> str:
    first = "".join(f"\n  {name}: {why}" for name, why in islice(lines.items(), _MOST_SHOWN))
    more = len(lines) - _MOST_SHOWN
    return first + (f"\n  and {more} more, which the application's log lists" if more > 0 else "")
