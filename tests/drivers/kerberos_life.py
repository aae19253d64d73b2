"""Scenarios of a driver in a cluster behind Kerberos, for `kerberos_lab`.

    kerberos_life.py STORY METASTORE KEYTAB FOLDER

A scenario writes its findings to notes.json in the folder, and its secrets to secrets.json.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.jobs import maintenance, statements
from airflow_hiveacid.jobs.endpoint import KerberosLogin, MetastoreEndpoint
from airflow_hiveacid.metastore.auth.tokens import named_tokens
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine.session import open_session
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.storage.stores.listing import list_table
from tests.support.spark_lab import Lab, Row

CLAUSES = [
    statements.MergeClause(when=statements.MergeWhen.MATCHED, action=statements.MergeAction.UPDATE),
    statements.MergeClause(
        when=statements.MergeWhen.NOT_MATCHED, action=statements.MergeAction.INSERT
    ),
]
NAMES = ["id", "v", "p"]
TOKENS = "HADOOP_TOKEN_FILE_LOCATION"


class Driver:
    """A session, a database on HDFS, and what is noted."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self._folder = lab, folder
        self._notes: dict[str, Any] = {}

    def note(self, name: str, value: object) -> None:
        self._notes[name] = value
        scratch = self._folder / "notes.new"
        scratch.write_text(json.dumps(self._notes))
        scratch.replace(self._folder / "notes.json")

    def wait_for(self, name: str) -> None:
        """Until whoever started this driver has made a file of that name."""
        until = time.monotonic() + 120
        while not (self._folder / name).exists():
            assert time.monotonic() < until, f"no {name}"
            time.sleep(0.1)

    def keep_secrets(self) -> None:
        file = self._folder / "secrets.json"
        known = set(json.loads(file.read_text())) if file.exists() else set()
        if TOKENS in os.environ:
            tokens = named_tokens(Path(os.environ[TOKENS]).read_bytes()).values()
            known |= {token.password.hex() for token in tokens}
            self.note("kinds", sorted({token.kind for token in tokens}))
        file.touch(0o600)
        file.write_text(json.dumps(sorted(known)))

    def check(self, table: str, rows: list[Row]) -> None:
        """What Spark's reader finds, and Arrow's in Python workers."""
        lab = self.lab
        info = lab.info(table)
        target = resolve_target(lab.spark, lab.client, info, lab.snapshot(table))
        assert lab.rows(table) == sorted(rows)
        by_arrow = target.read_with_arrow(info.column_names).collect()
        assert sorted(tuple(row)[1:3] for row in by_arrow) == sorted(row[:2] for row in rows)

    def bucketed(self, name: str) -> None:
        """A table whose rows Python workers write, however few they are."""
        columns = {"id": "int", "v": "string"}
        self.lab.table(name, columns, partition={"p": "string"}, buckets=("id", 2))


def small(driver: Driver) -> None:
    """The life in small: rows by Python workers, a change, a compaction, both readers."""
    lab = driver.lab
    driver.bucketed("t")
    lab.insert("t", [(i, f"v{i}", "a") for i in range(4)], NAMES)
    lab.update("t", {"v": "'u'"}, "id = 1")
    rows: list[Row] = [(0, "v0", "a"), (1, "u", "a"), (2, "v2", "a"), (3, "v3", "a")]
    lab.compact("t", maintenance.CompactionChoice.MAJOR)
    lab.clean("t")
    driver.check("t", rows)
    driver.note("directories", _directories(lab, "t"))


