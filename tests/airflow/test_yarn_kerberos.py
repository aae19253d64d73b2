"""Operators where every server requires a login: YARN, its pages, HDFS and the metastore.

Spark has principal and keytab, or a ticket cache; the metastore is reached by keytab, or by the
token that Spark has fetched for the driver's container. For `make clusters`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ClusterUnavailableError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.operators import hive_acid, maintenance
from airflow_hiveacid.operators.submission.http import Negotiate
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
from airflow_hiveacid.storage.stores.listing import list_table
from tests.support import airflow_support, kerberos_tasks
from tests.support.kerberos_lab import FOLDERS, USER, KerberosLab
from tests.support.mini_yarn import MiniYarn, YarnLogin, outside
from tests.support.yarn_tasks import insert, rows_of, small, wait_for_lock

_TOKEN_S = 90
pytestmark = [pytest.mark.server, pytest.mark.clusters]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosLab]:
    with KerberosLab(tmp_path_factory.mktemp("lab")) as lab:
        lab.as_superuser(FOLDERS)
        yield lab


@pytest.fixture(scope="module")
def yarn(lab: KerberosLab) -> Iterator[MiniYarn]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(lab.kdc.configuration))
        login = YarnLogin(hdfs=lab.hdfs, user=USER)
        with MiniYarn.started(lab.folder / "yarn", lab.hdfs.uri, login) as server:
            yield server


@pytest.fixture
def machine(lab: KerberosLab, yarn: MiniYarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """See `take_part`."""
    kerberos_tasks.take_part(lab, yarn.conf, monkeypatch)


@pytest.fixture
def connected(
    lab: KerberosLab,
    machine: None,
    connections: airflow_support.Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """Connections that lead to all of these servers; what the metastore's says of the login."""
    del machine
    return _connect(lab, connections, tmp_path, monkeypatch)


