"""Links on a task's page in Airflow: to its table's page, its Spark application and Spark's UI."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization

from airflow_hiveacid import operators
from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.links import DriverLinks, page_url
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun
from airflow_hiveacid.operators.submission.clusters.yarn import ResourceManager
from airflow_hiveacid.operators.tag import HiveAcidTagOperator
from airflow_hiveacid.provider_info import get_provider_info
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor
from airflow_hiveacid.ui.plugin import HiveAcidPlugin
from tests.support.airflow_support import StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, deletion, until
from tests.support.pretended_yarn import FAILED, RUNNING, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import BaseOperator

    from tests.support.airflow_support import Connections, FakeSpark
    from tests.support.pretended_yarn import ResourceManager as Pretended

TABLE = "plugin/hiveacid?table=demo.flights&connection=hive_acid_default"
SPARK = {"Spark application": "_link_SparkApplicationLink", "Spark UI": "_link_SparkUiLink"}


def links_of(task: BaseOperator) -> dict[str, str]:
    """What Airflow stores for a task at its end."""
    return {one.name: one.get_link(task, ti_key=None) for one in task.operator_extra_links}


def page_of(yarn: Pretended, application_id: str = APP) -> str:
    return f"{yarn.web}/cluster/app/{application_id}"


# ---- the table's page ----------------------------------------------------------------------------


def test_a_table_link_leads_to_our_page_with_the_table_in_the_metastores_spelling() -> None:
    link = links_of(HiveAcidTagOperator(task_id="t", table="Demo.Flights", name="closing"))["Table"]
    assert link == TABLE
    (page,) = HiveAcidPlugin.react_apps
    assert urlsplit(link).path == f"plugin/{page['url_route']}"


def test_a_table_link_is_relative_so_that_the_browser_adds_the_base_path() -> None:
    # A link that began with a slash, or a host, would lose `[api] base_url` of the API server.
    link = links_of(HiveAcidTagOperator(task_id="t", table="demo.flights", name="closing"))["Table"]
    assert (urlsplit(link).scheme, urlsplit(link).netloc, link[:1]) == ("", "", "p")


def test_a_sensor_links_to_its_table() -> None:
    task = HiveAcidCompactionNeededSensor(
        task_id="t", table="demo.flights", hive_acid_conn_id="other"
    )
    assert parse_qs(urlsplit(links_of(task)["Table"]).query) == {
        "table": ["demo.flights"],
        "connection": ["other"],
    }


@pytest.mark.parametrize(
    ("sql", "link"),
    [
        ("DELETE FROM demo.flights WHERE id = 1", TABLE),
        ("DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.flights WHERE id = 2", TABLE),
        ("DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.other WHERE id = 2", ""),
        ("CREATE DATABASE demo", ""),
    ],
)
def test_an_sql_task_links_to_the_only_table_that_it_changes(sql: str, link: str) -> None:
    assert links_of(HiveAcidSqlOperator(task_id="t", sql=sql))["Table"] == link


def test_a_task_whose_table_is_not_rendered_has_no_link() -> None:
    task = HiveAcidDeleteOperator(task_id="t", table="{{ params.table }}", where="id = 1")
    assert links_of(task) == {"Table": "", "Spark application": "", "Spark UI": ""}


# ---- the driver's pages --------------------------------------------------------------------------


class Requests(list[str]):
    """Requests to YARN; `tell` is called before the answer to each about the application.

    A slow submission is also looked for by its tag, so those requests do not count.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, text: str) -> None:
        super().append(text)
        if APP in text:
            self._tell()


@pytest.mark.usefixtures("on_yarn")
def test_a_driver_on_yarn_has_links_as_soon_as_it_is_submitted(
    spark: FakeSpark, yarn: Pretended
) -> None:
    context = context_of(task_state_store=StateStore())
    at_request: list[dict[str, str]] = []
    yarn.requests = Requests(lambda: at_request.append(stored(context)))
    running = {**RUNNING, "trackingUrl": f"{yarn.web}/proxy/{APP}/"}
    yarn.states = [running, running]
    task = deletion(spark)
    run_task(task, context)
    submitted = {"Table": TABLE, "Spark application": page_of(yarn)}
    assert at_request[0] == submitted
    whole = {**submitted, "Spark UI": f"{yarn.web}/proxy/{APP}/"}
    assert at_request[1:] == [whole, whole]
    assert links_of(task) == stored(context) == whole


def stored(context: dict[str, Any]) -> dict[str, str]:
    """The links in XCom, by name."""
    names = {**SPARK, "Table": "_link_TableLink"}
    return {n: context["ti"].xcoms[key] for n, key in names.items() if key in context["ti"].xcoms}


@pytest.mark.usefixtures("on_yarn")
def test_a_failed_task_keeps_the_links_to_its_driver(spark: FakeSpark, yarn: Pretended) -> None:
    yarn.app = {**FAILED, "trackingUrl": "http://history.example.com:18080/history/a/1"}
    spark.tell(answers=False)
    task = deletion(spark)
    with pytest.raises(JobFailedError):
        run_task(task, context_of(task_state_store=StateStore()))
    assert links_of(task)["Spark application"] == page_of(yarn)
    assert links_of(task)["Spark UI"] == "http://history.example.com:18080/history/a/1"


