"""Operators on a pretended Kubernetes with HDFS and a metastore behind Kerberos: whole jobs.

Spark has principal and keytab, which it sends a driver's pod as a secret. For `make clusters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from tests.support.airflow_support import Connections
from tests.support.kerberos_lab import FOLDERS, KerberosLab, keys_of
from tests.support.kerberos_tasks import (
    ENCRYPTED,
    connect_metastore,
    login_of_spark,
    made_table,
    take_part,
)
from tests.support.kubernetes_cluster import SPACE, KubernetesCluster
from tests.support.kubernetes_tasks import connect as connect_kubernetes, insert, small, spark_home
from tests.support.yarn_tasks import SPARK, insert_and_delete, rows_of

pytestmark = [pytest.mark.server, pytest.mark.clusters]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosLab]:
    with KerberosLab(tmp_path_factory.mktemp("lab")) as lab:
        lab.as_superuser(FOLDERS)
        yield lab


@pytest.fixture(scope="module")
def cluster(lab: KerberosLab) -> Iterator[KubernetesCluster]:
    """Its image has what a machine of the realm has, and nobody's login."""
    python = SPARK / "bin" / "python"
    with KubernetesCluster.started(lab.folder / "kubernetes", spark_home(), python) as found:
        found.kubelet.environment |= lab.hdfs.environment
        found.kubelet.environment["JAVA_TOOL_OPTIONS"] = lab.hdfs.jvm_flag
        yield found


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_insert_and_a_delete_run_in_pods_with_kerberos_on_every_server(
    lab: KerberosLab,
    cluster: KubernetesCluster,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """Rows by an executor's Python, then a change of what is there, each a driver of its own."""
    take_part(lab, lab.hdfs.conf, monkeypatch)
    connect_metastore(lab, connections, tmp_path, monkeypatch)
    connect_kubernetes(connections, cluster, SPACE)
    login = login_of_spark(lab)
    with HiveAcidHook().metastore() as client:
        table = made_table(client)
        query = "SELECT id, 'x' AS name FROM source DISTRIBUTE BY id"
        source = {"query": query}
        task = insert(
            cluster, table.ref, mode, 1, 2, 3, source=source, conf=dict(ENCRYPTED), **login
        )
        try:
            insert_and_delete(task, **small(cluster, mode, **ENCRYPTED), **login)
        except JobFailedError as error:
            error.add_note(cluster.said())
            raise
        assert [(row["id"], row["name"]) for row in rows_of(client, table)] == [(1, "x"), (3, "x")]


def test_a_search_for_secrets_finds_none_outside_the_volumes_of_the_pods(
    lab: KerberosLab, cluster: KubernetesCluster
) -> None:
    """The last. A pod's volumes have what it was sent; its log, and all else, has none of it."""
    kept = [name for name in lab.leaks() if "/volumes/" not in name and "hdfs/data/" not in name]
    assert kept == []
    (key, *_) = keys_of(lab.kdc.keytab("etl").read_bytes())
    (cluster.kubelet.folder / "some.log").write_bytes(b"x" + key)
    assert any(name.endswith("some.log") for name in lab.leaks())
