"""The README's DAG, in an empty DAG folder of an Airflow that has this provider from its wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.storage.scan import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.local.metastore import LocalMetastore
    from airflow_hiveacid.metastore.client import MetastoreClient

REPOSITORY = Path(__file__).resolve().parents[2]
CUSTOMERS = TableRef("demo", "customers")


def run(*arguments: str, cwd: Path = REPOSITORY, **variables: str) -> str:
    """Run a module of this environment, which finds what lies in `cwd` first.

    Its output is shown when it fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, **variables},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs, its entry points included."""
    folder = tmp_path_factory.mktemp("wheel")
    run("build", "--wheel", "--no-isolation", "--outdir", str(folder))
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    run("pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    return site


@pytest.fixture
def client(hive_metastore: LocalMetastore) -> Iterator[MetastoreClient]:
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as opened:
        yield opened


@pytest.fixture
def customers(client: MetastoreClient) -> Iterator[TableInfo]:
    columns = (Column(name="id", type="bigint"), Column(name="name", type="string"))
    client.create_database(CUSTOMERS.db)
    yield client.create_table(NewTable(ref=CUSTOMERS, columns=columns))
    client.drop_table(CUSTOMERS)


def rows(client: MetastoreClient, table: TableInfo) -> list[dict[str, object]]:
    txns = client.valid_txns()
    write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
    found = scan(table.location, table.columns, write_ids, txns)
    return sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: row["id"])


@pytest.fixture
def environment(installed: Path, hive_metastore: LocalMetastore, tmp_path: Path) -> dict[str, str]:
    dags = tmp_path / "dags"
    dags.mkdir()
    readme = (REPOSITORY / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (dags / "example.py").write_text(block)
    return {
        "PYTHONPATH": str(installed),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(REPOSITORY / ".venv-spark" / "bin"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(
            {
                "conn_type": "hive_acid_metastore",
                "host": "127.0.0.1",
                "port": hive_metastore.port,
            }
        ),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_the_readme_dag_runs_from_the_wheel(
    environment: dict[str, str], client: MetastoreClient, customers: TableInfo, tmp_path: Path
) -> None:
    listed = run("airflow", "providers", "list", "--output", "plain", cwd=tmp_path, **environment)
    assert "airflow-provider-hiveacid" in listed
    run("airflow", "db", "migrate", cwd=tmp_path, **environment)
    told = run("airflow", "dags", "test", "merge_customers", cwd=tmp_path, **environment)
    assert environment["PYTHONPATH"] in told  # the application that was submitted is the wheel's
    assert rows(client, customers) == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
