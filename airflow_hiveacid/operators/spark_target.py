"""What a Spark connection means for one submission, and where its `spark-submit` is found.

Takes an Airflow connection and the operator's own settings; gives a frozen value, so that the
operator decides before it submits: where the driver runs, whether the submission can be resumed.

Example:
    >>> SparkTarget(conn_id="s", master="yarn", deploy_mode="cluster").is_yarn_cluster
    True
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.kubernetes_settings import NAMESPACE
from airflow_hiveacid.operators.yarn import addresses_of, realm_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Connection

_RM_ADDRESS: Final = "yarn_resourcemanager_webapp_address"
_BINARIES: Final = ("spark-submit", "spark2-submit", "spark3-submit")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Where a job is submitted to. `deploy_mode` is `client` or `cluster`.

    `resource_managers` are the addresses at which YARN's can be asked, and `realm` is theirs with
    Kerberos, as far as somebody says; `namespace` is where pods are, on Kubernetes.
    """

    conn_id: str
    master: str
    deploy_mode: str = "client"
    resource_managers: tuple[str, ...] = ()
    realm: str | None = None
    namespace: str = "default"

    @classmethod
    def resolve(
        cls,
        conn_id: str,
        deploy_mode: str | None,
        conf: Mapping[str, object],
        environment: Mapping[str, str] = os.environ,
    ) -> SparkTarget:
        """Read the Spark connection; the operator's `deploy_mode` wins over the connection's.

        `environment` is that of `spark-submit`, which names Hadoop's settings.

        Raises:
            ConfigurationError: there is no such connection (the Spark provider itself would go on
                with master `yarn`), or it asks for something Spark cannot do.
        """
        try:
            connection = BaseHook.get_connection(conn_id)
        except AirflowNotFoundException as exc:
            raise ConfigurationError(
                f"there is no connection {conn_id!r} for Spark; create it (type `spark`, host such"
                " as local[2], spark://host:7077 or yarn) or set spark_conn_id"
            ) from exc
        extra = connection.extra_dejson
        mode = deploy_mode or extra.get("deploy-mode") or conf.get("spark.submit.deployMode")
        master = _master(connection)
        target = cls(
            conn_id=conn_id,
            master=master,
            deploy_mode=str(mode or "client"),
            resource_managers=(
                addresses_of(extra.get(_RM_ADDRESS), environment) if _is_yarn(master) else ()
            ),
            realm=realm_of(environment) if _is_yarn(master) else None,
            # In this order the Spark provider asks, too; the last is Spark's own.
            namespace=str(conf.get(NAMESPACE) or extra.get("namespace") or "default"),
        )
        target._check()
        return target

    def _check(self) -> None:
        if not self.master:
            raise ConfigurationError(
                f"connection {self.conn_id!r} has no host; it names Spark's master, such as"
                " local[2], spark://host:7077 or yarn"
            )
        if self.deploy_mode not in ("client", "cluster"):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: deploy mode is client or cluster, found"
                f" {self.deploy_mode!r}"
            )
        if self.is_cluster and self.master.startswith(("spark:", "local")):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: {self.master} does not run Python drivers in cluster"
                " mode; set the deploy mode to client, or use YARN or Kubernetes"
            )

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs in the cluster rather than on this worker."""
        return self.deploy_mode == "cluster"

    @property
    def is_kubernetes(self) -> bool:
        """Whether executors, and in cluster mode the driver, are pods."""
        return self.master.startswith("k8s://")

    @property
    def is_yarn(self) -> bool:
        """Whether YARN runs the executors."""
        return _is_yarn(self.master)

    @property
    def is_asked(self) -> bool:
        """Whether the cluster itself is asked how a submission stands, and told to end it."""
        return self.is_yarn or self.is_kubernetes

    @property
    def is_yarn_cluster(self) -> bool:
        """Whether it runs the driver, too."""
        return self.is_cluster and self.is_yarn


def _is_yarn(master: str) -> bool:
    # Not as the Spark provider asks: the host of another master may have it in its name.
    return master.startswith("yarn")


def _master(connection: Connection) -> str:
    # The same two shapes that SparkSubmitHook knows: a master in the host, or a URI taken apart.
    host = connection.host or ""
    if connection.conn_type == "spark" and ("://" in host or not connection.port):
        return f"{host}:{connection.port}" if connection.port else host
    return f"{connection.conn_type}://{host}" + (f":{connection.port}" if connection.port else "")


@contextmanager
def spark_on_path(bin_dir: str | None) -> Iterator[None]:
    """Let `spark-submit` and `python3` be found in `bin_dir` first, for as long as it lasts.

    PATH is all that is changed, on purpose: `PYSPARK_PYTHON` would travel to a cluster, where
    this machine's paths mean nothing. A task has its process to itself, so nobody else notices.

    Raises:
        ConfigurationError: there is no spark-submit in that directory.
    """
    if not bin_dir:
        yield
        return
    directory = Path(bin_dir).expanduser().absolute()
    if not any((directory / name).is_file() for name in _BINARIES):
        raise ConfigurationError(
            f"there is no spark-submit in {directory} (operator argument spark_bin_dir, or option"
            " spark_bin_dir of section [hiveacid])"
        )
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = f"{directory}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before
