"""YARN's resource manager: what it says of applications, and how one is ended.

It is asked over HTTP, for which a worker needs neither a JVM nor Hadoop's commands. Every question
has an end; one that nobody answers is a `ClusterUnavailableError`, one that we are not allowed to
ask (HTTP 401, 403) a `ClusterRefusedError`. That an application is not known is an answer: after a
restart without recovery, or past its memory (`yarn.resourcemanager.max-completed-applications`), a
resource manager has forgotten it.

Example:
    >>> addresses_in({"yarn.resourcemanager.hostname": "rm.example.com"})
    ('http://rm.example.com:8088',)
    >>> Application.read({"id": "application_1_0001", "state": "ACCEPTED"}).is_waiting
    True
"""

from __future__ import annotations

import getpass
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import requests
from requests.utils import get_environ_proxies

from airflow_hiveacid.format.errors import (
    ApplicationNotStartedError,
    ClusterRefusedError,
    ClusterUnavailableError,
)
from airflow_hiveacid.operators.negotiate import REFUSALS, Negotiate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from requests.auth import AuthBase

_SUCCEEDED: Final = "SUCCEEDED"
_UNDEFINED: Final = "UNDEFINED"
_WAITING: Final = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
_ENDED: Final = ("FINISHED", "FAILED", "KILLED")
_ALIVE: Final = (*_WAITING, "RUNNING")

_QUESTION_S: Final = (5.0, 30.0)  # to connect, and for the next bytes
# Whoever is killed has five seconds for everything.
ORDER_S: Final = (1.0, 1.0)
"""How long it may take to end an application, in a hurry: to connect, and to answer."""

