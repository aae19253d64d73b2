"""Opens a session as an application does and tells in which time zones its JVMs run."""

from __future__ import annotations

import json

from airflow_hiveacid.spark.engine import jvm_of
from airflow_hiveacid.spark.engine.session import open_session, runs_in_utc


def main() -> None:
    spark = open_session("time zones")
    found = {
        "driver": jvm_of(spark).java.util.TimeZone.getDefault().getID(),
        "executors": spark.sparkContext.getConf().get("spark.executor.extraJavaOptions"),
        "name": spark.sparkContext.appName,
        "is_utc": runs_in_utc(spark),
        "speculation": spark.sparkContext.getConf().get("spark.speculation"),
    }
    print(json.dumps(found))  # noqa: T201 - the answer
    spark.stop()


if __name__ == "__main__":
    main()
