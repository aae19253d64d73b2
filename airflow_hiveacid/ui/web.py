"""Endpoints that return the numbers of `HiveAcidCollectOperator` to the pages, as JSON.

Input is Airflow's database. Endpoints never call a metastore or change anything. Airflow adds no
authorisation to a plugin's applications, so each application of this module checks the user's
rights:

* Numbers need the right to read assets. A user gets only numbers from DAGs that the user may read.
* Users and hosts need, in addition, the right to read connections.
* Scripts contain no data. Scripts are public, because a script element in the page loads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api import security
from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse
from sqlalchemy import and_, func, select, tuple_
from sqlalchemy.orm import Session

from airflow_hiveacid.format.words import printable, without_ages
from airflow_hiveacid.operators.collect import (
    COLLECTED_KEY,
    HiveAcidCollectOperator,
    owners_variable,
)
from airflow_hiveacid.operators.reporting.document import parsed

COLLECTOR_DAG: Final = "hiveacid_collect"
OPERATIONS_DAG: Final = "hiveacid_operations"
_MOST_RUNS: Final = 100
"""The most collections, of one or several tasks, that a table's charts show."""
_TASK: Final = (XComModel.dag_id, XComModel.task_id, XComModel.map_index)

_log = logging.getLogger(__name__)

_PAGES: Final = Path(__file__).with_name("pages")
_CLOSED: Final[dict[str, Any]] = {"openapi_url": None, "docs_url": None, "redoc_url": None}
"""An application's `dependencies` do not protect its documentation pages, so turn these off."""

app = FastAPI(
    title="Hive ACID tables",
    dependencies=[Depends(security.requires_access_asset("GET"))],
    **_CLOSED,
)
scripts = FastAPI(title="Hive ACID pages", **_CLOSED)


def _readable_dags(user: security.GetUserDep) -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


ReadableDags = Annotated[set[str], Depends(_readable_dags)]


@scripts.get("/{name}")
def script(name: str) -> FileResponse:
    """Return a script of the pages."""
    if name not in {path.name for path in _PAGES.glob("*.js")}:
        raise HTTPException(404, f"there is no script {name}")
    # The browser must check for a new script each time, so that an upgrade takes effect at once.
    headers = {"Cache-Control": "no-cache"}
    return FileResponse(_PAGES / name, media_type="text/javascript", headers=headers)


@app.get("/tables")
def tables_by_column(dags: ReadableDags, session: SessionDep) -> dict[str, Any]:
    """Return `tables` with the names of the rows' values only once, which halves its size."""
    found = tables(dags, session)
    rows = found["tables"]
    columns = list(rows[0]) if rows else []
    return {**found, "columns": columns, "tables": [[row[c] for c in columns] for row in rows]}


def tables(dags: Iterable[str], session: Session) -> dict[str, Any]:
    """Return the newest numbers of all tables, and the state of the collecting DAG.

    A row's `cause` is the position of its cause in `causes`, which has its text in place of `why`.
    """
    collections = _newest(session, dags)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    causes: dict[tuple[str, ...], dict[str, Any]] = {}
    for collection in collections:
        connection = collection["connection"]
        for row in collection["document"]["rows"]:
            own = {**row, "connection": connection}
            if row["cause"] is not None:
                # Several tasks of one metastore may each store the same cause.
                cause = collection["document"]["causes"][row["cause"]]
                what, remedy = without_ages(cause["what"]), cause["remedy"]
                key = (connection, cause["state"], what, remedy)
                causes.setdefault(key, {**cause, "connection": connection})
                own |= {"cause": list(causes).index(key), "why": ""}
            rows[connection, row["table"]] = own
    # Each document has the whole queue of its metastore, so use only the newest document of each.
    queues = {collection["connection"]: collection["document"] for collection in collections}
    return {
        "tables": list(rows.values()),
        "causes": list(causes.values()),
        "queue": [
            {**entry, "connection": connection}
            for connection, document in queues.items()
            for entry in document["queue"]
        ],
        "queue_left_out": sum(document["left_out"].get("queue", 0) for document in queues.values()),
        "collections": [_collection(collection) for collection in collections],
        "collector": _collector(session, dags, collections),
        "operations": _dag(session, dags, OPERATIONS_DAG),
    }


@app.get("/table")
def table(name: str, connection: str, dags: ReadableDags, session: SessionDep) -> dict[str, Any]:
    """Return one table's newest numbers with details, and the table's numbers over time."""
    tasks = [
        collection["task"]
        for collection in _newest(session, dags)
        if _row_of(name, connection, collection)
    ]
    matches = [
        (collection, row)
        for collection in _recent(session, tasks)
        if (row := _row_of(name, connection, collection))
    ]
    if not matches:
        raise HTTPException(
            404,
            f"The last collections have no numbers of {name} with connection {connection}, "
            "or you may not read the DAG that stored them",
        )
    collected, row = matches[0]
    names = ("deltas", "ratio", "size_bytes", "obsolete")
    history = [
        {"measured": collection["measured"], **{key: numbers[key] for key in names}}
        for collection, numbers in reversed(matches)
    ]
    details = collected["document"]["details"].get(name)
    return {
        "row": {**row, "connection": connection, "measured": collected["measured"]},
        "details": details,
        "history": history,
        "operations": _dag(session, dags, OPERATIONS_DAG),
    }