_SITE: Final = ("core-site.xml", "yarn-site.xml")
_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_LOGIN: Final = re.compile(r"//[^/\s]*@")
_PREFIX: Final = "yarn.resourcemanager."
_PORTS: Final = {"http": "8088", "https": "8090"}
_KEYS: Final = {"http": "webapp.address", "https": "webapp.https.address"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """How an application stands; `diagnostics` is YARN's own text, which may be empty."""

    id: str
    state: str
    final_status: str = _UNDEFINED
    queue: str = ""
    diagnostics: str = ""

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Read what stands for one application in an answer.

        Raises:
            KeyError, TypeError, AttributeError: it is none, or lacks ID or state.
        """
        return cls(
            id=str(answer["id"]),
            state=str(answer["state"]),
            final_status=str(answer.get("finalStatus") or _UNDEFINED),
            queue=str(answer.get("queue") or ""),
            diagnostics=str(answer.get("diagnostics") or ""),
        )

    @property
    def place(self) -> str:
        """What it is called in a log."""
        return f"{self.id} in queue {self.queue}"

    @property
    def is_waiting(self) -> bool:
        """Whether it has no container yet."""
        return self.state in _WAITING

    @property
    def is_ending(self) -> bool:
        """Never: YARN does not say so, and it takes moments."""
        return False

    @property
    def has_ended(self) -> bool:
        """Whether its driver is done; YARN calls it running until the container is gone, too."""
        return self.state in _ENDED or self.final_status != _UNDEFINED

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended as it should."""
        return self.final_status == _SUCCEEDED and self.state not in ("FAILED", "KILLED")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManager:
    """A resource manager, or several of which one is active; a standby sends us to that one.

    `auth` is how one logs in; by default by Kerberos, if that is wanted. `user` is whose
    applications it is asked about, where nobody is asked to log in; by default whoever runs this
    process.
    """

    name: ClassVar[str] = "YARN"
    silence: ClassVar[type[ClusterUnavailableError]] = ClusterUnavailableError

    addresses: tuple[str, ...]
    auth: AuthBase | None = None
    user: str | None = None

    def report(self, application_id: str) -> Application | None:
        """How an application stands, or None if YARN knows of none with this ID.

        Raises:
            ClusterUnavailableError: nobody says.
            ClusterRefusedError: we may not ask.
        """
        asked = f"how {application_id} stands"
        answer = self._ask("GET", f"apps/{application_id}", asked)
        if answer.status_code == requests.codes.not_found:
            return None
        with _of_form(answer, asked):
            return Application.read(answer.json()["app"])

    def find(self, tag: str, timeout: tuple[float, float] = _QUESTION_S) -> tuple[Application, ...]:
        """The applications with this tag that have not ended.

        Each is looked at again: a standby of older releases (RMWebAppFilter) sends us on without
        the terms of the question, and is then answered with everybody's applications.

        Raises:
            ClusterUnavailableError: nobody says.
            ClusterRefusedError: we may not ask.
        """
        asked = f"which applications have the tag {tag}"
        path = f"apps?applicationTags={tag}&states={','.join(_ALIVE)}"
        answer = self._ask("GET", path, asked, timeout=timeout)
        with _of_form(answer, asked):
            found = (answer.json()["apps"] or {}).get("app") or ()
            # Releases differ in whether a single one stands in a list.
            listed = [found] if isinstance(found, dict) else found
            tagged = [one for one in listed if tag in _tags(one)]
            return tuple(app for app in map(Application.read, tagged) if app.state in _ALIVE)

    def end(self, application_id: str, timeout: tuple[float, float] = _QUESTION_S) -> None:
        """Order that an application is killed; one that has ended, or is not known, is no error.

        Raises:
            ClusterUnavailableError: the order was not taken.
            ClusterRefusedError: we may not order that.
        """
        self._ask(
            "PUT",
            f"apps/{application_id}/state",
            f"that it ends {application_id}",
            timeout=timeout,
            json={"state": "KILLED"},
        )

    def last_words(self, application_id: str) -> str:  # noqa: ARG002 - as of another cluster
        """Nothing: what its containers wrote lies with YARN's nodes."""
        return ""

    def not_started(self, found: Application | None, waited_s: float) -> ApplicationNotStartedError:
        """What is said of an application that got no container."""
        return ApplicationNotStartedError(
            application="" if found is None else found.id,
            queue="" if found is None else found.queue,
            waited_s=waited_s,
            diagnostics="YARN knows of no application of it"
            if found is None
            else found.diagnostics,
        )

    def _ask(
        self,
        verb: str,
        path: str,
        asked: str,
        *,
        timeout: tuple[float, float] = _QUESTION_S,
        **more: Any,  # noqa: ANN401 - passed on to requests
    ) -> requests.Response:
        troubles, is_refused = [], False
        auth = self.auth or Negotiate()
        if isinstance(auth, Negotiate):
            # Without Kerberos it believes whom we say we are. Who says nothing is nobody, who may
            # end no application, and sees none where each user sees but the own
            # (`yarn.webapp.filter-entity-list-by-user`).
            more["params"] = {"user.name": self.user or _user()}
        for address in self.addresses:
            url = f"{address}/ws/v1/cluster/{path}"
            try:
                answer = _send(verb, url, auth=auth, timeout=timeout, **more)
            except OSError as error:
                # Those of requests are, and one for missing certificates or tickets.
                troubles.append(f"{address}: {error}")
                continue
            if answer.ok and _is_json(answer):
                return answer
            if _is_unknown(answer):
                return answer
            troubles.append(f"{address}: HTTP {answer.status_code} {answer.text[:200]!r}")
            is_refused |= answer.status_code in REFUSALS
        # An address may hold a password.
        reason = _LOGIN.sub("//***@", "; ".join(troubles))
        # One that is away may be the active one, but refuses as a rule as its twin does.
        kind = ClusterRefusedError if is_refused else ClusterUnavailableError
        raise kind(asked=asked, reason=reason)


def addresses_of(given: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where the resource manager is asked: as the connection says, else as the site does.

    Empty if neither says anything.

    Raises:
        ConfigurationError: the site's files cannot be read.
    """
    if given and given.strip():
        return (_url(given.strip(), "http"),)
    return addresses_in(_site(environment))


def realm_of(environment: Mapping[str, str]) -> str | None:
    """The realm of a site's resource managers with Kerberos; who submits to them has to know it.

    Raises:
        ConfigurationError: the site's files cannot be read.
    """
    principal = _site(environment).get(f"{_PREFIX}principal", "")
    return principal.partition("@")[2] or None


def _site(environment: Mapping[str, str]) -> Mapping[str, str]:
    # Airflow parses DAGs without what this brings.
    from airflow_hiveacid.storage.stores.hadoop_settings import read_settings  # noqa: PLC0415

    folder = environment.get("YARN_CONF_DIR")
    where = {**environment, "HADOOP_CONF_DIR": folder} if folder else environment
    return read_settings(where, _SITE)


def addresses_in(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Where a site's resource managers are asked, by the settings of its yarn-site.xml."""
    scheme = "https" if settings.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    names = settings.get(f"{_PREFIX}ha.rm-ids", "").split(",")
    found = []
    for name in names:
        suffix = f".{name.strip()}" if name.strip() else ""
        address = settings.get(f"{_PREFIX}{_KEYS[scheme]}{suffix}")
        host = settings.get(f"{_PREFIX}hostname{suffix}")
        if address is None and host is not None:
            address = f"{host}:{_PORTS[scheme]}"
        if address is not None:
            found.append(_url(_filled(address, settings), scheme))
    return tuple(found)


def _filled(text: str, settings: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: settings.get(found[1], found[0]), text)


def _url(address: str, scheme: str) -> str:
    return (address if "://" in address else f"{scheme}://{address}").rstrip("/")


def _user() -> str | None:
    if name := os.environ.get("HADOOP_USER_NAME"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return None


def _send(verb: str, url: str, **more: Any) -> requests.Response:  # noqa: ANN401 - passed on
    """Ask once: by the environment's proxies and certificates, without the logins of ~/.netrc.

    Those are for other servers, and would be sent to whomever a standby sends us to as well.
    """
    with requests.Session() as session:
        session.trust_env = False
        return session.request(
            verb,
            url,
            proxies=get_environ_proxies(url),
            verify=os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True,
            **more,
        )


def _is_json(answer: requests.Response) -> bool:
    # A standby without an active one, and proxies, answer 200 with a page.
    return "json" in answer.headers.get("Content-Type", "")


def _is_unknown(answer: requests.Response) -> bool:
    """Whether YARN itself says that there is no such application; a wrong address is a 404, too."""
    if answer.status_code != requests.codes.not_found:
        return False
    try:
        return str(answer.json()["RemoteException"]["exception"]) == "NotFoundException"
    except (ValueError, KeyError, TypeError):
        return False


def _tags(app: Mapping[str, Any]) -> list[str]:
    return str(app.get("applicationTags") or "").split(",")


@contextmanager
def _of_form(answer: requests.Response, asked: str) -> Iterator[None]:
    """Tell an answer that the block cannot read from one that is read.

    Raises:
        ClusterUnavailableError: it has another form, so nobody has said anything.
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterUnavailableError(
            asked=asked, reason=f"it answered {answer.text[:200]!r}, which is of another form"
        ) from error
