"""No secret leaves its place: it is looked for in all that a task stores, sends, starts or logs.

Each secret has a random value. A leak is its value, also in base64, in hexadecimal digits or as a
URL contains it. The metastore is a hostile stand-in that quotes logins in its errors. Spark, YARN
and Kubernetes are stand-ins.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import tempfile
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.sdk import DAG, Asset, Variable
from airflow.sdk._shared.secrets_masker import redact
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields
from requests.auth import HTTPBasicAuth

from airflow_hiveacid import operators
from airflow_hiveacid.airflow_names import TaskDeferred
from airflow_hiveacid.format.errors import ClusterRefusedError, ConfigurationError, HiveAcidError
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import JobError
from airflow_hiveacid.operators.reporting import survey as surveys
from airflow_hiveacid.operators.submission import submitter
from airflow_hiveacid.operators.submission.cluster_client import cluster_run_of
from airflow_hiveacid.operators.submission.cluster_run import Bounds
from airflow_hiveacid.operators.submission.kubernetes_login import login_of
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from tests.contract.sasl_server import PlainHalf, Refusal, SaslServer
from tests.support import airflow_support, cluster_tasks
from tests.support.command_line import status_of
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import ResourceManager
from tests.support.secret_search import files_below, forms_of

_LOGIN: Final = "the metastore's secret"
_NAMES: Final = (
    _LOGIN,
    "the connection's password",
    "an extra that nothing reads",
    "the Spark connection's password",
    "the Spark connection's keytab",
    "a source's secret in a variable",
    "a source's secret in a file",
    "a setting of Spark",
    "a keystore's password",
    "a variable of the driver",
)
# What a bearer token may consist of, with characters that URLs escape.
_SECRETS: Final = {name: f"{secrets.token_hex(12)}+~/{at}" for at, name in enumerate(_NAMES)}
_FORMS: Final = {name: [*forms_of(secret.encode())] for name, secret in _SECRETS.items()}
_ASSET: Final = Asset(name="t", uri="hive://hms:10000/demo/orders")
_GIVEN: Final = ("a setting of Spark", "a keystore's password", "a variable of the driver")


def _leaks(
    places: Mapping[str, str], allowed: Collection[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """The places in which a secret is, and the secret's name."""
    contents = {place: text.encode() for place, text in places.items()}
    return [
        (place, name)
        for place, content in contents.items()
        for name, forms in _FORMS.items()
        if (place, name) not in allowed and any(form in content for form in forms)
    ]


# ---- a task with secrets wherever one can be given -----------------------------------------------


class _Quoting(PlainHalf):
    """The server's half of a login; it refuses each login, and quotes the password."""

    def respond(self, response: bytes) -> tuple[int, bytes]:
        raise Refusal(f"no such login: {response.split(chr(0).encode())[-1].decode()}")


@pytest.fixture
def metastore(
    connections: airflow_support.Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[SaslServer]:
    """A metastore that quotes passwords, and connections with a secret in every field."""
    monkeypatch.setenv("METASTORE_SECRET", _SECRETS[_LOGIN])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with SaslServer(lambda: _Quoting("etl", "")) as server:
        _connect_metastore(connections, server.uri, tmp_path)
        yield server


def _connect_metastore(
    connections: airflow_support.Connections, uri: str, folder: Path, **extra: object
) -> None:
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        login="etl",
        password=_SECRETS["the connection's password"],
        extra={
            "uris": uri,
            "authentication": "password",
            "secret_in_clear": True,
            "secret_from": "env:METASTORE_SECRET",
            "result_dir": f"file:{folder}/results",
            **extra,
        },
    )