@app.get("/owners", dependencies=[Depends(security.requires_access_connection("GET"))])
def owners(dags: ReadableDags, session: SessionDep) -> dict[str, Any]:
    """Return each connection's users and hosts by transaction ID, and workers by queue entry."""
    connections = {collection["connection"] for collection in _newest(session, dags)}
    return {connection: _owners(session, connection) for connection in connections}


def _owners(session: Session, connection: str) -> dict[str, Any]:
    variable = session.scalar(select(Variable).where(Variable.key == owners_variable(connection)))
    try:
        stored = json.loads(variable.get_val() or "{}") if variable else {}
    except (RecursionError, ValueError):
        stored = {}
    return {name: _texts(stored, name) for name in ("owners", "workers")}


def _texts(stored: object, name: str) -> dict[str, str]:
    """Return a mapping of texts in a stored value; leave out all else, as any user may store it."""
    section = stored.get(name) if isinstance(stored, dict) else None
    pairs = section.items() if isinstance(section, dict) else ()
    return {printable(key): printable(text) for key, text in pairs if isinstance(text, str)}


def _newest(session: Session, dags: Iterable[str]) -> list[dict[str, Any]]:
    """Return the newest collection of each task, the oldest first, so that later ones win."""
    newest = (
        select(*_TASK, func.max(XComModel.timestamp).label("timestamp"))
        .where(XComModel.key == COLLECTED_KEY, XComModel.dag_id.in_(dags))
        .group_by(*_TASK)
        .subquery()
    )
    query = (
        select(XComModel)
        .join(
            newest,
            and_(*(column == newest.c[column.key] for column in (*_TASK, XComModel.timestamp))),
        )
        .where(XComModel.key == COLLECTED_KEY)
        .order_by(XComModel.timestamp)
    )
    return _documents(session.scalars(query).all())


def _recent(session: Session, tasks: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the last collections of these tasks together, the newest first."""
    query = (
        select(XComModel)
        .where(XComModel.key == COLLECTED_KEY, tuple_(*_TASK).in_(tasks))
        .order_by(XComModel.timestamp.desc())
        .limit(_MOST_RUNS)
    )
    return _documents(session.scalars(query).all())


def _documents(xcoms: Sequence[XComModel]) -> list[dict[str, Any]]:
    every = []
    for xcom in xcoms:
        try:
            document = parsed(XComModel.deserialize_value(xcom))
        except Exception as error:  # noqa: BLE001 - one task's value must not hide those of others
            _log.warning("ignored an XCom of %s %s: %s", xcom.dag_id, xcom.task_id, error)
            continue
        if document is not None:
            every.append(
                {
                    "dag_id": xcom.dag_id,
                    "run_id": xcom.run_id,
                    "task_id": xcom.task_id,
                    "task": (xcom.dag_id, xcom.task_id, xcom.map_index),
                    "connection": document["connection"],
                    "measured": document["measured"],
                    "document": document,
                }
            )
    return every


def _row_of(table: str, connection: str, collection: dict[str, Any]) -> dict[str, Any] | None:
    """Return a table's numbers in a collection, or None if the collection does not have them."""
    if collection["connection"] != connection:
        return None
    return next((row for row in collection["document"]["rows"] if row["table"] == table), None)


def _collection(collection: dict[str, Any]) -> dict[str, Any]:
    document = collection["document"]
    about = {name: collection[name] for name in ("dag_id", "run_id", "task_id", "measured")}
    chosen = ("connection", "delta_count", "delta_ratio", "left_out", "oldest")
    return {**about, **{name: document[name] for name in chosen}}


def _collector(
    session: Session, dags: Iterable[str], collections: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the state of the shipped collecting DAG, and the last failed run of any such DAG."""
    readable = set(dags)
    names = ({COLLECTOR_DAG} & readable) | {collection["dag_id"] for collection in collections}
    failed = []
    for name in sorted(names):
        collecting = (
            TaskInstance.dag_id == name,
            TaskInstance.operator == HiveAcidCollectOperator.__name__,
        )
        last_run = (
            select(TaskInstance.run_id)
            .where(*collecting, TaskInstance.start_date.is_not(None))
            .order_by(TaskInstance.start_date.desc())
            .limit(1)
        ).scalar_subquery()
        # A run may have several collecting tasks, and each of them may fail alone.
        query = (
            select(TaskInstance.run_id, TaskInstance.task_id)
            .where(
                *collecting,
                TaskInstance.run_id == last_run,
                TaskInstance.state.in_(("failed", "up_for_retry")),
            )
            .order_by(TaskInstance.start_date.desc())
            .limit(1)
        )
        if (failure := session.execute(query).first()) is not None:
            failed.append({"dag_id": name, "run_id": failure.run_id, "task_id": failure.task_id})
    return {**_dag(session, dags, COLLECTOR_DAG), "failed": failed}


def _dag(session: Session, dags: Iterable[str], name: str) -> dict[str, Any]:
    dag = session.get(DagModel, name) if name in set(dags) else None
    return {
        "dag_id": name,
        "exists": dag is not None and not dag.is_stale,
        "is_paused": dag is not None and bool(dag.is_paused),
    }
