"""The target of one submission: a resolved Spark connection, and the path of `spark-submit`.

A `SparkTarget` shows, before the submission, where the driver will run and whether a retry can
resume the driver.

Example:
    >>> SparkTarget(conn_id="s", master="yarn", deploy_mode="cluster").is_yarn_cluster
    True
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Self
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseHook, Connection

from airflow_hiveacid.airflow_names import AirflowNotFoundException
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.extras import did_you_mean, extras_of
from airflow_hiveacid.metastore import user_path
from airflow_hiveacid.operators.reporting.links import page_url
from airflow_hiveacid.operators.submission.kubernetes import NAMESPACE
from airflow_hiveacid.operators.submission.yarn import addresses_of, realm_of
from airflow_hiveacid.plan.statements.arguments import suggests_secret

SPARK_CONNECTION: Final = "spark_default"
"""The Spark connection of tasks that name no other."""

_APPLICATION: Final = "application_url"
_HISTORY: Final = "history_url"
PAGE_EXTRAS: Final = (_APPLICATION, _HISTORY)
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

        Raise ConfigurationError if a URL is not http or https, or contains an unknown field, a
        login or a secret. The message does not show the URL.
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


log = logging.getLogger(__name__)

_RM_ADDRESS: Final = "yarn_resourcemanager_webapp_address"
_CONN_TYPES: Final = ("spark", "k8s", "yarn")  # a connection given as a URI has the master's scheme
_DEFAULT_MODE: Final = "client"
_EXTRAS: Final = (
    "deploy-mode",
    "keytab",
    "namespace",
    "principal",
    "queue",
    "rest-port",
    "rest-scheme",
    "spark-binary",
    "spark-home",  # the Spark provider refuses it
    _RM_ADDRESS,
    *PAGE_EXTRAS,
)
DEPLOY_MODE: Final = "spark.submit.deployMode"
YARN_QUEUE: Final = "spark.yarn.queue"
BINARIES: Final = ("spark-submit", "spark2-submit", "spark3-submit")
"""The allowed names of the `spark-submit` program; the Spark provider runs no other program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """The Spark master to which a job is submitted; `deploy_mode` is `client` or `cluster`.

    `has_deploy_mode` is false if the deploy mode is only Spark's default. `has_queue` is true if
    the connection or the operator's `conf` names a queue of YARN.

    `resource_managers` are the addresses of YARN's resource managers, and `realm` is their Kerberos
    realm if it is configured. `namespace` is the namespace of pods on Kubernetes. `spark_binary` is
    the name of `spark-submit`, unless the operator sets it. `has_login` is true if the connection
    has a Kerberos principal or keytab. `pages` are the connection's addresses of pages about
    drivers.
    """

    conn_id: str
    master: str
    deploy_mode: str = _DEFAULT_MODE
    has_deploy_mode: bool = False
    has_queue: bool = False
    resource_managers: tuple[str, ...] = ()
    realm: str | None = None
    namespace: str = "default"
    spark_binary: str = BINARIES[0]
    has_login: bool = False
    pages: DriverPages = field(default_factory=DriverPages)

    @classmethod
    def resolve(
        cls,
        conn_id: str,
        deploy_mode: str | None,
        conf: Mapping[str, object],
        environment: Mapping[str, str] = os.environ,
    ) -> SparkTarget:
        """Read the Spark connection; the operator's `deploy_mode` overrides that of the connection.

        `environment` is the environment of `spark-submit`, with the path of Hadoop's settings.

        Raises:
            ConfigurationError: the connection is missing, or its settings are invalid. Without a
                connection, the Spark provider itself would use the master `yarn`.
        """
        try:
            connection = BaseHook.get_connection(conn_id)
        except AirflowNotFoundException:
            raise ConfigurationError(
                f"there is no connection {conn_id!r} for Spark; create it (type `spark`, host such"
                " as local[2], spark://host:7077 or yarn) or set spark_conn_id"
            ) from None
        if connection.conn_type not in _CONN_TYPES:
            raise ConfigurationError(
                f"connection {conn_id!r} is of type {connection.conn_type!r}, not 'spark'; nothing"
                " was sent to its host. Name a connection to a Spark cluster"
            )
        extra = extras_of(connection)
        _check_extra(conn_id, extra)
        mode = deploy_mode or extra.get("deploy-mode") or conf.get(DEPLOY_MODE)
        master = _master(connection)
        target = cls(
            conn_id=conn_id,
            master=master,
            deploy_mode=str(mode or _DEFAULT_MODE),
            has_deploy_mode=bool(mode),
            has_queue=bool(extra.get("queue") or conf.get(YARN_QUEUE)),
            resource_managers=(
                addresses_of(extra.get(_RM_ADDRESS), environment) if _is_yarn(master) else ()
            ),
            realm=realm_of(environment) if _is_yarn(master) else None,
            # The Spark provider uses the same order; the last value is Spark's default.
            namespace=str(conf.get(NAMESPACE) or extra.get("namespace") or "default"),
            spark_binary=str(extra.get("spark-binary") or BINARIES[0]),
            has_login=bool(extra.get("principal") or extra.get("keytab")),
            pages=DriverPages.read(conn_id, extra),
        )
        target._check()
        return target

    def _check(self) -> None:
        if not self.master:
            raise ConfigurationError(
                f"connection {self.conn_id!r} has no host; set it to Spark's master, such as"
                " local[2], spark://host:7077 or yarn"
            )
        if self.deploy_mode not in ("client", "cluster"):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: deploy mode must be client or cluster, found"
                f" {self.deploy_mode!r}"
            )
        if self.is_cluster and (self.is_local or self.master.startswith("spark:")):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: {self.master} does not run Python drivers in cluster"
                " mode; set the deploy mode to client, or use YARN or Kubernetes"
            )

    @property
    def is_cluster(self) -> bool:
        """True if the driver runs in the cluster rather than on this worker."""
        return self.deploy_mode == "cluster"

    @property
    def is_local(self) -> bool:
        """True if Spark runs its tasks in the driver, without executors."""
        return self.master.startswith("local")

    @property
    def is_kubernetes(self) -> bool:
        """True if executors, and in cluster mode the driver, are pods."""
        return self.master.startswith("k8s://")

    @property
    def is_yarn(self) -> bool:
        """True if YARN runs the executors."""
        return _is_yarn(self.master)

    @property
    def is_asked(self) -> bool:
        """True if we ask the cluster for a submission's state, and ask the cluster to kill it."""
        return self.is_yarn or self.is_kubernetes

    @property
    def is_yarn_cluster(self) -> bool:
        """True if YARN runs the driver and the executors."""
        return self.is_cluster and self.is_yarn

    @property
    def is_followed(self) -> bool:
        """True if we follow the driver in its cluster, so a retry can resume its submission."""
        return self.is_cluster and (self.is_kubernetes or bool(self.resource_managers))

    def application_page(self, driver_id: str, application_id: str) -> str:
        """Return the connection's URL of a driver's page, or an empty text if it has none.

        On Kubernetes, `driver_id` is a pod, which in client mode is an executor's. Each ID may be
        empty.
        """
        namespace, _, pod = driver_id.partition(":")
        if not self.is_kubernetes:
            namespace = pod = ""
        elif not self.is_cluster:
            namespace, pod = self.namespace, ""
        return self.pages.application(namespace=namespace, pod=pod, application_id=application_id)


