"""Plays of the example DAGs: Airflow parses all of them, and one runs with a real local Spark."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Final

from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proofs.airflow.site import Site

_BUNDLE: Final = "airflow_hiveacid.bundles.HiveAcidExampleDagBundle"
_RUNS: Final = "merge_customers"
"""An example that needs no earlier table: it creates one and merges rows into it."""


def examples(site: Site) -> Iterator[Row]:
    """Parse all example DAGs in an Airflow with a local Spark, then run one of them."""
    bundles = [{"name": "examples", "classpath": _BUNDLE, "kwargs": {}}]
    site.launch(
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(bundles),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
        AIRFLOW__HIVEACID__SPARK_BIN_DIR=str(site.layout.spark_programs),
    )
    yield _parsed(site)
    yield _ran(site)


def _parsed(site: Site) -> Row:
    began, api = time.monotonic(), site.api
    until("the parsed examples", lambda: _RUNS in api.dag_ids())
    files = {file.name for file in site.layout.dags.glob("*.py") if not file.stem.startswith("_")}
    until("each example file", lambda: api.dag_files() >= files or api.import_errors())
    errors = api.import_errors()
    return Row(
        play="examples",
        title="the DAG processor parses the example DAGs",
        seen=f"{len(files)} files, {len(errors)} import errors",
        violation="; ".join(errors),
        seconds=time.monotonic() - began,
    )


def _ran(site: Site) -> Row:
    began, run_id = time.monotonic(), uuid.uuid4().hex[:12]
    api = site.api
    api.unpause(_RUNS)
    api.trigger(_RUNS, run_id)
    until("the end of the example", lambda: all(run.is_over for run in api.runs(_RUNS)))
    (run,) = api.runs(_RUNS)
    rows = (api.result(_RUNS, run_id, "merge") or {}).get("rows")
    return Row(
        play="examples",
        title=f"`{_RUNS}` runs on a local Spark",
        seen=f"{run.state}, rows {rows}",
        violation="" if run.state == "success" else "the run failed",
        seconds=time.monotonic() - began,
    )
