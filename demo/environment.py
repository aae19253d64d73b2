"""The settings of Airflow and Spark in the demonstration.

All settings are environment variables of the demonstration's processes; the user's own Airflow is
neither read nor changed. All servers listen on 127.0.0.1. The settings contain no secret.

Spark runs many short jobs, on two cores, without a cluster. All its settings are Java options in
one variable, to which the operators add their own options.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.site import HOST
from demo.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from demo.layout import DemoLayout

MARK: Final = "HIVEACID_DEMO_HOME"
"""The variable that marks a demonstration's processes; its value is the demonstration's folder."""

# For short jobs, the optimising compiler and a parallel garbage collector cost more than they save.
_JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SPARK: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}
# How many tasks may run at once: one merge, one task of the compaction DAG, and one more.
_PARALLELISM: Final = 3


def airflow_environment(
    layout: DemoLayout, *, port: int, metastore_uri: str, compaction_cron: str
) -> dict[str, str]:
    """Build the complete environment of Airflow's components and their Spark jobs."""
    url = f"http://{HOST}:{port}"
    return {
        **_inherited(),
        **spark_environment(layout),
        "PATH": _path(layout),
        MARK: str(layout.home),
        # Without this variable, a new process title would overwrite the environment and thus
        # `MARK`.
        "SPT_NOENV": "1",
        "AIRFLOW_HOME": str(layout.airflow),
        "AIRFLOW__CORE__DAGS_FOLDER": str(layout.dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(_PARALLELISM),
        # Keep SQLite's time-out of five seconds: Airflow's server can block itself for that time.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{layout.airflow}/airflow.db",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(layout.passwords),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        # Tasks report to this URL; if only the port were set, they would use the default URL.
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # Parse DAG files rarely: they do not change, and parsing takes seconds of CPU.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": _metastore_connection(metastore_uri),
        "AIRFLOW_VAR_FLIGHTS_CHANGES": layout.changes.as_uri(),
        "FLIGHTS_COMPACTION_CRON": compaction_cron,
        "NO_PROXY": f"{HOST},localhost",
        "no_proxy": f"{HOST},localhost",
    }


def _inherited() -> Mapping[str, str]:
    # Do not pass on the calling shell's settings for other installations of Airflow and Spark.
    foreign = ("AIRFLOW", "SPARK_", "PYSPARK_", "HADOOP_", "FLIGHTS_")
    return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}


def _path(layout: DemoLayout) -> str:
    airflow_programs = os.path.dirname(sys.executable)  # noqa: PTH120 - a link must stay a link
    path = [str(layout.spark_programs), airflow_programs, os.environ.get("PATH", os.defpath)]
    return os.pathsep.join(path)


def _metastore_connection(uri: str) -> str:
    host, _, port = uri.removeprefix("thrift://").rpartition(":")
    return json.dumps({"conn_type": "hive_acid_metastore", "host": host, "port": int(port)})


def spark_environment(layout: DemoLayout) -> Mapping[str, str]:
    """Return the environment variables for `spark-submit`, except PATH."""
    python = str(layout.spark_programs / "python")
    options = [*_JAVA, *(f"-D{key}={value}" for key, value in _SPARK.items())]
    return {
        "SPARK_HOME": str(spark_home(layout)),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(layout.home / "spark"),
        "SPARK_SUBMIT_OPTS": shlex.join(options),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def spark_home(layout: DemoLayout) -> Path:
    """Return Spark's folder in the Spark environment.

    Raises:
        SetupError: Spark is not installed.
    """
    homes = sorted(layout.spark_programs.parent.glob("lib/python3*/site-packages/pyspark"))
    if not homes:
        raise SetupError(
            f"no pyspark below {layout.spark_programs.parent}; `make setup` installs it"
        )
    return homes[-1]
