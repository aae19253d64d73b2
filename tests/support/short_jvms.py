"""Knows how Spark's JVMs start fast, for the tests alone.

The class archive holds Spark's classes as loaded and verified (`python tests/support/short_jvms.py
spark-submit` makes it, for `make test`); Java passes over one that is missing or does not fit. In
JVMs that live for seconds, what the optimising compiler costs never comes back, either. A job that
writes, reads and shuffles two rows took 30 CPU seconds, 18 without that compiler, 11 with both. In
one that stays for half an hour that compiler took a third of the time, since every query brings new
classes; called upon five times later it takes half of that (107 CPU seconds in place of 149).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(__file__).resolve().parents[2] / "build" / "spark-classes" / "classes.jsa"
_SHORT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds*=off"
# Java's own thresholds times five.
_LATE: Final = (
    "-XX:Tier4InvocationThreshold=25000 -XX:Tier4MinInvocationThreshold=3000"
    " -XX:Tier4CompileThreshold=75000 -XX:Tier4BackEdgeThreshold=200000"
)

# Java's options: for a JVM that stays, and for one that lives for seconds.
CLASSES: Final = f"{_LATE} -XX:+UseSerialGC -Xlog:cds*=off -XX:SharedArchiveFile={ARCHIVE}"
SHORT_LIVED: Final = f"{_SHORT} -XX:SharedArchiveFile={ARCHIVE}"
# The environment of a `spark-submit`, and of a master or a worker.
ENVIRONMENT: Final = {
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
    "SPARK_SUBMIT_OPTS": SHORT_LIVED,
    "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
}
_PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.createDataFrame([(1, "a"), (2, "b")], "id int, s string").write.orc(sys.argv[1])
rows = spark.read.orc(sys.argv[1]).groupBy("s").count()
assert len(rows.mapInArrow(lambda batches: batches, "s string, count long").collect()) == 2
spark.stop()
"""


def record(spark_submit: str) -> None:
    """Have a small job leave its classes in the archive, in one step."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    scratch = ARCHIVE.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(_PROGRAM, encoding="utf-8")
        subprocess.run(
            [spark_submit, "--master", "local[1]", str(program), f"{folder}/rows"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": f"{_SHORT} -XX:ArchiveClassesAtExit={scratch}",
            },
        )
    scratch.replace(ARCHIVE)


if __name__ == "__main__":
    record(sys.argv[1])