def life(driver: Driver) -> None:
    """Every kind of change, of few rows and of many; compactions, cleaning, both readers."""
    lab = driver.lab
    driver.bucketed("t")
    lab.insert("t", [(i, f"v{i}", "a") for i in range(6)], NAMES)
    lab.update("t", {"v": "'u'"}, "id = 1")
    lab.delete("t", "id = 0")
    lab.merge("t", [(2, "m", "a"), (9, "new", "a")], NAMES, ["id", "p"], CLAUSES)
    rows: list[Row] = [
        *((1, "u", "a"), (2, "m", "a"), (3, "v3", "a")),
        *((4, "v4", "a"), (5, "v5", "a"), (9, "new", "a")),
    ]
    driver.check("t", rows)
    for choice in (maintenance.CompactionChoice.MINOR, maintenance.CompactionChoice.MAJOR):
        done = lab.compact("t", choice)
        driver.note(choice.value, done.status.value)
        lab.clean("t")
        driver.check("t", rows)
    driver.note("directories", _directories(lab, "t"))
    lab.table("b", {"id": "int", "v": "string"})
    many = "SELECT CAST(id AS INT) AS id, CAST(id AS STRING) AS v FROM range(100000)"
    source = statements.SourceSpec(values=((1,),), columns=("x",), query=many)
    lab.run(statements.InsertSpec(target=f"{lab.db}.b", source=source))
    lab.update("b", {"v": "'x'"}, "id % 2 = 0")
    assert lab.frame("b").where("v = 'x'").count() == 50_000
    assert lab.frame("b").count() == 100_000


def outlive(driver: Driver) -> None:
    """Write, wait longer than a ticket or a token lives, write again."""
    lab = driver.lab
    driver.bucketed("t")
    lab.insert("t", [(1, "before", "a")], NAMES)
    driver.keep_secrets()
    driver.note("waits", "yes")
    driver.wait_for("over")
    try:
        lab.insert("t", [(2, "after", "a")], NAMES)
        driver.note("error", None)
    except HiveAcidError as error:
        driver.note("error", [type(error).__name__, error.retryable, str(error)])
    driver.note("rewrites", "yes")
    driver.wait_for("back")
    driver.note("rows", lab.rows("t"))
    driver.note("open", [t for t in _directories(lab, "t") if "_tmp_" in t])


def held(driver: Driver) -> None:
    """Stand in a transaction, before its rows are written, until one goes on."""
    lab = driver.lab
    driver.bucketed("t")
    lab.insert("t", [(1, "before", "a")], NAMES)

    def step(name: str) -> None:
        if name == "snapshot":
            driver.note("waits", "yes")
            driver.wait_for("over")

    try:
        lab.insert("t", [(2, "after", "a")], NAMES, on_step=step)
        driver.note("error", None)
    except HiveAcidError as error:
        driver.note("error", [type(error).__name__, error.retryable, str(error)])
    driver.note("rewrites", "yes")
    driver.wait_for("back")
    driver.note("rows", lab.rows("t"))


def own(driver: Driver) -> None:
    """Read a table in a session of one's own, as README does."""
    name = os.environ["TABLE"]
    with read_snapshot(driver.lab.endpoint, [name], job_key="own") as snapshot:
        rows = read_table(driver.lab.spark, name, snapshot).collect()
        driver.note("rows", sorted(tuple(row) for row in rows))


def _directories(lab: Lab, table: str) -> list[str]:
    return sorted(list_table(lab.info(table).location).directories)


JOB_FUNCTIONS = {"small": small, "life": life, "outlive": outlive, "held": held, "own": own}


def main(scenario: str, uri: str, keytab: str, folder: str) -> None:
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.DEBUG)  # whoever debugs has it so
    spark = SparkSession.builder.getOrCreate() if scenario == "own" else open_session("kerberos")
    login = KerberosLogin(
        service="hive/_HOST@HIVEACID.TEST", client="etl@HIVEACID.TEST", keytab=keytab
    )
    endpoint = MetastoreEndpoint(uris=(uri,), login=login)
    with connect(endpoint) as client:
        db = f"krb_{uuid.uuid4().hex[:8]}"
        client.create_database(db)
        driver = Driver(Lab(spark=spark, endpoint=endpoint, client=client, db=db), Path(folder))
        driver.keep_secrets()
        driver.note("table", f"{db}.t")
        JOB_FUNCTIONS[scenario](driver)
        driver.keep_secrets()
        driver.note("done", "yes")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
