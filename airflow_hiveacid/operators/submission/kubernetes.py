"""Client of the Kubernetes API server: reads the state of Spark's pods, and deletes them.

The client uses four calls of the stable API `v1`. Every request has a time limit, even if the
server sends its answer slowly. If the server does not answer, a call raises
`ClusterUnavailableError`. For HTTP 401 and 403 it raises `ClusterRefusedError`. A call about an
unknown pod raises no error. Each of our pods has a label that is unique to its attempt. The client
finds pods by this label, and never deletes a pod without the label.

Example:
    >>> pod = Pod.read({"metadata": {"name": "a-driver", "namespace": "etl"},
    ...                 "status": {"phase": "Pending"}})
    >>> pod.id, pod.is_waiting
    ('etl:a-driver', True)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final, Self

import requests
from requests.utils import get_environ_proxies

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.known_secrets import beginning_of
from airflow_hiveacid.metastore.auth import bounded
from airflow_hiveacid.operators.submission import http, log_tail
from airflow_hiveacid.operators.submission.cluster_run import Application
from airflow_hiveacid.operators.submission.kubernetes_login import KubernetesLogin
from airflow_hiveacid.operators.submission.result_file import ResultFile

LABEL: Final = "hiveacid-attempt"
DRIVER: Final = "driver"
EXECUTOR: Final = "executor"

_ROLE: Final = "spark-role"
_APPLICATION: Final = "spark-app-selector"
_CONTAINER: Final = "spark-kubernetes-driver"
_LATE: Final = timedelta(seconds=60)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(Application):
    """A pod's state; `id` has the Spark provider's format of a driver ID.

    Kubernetes does not make Spark's UI reachable from outside, so `ui_url` is empty. For a deleted
    pod, `gone_by` is the time when the grace period ends.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    gone_by: datetime | None

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Parse a pod from the API server's JSON."""
        meta, status = answer["metadata"], answer.get("status") or {}
        namespace, name = str(meta["namespace"]), str(meta["name"])
        labels = dict(meta.get("labels") or {})
        deleted = meta.get("deletionTimestamp")
        gone_by = None if deleted is None else datetime.fromisoformat(deleted)
        state, exit_code = str(status.get("phase") or "Pending"), _exit_code(status)
        # Spark's container may have ended while a sidecar container still runs.
        has_ended = state in ("Succeeded", "Failed") or exit_code is not None
        return cls(
            id=f"{namespace}:{name}",
            application_id=labels.get(_APPLICATION, ""),
            state=state,
            display_name=f"pod {name} in namespace {namespace}",
            final_status="" if exit_code is None else f"exit code {exit_code}",
            diagnostics="; ".join(_reasons(status)),
            is_waiting=state == "Pending",
            is_ending=gone_by is not None and not has_ended,
            has_ended=has_ended,
            has_succeeded=has_ended and state != "Failed" and exit_code in (None, 0),
            name=name,
            uid=str(meta.get("uid") or ""),
            labels=labels,
            gone_by=gone_by,
        )

    def is_lost(self, now: datetime) -> bool:
        """Return true if the pod's state is unknown because its node does not answer.

        If a node does not answer for five minutes, Kubernetes marks the node's pods as deleted. But
        Kubernetes reports these pods as running until the node answers or is removed.
        """
        is_late = self.gone_by is not None and now > self.gone_by + _LATE
        return not self.has_ended and (self.state == "Unknown" or is_late)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """An API server, and the role of the pods that we query: `driver` or `executor`.

    In client mode, the driver is a process on this machine, so we query its executors.
    """

    name: ClassVar[str] = "Kubernetes"
    kind: ClassVar[errors.ClusterKind] = errors.ClusterKind.KUBERNETES

    address: str
    namespace: str
    login: KubernetesLogin
    role: str = DRIVER

    def report(self, pod_id: str) -> Pod | None:
        """Return a pod's state, or None if no pod has this ID."""
        question = f"the state of pod {pod_id}"
        answer = self._ask("GET", _path(pod_id), question)
        if answer is None:
            return None
        pod = _read(answer, question)
        if pod.is_lost(datetime.now(UTC)):
            raise errors.ClusterUnavailableError(
                kind=self.kind, asked=question, reason="its node does not answer"
            )
        return pod

    def find(self, tag: str, timeout: tuple[float, float] = http.QUESTION_S) -> tuple[Pod, ...]:
        """Return the unfinished pods with this tag, running pods last."""
        question = f"the pods with the label {LABEL}={tag}"
        labels = {LABEL: tag, _ROLE: self.role}
        terms = ",".join(f"{name}={value}" for name, value in labels.items())
        path = f"namespaces/{self.namespace}/pods"
        answer = self._ask("GET", path, question, timeout=timeout, params={"labelSelector": terms})
        with http.parsing(self.kind, question, "its answer is not a list of pods"):
            pods = [Pod.read(pod) for pod in (answer or {})["items"]]
        # Check the label of each pod: a server that ignores the selector returns all pods.
        ours = [pod for pod in pods if labels.items() <= pod.labels.items() and not pod.has_ended]
        return tuple(sorted(ours, key=lambda one: not one.is_waiting))

    def end(self, pod_id: str, timeout: tuple[float, float] = http.QUESTION_S) -> None:
        """Ask the server to delete a pod; do nothing if the pod is missing or not ours."""
        question = f"the deletion of pod {pod_id}"
        answer = self._ask("GET", _path(pod_id), question, timeout=timeout)
        if answer is None:
            return
        pod = _read(answer, question)
        if LABEL not in pod.labels:
            log.warning(
                "%s has no label %s: it is not ours, so it is not deleted", pod.display_name, LABEL
            )
            return
        # Give the pod's UID, so that the server deletes exactly this pod. If a newer pod has taken
        # the pod's name, the server answers 409.
        terms = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
            "propagationPolicy": "Background",
        }
        self._ask("DELETE", _path(pod_id), question, timeout=timeout, json=terms)

    def page_of(self, pod_id: str) -> str:  # noqa: ARG002 - the protocol's signature
        """Return an empty string, because the API server has no web pages about pods."""
        return ""

    def new_lines(self, found: Pod, place: log_tail.StampedPlace | None) -> log_tail.NewLines:
        """Return the driver's lines since an earlier call that returned `place`."""
        since = {} if place is None else {"sinceTime": place.since.isoformat()}
        answer = self._log_of(found.id, log_tail.READ_BYTES, timestamps="true", **since)
        return log_tail.new_stamped(answer, place, has_ended=found.has_ended)

    def last_words(self, found: Pod, *, is_copied: bool) -> Mapping[str, bytes]:
        """Return the last lines of a driver's log, under an empty name."""
        if is_copied:
            return {}  # a pod has only one log
        return {
            "": log_tail.whole_lines(
                self._log_of(found.id, log_tail.LOG_BYTES, tailLines=str(log_tail.LAST_LINES))
            )
        }

    def log_command(self, pod_id: str) -> str:
        """Return the command that shows a driver's whole log."""
        namespace, _, name = pod_id.partition(":")
        return f"kubectl logs --namespace {namespace} {name} --container {_CONTAINER}"

    def not_started(self, found: Pod | None, waited_s: float) -> errors.ApplicationNotStartedError:
        """Return the error to raise for a pod that did not start in time."""
        return errors.ApplicationNotStartedError(
            application="" if found is None else f"pod {found.name}",
            queue=self.namespace,
            waited_s=waited_s,
            diagnostics="no pod was created" if found is None else found.diagnostics,
            queue_kind="namespace",
            waited_for=f"Kubernetes to start the {self.role}'s container",
        )

    def _ask(
        self,
        verb: str,
        path: str,
        asked: str,
        *,
        timeout: tuple[float, float] = http.QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on to requests
    ) -> Mapping[str, Any] | None:
        """Return an object as JSON, or None if it is missing, or replaced (HTTP 409)."""
        try:
            with http.new_session() as session:
                answer = self._send(session, verb, path, timeout=timeout, **more)
        except OSError as error:  # all errors of requests and of unreadable files are OSErrors
            raise errors.ClusterUnavailableError(
                kind=self.kind, asked=asked, reason=_plain(error)
            ) from None
        said = _json(answer)
        is_gone = answer.status_code in (requests.codes.not_found, requests.codes.conflict)
        if is_gone and said.get("kind") == "Status":
            return None
        if not answer.ok or not said:
            words = said.get("message") or beginning_of(answer.text, 200)
            is_refused = answer.status_code in http.REFUSALS
            if answer.status_code == requests.codes.unauthorized:
                self.login.refused()
            failure = errors.ClusterRefusedError if is_refused else errors.ClusterUnavailableError
            raise failure(
                kind=self.kind, asked=asked, reason=f"HTTP {answer.status_code} {words!r}"
            )
        return said

    def _log_of(self, pod_id: str, size: int, **terms: str) -> bytes:
        params = {"container": _CONTAINER, "limitBytes": str(size), **terms}
        path = f"{_path(pod_id)}/log"
        # The login's command has a longer time limit than this call.
        return http.read_log(
            lambda session, timeout: self._send(
                session, "GET", path, timeout=timeout, params=params, stream=True
            ),
            timeout_s=log_tail.LOG_S,
            name="hiveacid-kubernetes",
        )

    def _send(
        self,
        session: requests.Session,
        verb: str,
        path: str,
        *,
        timeout: tuple[float, float] = http.QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on
    ) -> requests.Response:
        url = f"{self.address}/api/v1/{path}"
        token = self.login.bearer()
        ask = partial(
            session.request,
            verb,
            url,
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            auth=self.login.user if token is None else None,
            cert=self.login.certificate,
            verify=http.certificates() if self.login.authority is True else self.login.authority,
            proxies=get_environ_proxies(url),
            timeout=timeout,
            allow_redirects=False,  # only the master's own address may receive the token
            **more,
        )
        # The time-outs of `requests` limit each read, but not the time for the whole answer.
        return bounded(ask, timeout_s=sum(timeout), name="hiveacid-kubernetes")


