"""Client of YARN's resource manager, which reads the state of applications and kills them.

The client uses HTTP, so a worker needs neither a JVM nor Hadoop's commands. Every request has a
time limit, even if the server sends its answer slowly. If no resource manager answers, a call
raises `ClusterUnavailableError`. For HTTP 401 and 403 it raises `ClusterRefusedError`. A call about
an unknown application raises no error, because a resource manager forgets applications. The manager
forgets applications when it restarts without recovery, or when more than
`yarn.resourcemanager.max-completed-applications` have ended.

Example:
    >>> addresses_in({"yarn.resourcemanager.hostname": "rm.example.com"})
    ('http://rm.example.com:8088',)
    >>> YarnApplication.read({"id": "application_1_0001", "state": "ACCEPTED"}).is_waiting
    True
"""

from __future__ import annotations

import getpass
import os
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import requests
from requests.auth import AuthBase
from requests.utils import get_environ_proxies

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.known_secrets import beginning_of
from airflow_hiveacid.metastore.auth import bounded
from airflow_hiveacid.operators.submission import http, log_tail
from airflow_hiveacid.operators.submission.cluster_run import Application

_SUCCEEDED: Final = "SUCCEEDED"
_UNDEFINED: Final = "UNDEFINED"
_WAITING: Final = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
_ENDED: Final = ("FINISHED", "FAILED", "KILLED")
_ALIVE: Final = (*_WAITING, "RUNNING")

_SHORTEST_S: Final = 0.1

