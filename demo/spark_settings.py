"""The settings with which many short Spark jobs start fast, on two cores and without a cluster.

All settings of Spark and its Java are in one file of Java options, which each job reads when it
starts. The file also selects the class archive: the first job writes its loaded and verified
classes to the archive, and later jobs read them (saving 4 of 14 CPU seconds per job). Java refuses
an archive if a folder on the class path contains files, so Spark's own configuration folder stays
empty. Java silently ignores an archive that does not match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.site import HOST
from demo.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from demo.layout import DemoLayout

# For short jobs, the optimising compiler and a parallel garbage collector cost more than they save.
_JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:cds*=off")
_SPARK: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
}
# All of Spark's output goes to Airflow's task log; the application has its own logging.
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


def spark_environment(layout: DemoLayout) -> Mapping[str, str]:
    """Return the environment variables for `spark-submit`, except PATH.

    Raises:
        SetupError: Spark is not installed.
    """
    python = str(layout.spark_programs / "python")
    return {
        "SPARK_HOME": str(spark_home(layout)),
        "SPARK_CONF_DIR": str(_folder(layout) / "empty"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(_folder(layout) / "local"),
        "SPARK_SUBMIT_OPTS": f"-XX:VMOptionsFile={_options(layout)}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def use_classes(layout: DemoLayout) -> None:
    """Write the settings so that new jobs use the class archive if it exists."""
    _write(layout, f"-XX:SharedArchiveFile={_archive(layout)}")


def record_classes(layout: DemoLayout) -> None:
    """Write the settings so that a new job writes the class archive when it exits."""
    _write(layout, f"-XX:ArchiveClassesAtExit={_archive(layout)}")


def has_classes(layout: DemoLayout) -> bool:
    """Return True if there is a class archive."""
    return _archive(layout).is_file()


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


def _write(layout: DemoLayout, archive: str) -> None:
    for name in ("empty", "local"):
        (_folder(layout) / name).mkdir(parents=True, exist_ok=True)
    logging = _folder(layout) / "log4j2.properties"
    logging.write_text(_LOGGING)
    settings = {**_SPARK, "log4j2.configurationFile": logging.as_uri()}
    options = [*_JAVA, archive, *(f"-D{key}={value}" for key, value in settings.items())]
    scratch = _options(layout).with_suffix(".new")
    scratch.write_text("".join(f"{option}\n" for option in options))
    scratch.replace(_options(layout))  # in one step, since a job may be starting


def _folder(layout: DemoLayout) -> Path:
    return layout.home / "spark"


def _options(layout: DemoLayout) -> Path:
    return _folder(layout) / "java.options"


def _archive(layout: DemoLayout) -> Path:
    return _folder(layout) / "classes.jsa"
