"""The servers of all plays: PostgreSQL, a metastore, a simulated YARN, and Airflow's components.

Input is a folder for their files. Output is a `Site`, which starts DAG runs, ends applications and
waits. Airflow is started as in the demonstration, with other settings.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.site import LocalMetastoreConfig, PostgresDatabase
from airflow_hiveacid.local.stack import start_on_postgres
from airflow_hiveacid.metastore.client import connect
from demo.airflow_api import AirflowApi
from demo.airflow_server import AirflowServer
from demo.layout import REPOSITORY, DemoLayout
from tests.support.airflow_support import FakeSpark, Warehouse
from tests.support.pretended_yarn import ResourceManager

DB: Final = "kills"
LIMIT_S: Final = 600.0
"""How long a play waits for anything that has to happen."""
_POLL_S: Final = 1.0


class NotSeenError(Exception):
    """Something that had to happen did not happen in time."""


def until(what: str, holds: Callable[[], object]) -> float:
    """Wait until something holds, and return the seconds.

    Raises:
        NotSeenError: it did not hold within `LIMIT_S`.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > LIMIT_S:
            raise NotSeenError(f"not seen within {LIMIT_S:g} s: {what}")
        time.sleep(_POLL_S)
    return time.monotonic() - began


@dataclass(frozen=True, kw_only=True)
class Site:
    """Everything that runs. `tables` is the list that dags/watches.py reads."""

    airflow: AirflowServer
    layout: DemoLayout
    warehouse: Warehouse
    yarn: ResourceManager
    spark: FakeSpark
    tables: Path
    settings: dict[str, str]

    @property
    def api(self) -> AirflowApi:
        """Airflow's API, with a new log-in."""
        return self.airflow.api()

    def launch(self, **more: str) -> None:
        """Start Airflow, or start it again with other settings, and wait until it is healthy.

        Raises:
            DemoError: a component did not start.
        """
        self.airflow.launch(
            metastore_uri=self.warehouse.uri,
            compaction_cron="@daily",
            settings={**self.settings, **more},
        )
        self.await_health()

    def await_health(self) -> None:
        """Wait until every component is healthy."""
        self.airflow.await_health(LIMIT_S)

    def kill(self, component: str, *, with_children: bool = True) -> None:
        """Kill a component with SIGKILL, start it again, and wait until it is healthy."""
        self.airflow.kill(component, with_children=with_children)
        self.await_health()


@contextmanager
def site(folder: Path, say: Callable[[str], None]) -> Iterator[Site]:
    """Run all servers during the block; their files stay in the folder."""
    with ExitStack() as stack:
        config = LocalMetastoreConfig(
            data_dir=folder / "metastore", start_timeout_s=LIMIT_S, ends_with_parent=True
        )
        metastore, postgres = start_on_postgres(config, say)
        stack.callback(postgres.destroy)
        stack.callback(metastore.stop)
        client = stack.enter_context(connect(MetastoreEndpoint(uris=(metastore.uri,))))
        client.create_database(DB)
        yarn = stack.enter_context(ResourceManager.started())
        spark = FakeSpark(directory=folder / "spark")
        spark.install()
        spark.hand_in_to(yarn.web)
        layout = DemoLayout(repository=REPOSITORY, home=folder)
        layout.prepare()
        made = Site(
            airflow=AirflowServer(layout, say=say),
            layout=layout,
            warehouse=Warehouse(client=client, uri=metastore.uri, db=DB),
            yarn=yarn,
            spark=spark,
            tables=folder / "tables.json",
            settings={
                **_airflow_settings(postgres.create_database("airflow", fresh=True)),
                **_connections(metastore.uri, yarn.web, folder),
                "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(spark.bin_dir),
                "KILLS_TABLES": str(folder / "tables.json"),
            },
        )
        stack.callback(made.airflow.stop)
        yield made


def _airflow_settings(database: PostgresDatabase) -> dict[str, str]:
    location = f"{database.user}:{database.password}@{database.host}:{database.port}"
    path = filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{location}/{database.name}",
        "AIRFLOW__CORE__PARALLELISM": "1",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "dags"),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # A task whose worker is lost is noticed after two minutes instead of five.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        # Other programs may keep the machine busy.
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": f"{LIMIT_S:g}",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": f"{LIMIT_S:g}",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    }


def _connections(uri: str, yarn: str, folder: Path) -> dict[str, str]:
    results = {"uris": uri, "result_dir": f"file:{folder}/results"}
    cluster = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn}
    connections: dict[str, dict[str, Any]] = {
        "HIVE_ACID_DEFAULT": {"conn_type": "hive_acid_metastore", "extra": results},
        "SPARK_DEFAULT": {"conn_type": "spark", "host": "yarn", "extra": cluster},
    }
    return {f"AIRFLOW_CONN_{name}": json.dumps(fields) for name, fields in connections.items()}