def _plain(error: OSError) -> str:
    # Some errors of `requests` show the request, including the token, in their repr.
    return f"{type(error).__name__}: {error}"


def _path(pod_id: str) -> str:
    namespace, _, name = pod_id.partition(":")
    return f"namespaces/{namespace}/pods/{name}"


def _json(answer: requests.Response) -> Mapping[str, Any]:
    try:
        said = answer.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _read(answer: Mapping[str, Any], asked: str) -> Pod:
    with http.parsing(errors.ClusterKind.KUBERNETES, asked, "its answer is not a pod"):
        return Pod.read(answer)


def _reasons(status: Mapping[str, Any]) -> Iterator[str]:
    own = [str(status[name]) for name in ("reason", "message") if status.get(name)]
    if own:
        yield ": ".join(own)
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and condition.get("type") == "PodScheduled":
            yield f"{condition.get('reason')}: {condition.get('message')}"
    kinds = ("initContainerStatuses", "containerStatuses")
    for container in (one for kind in kinds for one in status.get(kind) or ()):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            detail = state.get(kind)
            if detail and detail.get("reason") != "Completed":
                code = f", exit code {detail['exitCode']}" if "exitCode" in detail else ""
                words = ": ".join(
                    str(detail[name]) for name in ("reason", "message") if detail.get(name)
                )
                yield f"container {container.get('name')}: {words}{code}"


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """Return the exit code of Spark's container; a pod may also have sidecar containers."""
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if container.get("name") == _CONTAINER and ended is not None:
            return int(ended.get("exitCode", 0))
    return None


