"""The numbers of the pages: what a collector stores before a real metastore, and who may see it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import LockRequest, components_to_define
from airflow_hiveacid.operators.collecting.document import (
    MOST_BYTES,
    TableNumbers,
    TableRow,
    document,
    named,
)
from airflow_hiveacid.operators.collecting.survey import survey
from airflow_hiveacid.plan.compaction_policy import GivenThresholds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.airflow_support import Warehouse

# Airflow's own modules of the API server import Starlette's test client.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")

REPOSITORY = Path(__file__).resolve().parents[2]
DAGS = REPOSITORY / "dags"
PAGES = REPOSITORY / "airflow_hiveacid" / "ui" / "pages"
DIRECTORY = ["day=1", "delta_0000001_0000001_0000", "insert", 1, 1, "live", None, 100]


def numbers(name: str, state: str = "fine", directories: int = 1) -> TableNumbers:
    row = TableRow(table=name, state=state, why="" if state == "fine" else "why " * 40)
    return TableNumbers(row=row, details={"directories": [DIRECTORY] * directories})


def test_a_page_document_has_at_most_64_kb_and_counts_what_it_omits() -> None:
    blocked = numbers("db.z", "blocked", 10_000)
    many = [*(numbers(f"db.table_{number:05d}") for number in range(3000)), blocked]
    queue: list[Any] = [[number, "db.t", "", "minor", "failed"] for number in range(1000)]
    made = document(many, measured_s=0.0, queue=queue)
    assert len(json.dumps(made)) <= MOST_BYTES
    assert made["left_out"]["tables"] == len(many) - len(made["rows"]) > 0
    assert made["left_out"]["queue"] == len(queue) - len(made["queue"]) > 0
    assert named("rows", made)[-1]["table"] == "db.z", "the most urgent table stays"


def test_a_page_document_holds_500_tables_and_details_of_the_urgent_ones() -> None:
    blocked = numbers("db.z", "blocked", 10_000)
    made = document(
        [*(numbers(f"db.table_{number:03d}") for number in range(499)), blocked], measured_s=0.0
    )
    assert len(made["rows"]) == 500
    detail = made["details"]["db.z"]
    assert len(detail["directories"]) + detail["left_out"]["directories"] == 10_000
    assert made["left_out"] == {"details": 500 - len(made["details"])}


@pytest.fixture
def get(
    airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], httpx.Response]:
    """Gets a path of the endpoints, or a script, as a user of a role; `""` has no token."""
    assert airflow_home
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "secret-of-a-test" * 4)
    from airflow.api_fastapi.app import init_auth_manager  # noqa: PLC0415 - reads the environment
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: PLC0415 - as above

    from airflow_hiveacid.ui.plugin import HiveAcidPlugin  # noqa: PLC0415 - as above

    manager = init_auth_manager()
    apps = {one["url_prefix"]: one["app"] for one in HiveAcidPlugin().fastapi_apps}

    async def answer(role: str, path: str) -> httpx.Response:
        prefix, _, rest = path[1:].partition("/")
        headers = {}
        if role:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role))
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx.ASGITransport(app=apps[f"/{prefix}"])
        async with httpx.AsyncClient(transport=transport, base_url="http://pages") as client:
            return await client.get(f"/{rest}", headers=headers)

    return lambda role, path: asyncio.run(answer(role, path))


def test_only_authorised_users_see_the_pages_and_only_admins_see_the_owners(
    get: Callable[[str, str], httpx.Response],
) -> None:
    paths = ("/hiveacid/tables", "/hiveacid/table?name=a.b&connection=c", "/hiveacid/owners")
    statuses = {
        role: [get(role, path).status_code for path in paths] for role in ("", "VIEWER", "ADMIN")
    }
    assert statuses == {"": [401, 401, 401], "VIEWER": [200, 404, 403], "ADMIN": [200, 404, 200]}
    assert "or you may not read the DAG" in get("VIEWER", paths[1]).json()["detail"]
    for prefix in ("/hiveacid", "/hiveacid-pages"):
        for path in ("docs", "redoc", "openapi.json"):
            assert get("ADMIN", f"{prefix}/{path}").status_code == 404


def test_every_imported_script_is_served_without_a_login_and_no_other_file_is(
    get: Callable[[str, str], httpx.Response],
) -> None:
    found = get("", "/hiveacid-pages/main.js")
    assert found.headers["content-type"].startswith("text/javascript")
    imported = re.findall(r'from "\./(.*?)"', found.text)
    assert imported
    for name in imported:
        assert get("", f"/hiveacid-pages/{name}").status_code == 200
    for name in ("plugin.py", "..%2Fweb.py", "nothing.js"):
        assert get("", f"/hiveacid-pages/{name}").status_code == 404


def test_a_button_sends_parameters_of_the_operations_dag() -> None:
    script = (PAGES / "table.js").read_text(encoding="utf-8")
    (conf,) = re.findall(r"conf: \{(.*?)\}", script)
    actions = re.findall(r'button\("(\w+)"', script)
    dag = DagBag(dag_folder=str(DAGS / "hiveacid_operations.py")).dags["hiveacid_operations"]
    assert {entry.split(":")[0].strip() for entry in conf.split(",")} <= set(dag.params)
    assert sorted(actions) == sorted(dag.params.get_param("action").schema["enum"])
    assert set(actions) <= set(dag.task_dict)


def test_every_endpoint_accepts_only_get_requests() -> None:
    from airflow_hiveacid.ui.web import app, scripts  # noqa: PLC0415 - needs the home

    methods = {m for one in (app, scripts) for route in one.routes for m in route.methods}
    assert methods == {"GET"}


def test_a_page_document_names_transactions_and_locks_but_no_host(
    warehouse: Warehouse,
) -> None:
    table = NewTable(ref=TableRef(warehouse.db, "t"), columns=(Column(name="id", type="int"),))
    warehouse.client.create_table(table)
    txn_id = warehouse.client.open_txn()
    locks = components_to_define(table.ref, (), LockType.EXCLUSIVE, warehouse.client.generation)
    request = LockRequest(txn_id=txn_id, components=locks, agent_info="etl")
    warehouse.client.lock(request)
    found = survey(warehouse.client, [f"{warehouse.db}.*"], GivenThresholds())
    made = document(found.numbers, measured_s=0.0, queue=found.queue)
    (row,) = named("rows", made)
    assert (row["table"], row["state"], row["deltas"]) == (f"{warehouse.db}.t", "waiting", 0)
    details = made["details"][row["table"]]
    every = {name: named(name, details) for name in details if name != "left_out"}
    assert every["transactions"][0]["txn_id"] == every["locks"][0]["txn_id"] == txn_id
    owner = found.owners[str(txn_id)]
    assert "@" in owner
    assert owner not in json.dumps(made)
    warehouse.client.abort_txn(txn_id)