def _connect(
    lab: KerberosLab,
    connections: airflow_support.Connections,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    for mode in ("client", "cluster"):
        connections.add(f"yarn_{mode}", "spark", host="yarn", extra={"deploy-mode": mode})
    return kerberos_tasks.connect_metastore(lab, connections, folder, monkeypatch)


@pytest.fixture
def client(connected: dict[str, Any]) -> Iterator[MetastoreClient]:
    del connected
    with HiveAcidHook().metastore() as client:
        yield client


@pytest.fixture
def table(client: MetastoreClient) -> TableInfo:
    return kerberos_tasks.made_table(client)


@pytest.fixture
def keytab(lab: KerberosLab) -> dict[str, str]:
    return kerberos_tasks.login_of_spark(lab)


def _rows(client: MetastoreClient, table: TableInfo) -> list[tuple[int, str | None]]:
    return [(row["id"], row["name"]) for row in rows_of(client, table)]


def _context(name: str) -> dict[str, Any]:
    return airflow_support.context_of(name, task_state_store=airflow_support.StateStore())


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_insert_merge_compaction_and_cleaning_run_on_yarn_with_kerberos(
    yarn: MiniYarn, client: MetastoreClient, table: TableInfo, keytab: dict[str, str], mode: str
) -> None:
    """Rows by an executor's Python, a MERGE, a compaction, cleaning; each a driver of its own."""
    query = "SELECT id, 'first' AS name FROM source DISTRIBUTE BY id"
    task = insert(table.ref, mode, 1, 2, source={"query": query}, **keytab)
    done = airflow_support.run_task(task, _context("insert"))
    assert (done["status"], done["rows"]["inserted"]) == ("committed", 2)
    merge = hive_acid.HiveAcidMergeOperator(
        task_id="merge",
        table=str(table.ref),
        source={"columns": ["id", "name"], "values": [[2, "second"], [3, "third"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
        engine="spark",
        **small(mode),
        **keytab,
    )
    assert airflow_support.run_task(merge, _context("merge"))["status"] == "committed"
    rows = [(1, "first"), (2, "second"), (3, "third")]
    assert _rows(client, table) == rows
    compact = maintenance.HiveAcidCompactOperator(
        task_id="compact", table=str(table.ref), choice="major", **small(mode), **keytab
    )
    assert airflow_support.run_task(compact, _context("compact"))["status"] == "committed"
    clean = maintenance.HiveAcidCleanOperator(
        task_id="clean", table=str(table.ref), **small(mode), **keytab
    )
    airflow_support.run_task(clean, _context("clean"))
    (base,) = [name for name in list_table(table.location).directories if not name.startswith("_")]
    assert re.match(r"base_0000002", base)
    assert _rows(client, table) == rows
    users = {app["user"] for app in yarn.applications()}
    assert users == {USER}


def test_a_kill_ends_the_application_and_aborts_its_transaction(
    yarn: MiniYarn, client: MetastoreClient, table: TableInfo, keytab: dict[str, str]
) -> None:
    """The resource manager takes the order from who shows a ticket."""
    query = airflow_support.napping(600).replace("SELECT id FROM", "SELECT id, 'x' AS name FROM")
    task = insert(table.ref, "cluster", 1, source={"query": query}, **keytab)
    airflow_support.killed_when(task, _context("insert"), lambda: wait_for_lock(client, table.ref))
    assert yarn.wait_for("KILLED")["user"] == USER
    assert client.show_locks(table.ref) == ()
    assert _rows(client, table) == []


def test_without_a_keytab_the_driver_uses_the_metastore_token_that_spark_fetched(
    lab: KerberosLab,
    yarn: MiniYarn,
    connected: dict[str, Any],
    table: TableInfo,
    client: MetastoreClient,
    connections: airflow_support.Connections,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after kinit: nobody has a keytab, and Spark fetches a token of the metastore."""
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    monkeypatch.setenv("KRB5CCNAME", lab.cache())
    named = ("kerberos_client", "kerberos_keytab")
    login = {name: value for name, value in connected.items() if name not in named}
    connections.add("hive_acid_default", "hive_acid_metastore", extra=login)
    site = {
        "hive.metastore.uris": lab.metastore.uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": lab.kdc.principal("hive/localhost"),
    }
    entries = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in site.items()
    )
    file = yarn.conf / "hive-site.xml"
    file.write_text(f"<configuration>{''.join(entries)}</configuration>")
    try:
        query = "SELECT id, 'x' AS name FROM source DISTRIBUTE BY id"
        task = insert(table.ref, "cluster", 5, source={"query": query})
        done = airflow_support.run_task(task, _context("insert"))
    finally:
        file.unlink()
    assert done["status"] == "committed"
    assert _rows(client, table) == [(5, "x")]


def test_without_a_ticket_the_error_explains_why_yarn_cannot_be_queried(
    lab: KerberosLab, yarn: MiniYarn, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del machine
    manager = ResourceManager(addresses=(yarn.web,))
    assert manager.report("application_1_0001") is None  # by the worker's own keytab
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{lab.folder / 'cache-nobody'}")
    with pytest.raises(ClusterUnavailableError, match=r"no ticket for HTTP/localhost@") as caught:
        ResourceManager(addresses=(yarn.web,), auth=Negotiate(realm=lab.kdc.config.realm)).find("x")
    assert "KRB5CCNAME" in str(caught.value)


def test_a_search_for_secrets_finds_none_outside_the_files_of_yarn_and_hdfs(
    lab: KerberosLab, yarn: MiniYarn
) -> None:
    """The last: what containers were given is known by then."""
    assert yarn.keep_secrets() > 0
    assert outside(lab.leaks()) == []
    planted = lab.folder / "yarn" / "logs" / "some.log"
    planted.write_bytes(b"x" + yarn.passwords()[0])
    assert outside(lab.leaks()) == ["yarn/logs/some.log"]


def test_a_transaction_can_last_longer_than_the_first_tokens_of_its_containers(
    tmp_path: Path, connections: airflow_support.Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first statement lasts longer; the second's rows are written by executors' Python."""
    life = str(_TOKEN_S * 1000)
    settings = {
        "dfs.namenode.delegation.token.renew-interval": life,
        "dfs.namenode.delegation.token.max-lifetime": life,
        "dfs.namenode.delegation.key.update-interval": "3600000",
    }
    with ExitStack() as stack:
        lab = stack.enter_context(KerberosLab(tmp_path / "lab", settings=settings))
        lab.as_superuser(FOLDERS)
        monkeypatch.setenv("KRB5_CONFIG", str(lab.kdc.configuration))
        login = YarnLogin(hdfs=lab.hdfs, user=USER)
        yarn = stack.enter_context(MiniYarn.started(tmp_path / "yarn", lab.hdfs.uri, login))
        kerberos_tasks.take_part(lab, yarn.conf, monkeypatch)
        _connect(lab, connections, tmp_path, monkeypatch)
        client = stack.enter_context(HiveAcidHook().metastore())
        table = kerberos_tasks.made_table(client)
        columns = {"columns": ["id", "name"], "values": [[1, "x"]]}
        slow = airflow_support.napping(_TOKEN_S + 20).replace("SELECT id", "SELECT id, name")
        quick = "SELECT id + 1 AS id, name FROM source DISTRIBUTE BY id"
        task = HiveAcidTransactionOperator(
            task_id="slow",
            statements=[
                {"insert": {"table": str(table.ref), "source": {**columns, "query": query}}}
                for query in (slow, quick)
            ],
            engine="spark",
            **small("cluster", **kerberos_tasks.ENCRYPTED),
            **kerberos_tasks.login_of_spark(lab),
        )
        done = airflow_support.run_task(task, _context("slow"))
        assert done["status"] == "committed"
        assert _rows(client, table) == [(1, "x"), (2, "x")]
        assert "StoreUnavailableError" in _said_with(yarn.token_files()[0], table)


def _said_with(tokens: Path, table: TableInfo) -> str:
    """What a process says that lists a table by a file of tokens, and nothing else."""
    look = (
        "import sys\n"
        "from airflow_hiveacid.storage.stores.listing import list_table\n"
        "list_table(sys.argv[1])\n"
    )
    own = ("KRB5CCNAME", "KRB5_CLIENT_KTNAME")
    done = subprocess.run(
        [sys.executable, "-c", look, table.location],
        env={
            **{name: value for name, value in os.environ.items() if name not in own},
            "HADOOP_TOKEN_FILE_LOCATION": str(tokens),
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr
