"""The API server of Kubernetes: what it says of Spark's pods, and how one is ended.

It is asked by four calls of its `v1`, which do not change. Every question has an end; one that
nobody answers is a `KubernetesUnavailableError`, one that we are not allowed to ask (HTTP 401, 403)
a `KubernetesRefusedError`. That a pod is not known is an answer. Pods are found by a label that one
attempt alone has, and ended only if they have such a label.

Example:
    >>> pod = Pod.read({"metadata": {"name": "a-driver", "namespace": "etl"},
    ...                 "status": {"phase": "Pending"}})
    >>> pod.id, pod.is_waiting
    ('etl:a-driver', True)
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import requests
from requests.utils import get_environ_proxies

from airflow_hiveacid.format.errors import (
    ApplicationNotStartedError,
    KubernetesRefusedError,
    KubernetesUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.operators.kubernetes_login import Login

LABEL: Final = "hiveacid-attempt"
"""The label of pods whose value is the tag of one attempt."""

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"

_ROLE: Final = "spark-role"
_CONTAINER: Final = "spark-kubernetes-driver"
_QUESTION_S: Final = (5.0, 30.0)  # to connect, and for the next bytes
_LAST_LINES: Final = 40
_LATE: Final = timedelta(seconds=60)
_REFUSALS: Final = (requests.codes.unauthorized, requests.codes.forbidden)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """How a pod stands; `diagnostics` is why it waits or has ended, in Kubernetes' own words.

    `gone_by` is when one that is deleted has to be gone, its grace included.
    """

    namespace: str
    name: str
    state: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    diagnostics: str = ""
    exit_code: int | None = None
    gone_by: datetime | None = None

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Read a pod as the API server writes it.

        Raises:
            KeyError, TypeError, AttributeError: it is none, or lacks name or namespace.
            ValueError: a time in it is none.
        """
        meta, status = answer["metadata"], answer.get("status") or {}
        gone_by = meta.get("deletionTimestamp")
        return cls(
            namespace=str(meta["namespace"]),
            name=str(meta["name"]),
            uid=str(meta.get("uid") or ""),
            labels=dict(meta.get("labels") or {}),
            state=str(status.get("phase") or "Pending"),
            diagnostics="; ".join(_reasons(status)),
            exit_code=_exit_code(status),
            gone_by=None if gone_by is None else datetime.fromisoformat(gone_by),
        )

    @property
    def id(self) -> str:
        """Namespace and name, in the form in which the Spark provider notes a driver."""
        return f"{self.namespace}:{self.name}"

    @property
    def place(self) -> str:
        """What it is called in a log."""
        return f"pod {self.name} in namespace {self.namespace}"

    @property
    def final_status(self) -> str:
        """How its container ended."""
        return "" if self.exit_code is None else f"exit code {self.exit_code}"

    @property
    def is_waiting(self) -> bool:
        """Whether no container of it runs yet."""
        return self.state == "Pending"

    @property
    def is_ending(self) -> bool:
        """Whether it is deleted, and has its grace."""
        return self.gone_by is not None and not self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether Spark is done; containers beside it, such as a mesh's, may go on."""
        return self.state in ("Succeeded", "Failed") or self.exit_code is not None

    def is_lost(self, now: datetime) -> bool:
        """Whether its node does not answer: then nobody knows whether it runs.

        Kubernetes deletes the pods of such a node after five minutes, and goes on to call them
        running until the node answers or is removed itself.
        """
        is_late = self.gone_by is not None and now > self.gone_by + _LATE
        return not self.has_ended and (self.state == "Unknown" or is_late)

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended as it should."""
        return self.has_ended and self.state != "Failed" and self.exit_code in (None, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """An API server, and which pods of ours it is asked about: `role` is `driver` or `executor`.

    In client mode the driver is a process of this machine, and its executors are what waits.
    """

    name: ClassVar[str] = "Kubernetes"
    silence: ClassVar[type[KubernetesUnavailableError]] = KubernetesUnavailableError

    address: str
    namespace: str
    login: Login
    role: str = DRIVER

    def report(self, pod_id: str) -> Pod | None:
        """How a pod stands, or None if there is none with this ID.

        Raises:
            KubernetesUnavailableError: nobody says, or its node has not said for a while.
            KubernetesRefusedError: we may not ask.
        """
        asked = f"how pod {pod_id} stands"
        answer = self._ask("GET", _path(pod_id), asked)
        if answer is None:
            return None
        pod = _read(answer, asked)
        if pod.is_lost(datetime.now(UTC)):
            raise KubernetesUnavailableError(asked=asked, reason="its node does not answer")
        return pod

    def find(self, tag: str, timeout: tuple[float, float] = _QUESTION_S) -> tuple[Pod, ...]:
        """The pods of this tag that have not ended, those that run last.

        Raises:
            KubernetesUnavailableError: nobody says.
            KubernetesRefusedError: we may not ask.
        """
        asked = f"which pods have the label {LABEL}={tag}"
        wanted = {LABEL: tag, _ROLE: self.role}
        terms = ",".join(f"{name}={value}" for name, value in wanted.items())
        path = f"namespaces/{self.namespace}/pods"
        answer = self._ask("GET", path, asked, timeout=timeout, params={"labelSelector": terms})
        try:
            found = [Pod.read(one) for one in (answer or {})["items"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KubernetesUnavailableError(asked=asked, reason="no list of pods came") from error
        # Looked at again: whoever ignores the terms would answer with everybody's.
        ours = [one for one in found if wanted.items() <= one.labels.items() and not one.has_ended]
        return tuple(sorted(ours, key=lambda one: not one.is_waiting))

    def end(self, pod_id: str, timeout: tuple[float, float] = _QUESTION_S) -> None:
        """Order that a pod is deleted; one that is gone, or is not ours, is left alone.

        Raises:
            KubernetesUnavailableError: the order was not taken.
            KubernetesRefusedError: we may not order that.
        """
        asked = f"that it deletes pod {pod_id}"
        answer = self._ask("GET", _path(pod_id), asked, timeout=timeout)
        if answer is None:
            return
        pod = _read(answer, asked)
        if LABEL not in pod.labels:
            log.warning("%s has no label %s: it is not ours, and stays", pod.place, LABEL)
            return
        # That very pod: another may have taken its name meanwhile (then: 409).
        terms = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
            "propagationPolicy": "Background",
        }
        self._ask("DELETE", _path(pod_id), asked, timeout=timeout, json=terms)

    def last_words(self, pod_id: str) -> str:
        """The end of a driver's log; empty if it cannot be had."""
        terms = {"container": _CONTAINER, "tailLines": str(_LAST_LINES)}
        try:
            with _session() as session:
                answer = self._send(session, "GET", f"{_path(pod_id)}/log", params=terms)
        except OSError as error:
            log.warning("cannot read the log of pod %s: %s", pod_id, _plain(error))
            return ""
        return str(answer.text) if answer.ok else ""

    def not_started(self, found: Pod | None, waited_s: float) -> ApplicationNotStartedError:
        """What is said of pods that nobody could start."""
        return ApplicationNotStartedError(
            application="" if found is None else f"pod {found.name}",
            queue=self.namespace,
            waited_s=waited_s,
            diagnostics="there is no pod of it" if found is None else found.diagnostics,
            place="namespace",
            waited_for=f"Kubernetes to start the {self.role}'s container",
        )

    def _ask(
        self,
        verb: str,
        path: str,
        asked: str,
        *,
        timeout: tuple[float, float] = _QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on to requests
    ) -> Mapping[str, Any] | None:
        """An object as JSON, or None if the API server itself says that there is none."""
        try:
            with _session() as session:
                answer = self._send(session, verb, path, timeout=timeout, **more)
        except OSError as error:  # requests' own are, and files that cannot be read
            raise KubernetesUnavailableError(asked=asked, reason=_plain(error)) from None
        said = _json(answer)
        is_gone = answer.status_code in (requests.codes.not_found, requests.codes.conflict)
        if is_gone and said.get("kind") == "Status":
            return None
        if not answer.ok or not said:
            words = said.get("message") or answer.text[:200]
            is_refused = answer.status_code in _REFUSALS
            if answer.status_code == requests.codes.unauthorized:
                self.login.refused()
            kind = KubernetesRefusedError if is_refused else KubernetesUnavailableError
            raise kind(asked=asked, reason=f"HTTP {answer.status_code} {words!r}")
        return said

    def _send(
        self,
        session: requests.Session,
        verb: str,
        path: str,
        *,
        timeout: tuple[float, float] = _QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on
    ) -> requests.Response:
        url = f"{self.address}/api/v1/{path}"
        token = self.login.bearer()
        return session.request(
            verb,
            url,
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            auth=self.login.user if token is None else None,
            cert=self.login.certificate,
            verify=_authority(self.login),
            proxies=get_environ_proxies(url),
            timeout=timeout,
            allow_redirects=False,  # a token goes to the master alone
            **more,
        )


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # the logins of ~/.netrc are for others
    return session


def _authority(login: Login) -> str | bool:
    if login.authority is not True:
        return login.authority
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    return bundle or True


def _plain(error: OSError) -> str:
    # Some errors of requests show the request, and that has the token.
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
    try:
        return Pod.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise KubernetesUnavailableError(asked=asked, reason="no pod came") from error


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _reasons(status: Mapping[str, Any]) -> Iterator[str]:
    """Why a pod waits or has ended: evicted, not scheduled, no image, out of memory."""
    own = [str(status[name]) for name in ("reason", "message") if status.get(name)]
    if own:
        yield ": ".join(own)
    for one in status.get("conditions") or ():
        if one.get("status") == "False" and one.get("type") == "PodScheduled":
            yield f"{one.get('reason')}: {one.get('message')}"
    for container in _containers(status):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            found = state.get(kind)
            if found and found.get("reason") != "Completed":
                code = f", exit code {found['exitCode']}" if "exitCode" in found else ""
                words = ": ".join(
                    str(found[name]) for name in ("reason", "message") if found.get(name)
                )
                yield f"container {container.get('name')}: {words}{code}"


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """That of Spark's driver, beside which other containers may run."""
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if container.get("name") == _CONTAINER and ended is not None:
            return int(ended.get("exitCode", 0))
    return None
