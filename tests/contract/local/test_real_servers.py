"""The servers of this room for real: Java, Derby and PostgreSQL."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.local.metastore.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig, PostgresDatabase
from airflow_hiveacid.local.stack import metastore_on_postgres, postgres_below

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


@pytest.fixture(params=["4.0.1", "3.1.3"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> LocalMetastoreConfig:
    return LocalMetastoreConfig(version=request.param, data_dir=tmp_path, ends_with_parent=True)


def test_a_metastore_answers_again_after_a_kill_and_without_its_marker(
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


def test_a_metastore_on_postgres_survives_the_death_of_both(config: LocalMetastoreConfig) -> None:
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


def test_a_database_can_be_made_afresh(tmp_path: Path) -> None:
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
