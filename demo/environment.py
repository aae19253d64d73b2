"""Knows the settings under which Airflow and Spark run in the demonstration.

Everything travels in environment variables of the processes started here: nothing of the user's own
Airflow is read or changed. All servers listen on 127.0.0.1. Holds no secret.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.site import HOST
from demo.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from demo.layout import DemoLayout

MARK: Final = "HIVEACID_DEMO_HOME"
"""Stands in the environment of every process of a demonstration; its value says which one."""

# One merge, one task of the compaction DAG, and one to spare.
_PARALLELISM: Final = 3
# Small jobs of short life on two cores: the optimising compiler and a parallel collector cost more
# than they bring.
_SPARK_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

# Every line of Spark's goes through Airflow's task log; the application has a log of its own.
_SPARK_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def airflow_environment(
    layout: DemoLayout, *, port: int, metastore_uri: str, compaction_cron: str
) -> dict[str, str]:
    """Build the whole environment of Airflow's components, that of their Spark jobs included."""
    url = f"http://{HOST}:{port}"
    return {
        **_inherited(),
        **_spark(layout),
        MARK: str(layout.home),
        # Process titles would be written over the environment, and the mark with it.
        "SPT_NOENV": "1",
        "AIRFLOW_HOME": str(layout.airflow),
        "AIRFLOW__CORE__DAGS_FOLDER": str(layout.dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(_PARALLELISM),
        # A busy writer of this one file must not make the others fail.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{layout.airflow}/airflow.db?timeout=60",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(layout.passwords),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        # Tasks report to this address; changing the port alone would leave them with the default.
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # The files do not change while they run, and parsing them costs seconds of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT": _metastore_connection(metastore_uri),
        "AIRFLOW_VAR_FLIGHTS_CHANGES": layout.changes.as_uri(),
        "FLIGHTS_COMPACTION_CRON": compaction_cron,
        "NO_PROXY": f"{HOST},localhost",
        "no_proxy": f"{HOST},localhost",
    }


def write_spark_defaults(layout: DemoLayout) -> None:
    """Write Spark's configuration folder."""
    temporary = layout.scratch / "spark"
    temporary.mkdir(exist_ok=True)
    values = {**_SPARK_DEFAULTS, "spark.local.dir": str(temporary)}
    lines = "".join(f"{key} {value}\n" for key, value in values.items())
    (layout.spark_conf / "spark-defaults.conf").write_text(lines)
    (layout.spark_conf / "log4j2.properties").write_text(_SPARK_LOGGING)


def spark_home(layout: DemoLayout) -> Path:
    """Where the Spark environment keeps Spark.

    Raises:
        SetupError: it is not installed.
    """
    homes = sorted(layout.spark_programs.parent.glob("lib/python3*/site-packages/pyspark"))
    if not homes:
        raise SetupError(
            f"no pyspark below {layout.spark_programs.parent}; `make setup` installs it"
        )
    return homes[-1]


def _inherited() -> Mapping[str, str]:
    # Another Airflow's or Spark's settings, perhaps of the shell that started us, are not ours.
    foreign = ("AIRFLOW", "SPARK_", "PYSPARK_", "HADOOP_", "FLIGHTS_")
    return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}


def _spark(layout: DemoLayout) -> Mapping[str, str]:
    python = str(layout.spark_programs / "python")
    airflow_programs = os.path.dirname(sys.executable)  # noqa: PTH120 - a link must stay a link
    path = [str(layout.spark_programs), airflow_programs, os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(path),
        "SPARK_HOME": str(spark_home(layout)),
        "SPARK_CONF_DIR": str(layout.spark_conf),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def _metastore_connection(uri: str) -> str:
    host, _, port = uri.removeprefix("thrift://").rpartition(":")
    return json.dumps({"conn_type": "hive_acid_metastore", "host": host, "port": int(port)})
