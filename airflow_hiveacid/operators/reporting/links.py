"""Links on a task's page in Airflow: its table's page, its Spark application, and Spark's UI.

A worker stores each URL in XCom under the link's key, and the API server only reads XCom. Airflow
stores the URLs when a task ends or defers; `DriverLinks` stores the URLs of a driver as soon as
they are known. Airflow shows no link without a URL.

Example:
    >>> page_url("https://user:secret@rm.example.com:8090/cluster?token=1")
    'https://rm.example.com:8090/cluster'
    >>> page_url("javascript:alert(1)")
    ''
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.types import TaskInstanceKey

from airflow_hiveacid.format.errors import InputError
from airflow_hiveacid.plan import arguments

_PAGE: Final = "plugin/hiveacid"

log = logging.getLogger(__name__)


class TableLink(BaseOperatorLink):
    """The link to the page of a task's table; see docs/operations/pages.md."""

    name = "Table"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the page's address, or an empty string for a task without a single table.

        The address is relative, so that the browser adds the path of `[api] base_url`.
        """
        try:
            table = arguments.table_name(getattr(operator, "linked_table", ""))
        except InputError:
            return ""
        connection = getattr(operator, "hive_acid_conn_id", "")
        return f"{_PAGE}?{urlencode({'table': table, 'connection': connection})}"


class SparkApplicationLink(BaseOperatorLink):
    """The link to the cluster manager's page about the task's Spark application."""

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the URL, or an empty string if it is not known."""
        return _links_of(operator).application


class SparkUiLink(BaseOperatorLink):
    """The link to the UI of the task's running driver, or to its page in the history server."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the URL, or an empty string if it is not known."""
        return _links_of(operator).ui


class DriverLinks:
    """The URLs of a job's last driver, none with a secret; mutable, and empty while unknown."""

    def __init__(self) -> None:
        self.application = self.ui = ""
        self._driver = ""
        self._is_resumed = False

    def resume(self) -> None:
        """Note that the process before the task's deferral may have stored URLs in XCom."""
        self._is_resumed = True

    def forget(self, push: Callable[[str, str], None]) -> None:
        """Forget the URLs and remove them from XCom, because another driver starts."""
        for link, url in ((SparkApplicationLink(), self.application), (SparkUiLink(), self.ui)):
            if url or self._is_resumed:
                _push(link, "", push)
        self.application = self.ui = self._driver = ""
        self._is_resumed = False

    def show(
        self, driver: str, application: str, ui: str, push: Callable[[str, str], None]
    ) -> None:
        """Remember the URLs of a driver, and store each new URL in XCom with `push(key, url)`.

        A new `application` belongs to a new driver. If a URL is empty, the URL that is known stays.
        An empty `driver` means the last driver.
        """
        is_another = bool(driver and self._driver and driver != self._driver)
        if is_another or (self.application and application not in ("", self.application)):
            self.forget(push)
        self._driver = driver or self._driver
        if application and application != self.application:
            self.application = application
            _push(SparkApplicationLink(), application, push)
        if ui and ui != self.ui:
            self.ui = ui
            _push(SparkUiLink(), ui, push)


def show_table(operator: BaseOperator, context: Context) -> None:
    """Store the link to the table's page before the task ends."""
    ti = context["ti"]
    if url := TableLink().get_link(operator, ti_key=ti):  # type: ignore[arg-type]  # as Airflow does
        _push(TableLink(), url, ti.xcom_push)


def page_url(text: str) -> str:
    """Return the http or https URL in a text without its login, query and fragment.

    A login or a query may contain a secret. Return an empty string for every other text.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path}"


def _push(link: BaseOperatorLink, url: str, push: Callable[[str, str], None]) -> None:
    try:
        push(link.xcom_key, url)
    except Exception:  # a missing link must not fail a job
        log.warning("cannot store the link %s", link.name, exc_info=True)


def _links_of(operator: BaseOperator) -> DriverLinks:
    links = getattr(operator, "driver_links", None)
    return links if isinstance(links, DriverLinks) else DriverLinks()
