"""HTTP requests to YARN and Kubernetes: sessions, certificates, time limits, invalid answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import requests

from airflow_hiveacid.format.errors import ClusterKind, ClusterUnavailableError
from airflow_hiveacid.metastore.auth.deadlines import bounded
from airflow_hiveacid.operators.submission.log_tail import body_of

QUESTION_S: Final = (5.0, 30.0)

# Airflow ends a killed task five seconds after the signal.
ORDER_S: Final = (1.0, 1.0)
"""Connect and read time-outs of an urgent request to kill an application."""


def new_session() -> requests.Session:
    """Return a session without ~/.netrc.

    Logins in ~/.netrc are for different servers. If a standby redirects, the wrong server could
    receive a login of ~/.netrc.
    """
    session = requests.Session()
    session.trust_env = False
    return session


def certificates() -> str | bool:
    """Return the environment's file of certificates, or True for the default certificates."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


def read_log(
    get: Callable[[requests.Session, tuple[float, float]], requests.Response],
    *,
    timeout_s: float,
    name: str,
) -> bytes:
    """Return the text that `get` requests as a stream, in a thread called `name`.

    `get` takes the connect and read time-outs, which limit the thread after the caller has left.
    """

    def read() -> bytes:
        with new_session() as session:
            return body_of(get(session, (2 * timeout_s, 2 * timeout_s)))

    return bounded(read, timeout_s=timeout_s, name=name)


@contextmanager
def parsing(kind: ClusterKind, asked: str, problem: str) -> Iterator[None]:
    """Raise ClusterUnavailableError if the code in the `with` block cannot parse an answer."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterUnavailableError(kind=kind, asked=asked, reason=problem) from error
