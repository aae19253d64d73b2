"""What tests on a pretended Kubernetes share: small tasks of ours whose pods are processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_hiveacid.operators.hive_acid import HiveAcidInsertOperator
from tests.support.airflow_support import Connections
from tests.support.kubernetes_cluster import KubernetesCluster
from tests.support.short_jvms import SHORT_LIVED
from tests.support.yarn_tasks import SMALL, SPARK, insertion


def spark_home() -> Path:
    """Where Spark is, in every container."""
    (home,) = SPARK.glob("lib/python3*/site-packages/pyspark")
    return home


def connect(connections: Connections, cluster: KubernetesCluster, namespace: str) -> None:
    """Connections that lead there, `k8s_client` and `k8s_cluster`."""
    for mode in ("client", "cluster"):
        extra = {"deploy-mode": mode, "namespace": namespace}
        connections.add(f"k8s_{mode}", "spark", host=cluster.master, extra=extra)


def small(cluster: KubernetesCluster, mode: str, **conf: str) -> dict[str, Any]:
    """The arguments that make a task of ours a small one of pods; `conf` is more of Spark's."""
    own = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        **cluster.settings(),
    }
    if mode == "client":
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        own |= {"spark.driver.extraJavaOptions": SHORT_LIVED}
    return {"conn_id": f"k8s_{mode}", "conf": own | conf, **SMALL}


def insert(
    cluster: KubernetesCluster,
    table: object,
    mode: str,
    *ids: int,
    **more: Any,  # noqa: ANN401 - of the operator
) -> HiveAcidInsertOperator:
    """A task that inserts rows of these IDs."""
    return insertion(table, ids, **small(cluster, mode, **more.pop("conf", {})), **more)
