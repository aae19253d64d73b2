"""The servers of this room for real: Java, Derby and PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig, PostgresDatabase
from airflow_hiveacid.local.stack import metastore_on_postgres, postgres_below

pytestmark = pytest.mark.server


@pytest.fixture(
    params=[
        "4.0.1",
        "3.1.3",
        "4.2.0",
        *(pytest.param(version, marks=pytest.mark.long) for version in ("4.1.0", "3.1.2")),
    ]
)
def config(request: pytest.FixtureRequest, tmp_path: Path) -> LocalMetastoreConfig:
    return LocalMetastoreConfig(version=request.param, data_dir=tmp_path, ends_with_parent=True)


@pytest.mark.long_cases("4.0.1")
def test_a_metastore_starts_again_after_a_kill_and_without_its_schema_marker(
    config: LocalMetastoreConfig,
) -> None:
    with LocalMetastore(config) as metastore:
        port = metastore.port
        metastore.kill()
        assert not metastore.is_running()
        metastore.start()
        assert metastore.is_answering()
        assert metastore.port == port
        metastore.stop()
        # What a crash of the schema tool leaves: a database, no marker.
        metastore.discard_schema_marker()
        metastore.start()
        assert metastore.is_answering()


@pytest.mark.long_cases("4.0.1", "4.2.0")
def test_a_metastore_on_postgres_starts_again_after_both_servers_are_killed(
    config: LocalMetastoreConfig,
) -> None:
    with metastore_on_postgres(config) as metastore:
        assert isinstance(metastore.config.database, PostgresDatabase)
        postgres = postgres_below(config)
        metastore.kill()
        postgres.kill()
        assert not postgres.is_running()
        postgres.start()
        metastore.start()
        assert metastore.is_answering()
    assert not postgres.is_running()


def test_a_killed_postgres_starts_again_when_its_last_child_process_has_ended(
    tmp_path: Path,
) -> None:
    with postgres_below(LocalMetastoreConfig(data_dir=tmp_path, ends_with_parent=True)) as postgres:
        pid = json.loads(next(postgres.config.data_dir.glob("*.json")).read_text())["pid"]
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGSTOP)
        postgres.kill()
        with ThreadPoolExecutor(1) as beside:
            starting = beside.submit(postgres.start)
            while "pre-existing shared memory block" not in postgres.log_file.read_text():
                assert not starting.done()
                time.sleep(0.05)
            os.kill(child, signal.SIGCONT)
            starting.result()
        assert postgres.is_running()


def test_databases_can_be_created_recreated_and_removed_with_their_server(tmp_path: Path) -> None:
    config = LocalMetastoreConfig(data_dir=tmp_path)
    with postgres_below(config) as postgres:
        postgres.create_database("one")
        assert postgres.has_database("one")
        assert not postgres.has_database("two")
        postgres.create_database("one")
        postgres.create_database("one", fresh=True)
        with pytest.raises(ValueError, match="plain database name"):
            postgres.create_database('x"; DROP DATABASE one; --')
    shutil.rmtree(postgres.config.data_dir)
    with postgres:  # for root, the removed server's files are in /var/tmp
        assert not postgres.has_database("one")
    postgres.destroy()
    assert not (tmp_path / "postgres").exists()