def _add_spark_secrets(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    """Put secrets into the fields of the Spark connection that its kind of cluster ignores."""
    connection = json.loads(os.environ["AIRFLOW_CONN_SPARK_DEFAULT"])
    connection["password"] = _SECRETS["the Spark connection's password"]
    unread = {"truststore_password": _SECRETS["an extra that nothing reads"]}
    connection["extra"] = {**connection.get("extra", {}), **unread, **extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


class _Lines(airflow_support.TaskLog):
    """A log at any level, with the named values that Airflow's own code logs."""

    def info(self, text: str, *parts: object, **named: object) -> None:
        super().info(text, *parts)
        self.lines += [f"{name}={value}" for name, value in named.items()]

    debug = warning = error = info


class _Logs(logging.Handler):
    """All that is logged at any level: our own lines, and as Airflow shows the Spark provider's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(logging.DEBUG)
        self.own, self.providers = _Lines.of_tasks(monkeypatch), _Lines()
        monkeypatch.setattr(SparkSubmitHook, "log", self.providers)
        root = logging.getLogger()
        monkeypatch.setattr(root, "level", logging.DEBUG)
        monkeypatch.setattr(root, "handlers", [*root.handlers, self])
        monkeypatch.setattr(logging.root.manager, "disable", 0)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("airflow_hiveacid", "hiveacid")):
            self.own.lines.append(logging.Formatter().format(record))

    def texts(self) -> dict[str, str]:
        return {
            "log": "\n".join(self.own.lines),
            "log of the Spark provider": str(redact("\n".join(self.providers.lines))),
        }


@pytest.fixture
def logs(metastore: SaslServer, monkeypatch: pytest.MonkeyPatch) -> _Logs:
    assert metastore
    return _Logs(monkeypatch)


def _merge(folder: Path, **arguments: Any) -> operators.HiveAcidMergeOperator:  # noqa: ANN401
    file = folder / "given" / "password"
    file.parent.mkdir(exist_ok=True)
    file.write_text(_SECRETS["a source's secret in a file"])
    return operators.HiveAcidMergeOperator(
        task_id="task",
        table="demo.orders",
        source={
            "format": "jdbc",
            "location": "orders",
            "options": {
                "url": "jdbc:postgresql://h/db",
                "password": "env:ORDERS_PASSWORD",
                "sslpassword": f"file:{file}",
            },
        },
        keys=["id"],
        clauses=[{"when": "not_matched", "action": "insert"}],
        conf={
            "spark.hadoop.fs.s3a.secret.key": _SECRETS["a setting of Spark"],
            "spark.ssl.keyStorePassword": _SECRETS["a keystore's password"],
        },
        env_vars={"API_TOKEN": _SECRETS["a variable of the driver"]},
        outlets=[_ASSET],
        **arguments,
    )


def _traces(
    task: operators.HiveAcidMergeOperator,
    context: dict[str, Any],
    spark: airflow_support.FakeSpark,
    folder: Path,
    returned: object,
) -> dict[str, str]:
    """All that a task has left, by place."""
    calls = spark.calls
    lineage = DefaultExtractor(task).extract_on_complete(None)
    assert lineage is not None
    assert lineage.outputs
    variables = [name for call in calls for name in _with_secrets(call["environment"])]
    assert set(variables) <= {"METASTORE_SECRET", "ORDERS_PASSWORD", "API_TOKEN", *_connections()}
    given = (folder / "given", folder / "spark")
    return {
        "spec": json.dumps([call["spec"] for call in calls]),
        "arguments": json.dumps([call["arguments"] for call in calls]),
        "rendered fields": json.dumps(_serialize_rendered_fields(task), default=str),
        "map label": task.map_label + str(task.doc_md),
        "XCom": json.dumps([returned, context["ti"].xcoms], default=str),
        "state store": json.dumps(context["task_state_store"]),
        "asset events": str(context["outlet_events"][_ASSET].extra),
        "lineage": str(lineage),
        "files": "\n".join(
            content.decode(errors="replace")
            for file, content in files_below(folder)
            if not any(file.is_relative_to(one) for one in given)
            and not file.name.startswith("airflow_keytab-")
        ),
    }


def _connections() -> tuple[str, ...]:
    return ("AIRFLOW_CONN_HIVE_ACID_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT")


def _with_secrets(environment: Mapping[str, str]) -> list[str]:
    return [name for name, value in environment.items() if _leaks({name: value})]


def _context() -> dict[str, Any]:
    return airflow_support.context_of(task_state_store=airflow_support.StateStore())


# ---- tasks that succeed --------------------------------------------------------------------------


def test_a_task_on_the_worker_leaves_no_secret(
    spark: airflow_support.FakeSpark, logs: _Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", _SECRETS["a source's secret in a variable"])
    _add_spark_secrets(monkeypatch)
    task, context = _merge(tmp_path), _context()
    found = _traces(task, context, spark, tmp_path, airflow_support.run_task(task, context))
    shown = [("arguments", name) for name in _GIVEN[:2]]  # the log warns of these
    assert _leaks({**found, **logs.texts()}, allowed=shown) == []
    warned = "\n".join(logs.own.lines)
    assert "arguments: spark.hadoop.fs.s3a.secret.key, spark.ssl.keyStorePassword. See" in warned


@pytest.mark.parametrize("is_deferred", [False, True])
@pytest.mark.long_cases("False")
def test_a_task_on_yarn_leaves_no_secret(
    spark: airflow_support.FakeSpark,
    logs: _Logs,
    tmp_path: Path,
    yarn: ResourceManager,
    connections: airflow_support.Connections,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_deferred: bool,
) -> None:
    cluster_tasks.connect_yarn(connections, yarn, "cluster")
    keytab = base64.b64encode(_SECRETS["the Spark connection's keytab"].encode()).decode()
    _add_spark_secrets(monkeypatch, principal="etl@R", keytab=keytab)
    spark.tell(says=f"Submitted application {cluster_tasks.APP}")
    task, context, stored = _merge(tmp_path, deferrable=is_deferred), _context(), ""
    try:
        returned = airflow_support.run_task(task, context)
    except TaskDeferred as deferral:
        event = cluster_tasks.fired(deferral.trigger)
        stored = json.dumps([deferral.trigger.serialize(), deferral.kwargs, event], default=str)
        task = _merge(tmp_path, deferrable=True)
        returned = cluster_tasks.resumed(task, context["task_state_store"], event)
    assert bool(stored) is is_deferred
    found = _traces(task, context, spark, tmp_path, returned)
    shown = [("arguments", name) for name in _GIVEN]  # the log warns of these
    assert _leaks({**found, **logs.texts(), "trigger": stored}, allowed=shown) == []
    assert "arguments: API_TOKEN, spark.hadoop.fs.s3a.secret.key" in "\n".join(logs.own.lines)
    (kept,) = (tmp_path / "scratch").glob("airflow_keytab-*")
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("submits")
def test_a_task_on_kubernetes_leaves_no_secret(
    spark: airflow_support.FakeSpark,
    logs: _Logs,
    tmp_path: Path,
    api: KubernetesServer,
    connections: airflow_support.Connections,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    cluster_tasks.connect_kubernetes(connections, api, "cluster")
    _add_spark_secrets(monkeypatch)
    task, context = _merge(tmp_path), _context()
    found = _traces(task, context, spark, tmp_path, airflow_support.run_task(task, context))
    shown = [("arguments", name) for name in _GIVEN]  # the log warns of these
    assert _leaks({**found, **logs.texts()}, allowed=shown) == []


@pytest.mark.parametrize("is_mapped", [False, True])
def test_rendered_templates_mask_values_whose_name_suggests_a_secret(*, is_mapped: bool) -> None:
    # New secrets, because what one test has hidden stays hidden in the next.
    fresh = [secrets.token_hex(12) for _ in range(3)]
    given: dict[str, Any] = {
        "conf": {"spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "{{ fresh[0] }}"},
        "env_vars": {"ORDERS_PWD": "{{ fresh[1] }}", "SMTP_PASS": "{{ fresh[2] }}"},
    }
    with DAG("d", schedule=None) as dag:
        task: Any = (
            operators.HiveAcidDeleteOperator.partial(task_id="t", table="demo.t", **given).expand(
                where=["id = 1"]
            )
            if is_mapped
            else operators.HiveAcidDeleteOperator(
                task_id="t", table="demo.t", where="id = 1", **given
            )
        )
    context: Any = airflow_support.context_of(fresh=fresh, task=task, dag=dag)
    context["ti"].map_index, context["dag_run"].conf = 0, {}
    task.render_template_fields(context)
    rendered = context["task"]
    assert [*rendered.conf.values(), *rendered.env_vars.values()] == fresh
    shown = json.dumps(_serialize_rendered_fields(rendered))
    assert "ORDERS_PWD" in shown
    assert [secret for secret in fresh if secret in shown] == []


@pytest.mark.parametrize(
    "name", ["auth.apiKey", "headers.Authorization", "transports.a.headers.Cookie"]
)
@pytest.mark.long_cases("headers.Authorization")
def test_an_openlineage_login_for_the_driver_is_masked_and_a_warning_is_logged(
    spark: airflow_support.FakeSpark, logs: _Logs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    setting, secret = f"spark.openlineage.transport.{name}", f"Bearer-{secrets.token_hex(12)}"
    monkeypatch.setattr(
        submitter,
        "inject_transport_information_into_spark_properties",
        lambda given, _: {**given, setting: secret},
    )
    airflow_support.run_task(
        operators.HiveAcidDeleteOperator(
            task_id="task", table="demo.t", where="id = 1", openlineage_inject_transport_info=True
        )
    )
    assert spark.options["--conf"] == f"{setting}={secret}"
    assert f"arguments: {setting}. See" in "\n".join(logs.own.lines)
    assert f"{setting}=***" in logs.texts()["log of the Spark provider"]


def test_passwords_in_urls_are_masked_and_a_warning_is_logged(
    spark: airflow_support.FakeSpark, logs: _Logs
) -> None:
    fresh = [secrets.token_hex(12) for _ in range(3)]
    mirror, proxy, repository = (f"https://etl:{one}@repo.example.com/maven" for one in fresh)
    airflow_support.run_task(
        operators.HiveAcidDeleteOperator(
            task_id="task",
            table="demo.t",
            where="id = 1",
            conf={"spark.jars.repositories": mirror},
            env_vars={"HTTPS_PROXY": proxy},
            repositories=repository,
        )
    )
    assert spark.options["--conf"] == f"spark.jars.repositories={mirror}"
    assert "arguments: repositories, spark.jars.repositories. See" in "\n".join(logs.own.lines)
    assert redact([mirror, proxy, repository]) == ["https://etl:***@repo.example.com/maven"] * 3
    found = logs.texts()
    assert [name for name, text in found.items() for one in fresh if one in text] == []


@pytest.mark.usefixtures("spark")
def test_settings_that_only_describe_secrets_are_shown_without_a_warning(logs: _Logs) -> None:
    settings = {
        "spark.kubernetes.driver.secrets.orders": "/etc/secrets-of-orders",
        "spark.kubernetes.executor.secretKeyRef.PASSWORD": "orders:password",
        "spark.authenticate.secretBitLength": "10256",
        "spark.security.credentials.renewalRatio": "0.7512",
        "spark.security.credentials.retryWait": "10001h",
        "spark.kubernetes.kerberos.tokenSecret.itemKey": "hadoop-token",
        "spark.kafka.clusters.a.sasl.token.mechanism": "SCRAM-SHA-512",
        "spark.security.credentials.hive.enabled": "maybe",
        "spark.ssl.keyPassword": "",
        "spark.needs.token": "False",
        "spark.hadoop.hadoop.security.authorization": "True",
        "spark.hadoop.hive.security.authorization.manager": "org.example.Manager",
    }
    airflow_support.run_task(
        operators.HiveAcidDeleteOperator(
            task_id="task",
            table="demo.t",
            where="id = 1",
            conf=settings,
            env_vars={"TOKEN_FILE": "/run/token-file"},
        )
    )
    assert "every user of this machine" not in "\n".join(logs.own.lines)
    values = [*settings.values(), "/run/token-file"]
    assert redact(values) == values


def test_a_collection_stores_no_secret(logs: _Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[object] = []
    monkeypatch.setattr(Variable, "set", lambda *given, **more: stored.append((given, more)))
    monkeypatch.setattr(
        surveys, "survey", lambda *_: surveys.Survey(numbers=(), queue=(), owners={}, workers={})
    )
    context = airflow_support.context_of("collect")
    xcoms = context["ti"].xcoms
    context["ti"].xcom_push = lambda key, value: xcoms.update({key: value})
    returned = airflow_support.run_task(
        operators.HiveAcidCollectOperator(task_id="collect"), context
    )
    found = {
        "XCom": str(returned),
        "page document": json.dumps(xcoms),
        "variables": str(stored),
    }
    assert len(xcoms) == len(stored) == 1
    assert _leaks({**found, **logs.texts()}) == []


# ---- errors that quote a secret ------------------------------------------------------------------


def _shown(error: BaseException) -> dict[str, str]:
    """An error as a log, a result and a trigger's event have it."""
    assert "***" in str(error), "the server has not quoted a secret"
    return {
        "error": f"{error} {error!r}",
        "traceback": str(redact("".join(traceback.format_exception(error)))),
        "result": str(JobError.of(error)),
    }


def test_a_login_quoted_in_an_error_of_the_driver_is_masked(
    spark: airflow_support.FakeSpark, logs: _Logs, tmp_path: Path
) -> None:
    message = f"jdbc://h?password={_SECRETS[_LOGIN]}"
    spark.tell(error={"type": "StorageError", "message": message}, status="failed")
    spark.tell(says=f"the login {_SECRETS[_LOGIN]} is refused")
    task = _merge(tmp_path)
    with pytest.raises(HiveAcidError) as caught:
        airflow_support.run_task(task, _context())
    assert _leaks({**_shown(caught.value), **logs.texts()}) == []


@pytest.mark.usefixtures("spark")
def test_a_login_quoted_by_the_metastore_is_masked_in_the_check_before_submission(
    logs: _Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT", "True")
    task = _merge(tmp_path)
    task.env_vars = None  # with which the driver might have another login
    with pytest.raises(HiveAcidError) as caught:
        airflow_support.run_task(task, _context())
    assert _leaks({**_shown(caught.value), **logs.texts()}) == []


@contextmanager
def _quoting_http() -> Iterator[str]:
    """The address of an HTTP server that answers with the headers of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            page = str(self.headers).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["password", "bearer"])
@pytest.mark.parametrize("place", ["env", "file"])
def test_a_login_quoted_by_the_metastore_is_masked_in_the_hook_and_the_command_line(
    metastore: SaslServer,
    logs: _Logs,
    connections: airflow_support.Connections,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    place: str,
) -> None:
    (tmp_path / "secret").write_text(f"{_SECRETS[_LOGIN]}\n")
    secret_from = {"env": "env:METASTORE_SECRET", "file": f"file:{tmp_path}/secret"}[place]
    with _quoting_http() as address:
        uri, transport = (address, "http") if kind == "bearer" else (metastore.uri, "plain")
        extra = {"authentication": kind, "transport": transport, "secret_from": secret_from}
        _connect_metastore(connections, uri, tmp_path, **extra)
        with HiveAcidHook().metastore() as client, pytest.raises(HiveAcidError) as caught:
            client.valid_txns()
        _, tested = HiveAcidHook().test_connection()
        options = f"--metastore {uri} --transport {transport} --authentication {kind}"
        login = ["--user", "etl", "--secret-from", secret_from, "--secret-in-clear"]
        assert status_of(["transactions", *options.split(), *login]) != 0
        assert status_of(["transactions", "--conn-id", "hive_acid_default"]) != 0
    said = "".join(capsys.readouterr())
    assert said.count("***") >= 2
    found = {"test of the connection": tested, "command line": said}
    assert _leaks({**_shown(caught.value), **found, **logs.texts()}) == []


@pytest.mark.parametrize("before", ["not you: ", "x" * 180], ids=["whole", "cut"])
def test_a_login_quoted_by_yarn_or_kubernetes_is_masked_in_the_error(
    yarn: ResourceManager, api: KubernetesServer, tmp_path: Path, before: str
) -> None:
    secret = _SECRETS[_LOGIN]
    yarn.page = api.page = (403, f"{before}{secret}")
    (tmp_path / "token").write_text(secret)
    settings = {"spark.kubernetes.authenticate.submission.oauthTokenFile": str(tmp_path / "token")}
    server = cluster_tasks.api_server(api)
    server.login.token_file = login_of(settings, {}, is_cluster=True).token_file
    run = cluster_run_of(
        SparkTarget(
            conn_id="s", master="yarn", deploy_mode="cluster", resource_managers=(yarn.web,)
        ),
        cluster_tasks.TAG,
        SparkArguments(conn_id="s", yarn_rm_auth=HTTPBasicAuth("etl", secret)),
        Bounds(),
        is_killed=lambda: False,
    )
    assert run is not None
    for ask in (
        lambda: run.manager.find(cluster_tasks.TAG),
        lambda: server.find(cluster_tasks.TAG),
    ):
        with pytest.raises(ClusterRefusedError) as caught:
            ask()
        assert _leaks(_shown(caught.value)) == []
        assert secret[:8] not in str(caught.value)
    assert cluster_tasks.SPACE in api.requests[-1][1]


@pytest.mark.parametrize("kind", ["token", "password"])
def test_a_kubeconfig_login_quoted_by_kubernetes_is_masked_in_the_error(
    api: KubernetesServer, tmp_path: Path, kind: str
) -> None:
    secret = secrets.token_hex(12)
    user = {"token": {"token": secret}, "password": {"username": "etl", "password": secret}}[kind]
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://elsewhere.example.com"}}],
        "users": [{"name": "u", "user": user}],
    }
    (tmp_path / "config").write_text(json.dumps(config))  # JSON is YAML
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    assert secret not in repr(login)
    api.page = (403, f"not you: {secret}")
    with pytest.raises(ClusterRefusedError) as caught:
        replace(cluster_tasks.api_server(api), login=login).find(cluster_tasks.TAG)
    assert secret not in "".join(_shown(caught.value).values())


# ---- secrets in wrong places ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"secret_from": _SECRETS[_LOGIN]},
        {"secret_from": f"env:{_SECRETS[_LOGIN]}"},
        {"secret_in_clear": _SECRETS[_LOGIN]},
        {"uris": f"thrift://etl:{_SECRETS[_LOGIN]}@hms:9083"},
        {"transport": _SECRETS[_LOGIN]},
        {"authentication": _SECRETS[_LOGIN]},
        {"protection": _SECRETS[_LOGIN]},
        {"call_timeout_s": _SECRETS[_LOGIN]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_secret_in_a_wrong_field_of_a_connection_is_not_shown(
    connections: airflow_support.Connections, tmp_path: Path, given: dict[str, str]
) -> None:
    _connect_metastore(connections, "thrift://hms", tmp_path, **given)
    with pytest.raises(ConfigurationError) as caught:
        _ = HiveAcidHook().settings
    assert _leaks({"error": "".join(traceback.format_exception(caught.value))}) == []


@pytest.mark.parametrize(
    "option",
    [("password", "{}"), ("dbtable", "jdbc:h?password={}"), ("url", "jdbc:x://etl:{}@h/db")],
)
@pytest.mark.usefixtures("spark")
def test_a_secret_in_an_option_of_a_source_is_refused_and_not_shown(
    option: tuple[str, str],
) -> None:
    secret = quote(_SECRETS["a source's secret in a variable"], safe="")
    name, text = option[0], option[1].format(secret)
    make: Callable[[], object] = lambda: operators.HiveAcidMergeOperator(  # noqa: E731 - raises
        task_id="task",
        table="demo.orders",
        source={"format": "jdbc", "location": "orders", "options": {name: text}},
        keys=["id"],
        clauses=[{"when": "not_matched", "action": "insert"}],
    )
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert _leaks({"error": "".join(traceback.format_exception(caught.value))}) == []
