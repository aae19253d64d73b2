"""The settings of the demonstration's Spark jobs: many short jobs, on two cores, without a cluster.

All settings are Java options in one variable. The operators add their own options to it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.site import HOST
from demo.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from demo.layout import DemoLayout

# For short jobs, the optimising compiler and a parallel garbage collector cost more than they save.
_JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SPARK: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}


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