def _check_extra(conn_id: str, extra: Mapping[str, object]) -> None:
    """Refuse an extra that is probably misspelt, and warn about others that nothing reads.

    Other programs may read further extras of a connection to Spark.
    """
    for name in extra:
        if name in _EXTRAS:
            continue
        if hint := did_you_mean(name, _EXTRAS):
            raise ConfigurationError(
                f"connection {conn_id!r}: {name!r} is no extra of a Spark connection{hint}"
            )
        _warn_of_unused(conn_id, name)


@cache  # a task may read its connection before it knows whether Spark runs its job
def _warn_of_unused(conn_id: str, name: str) -> None:
    log.warning("connection %s: extra %r is not used", conn_id, name)


def has_connection(conn_id: str) -> bool:
    """Return whether Airflow has this connection."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return False
    return True


def _is_yarn(master: str) -> bool:
    # Do not search the whole URI for "yarn" as the Spark provider does: a host name may contain it.
    return master.startswith("yarn")


def _master(connection: Connection) -> str:
    # As in SparkSubmitHook, the connection has either the whole master in its host, or the parts of
    # the master's URI.
    host = connection.host or ""
    if connection.conn_type == "spark" and ("://" in host or not connection.port):
        return f"{host}:{connection.port}" if connection.port else host
    return f"{connection.conn_type}://{host}" + (f":{connection.port}" if connection.port else "")


@contextmanager
def spark_on_path(bin_dir: str | None) -> Iterator[None]:
    """Put `bin_dir` first on PATH in the `with` block, for `spark-submit` and `python3`.

    This function does not set `PYSPARK_PYTHON`, because Spark would send the variable to the
    cluster, where this machine's paths do not exist. Each task has its own process, so the changed
    PATH affects no other task.
    """
    if not bin_dir:
        yield
        return
    directory = user_path(bin_dir)
    if not any((directory / name).is_file() for name in BINARIES):
        raise ConfigurationError(
            f"there is no spark-submit in {directory} (operator argument spark_bin_dir, or option"
            " spark_bin_dir of section [hiveacid])"
        )
    old_path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = f"{directory}{os.pathsep}{old_path}"
    try:
        yield
    finally:
        os.environ["PATH"] = old_path