@pytest.mark.usefixtures("on_yarn")
def test_a_task_that_defers_stores_the_link_first_and_has_it_again_when_it_is_woken(
    spark: FakeSpark, yarn: Pretended
) -> None:
    yarn.app, store, context = dict(RUNNING), StateStore(), context_of()
    context["task_state_store"] = store
    with pytest.raises(TaskDeferred) as caught:
        run_task(deletion(spark, deferrable=True), context)
    assert stored(context)["Spark application"] == page_of(yarn)
    yarn.app = dict(SUCCEEDED)

    async def first() -> Any:  # noqa: ANN401 - an event
        return await anext(caught.value.trigger.run())

    woken = deletion(spark, deferrable=True)
    later: Any = context_of(task_state_store=store)
    later["ti"].task = woken
    woken.render_template_fields(later)
    woken.resume_execution("execute_complete", {"event": asyncio.run(first()).payload}, later)
    assert links_of(woken)["Spark application"] == page_of(yarn)


@pytest.mark.usefixtures("on_yarn")
def test_a_retry_that_finds_its_driver_links_to_that_driver(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    with pytest.raises(JobFailedError):
        run_task(deletion(spark), context_of(task_state_store=store))
    store.set("spark_job_id", "application_1_0007")
    yarn.states, yarn.app = [dict(RUNNING)], dict(SUCCEEDED)
    spark.tell(answers=True)
    again = context_of(try_number=2, task_state_store=store)
    with pytest.raises(JobFailedError):
        run_task(deletion(spark), again)
    assert stored(again)["Spark application"] == page_of(yarn, "application_1_0007")


def test_the_watch_over_a_driver_on_the_worker_tells_of_the_application_that_yarn_lists(
    yarn: Pretended,
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: "tag"}
    seen: list[str] = []
    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "tag",
        Bounds(),
        is_killed=lambda: False,
        seen=lambda found: seen.append(found.id),
    )
    with run.watched(lambda: None):
        until(lambda: seen)
    assert seen == [APP]


@pytest.mark.usefixtures("spark")
def test_a_driver_that_no_cluster_knows_has_no_spark_link(
    spark: FakeSpark, connections: Connections
) -> None:
    assert connections
    task, context = deletion(spark), context_of()
    run_task(task, context)
    assert stored(context) == {"Table": TABLE}
    assert links_of(task) == {"Table": TABLE, "Spark application": "", "Spark UI": ""}


@pytest.mark.usefixtures("on_kubernetes", "submits")
def test_a_pod_has_no_page_and_so_no_link(spark: FakeSpark) -> None:
    context = context_of(task_state_store=StateStore())
    run_task(deletion(spark), context)
    assert stored(context) == {"Table": TABLE}


@pytest.mark.usefixtures("on_yarn")
def test_a_link_that_cannot_be_stored_does_not_fail_the_task(spark: FakeSpark) -> None:
    context = context_of(task_state_store=StateStore())

    def broken(key: str, value: object) -> None:
        raise ConnectionError(key, value)

    context["ti"].xcom_push = broken
    assert run_task(deletion(spark), context)["status"] == "committed"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://etl:s3cr3t@rm:8090/cluster/app/a?delegation=s3cr3t#s3cr3t", "https://rm:8090/cluster/app/a"),
        ("HTTP://rm/", "http://rm/"),
        ("http://[::1]:8088/a", "http://[::1]:8088/a"),
        ("javascript:alert(1)", ""),
        ("ftp://rm/a", ""),
        ("//rm/a", ""),
        ("rm:8088/a", ""),
        ("N/A", ""),
        ("http://rm:port/", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_link_is_http_and_has_no_secret(given: str, url: str) -> None:
    assert page_url(given) == url
    pushed: list[str] = []
    DriverLinks().show(given, given, lambda _, value: pushed.append(value))
    assert pushed == ([url, url] if url else [])


def test_a_new_driver_replaces_both_links_of_the_driver_before() -> None:
    links, stored_urls = DriverLinks(), dict[str, str]()
    links.show("http://rm/app/1", "http://rm/ui/1", stored_urls.__setitem__)
    links.show("http://rm/app/2", "", stored_urls.__setitem__)
    assert stored_urls == {
        "_link_SparkApplicationLink": "http://rm/app/2",
        "_link_SparkUiLink": "",
    }
    assert (links.application, links.ui) == ("http://rm/app/2", "")
    links.show("", "", stored_urls.__setitem__)
    assert set(stored_urls.values()) == {links.application} == {""}


# ---- how Airflow finds them ----------------------------------------------------------------------


def test_a_serialised_dag_keeps_the_links_of_plain_and_mapped_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only the scheduler reads DAGs without links, and Airflow keeps its choice for the process.
    monkeypatch.setattr(DagSerialization, "_load_operator_extra_links", True)
    with DAG("d", schedule=None) as dag:
        HiveAcidDeleteOperator(task_id="plain", table="demo.t", where="id = 1")
        HiveAcidDeleteOperator.partial(task_id="mapped", table="demo.t").expand(where=["a", "b"])
        HiveAcidTagOperator(task_id="tag", table="demo.t", name="closing")
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    found = {
        task.task_id: {one.name: one.xcom_key for one in task.operator_extra_links}
        for task in read.tasks
    }
    table = {"Table": "_link_TableLink"}
    assert found == {"plain": {**table, **SPARK}, "mapped": {**table, **SPARK}, "tag": table}


def test_the_provider_lists_every_link_of_its_operators() -> None:
    listed = set()
    for path in get_provider_info()["extra-links"]:
        module, _, name = path.rpartition(".")
        listed.add(getattr(importlib.import_module(module), name))
    classes = [getattr(operators, name) for name in operators.__all__ if name.endswith("Operator")]
    used = {type(one) for each in classes for one in each.operator_extra_links}
    assert used == listed