_SITE: Final = ("core-site.xml", "yarn-site.xml")
_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_LOG_PAGE: Final = re.compile(r"(https?://[^/@\s?#\\]+)/node/containerlogs/(container_\w+)(?:/|\Z)")
_OUTPUT: Final = "stdout"
"""The log file with the messages of the driver's Python, to which Spark also adds its `stderr`."""
_JVM: Final = "stderr"
"""The log file with the messages of Spark's JVM, and of the container's start."""
_PREFIX: Final = "yarn.resourcemanager."
_PORTS: Final = {"http": "8088", "https": "8090"}
_KEYS: Final = {"http": "webapp.address", "https": "webapp.https.address"}


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnApplication(Application):
    """An application's state; YARN kills within moments, so no application `is_ending`.

    `ui_url` leads to Spark's UI while the driver runs, and then to the history server. The URL is
    empty before the driver has started. `log_url` is the page of a node with the driver's log.
    """

    queue: str
    log_url: str

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Parse one application from the resource manager's JSON."""
        id_, state = str(answer["id"]), str(answer["state"])
        final_status = str(answer.get("finalStatus") or _UNDEFINED)
        queue = str(answer.get("queue") or "")
        return cls(
            id=id_,
            application_id=id_,
            state=state,
            display_name=f"{id_} in queue {queue}",
            final_status=final_status,
            queue=queue,
            diagnostics=str(answer.get("diagnostics") or ""),
            is_waiting=state in _WAITING,
            # The driver may have ended while YARN still reports a running container.
            has_ended=state in _ENDED or final_status != _UNDEFINED,
            has_succeeded=final_status == _SUCCEEDED and state not in ("FAILED", "KILLED"),
            ui_url=str(answer.get("trackingUrl") or ""),
            log_url=str(answer.get("amContainerLogs") or ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManager:
    """A client of YARN's resource managers; a standby redirects its requests to the active one.

    `auth` is the login, by default Kerberos if the server requires it. `user` is the user name that
    is sent to a server without authentication, by default the user of this process.
    """

    name: ClassVar[str] = "YARN"
    kind: ClassVar[errors.ClusterKind] = errors.ClusterKind.YARN

    addresses: tuple[str, ...]
    auth: AuthBase | None = None
    user: str | None = None

    def report(self, application_id: str) -> YarnApplication | None:
        """Return an application's state, or None if YARN does not know the application."""
        question = f"the state of {application_id}"
        answer = self._ask("GET", f"apps/{application_id}", question)
        if answer.status_code == requests.codes.not_found:
            return None
        with _parsing(answer, question):
            return YarnApplication.read(answer.json()["app"])

    def find(
        self, tag: str, timeout: tuple[float, float] = http.QUESTION_S
    ) -> tuple[YarnApplication, ...]:
        """Return the unfinished applications with this tag.

        In older releases (RMWebAppFilter), a standby redirects without the query parameters, and
        the active resource manager returns all applications. So this method checks the tag of each
        application in the answer.
        """
        question = f"the applications with the tag {tag}"
        path = f"apps?applicationTags={tag}&states={','.join(_ALIVE)}"
        answer = self._ask("GET", path, question, timeout=timeout)
        with _parsing(answer, question):
            entries = (answer.json()["apps"] or {}).get("app") or ()
            # If there is only one application, some releases do not return a list.
            listed = [entries] if isinstance(entries, dict) else entries
            tagged = [entry for entry in listed if tag in _tags(entry)]
            return tuple(app for app in map(YarnApplication.read, tagged) if app.state in _ALIVE)

    def end(self, application_id: str, timeout: tuple[float, float] = http.QUESTION_S) -> None:
        """Ask YARN to kill an application; do nothing if it has ended or is unknown."""
        self._ask(
            "PUT",
            f"apps/{application_id}/state",
            f"the termination of {application_id}",
            timeout=timeout,
            json={"state": "KILLED"},
        )

    def page_of(self, application_id: str) -> str:
        """Return the URL of an application's page; a standby also redirects browsers."""
        return f"{self.addresses[0]}/cluster/app/{application_id}"

    def new_lines(self, found: YarnApplication, place: Any) -> log_tail.NewLines:  # noqa: ANN401 - from `NewLines`
        """Return the lines of the driver's Python since an earlier call that returned `place`."""
        answer = self._log_file(_log_folder(found), _OUTPUT, log_tail.LOG_S)
        return log_tail.new_contents(answer, _OUTPUT, place or 0, has_ended=found.has_ended)

    def last_words(self, found: YarnApplication, *, is_copied: bool) -> Mapping[str, bytes]:
        """Return the ends of a driver's log files, by their names; the most useful file is last.

        The driver's node returns plain text (`NMWebServices.getLogs`). If the node has handed its
        logs to a log server (`yarn.log.server.web-service.url`), it redirects to that server.
        """
        folder, until, texts = _log_folder(found), time.monotonic() + log_tail.LOG_S, {}
        if not is_copied:
            texts[_OUTPUT] = log_tail.last_contents(
                self._log_file(folder, _OUTPUT, log_tail.LOG_S), _OUTPUT
            )
        left_s = max(_SHORTEST_S, until - time.monotonic())
        try:
            return {
                _JVM: log_tail.last_contents(self._log_file(folder, _JVM, left_s), _JVM),
                **texts,
            }
        except OSError:
            if not texts.get(_OUTPUT, b"").strip():
                raise
            return texts

    def log_command(self, application_id: str) -> str:
        """Return the command that shows the log files of an application's containers."""
        return log_command(application_id)

    def not_started(
        self, found: YarnApplication | None, waited_s: float
    ) -> errors.ApplicationNotStartedError:
        """Return the error to raise for an application that got no container."""
        return errors.ApplicationNotStartedError(
            application="" if found is None else found.id,
            queue="" if found is None else found.queue,
            waited_s=waited_s,
            diagnostics="YARN does not know the application"
            if found is None
            else found.diagnostics,
        )

    def _ask(
        self,
        verb: str,
        path: str,
        asked: str,
        *,
        timeout: tuple[float, float] = http.QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on to requests
    ) -> requests.Response:
        troubles, is_refused = [], False
        auth = self.auth or http.Negotiate()
        more["params"] = self._named(auth)
        for address in self.addresses:
            url = f"{address}/ws/v1/cluster/{path}"
            try:
                answer = _send(verb, url, auth=auth, timeout=timeout, **more)
            except OSError as error:
                # Every error of `requests`, and every error about a certificate or ticket, is an
                # OSError.
                troubles.append(f"{address}: {error}")
                continue
            # A proxy, or a standby that knows no active manager, returns 200 and an HTML page.
            is_json = "json" in answer.headers.get("Content-Type", "")
            if (answer.ok and is_json) or _is_unknown(answer):
                return answer
            said = beginning_of(answer.text, 200)
            troubles.append(f"{address}: HTTP {answer.status_code} {said!r}")
            is_refused |= answer.status_code in http.REFUSALS
        # An address may contain a password.
        reason = log_tail.LOGIN_IN_URL.sub("//***@", "; ".join(troubles))
        # If any resource manager refuses us, report the refusal. The active manager may be one that
        # did not answer; usually it would refuse us, too.
        failure = errors.ClusterRefusedError if is_refused else errors.ClusterUnavailableError
        raise failure(kind=self.kind, asked=asked, reason=reason)

    def _log_file(self, folder: str, name: str, timeout_s: float) -> bytes:
        url = f"{folder}/{name}"
        auth = self._login_for(url)
        request = {
            "auth": auth,
            "params": {"size": str(-log_tail.LOG_BYTES), **self._named(auth)},
            # A redirect must not take the user's own login to a different server.
            "allow_redirects": auth is None or isinstance(auth, http.Negotiate),
            **_way(url),
        }
        return http.read_log(
            lambda session, timeout: session.get(url, stream=True, timeout=timeout, **request),
            timeout_s=timeout_s,
            name="hiveacid-yarn",
        )

    def _login_for(self, url: str) -> AuthBase | None:
        """Return the login for a node's URL, or None if the node must not receive our login.

        A Kerberos ticket is valid for one host only, so every node may request one. The user's own
        login is for the resource manager. We send it where `requests` would send it after a
        redirect: to the same host and port.
        """
        auth = self.auth or http.Negotiate()
        if isinstance(auth, http.Negotiate):
            return auth
        with http.new_session() as session:
            is_own = any(not session.should_strip_auth(address, url) for address in self.addresses)
        return auth if is_own else None

    def _named(self, auth: AuthBase | None) -> dict[str, str | None]:
        """Return the query parameter with the user's name, unless the user has an own login.

        Without Kerberos, YARN trusts the user name that we send. Without a user name, YARN refuses
        to kill an application, and may list no application
        (`yarn.webapp.filter-entity-list-by-user`).
        """
        return {"user.name": self.user or _user()} if isinstance(auth, http.Negotiate) else {}


def log_command(application_id: str) -> str:
    """Return the command that shows the log files of an application's containers."""
    return f"yarn logs -applicationId {application_id}"


def addresses_of(given: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resource managers' addresses, from the connection or else from yarn-site.xml.

    The result is empty if neither the connection nor yarn-site.xml has an address.
    """
    if given and given.strip():
        return (_url(given.strip(), "http"),)
    return addresses_in(_site(environment))


def realm_of(environment: Mapping[str, str]) -> str | None:
    """Return the Kerberos realm of the resource managers, or None if it is not configured."""
    principal = _site(environment).get(f"{_PREFIX}principal", "")
    return principal.partition("@")[2] or None


def _log_folder(found: YarnApplication) -> str:
    page = _LOG_PAGE.match(found.log_url)
    if page is None:
        raise OSError("the resource manager reports no node with the log")
    return f"{page[1]}/ws/v1/node/containerlogs/{page[2]}"


def _site(environment: Mapping[str, str]) -> Mapping[str, str]:
    # Import `hadoop_settings` here, so that DAG parsing does not import its dependencies.
    from airflow_hiveacid.storage.stores.hadoop_settings import read_settings  # noqa: PLC0415

    folder = environment.get("YARN_CONF_DIR")
    where = {**environment, "HADOOP_CONF_DIR": folder} if folder else environment
    return read_settings(where, _SITE)


def addresses_in(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the addresses of the resource managers in the settings of a yarn-site.xml."""
    scheme = "https" if settings.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    names = settings.get(f"{_PREFIX}ha.rm-ids", "").split(",")  # only "" if there is one manager
    addresses = []
    for name in names:
        suffix = f".{name.strip()}" if name.strip() else ""
        address = settings.get(f"{_PREFIX}{_KEYS[scheme]}{suffix}")
        host = settings.get(f"{_PREFIX}hostname{suffix}")
        if address is None and host is not None:
            address = f"{host}:{_PORTS[scheme]}"
        if address is not None:
            addresses.append(_url(_filled(address, settings), scheme))
    return tuple(addresses)


def _filled(text: str, settings: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: settings.get(found[1], found[0]), text)


def _url(address: str, scheme: str) -> str:
    return (address if "://" in address else f"{scheme}://{address}").rstrip("/")


def _user() -> str | None:
    if name := os.environ.get("HADOOP_USER_NAME"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user ID that has no name
        return None


def _way(url: str) -> dict[str, Any]:
    return {"proxies": get_environ_proxies(url), "verify": http.certificates()}


def _send(
    verb: str,
    url: str,
    *,
    timeout: tuple[float, float],
    **more: Any,  # noqa: ANN401 - passed on
) -> requests.Response:
    def request() -> requests.Response:
        with http.new_session() as session:
            return session.request(verb, url, timeout=timeout, **_way(url), **more)

    # The time-outs of `requests` limit each read, but not the time for the whole answer.
    return bounded(request, timeout_s=sum(timeout), name="hiveacid-yarn")


def _is_unknown(answer: requests.Response) -> bool:
    """Return true if this 404 means an unknown application, and false for a wrong address."""
    if answer.status_code != requests.codes.not_found:
        return False
    try:
        return str(answer.json()["RemoteException"]["exception"]) == "NotFoundException"
    except (ValueError, KeyError, TypeError):
        return False


def _tags(app: Mapping[str, Any]) -> list[str]:
    return str(app.get("applicationTags") or "").split(",")


def _parsing(answer: requests.Response, asked: str) -> AbstractContextManager[None]:
    problem = f"its answer {beginning_of(answer.text, 200)!r} has an unknown form"
    return http.parsing(errors.ClusterKind.YARN, asked, problem)
