"""A fresh Airflow of its own for these tests.

Airflow reads its home when it is imported, so the home is made here, before any test module is.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_support import METASTORE_URI, Connections, FakeSpark, Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.local.metastore import LocalMetastore

_HOME: Final = Path(tempfile.mkdtemp(prefix="hiveacid-airflow-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": str(_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(_HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}
for _name in [n for n in os.environ if n.startswith("AIRFLOW_CONN_")]:
    del os.environ[_name]


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """The home, with a database in it."""
    from airflow.utils.db import initdb  # noqa: PLC0415 - reads the environment set above

    (_HOME / "dags").mkdir(exist_ok=True)
    initdb()
    return _HOME


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """A metastore that nobody answers for, and a local Spark."""
    made = Connections(monkeypatch=monkeypatch)
    made.add("hive_acid_default", "hive_acid_metastore", extra={"uris": METASTORE_URI})
    made.add("spark_default", "spark", host="local[1]")
    return made


@pytest.fixture
def spark(tmp_path: Path) -> FakeSpark:
    """A pretending Spark, told to succeed."""
    fake = FakeSpark(directory=tmp_path / "spark")
    fake.install()
    return fake


@pytest.fixture
def warehouse(hive_metastore: LocalMetastore, connections: Connections) -> Iterator[Warehouse]:
    """A fresh database on a real 4.0.1, to which the default connection leads."""
    connections.add("hive_acid_default", "hive_acid_metastore", extra={"uris": hive_metastore.uri})
    db = f"airflow_{uuid.uuid4().hex[:12]}"
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as client:
        client.create_database(db)
        yield Warehouse(client=client, uri=hive_metastore.uri, db=db)


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Attempts whose transactions were aborted."""
    found: list[str] = []
    monkeypatch.setattr(
        "airflow_hiveacid.operators.spark_app.abort_attempt",
        lambda spec: found.append(spec.attempt),
    )
    return found
