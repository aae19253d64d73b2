"""The numbers of the pages: what a collector stores before a real metastore, and who may see it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import httpx
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import LockRequest, components_to_define
from airflow_hiveacid.operators import collect as operator
from airflow_hiveacid.operators.reporting import document, survey as surveys
from airflow_hiveacid.operators.reporting.survey import Survey, survey
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.ui import web
from tests.support.airflow_support import Warehouse

# Airflow's own modules of the API server import Starlette's test client.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")

REPOSITORY = Path(__file__).resolve().parents[2]
DAGS = REPOSITORY / "dags"
PAGES = REPOSITORY / "airflow_hiveacid" / "ui" / "pages"
SETTINGS = {"connection": "hms", "delta_count": 10, "delta_ratio": 0.1, "oldest": [[77, 1.0]]}
DIRECTORY = ["day=1", "delta_0000001_0000001_0000", "insert", 1, 1, "live", None, 100]


def numbers(name: str, state: str = "fine", directories: int = 1) -> document.TableNumbers:
    row = document.TableRow(table=name, state=state, why="" if state == "fine" else "why " * 40)
    return document.TableNumbers(row=row, details={"directories": [DIRECTORY] * directories})


def test_a_page_document_has_at_most_64_kb_and_counts_what_it_omits() -> None:
    blocked = numbers("db.z", "blocked", 10_000)
    many = [*(numbers(f"db.table_{number:05d}") for number in range(3000)), blocked]
    queue: list[Any] = [[number, "db.t", "", "minor", "failed"] for number in range(1000)]
    made = document.document(many, measured_s=0.0, queue=queue)
    assert len(json.dumps(made)) <= document.MOST_BYTES
    assert made["left_out"]["tables"] == len(many) - len(made["rows"]) > 0
    assert made["left_out"]["queue"] == len(queue) - len(made["queue"]) > 0
    assert document.named("rows", made)[-1]["table"] == "db.z", "the most urgent table stays"


@pytest.mark.parametrize("letter", ["x", "\u540d", "\U0001f40d"])
def test_a_page_document_shows_tables_and_fits_however_long_the_queues_names_are(
    letter: str,
) -> None:
    queue = [[n, "d." + letter * 700, "p=" + letter * 700, "minor", "failed"] for n in range(60)]
    many = [numbers(f"db.t{n}", "blocked" if n == 7 else "fine") for n in range(50)]
    made = document.document(many, measured_s=0.0, queue=queue)
    assert len(json.dumps(made)) <= document.MOST_BYTES
    assert len(made["rows"]) == 50
    assert 0 < len(made["queue"]) == 60 - made["left_out"].get("queue", 0)
    assert [one[0] for one in made["queue"]] == list(range(len(made["queue"]))), "the first stay"


def test_a_page_document_holds_500_tables_and_details_of_the_urgent_ones() -> None:
    blocked = numbers("db.z", "blocked", 10_000)
    made = document.document(
        [*(numbers(f"db.table_{number:03d}") for number in range(499)), blocked], measured_s=0.0
    )
    assert len(made["rows"]) == 500
    detail = made["details"]["db.z"]
    assert len(detail["directories"]) + detail["left_out"]["directories"] == 10_000
    assert made["left_out"] == {"details": 500 - len(made["details"])}


@pytest.mark.parametrize("letter", ["x", "\u540d", "\U0001f40d"])
def test_a_page_document_names_a_cause_of_several_tables_once_and_fits(letter: str) -> None:
    def blocked(number: int, cause: str) -> document.TableNumbers:
        row = document.TableRow(table=f"db.t{number:04d}", state="blocked", why=f"{number} waits")
        return document.TableNumbers(row=row, cause=cause, remedy="wait " + letter * 900)

    waits = [blocked(n, f"waits for transaction 77, open for 3 h {n} min") for n in range(5)]
    alone = blocked(5, "waits for transaction 78")
    many = [blocked(10 + n, f"cause {n // 2}" + letter * 900) for n in range(600)]
    made = document.document([*waits, alone, *many], measured_s=0.0, settings=SETTINGS)
    assert len(json.dumps(made)) <= document.MOST_BYTES
    found = document.parsed(made)
    assert found is not None
    causes = [found["causes"][row["cause"]]["what"] for row in found["rows"][:5]]
    assert causes == ["waits for transaction 77, open for 3 h 0 min"] * 5
    assert (found["rows"][5]["why"], found["rows"][5]["cause"]) == ("5 waits", None)
    other = [replace(one, remedy="abort 5") for one in waits[:2]]
    made = document.document([*waits[2:], *other], measured_s=0.0, settings=SETTINGS)
    assert [remedy[:5] for _, _, remedy in made["causes"]] == ["wait ", "abort"]


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
    methods = {m for one in (web.app, web.scripts) for route in one.routes for m in route.methods}
    assert methods == {"GET"}


def test_a_page_document_names_transactions_and_locks_but_no_host(warehouse: Warehouse) -> None:
    table = NewTable(ref=TableRef(warehouse.db, "t"), columns=(Column(name="id", type="int"),))
    warehouse.client.create_table(table)
    txn_id = warehouse.client.open_txn()
    locks = components_to_define(table.ref, (), LockType.EXCLUSIVE, warehouse.client.generation)
    request = LockRequest(txn_id=txn_id, components=locks, agent_info="etl")
    warehouse.client.lock(request)
    found = survey(warehouse.client, [f"{warehouse.db}.*"], GivenThresholds())
    made = document.document(found.numbers, measured_s=0.0, queue=found.queue)
    (row,) = document.named("rows", made)
    assert (row["table"], row["state"], row["deltas"]) == (f"{warehouse.db}.t", "waiting", 0)
    details = made["details"][row["table"]]
    every = {name: document.named(name, details) for name in details if name != "left_out"}
    assert every["transactions"][0]["txn_id"] == every["locks"][0]["txn_id"] == txn_id
    owner = found.owners[str(txn_id)]
    assert "@" in owner
    assert owner not in json.dumps(made)
    warehouse.client.abort_txn(txn_id)


# ---- several collectors --------------------------------------------------------------------------

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
def database(airflow_home: Path) -> Iterator[Session]:
    """An empty database of Airflow."""
    assert airflow_home
    from airflow.models.base import Base  # noqa: PLC0415 - reads the environment

    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
    engine.dispose()


def collect(
    database: Session,
    table: str,
    *,
    task: str = "collect",
    index: int = -1,
    minute: int = 0,
    connection: str = "hms",
    queue: list[Any] | None = None,
) -> None:
    """Stores the numbers of a collection of one table in one task."""
    settings: dict[str, Any] = {"connection": connection, "delta_count": 10, "delta_ratio": 0.1}
    moment = NOON + timedelta(minutes=minute)
    made = document.document(
        [numbers(table)], measured_s=moment.timestamp(), settings=settings, queue=queue or []
    )
    key = {"dag_run_id": minute, "dag_id": "dag", "run_id": f"run {minute}", "task_id": task}
    database.add(
        XComModel(**key, map_index=index, key=operator.COLLECTED_KEY, value=made, timestamp=moment)
    )
    database.flush()


def test_a_table_of_a_rare_collection_opens_after_many_collections_of_another_task(
    database: Session,
) -> None:
    collect(database, "rare.t", task="rare", minute=1)
    collect(database, "rare.t", task="rare", minute=2)
    for minute in range(3, 200):
        collect(database, "busy.t", task="busy", minute=minute)
    listed = {row["table"] for row in web.tables({"dag"}, database)["tables"]}
    assert listed == {"rare.t", "busy.t"}
    assert len(web.table("rare.t", "hms", {"dag"}, database)["history"]) == 2
    assert len(web.table("busy.t", "hms", {"dag"}, database)["history"]) == 100


def test_every_table_of_a_task_with_many_mapped_instances_opens(database: Session) -> None:
    for index in range(120):
        collect(database, f"db_{index}.t", index=index)
    for row in web.tables({"dag"}, database)["tables"]:
        found = web.table(row["table"], row["connection"], {"dag"}, database)
        assert len(found["history"]) == 1


@pytest.mark.parametrize(
    "forged",
    [
        *(None, 7, "text", [], {}, {"format": 1}, {"format": 2}),
        *({"rows": value} for value in (None, 7, [7], [["db.t"]], [[{}] * 10], {"a": 1})),
        *({"queue": [[1, "d.t", "", "minor", odd, *[None] * 4]]} for odd in ({}, 7, ["x"])),
        {"queue": [[float("nan"), "d.t", "", "minor", "failed", *[None] * 4]]},
        {"queue": [[1, "d.t", "", "minor", "failed", 1e300, None, None, False]]},
        *({"details": value} for value in ([], {"db.t": 1}, {"db.t": {"findings": "x"}})),
        *({"left_out": value} for value in (None, 7, {"queue": "many"})),
        *({"connection": value} for value in (None, {}, ["hms"])),
        {"rows": [["db.t", "blocked", 9, *[None] * 7]]},
        *({"causes": value} for value in (None, 7, [["blocked", {}, ""]])),
        *({"oldest": value} for value in (None, 7, [[77, "yesterday"]])),
        *({"measured": value} for value in ("x" * 100_000, "yesterday", "0001-01-01")),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_no_xcom_of_another_task_breaks_the_pages(database: Session, forged: object) -> None:
    collect(database, "db.good", minute=1)
    collect(database, "db.bad", task="other", minute=2)
    (bad,) = database.query(XComModel).filter(XComModel.task_id == "other").all()
    if isinstance(forged, dict) and "format" not in forged and forged:
        forged = {**bad.value, **forged}
    bad.value = forged
    database.flush()
    for found in (
        web.tables({"dag"}, database),
        web.table("db.good", "hms", {"dag"}, database),
        web.owners({"dag"}, database),
    ):
        json.dumps(found, allow_nan=False).encode()
    assert [row["table"] for row in web.tables({"dag"}, database)["tables"]] == ["db.good"]
    assert bad.key == operator.COLLECTED_KEY


def test_no_value_of_one_table_breaks_the_pages_of_the_others(database: Session) -> None:
    collect(database, "db.good")
    (one,) = database.query(XComModel).all()
    good = one.value["rows"][0]
    odd = [
        ["db.none", None, None, *[None] * 7],
        ["", "constructor", "<script>", -1, -1, 2**62, -0.5, -1, 0, 0],
        ["nodot" * 999, "blocked", "why " * 999, 1, 1, 1, 1e18, 1, 1, 253_402_300_799],
    ]
    one.value = {**one.value, "rows": [good, *odd]}
    database.flush()
    listed = web.tables({"dag"}, database)["tables"]
    assert [row["table"] for row in listed] == ["db.good", *(row[0] for row in odd)]
    for row in listed:
        found = web.table(row["table"], "hms", {"dag"}, database)
        json.dumps(found, allow_nan=False).encode()


def test_the_list_of_500_tables_and_all_scripts_have_at_most_100_kb(database: Session) -> None:
    collect(database, "db.t")
    (one,) = database.query(XComModel).all()
    states = ("fine", "fine", "due", "blocked")
    many = [numbers(f"sales.orders_{n:03d}", states[n % 4]) for n in range(500)]
    one.value = document.document(many, measured_s=0.0, settings=SETTINGS)
    database.flush()
    answer = web.tables_by_column({"dag"}, database)
    assert len(answer["tables"]) == 500
    assert answer["columns"][:2] == ["table", "state"]
    assert answer["collections"][0]["oldest"] == [{"txn_id": 77, "started_s": 1.0}]
    assert len(json.dumps(answer)) <= 100 * 1024
    assert sum(path.stat().st_size for path in PAGES.glob("*.js")) <= 100 * 1024


def test_a_cause_of_tables_in_several_tasks_is_shown_once(database: Session) -> None:
    for task, connection in (("a", "hms"), ("b", "hms"), ("c", "other"), ("d", "hms")):
        collect(database, f"{task}.t", task=task, connection=connection)
        rows = [document.TableRow(table=f"{task}.t{n}", state="blocked") for n in range(2)]
        waits = [
            document.TableNumbers(
                row=row,
                cause=f"transaction 77 is open for {ord(task)} h",
                remedy="abort 5" if task == "d" else "",
            )
            for row in rows
        ]
        (xcom,) = database.query(XComModel).filter(XComModel.task_id == task).all()
        settings = {**SETTINGS, "connection": connection}
        xcom.value = document.document(waits, measured_s=0.0, settings=settings)
    database.flush()
    found = web.tables({"dag"}, database)
    assert [cause["connection"] for cause in found["causes"]] == ["hms", "other", "hms"]
    assert [row["cause"] for row in found["tables"]] == [0, 0, 0, 0, 1, 1, 2, 2]
    assert {row["why"] for row in found["tables"]} == {""}
    assert web.table("a.t0", "hms", {"dag"}, database)["row"]["why"] == found["causes"][0]["what"]


def test_a_count_without_a_number_in_an_xcom_does_not_break_the_pages(database: Session) -> None:
    collect(database, "db.t")
    (one,) = database.query(XComModel).all()
    one.value = {**one.value, "left_out": {"queue": None, "tables": 2}}
    database.flush()
    assert web.tables({"dag"}, database)["queue_left_out"] == 0


def test_names_in_an_xcom_and_owners_are_printable_texts_on_the_pages(database: Session) -> None:
    odd, shown = "t\u202e\ud800\x1b", "t\\u202e\\ud800\\x1b"
    collect(database, odd)
    (row,) = web.tables({"dag"}, database)["tables"]
    assert row["table"] == shown
    stored: list[tuple[str, dict[str, str]]] = [
        ("no json", {}),
        ("[1]", {}),
        ("[" * 100_000, {}),
        (json.dumps({"owners": [1]}), {}),
        (json.dumps({"owners": {"7": {"a": 1}, "8": "ann@a\x1b"}}), {"8": "ann@a\\x1b"}),
    ]
    for number, (text, owners) in enumerate(stored):
        collect(database, "db.t", task=f"c{number}", connection=f"c{number}")
        database.add(Variable(key=f"hiveacid_owners_c{number}", val=text))
        database.flush()
        assert web.owners({"dag"}, database)[f"c{number}"]["owners"] == owners


def test_two_tasks_of_one_metastore_show_each_queue_entry_once(database: Session) -> None:
    old, new = ([number, "a.t", "", "minor", "initiated", *[None] * 4] for number in (6, 7))
    collect(database, "a.t", task="a", minute=1, queue=[old] * 70)
    collect(database, "b.t", task="b", minute=2, queue=[new])
    collect(database, "c.t", task="c", minute=1, connection="other", queue=[new] * 61)
    found = web.tables({"dag"}, database)
    entries = sorted((one["connection"], one["entry_id"]) for one in found["queue"])
    assert entries == [("hms", 7), *[("other", 7)] * 60]
    assert found["queue_left_out"] == 1


def test_the_owners_of_one_metastore_are_not_shown_for_transactions_of_another(
    database: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store(key: str, value: str, **_: object) -> None:
        database.add(Variable(key=key, val=value))
        database.flush()

    monkeypatch.setattr(operator.Variable, "set", store)
    monkeypatch.setattr(operator.HiveAcidHook, "metastore", nullcontext)
    for connection, owner in (("one", "ann@a"), ("two", "bob@b"), ("hidden", "eve@c")):
        found = Survey(numbers=(), queue=(), owners={"7": owner}, workers={})
        monkeypatch.setattr(surveys, "survey", lambda *_, found=found: found)
        task = operator.HiveAcidCollectOperator(task_id="collect", hive_acid_conn_id=connection)
        task.execute({"ti": MagicMock()})
    collect(database, "a.t", task="one", connection="one")
    collect(database, "a.t", task="two", connection="two")
    found = web.owners({"dag"}, database)
    assert {name: one["owners"] for name, one in found.items()} == {
        "one": {"7": "ann@a"},
        "two": {"7": "bob@b"},
    }
    assert web.owners(set(), database) == {}, "the user may read no collecting DAG"


def test_a_failed_collection_is_reported_even_if_another_task_of_the_run_succeeds_later(
    database: Session,
) -> None:
    def end(task: str, state: str, minute: int, run: str) -> None:
        row = {"dag_id": "dag", "run_id": run, "task_id": task, "state": state, "map_index": -1}
        started = {"operator": "HiveAcidCollectOperator", "id": uuid4(), "pool": "default_pool"}
        moment = NOON + timedelta(minutes=minute)
        more = {"start_date": moment, "pool_slots": 1, "try_number": 1}
        database.execute(insert(TaskInstance.__table__).values(**row, **started, **more))

    collect(database, "a.t", task="a", minute=1)
    end("a", "failed", 1, "run 1")
    end("b", "success", 2, "run 1")
    failed = [{"dag_id": "dag", "run_id": "run 1", "task_id": "a"}]
    assert web.tables({"dag"}, database)["collector"]["failed"] == failed
    end("a", "success", 3, "run 2")
    assert web.tables({"dag"}, database)["collector"]["failed"] == []