_SETTINGS: Final = "spark.kubernetes."
NAMESPACE: Final = f"{_SETTINGS}namespace"
_POD_NAME: Final = f"{_SETTINGS}driver.pod.name"
_UPLOADS: Final = f"{_SETTINGS}file.upload.path"
_WAITS: Final = f"{_SETTINGS}submission.waitAppCompletion"


def driver_of(namespace: str, tag: str) -> str:
    """Return the ID that an attempt's driver pod will have."""
    return f"{namespace}:{_driver_name(tag)}"


def own_settings(
    given: Mapping[str, object],
    tag: str,
    *,
    namespace: str,
    result_uri: str,
    is_cluster: bool,
) -> dict[str, object]:
    """Return the Spark settings of a submission to Kubernetes: the user's settings and our own.

    Pods have the label of their attempt. We choose the name of the driver's pod from the attempt,
    so we need not read the name from the output of `spark-submit`. By default, `spark-submit`
    uploads files for the driver to a directory next to the result's directory. Spark never removes
    the uploaded files, so we remove them with the result.
    """
    settings = {**given, NAMESPACE: namespace}
    for role in (DRIVER, EXECUTOR) if is_cluster else (EXECUTOR,):
        settings[f"{_SETTINGS}{role}.label.{LABEL}"] = tag
    if not is_cluster:
        return settings
    if _POD_NAME in given:
        # With a fixed name, Kubernetes would refuse the pod while the last try's pod exists.
        log.warning("%s=%s is ignored: each pod gets a unique name", _POD_NAME, given[_POD_NAME])
    settings[_POD_NAME] = _driver_name(tag)
    settings[_WAITS] = "false"
    # For S3, Hadoop supports only the scheme s3a.
    uploads = re.sub(r"\As3://", "s3a://", ResultFile(uri=result_uri).uploads)
    settings.setdefault(_UPLOADS, uploads)
    return settings


def _driver_name(tag: str) -> str:
    return f"{tag}-driver"
