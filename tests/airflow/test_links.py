"""Links on a task's page in Airflow: to its table's page, its Spark application and Spark's UI."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_hiveacid import operators
from airflow_hiveacid.airflow_names import AirflowTaskTimeout, TaskDeferred
from airflow_hiveacid.format.errors import ConfigurationError, JobFailedError
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.reporting.links import DriverLinks, page_url
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun, tag_of
from airflow_hiveacid.operators.submission.kubernetes import driver_of
from airflow_hiveacid.operators.submission.spark_target import DriverPages, SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.operators.submission.submitter import Submitter
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from airflow_hiveacid.operators.tag import HiveAcidTagOperator
from airflow_hiveacid.provider_info import get_provider_info
from airflow_hiveacid.sensors.hive_acid import HiveAcidCompactionNeededSensor
from airflow_hiveacid.ui.plugin import HiveAcidPlugin
from tests.support import cluster_tasks
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.cases import cases_of
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import FAILED, RUNNING, SUCCEEDED, ResourceManager as Pretended

TABLE = "plugin/hiveacid?table=demo.flights&connection=hive_acid_default"
ERROR = {"type": "JobFailedError", "message": "as told"}
SPARK = {"Spark application": "_link_SparkApplicationLink", "Spark UI": "_link_SparkUiLink"}


def links_of(task: BaseOperator) -> dict[str, str]:
    """What Airflow stores for a task at its end."""
    return {one.name: one.get_link(task, ti_key=None) for one in task.operator_extra_links}


def page_of(yarn: Pretended, application_id: str = cluster_tasks.APP) -> str:
    return f"{yarn.web}/cluster/app/{application_id}"


# ---- the table's page ----------------------------------------------------------------------------


def test_a_table_link_opens_our_page_with_the_table_name_in_lower_case() -> None:
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


def test_a_task_has_no_links_before_its_table_is_rendered() -> None:
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
        if cluster_tasks.APP in text:
            self._tell()


@pytest.mark.usefixtures("on_yarn")
def test_a_driver_on_yarn_has_links_as_soon_as_it_is_submitted(yarn: Pretended) -> None:
    context = context_of(task_state_store=StateStore())
    at_request: list[dict[str, str]] = []
    yarn.requests = Requests(lambda: at_request.append(stored(context)))
    running = {**RUNNING, "trackingUrl": f"{yarn.web}/proxy/{cluster_tasks.APP}/"}
    yarn.states = [running, running]
    task = cluster_tasks.deletion()
    run_task(task, context)
    submitted = {"Table": TABLE, "Spark application": page_of(yarn)}
    assert at_request[0] == submitted
    whole = {**submitted, "Spark UI": f"{yarn.web}/proxy/{cluster_tasks.APP}/"}
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
    task = cluster_tasks.deletion()
    with pytest.raises(JobFailedError):
        run_task(task, context_of(task_state_store=StateStore()))
    assert links_of(task)["Spark application"] == page_of(yarn)
    assert links_of(task)["Spark UI"] == "http://history.example.com:18080/history/a/1"


@pytest.mark.usefixtures("on_yarn")
def test_a_task_stores_its_link_before_it_defers_and_has_it_again_after_it_resumes(
    yarn: Pretended,
) -> None:
    yarn.app, store, context = dict(RUNNING), StateStore(), context_of()
    context["task_state_store"] = store
    with pytest.raises(TaskDeferred) as caught:
        run_task(cluster_tasks.deletion(deferrable=True), context)
    assert stored(context)["Spark application"] == page_of(yarn)
    yarn.app = dict(SUCCEEDED)

    woken = cluster_tasks.deletion(deferrable=True)
    cluster_tasks.resumed(woken, store, cluster_tasks.fired(caught.value.trigger))
    assert links_of(woken)["Spark application"] == page_of(yarn)


@pytest.mark.usefixtures("on_yarn")
def test_a_retry_links_to_the_driver_that_it_found(spark: FakeSpark, yarn: Pretended) -> None:
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    with pytest.raises(JobFailedError):
        run_task(cluster_tasks.deletion(), context_of(task_state_store=store))
    store.set("spark_job_id", "application_1_0007")
    yarn.states, yarn.app = [dict(RUNNING)], dict(SUCCEEDED)
    spark.tell(answers=True)
    again = context_of(try_number=2, task_state_store=store)
    with pytest.raises(JobFailedError):
        run_task(cluster_tasks.deletion(), again)
    assert stored(again)["Spark application"] == page_of(yarn, "application_1_0007")


def test_the_yarn_application_of_a_driver_on_the_worker_is_found_by_its_tag(
    yarn: Pretended,
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {cluster_tasks.APP: "tag"}
    seen: list[str] = []
    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "tag",
        Bounds(),
        is_killed=lambda: False,
        seen=lambda found: seen.append(found.id),
    )
    with run.watched(lambda: None):
        cluster_tasks.until(lambda: seen)
    assert seen == [cluster_tasks.APP]


@pytest.mark.usefixtures("spark")
def test_a_driver_outside_a_cluster_has_no_spark_link(connections: Connections) -> None:
    assert connections
    task, context = cluster_tasks.deletion(), context_of()
    run_task(task, context)
    assert stored(context) == {"Table": TABLE}
    assert links_of(task) == {"Table": TABLE, "Spark application": "", "Spark UI": ""}


@pytest.mark.usefixtures("on_kubernetes", "submits")
def test_a_driver_pod_has_no_spark_link_without_page_addresses_in_the_connection() -> None:
    context = context_of(task_state_store=StateStore())
    run_task(cluster_tasks.deletion(), context)
    assert stored(context) == {"Table": TABLE}


@pytest.mark.usefixtures("on_yarn")
def test_a_link_that_cannot_be_stored_does_not_fail_the_task() -> None:
    context = context_of(task_state_store=StateStore())

    def broken(key: str, value: object) -> None:
        raise ConnectionError(key, value)

    context["ti"].xcom_push = broken
    assert run_task(cluster_tasks.deletion(), context)["status"] == "committed"


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
def test_a_link_is_an_http_url_without_secrets(given: str, url: str) -> None:
    assert page_url(given) == url


@pytest.mark.usefixtures("on_yarn")
def test_a_url_that_yarn_reports_is_stored_without_its_login_and_query(yarn: Pretended) -> None:
    yarn.app = {**SUCCEEDED, "trackingUrl": "https://etl:s3cr3t@rm:8090/proxy/a?token=s3cr3t"}
    context = context_of(task_state_store=StateStore())
    run_task(cluster_tasks.deletion(), context)
    assert stored(context)["Spark UI"] == "https://rm:8090/proxy/a"


# ---- pages whose addresses the Spark connection has ----------------------------------------------


HISTORY = "https://history.example.com/prefix"
DASHBOARD = "https://k8s.example.com/#/pod/{namespace}/{pod}?namespace={namespace}"
MASTER = "http://master:8080/app/?appId={application_id}"


def history_of(application_id: str) -> str:
    return f"{HISTORY}/history/{application_id}/"


def pod_links(pod_id: str) -> dict[str, str]:
    """The links of a task whose driver is this pod."""
    namespace, _, pod = pod_id.partition(":")
    return {
        "Table": TABLE,
        "Spark application": f"https://k8s.example.com/#/pod/{namespace}/{pod}?namespace={namespace}",
        "Spark UI": history_of(cluster_tasks.SPARK_ID),
    }


@pytest.fixture
def with_pages(on_kubernetes: Connections, api: KubernetesServer) -> None:
    """A connection to Kubernetes that has both addresses."""
    pages = {"application_url": DASHBOARD, "history_url": f"{HISTORY}/"}
    cluster_tasks.connect_kubernetes(on_kubernetes, api, "cluster", **pages)


def waiting(context: dict[str, Any]) -> Any:  # noqa: ANN401 - a trigger
    """Run a task until it defers."""
    with pytest.raises(TaskDeferred) as caught:
        run_task(cluster_tasks.deletion(deferrable=True), context)
    return caught.value.trigger


@pytest.mark.usefixtures("with_pages", "submits")
def test_a_driver_on_kubernetes_has_links_to_the_pages_of_the_connection(spark: FakeSpark) -> None:
    spark.tell(
        spark_app_id=cluster_tasks.SPARK_ID
    )  # the result does not tell the pod, which stays known
    task, context = cluster_tasks.deletion(), context_of(task_state_store=StateStore())
    run_task(task, context)
    pod = driver_of(cluster_tasks.SPACE, tag_of(spark.call["spec"]["attempt"]))
    assert links_of(task) == stored(context) == pod_links(pod)


@pytest.mark.usefixtures("with_pages", "spark")
def test_a_task_on_kubernetes_stores_its_links_before_it_defers(submits: dict[str, Any]) -> None:
    submits["phase"] = "Running"
    store = StateStore()
    context = context_of(task_state_store=store)
    waiting(context)
    assert stored(context) == pod_links(store["spark_job_id"])


@pytest.mark.usefixtures("with_pages")
@pytest.mark.parametrize("end", ["ended", "timed out"])
def test_a_resumed_task_on_kubernetes_has_its_links_again(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], end: str
) -> None:
    submits["phase"] = "Running"
    store = StateStore()
    note = waiting(context_of(task_state_store=store)).note
    pod = store["spark_job_id"]
    api.objects.say(cluster_tasks.SPACE, pod.partition(":")[2], phase="Succeeded")
    (result,) = spark.directory.parent.glob("results/*/result.json")
    if end == "timed out":
        result.unlink()
    woken = cluster_tasks.deletion(deferrable=True)
    with nullcontext() if end == "ended" else pytest.raises(AirflowTaskTimeout):
        cluster_tasks.resumed(woken, store, {"note": note, "end": end, "error": None})
    assert links_of(woken) == pod_links(pod)


@pytest.mark.usefixtures("with_pages")
def test_a_retry_that_tracks_a_pod_stores_its_links_before_it_defers(
    spark: FakeSpark, submits: dict[str, Any]
) -> None:
    submits["phase"] = "Running"
    store = StateStore()
    waiting(context_of(task_state_store=store))
    again = context_of(try_number=2, task_state_store=store)
    waiting(again)
    assert stored(again) == pod_links(store["spark_job_id"])
    assert len(spark.calls) == 1


@pytest.mark.usefixtures("with_pages", "spark")
def test_an_unavailable_api_server_omits_only_the_link_to_the_spark_ui(
    api: KubernetesServer, submits: dict[str, Any]
) -> None:
    submits.clear()
    api.page = (503, "")
    store = StateStore()
    context = context_of(task_state_store=store)
    waiting(context)
    whole = pod_links(store["spark_job_id"])
    assert stored(context) == {name: url for name, url in whole.items() if name != "Spark UI"}


@pytest.mark.usefixtures("on_kubernetes")
def test_links_of_a_driver_on_the_worker_use_the_application_id_of_its_executor_pod(
    api: KubernetesServer,
) -> None:
    cluster_tasks.put_pod(api, role="executor", phase="Running")
    pages = {"application_url": "http://a/{application_id}", "history_url": HISTORY}
    target = SparkTarget(
        conn_id="c",
        master=f"k8s://{api.address}",
        namespace=cluster_tasks.SPACE,
        pages=DriverPages.read("c", pages),
    )
    shown: list[tuple[str, str, str]] = []
    submitter = Submitter(
        target,
        attempt=cluster_tasks.TAG.partition("-")[2],
        arguments=SparkArguments(conn_id="c"),
        bounds=Bounds(),
        store=None,
        is_durable=False,
        is_killed=lambda: False,
        show=lambda *urls: shown.append(urls),
    )
    with submitter.watched():
        cluster_tasks.until(lambda: shown)
    assert shown == [
        (
            cluster_tasks.SPARK_ID,
            f"http://a/{cluster_tasks.SPARK_ID}",
            history_of(cluster_tasks.SPARK_ID),
        )
    ]


@pytest.mark.parametrize(("master", "error"), [("local[1]", None), ("spark://m:7077", ERROR)])
def test_links_of_a_driver_on_the_worker_use_the_application_id_of_its_result(
    spark: FakeSpark, connections: Connections, master: str, error: dict[str, str] | None
) -> None:
    extra = {"application_url": MASTER, "history_url": HISTORY}
    connections.add("spark_default", "spark", host=master, extra=extra)
    spark.tell(spark_app_id="app-1", error=error)
    task, context = cluster_tasks.deletion(), context_of()
    with pytest.raises(JobFailedError) if error else nullcontext():
        run_task(task, context)
    pages = {
        "Spark application": "http://master:8080/app/?appId=app-1",
        "Spark UI": history_of("app-1"),
    }
    assert links_of(task) == stored(context) == {"Table": TABLE, **pages}


@pytest.mark.usefixtures("connections")
def test_a_driver_on_the_worker_has_no_spark_link_without_page_addresses(spark: FakeSpark) -> None:
    spark.tell(spark_app_id="app-1")
    context = context_of()
    run_task(cluster_tasks.deletion(), context)
    assert stored(context) == {"Table": TABLE}


def test_a_statement_has_no_link_to_the_driver_of_an_earlier_statement(
    spark: FakeSpark, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"history_url": HISTORY}
    connections.add("spark_default", "spark", host="local[1]", extra=extra)
    spark.tell(spark_app_id="app-1")
    sql = "DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.flights WHERE id = 2"
    task = HiveAcidSqlOperator(task_id="t", sql=sql)
    run_one, seen = HiveAcidSqlOperator.run_one, []

    def noted(*given: Any) -> Any:  # noqa: ANN401 - the operator's
        done = run_one(*given)
        seen.append(links_of(task)["Spark UI"])
        spark.tell(spark_app_id=None)
        return done

    monkeypatch.setattr(HiveAcidSqlOperator, "run_one", noted)
    run_task(task)
    assert seen == [history_of("app-1"), ""]


def test_on_yarn_the_page_addresses_of_the_connection_replace_those_of_yarn(
    yarn: Pretended, on_yarn: Connections
) -> None:
    yarn.app = {**SUCCEEDED, "trackingUrl": f"{yarn.web}/proxy/{cluster_tasks.APP}/"}
    pages = {"application_url": "https://knox/yarn/{application_id}", "history_url": HISTORY}
    cluster_tasks.connect_yarn(on_yarn, yarn, "cluster", **pages)
    task = cluster_tasks.deletion()
    run_task(task, context_of(task_state_store=StateStore()))
    assert links_of(task)["Spark application"] == f"https://knox/yarn/{cluster_tasks.APP}"
    assert links_of(task)["Spark UI"] == history_of(cluster_tasks.APP)


EVERY = "http://a/{namespace}-{pod}-{application_id}"


@pytest.mark.parametrize(
    ("master", "mode", "template", "page"),
    [
        ("k8s://h", "cluster", EVERY, "http://a/etl-p-id"),
        ("k8s://h", "cluster", "http://a/{pod}{pod}", "http://a/pp"),
        ("k8s://h", "client", EVERY, ""),  # the pod is an executor's
        ("k8s://h", "client", "http://a/{namespace}-{application_id}", "http://a/etl-id"),
        ("yarn", "cluster", "http://a/{namespace}", ""),
        ("local", "client", "http://a/{pod}", ""),
        ("local", "client", "http://a/{application_id}", "http://a/id"),
        ("local", "client", "http://a/", "http://a/"),
        ("local", "client", "", ""),
    ],
)
def test_an_application_page_has_no_url_unless_all_its_fields_are_known(
    master: str, mode: str, template: str, page: str
) -> None:
    pages = DriverPages.read("c", {"application_url": template})
    target = SparkTarget(conn_id="c", master=master, deploy_mode=mode, namespace="etl", pages=pages)
    assert target.application_page("etl:p", "id") == page


def test_ids_are_quoted_in_urls() -> None:
    pages = DriverPages.read("c", {"application_url": MASTER, "history_url": HISTORY})
    assert pages.application(application_id="a/../b?c").endswith("appId=a%2F..%2Fb%3Fc")
    assert pages.history("a/../b?c") == history_of("a%2F..%2Fb%3Fc")


@pytest.mark.parametrize(
    ("extra", "reason"), cases_of(Path(__file__).with_name("cases") / "page_addresses.txt")
)
def test_an_invalid_page_address_is_refused_before_submission(
    spark: FakeSpark, connections: Connections, extra: str, reason: str
) -> None:
    given = json.loads(extra)
    connections.add("spark_default", "spark", host="local[1]", extra=given)
    message = rf"'spark_default'.*'{next(iter(given))}'.*{reason.strip()}"
    with pytest.raises(ConfigurationError, match=message) as caught:
        run_task(cluster_tasks.deletion(), context_of())
    assert "hunter2" not in str(caught.value)
    assert spark.calls == []


def test_a_new_driver_replaces_both_links_of_the_previous_driver() -> None:
    links, stored_urls = DriverLinks(), dict[str, str]()
    links.show("1", "http://rm/app/1", "http://rm/ui/1", stored_urls.__setitem__)
    links.show("2", "http://rm/app/2", "", stored_urls.__setitem__)
    assert stored_urls == {
        "_link_SparkApplicationLink": "http://rm/app/2",
        "_link_SparkUiLink": "",
    }
    assert (links.application, links.ui) == ("http://rm/app/2", "")
    links.forget(stored_urls.__setitem__)
    assert set(stored_urls.values()) == {links.application} == {""}


def test_a_resumed_task_keeps_the_stored_links_until_its_next_statement() -> None:
    links, stored_urls = DriverLinks(), {"_link_SparkUiLink": "http://rm/ui/1"}
    links.resume()
    links.show("1", "http://rm/app/1", "", stored_urls.__setitem__)
    assert stored_urls["_link_SparkUiLink"] == "http://rm/ui/1"
    links.forget(stored_urls.__setitem__)
    assert stored_urls["_link_SparkUiLink"] == ""


def test_a_resumed_task_removes_the_spark_ui_link_before_its_next_statement(
    yarn: Pretended, on_yarn: Connections
) -> None:
    cluster_tasks.connect_yarn(on_yarn, yarn, "cluster")
    yarn.app, store, context = dict(RUNNING), StateStore(), context_of()
    context["task_state_store"] = store
    sql = "DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.flights WHERE id = 2"

    def two() -> HiveAcidSqlOperator:
        return HiveAcidSqlOperator(task_id="t", sql=sql, deferrable=True)

    with pytest.raises(TaskDeferred) as caught:
        run_task(two(), context)
    yarn.app = dict(SUCCEEDED)
    event = cluster_tasks.fired(caught.value.trigger)
    yarn.states = [{**SUCCEEDED, "trackingUrl": "N/A"}]
    yarn.app = {**RUNNING, "trackingUrl": "N/A"}
    later: Any = context_of(task_state_store=store)
    later["ti"].xcoms["_link_SparkUiLink"] = "http://rm/ui/of/the/first"
    woken = two()
    later["ti"].task = woken
    woken.render_template_fields(later)
    with pytest.raises(TaskDeferred):
        woken.resume_execution("execute_complete", {"event": event}, later)
    assert stored(later)["Spark UI"] == ""


def test_a_new_pod_has_no_link_to_the_ui_of_an_earlier_tries_driver(
    spark: FakeSpark, api: KubernetesServer, on_kubernetes: Connections, submits: dict[str, Any]
) -> None:
    cluster_tasks.connect_kubernetes(on_kubernetes, api, "cluster", history_url=HISTORY)
    submits["phase"], store = "Running", StateStore()
    waiting(context_of(task_state_store=store))
    api.objects.say(cluster_tasks.SPACE, store["spark_job_id"].partition(":")[2], phase="Failed")
    submits.clear()
    again = context_of(try_number=2, task_state_store=store)
    waiting(again)
    assert len(spark.calls) == 2
    assert not stored(again).get("Spark UI")


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
