"""What docker-compose.yml runs before its first trigger, run here: log-in, tables, batches."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import connect
from demo.changes import BOOTSTRAP_FILE
from demo.flights_table import FLIGHTS

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = "/opt/hiveacid/source"


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
    return dict(found["services"])


def run(
    service: dict[str, Any], replaced: dict[str, str], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a service's command here, in the same folder of the sources."""
    here = {"python": sys.executable, SOURCE: str(REPOSITORY), **replaced}
    command = [word.replace(SOURCE, str(REPOSITORY)) for word in service["command"]]
    programs = str(Path(sys.executable).parent)
    return subprocess.run(
        [here.get(word, word) for word in command],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **variables},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_prepare_service_creates_the_database_and_a_private_password_file(
    services: dict[str, Any], tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords.json"
    done = run(
        services["airflow-prepare"],
        {},
        AIRFLOW_HOME=str(tmp_path),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{tmp_path}/airflow.db",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(passwords),
        AIRFLOW_ADMIN_PASSWORD="for-this-test",
    )
    assert done.returncode == 0, done.stderr
    assert "for-this-test" not in done.stdout + done.stderr
    # What Airflow's own manager reads, for the user that it has by default.
    assert json.loads(passwords.read_text()) == {"admin": "for-this-test"}
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    assert (tmp_path / "airflow.db").exists()


def test_the_tables_service_creates_the_table_and_the_batches_of_the_flights_dags(
    services: dict[str, Any], hive_metastore: LocalMetastore, tmp_path: Path
) -> None:
    replaced = {
        "thrift://metastore:9083": hive_metastore.uri,
        "/warehouse/changes": str(tmp_path / "changes"),
        "31": "2",
    }
    for answer in ("is new", "exists"):
        done = run(services["tables"], replaced)
        assert done.returncode == 0, done.stderr
        assert answer in done.stdout
    assert sorted(file.name for file in (tmp_path / "changes").iterdir()) == [
        "2013-01-01.parquet",
        "2013-01-02.parquet",
        BOOTSTRAP_FILE,
    ]
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        assert client.get_table(FLIGHTS).is_partitioned
        client.drop_table(FLIGHTS)


def test_the_flights_dags_read_the_folder_that_the_tables_service_fills(
    services: dict[str, Any],
) -> None:
    command = services["tables"]["command"]
    folder = command[command.index("--changes") + 1]
    for name in ("airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"):
        environment = services[name]["environment"]
        assert environment["AIRFLOW_VAR_FLIGHTS_CHANGES"] == f"file://{folder}"
        assert any(mount.startswith("warehouse:") for mount in services[name]["volumes"])


def test_only_the_prepare_service_gets_the_admin_password(services: dict[str, Any]) -> None:
    seen = {
        name
        for name, service in services.items()
        if "AIRFLOW_ADMIN_PASSWORD" in service.get("environment", {})
    }
    assert seen == {"airflow-prepare"}
