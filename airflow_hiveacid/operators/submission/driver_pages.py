"""Web pages about a driver whose addresses the Spark connection gives, for a task's links.

Input is the connection's extra: `application_url`, a URL with the fields `{namespace}`, `{pod}` and
`{application_id}`, and `history_url`, the address of Spark's history server. Output is the URLs of
one driver's pages.

Example:
    >>> extra = {"application_url": "https://k8s.example.com/#/pod/{namespace}/{pod}"}
    >>> pages = DriverPages.read("spark_default", extra)
    >>> pages.application(namespace="etl", pod="a-driver")
    'https://k8s.example.com/#/pod/etl/a-driver'
    >>> pages.application(application_id="local-1")
    ''
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote, urlsplit

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.reporting.links import page_url
from airflow_hiveacid.plan.statements.source_options import suggests_secret

_APPLICATION: Final = "application_url"
_HISTORY: Final = "history_url"
PAGE_EXTRAS: Final = (_APPLICATION, _HISTORY)
"""The extras of a Spark connection that this module reads."""
_FIELD: Final = re.compile(r"\{(namespace|pod|application_id)\}")
_BRACE: Final = re.compile(r"\{[^{}]*\}?|\}")
_PARAMETER: Final = re.compile(r"[?&;#]([^=?&;#]+)=")
_WHY: Final = "since every user who sees the task sees its links"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPages:
    """The addresses of pages about drivers; an empty text means that there are no such pages."""

    application_url: str = ""
    history_url: str = ""

    @classmethod
    def read(cls, conn_id: str, extra: Mapping[str, object]) -> Self:
        """Parse the extra of a Spark connection.

        Raises:
            ConfigurationError: a URL is not http or https, or contains an unknown field, a login or
                a secret. The message does not show the URL.
        """
        urls = {name: str(extra.get(name) or "").strip() for name in PAGE_EXTRAS}
        for name, url in urls.items():
            if url and (fault := _fault(name, url)):
                raise ConfigurationError(f"connection {conn_id!r}, extra {name!r}: {fault}")
        return cls(application_url=urls[_APPLICATION], history_url=urls[_HISTORY].rstrip("/"))

    def application(self, **known: str) -> str:
        """Return the URL of an application's page, or an empty text if a field is not known."""
        if not all(known.get(name) for name in _FIELD.findall(self.application_url)):
            return ""
        return _FIELD.sub(lambda field: quote(known[field[1]], safe=""), self.application_url)

    def history(self, application_id: str) -> str:
        """Return the URL of an application in the history server, or an empty text."""
        if not (self.history_url and application_id):
            return ""
        return f"{self.history_url}/history/{quote(application_id, safe='')}/"


def _fault(name: str, url: str) -> str:
    """Return what is wrong with a URL and what to do, or an empty text."""
    if not page_url(url):
        return "it is not a URL; set it to one that begins with http:// or https://"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return f"it contains a login; remove the login, {_WHY}"
    for parameter in _PARAMETER.findall(url):
        if suggests_secret(parameter):
            return f"the parameter {parameter} may hold a secret; remove the parameter, {_WHY}"
    if name == _HISTORY:
        if _BRACE.search(url) or parts.query or parts.fragment:
            return "it has a field, query or fragment; set it to the history server's address alone"
    elif (brace := _BRACE.search(_FIELD.sub("", url))) is not None:
        return f"{brace[0]} is no field; use {{namespace}}, {{pod}} and {{application_id}}"
    return ""
