"""What a task does on Kubernetes at exact borders: late, refused, gone, found again, killed.

The API server pretends; whole jobs are in test_kubernetes.py.
"""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit as provider

from airflow_hiveacid.format.errors import (
    ApplicationForgottenError,
    ApplicationNotStartedError,
    ConfigurationError,
    JobFailedError,
    KubernetesRefusedError,
    KubernetesUnavailableError,
    LockNotAcquiredError,
)
from airflow_hiveacid.local.openssl import make_certificates
from airflow_hiveacid.operators.cluster_run import Bounds, ClusterRun, tag_of
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.kubernetes import EXECUTOR, LABEL, ApiServer, Pod
from airflow_hiveacid.operators.kubernetes_login import Login, login_of, server_of
from airflow_hiveacid.operators.kubernetes_settings import driver_of, own_settings
from airflow_hiveacid.operators.resumption import ATTEMPT_KEY, RESULT_URI_KEY, SUBMISSION_KEY
from airflow_hiveacid.operators.run_identity import DELIVERED_KEY
from airflow_support import METASTORE_URI, StateStore, context_of, killed_when, run_task
from pretended_kubernetes import KubernetesServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_support import Connections, FakeSpark

_SPACE: Final = "etl"
_TAG: Final = "hiveacid-1-0123456789ab"
_POD: Final = f"{_SPACE}:{_TAG}-driver"
_CANARY: Final = "canary-of-a-token"
_RUNNING: Final = {"phase": "Running"}
_SUCCEEDED: Final = {"phase": "Succeeded"}
_PATIENCE_S: Final = 60


class Clock:
    """Time that passes only by sleeping; `then` happens as it does."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        self.time, self.then = 0.0, then

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.then(self.time)


@pytest.fixture
def api() -> Iterator[KubernetesServer]:
    with KubernetesServer.started() as server:
        yield server


@pytest.fixture
def connected(
    api: KubernetesServer,
    connections: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Connections:
    """A driver in the cluster of the API server, and nobody's kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    _connect(connections, api, "cluster")
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        extra={"uris": METASTORE_URI, "result_dir": f"file:{tmp_path}/results"},
    )
    return connections


def _connect(connections: Connections, api: KubernetesServer, mode: str) -> None:
    connections.add(
        "spark_default",
        "spark",
        host=f"k8s://{api.address}",
        extra={"deploy-mode": mode, "namespace": _SPACE},
    )


def _delete(spark: FakeSpark, **arguments: Any) -> HiveAcidDeleteOperator:  # noqa: ANN401
    return HiveAcidDeleteOperator(
        task_id="task",
        table="demo.flights",
        where="id = 1",
        spark_bin_dir=str(spark.bin_dir),
        **arguments,
    )


def _pod(
    api: KubernetesServer,
    tag: str = _TAG,
    *,
    name: str | None = None,
    role: str = "driver",
    **status: Any,  # noqa: ANN401 - as it stands
) -> None:
    """Make a pod, as Spark would, that stands so."""
    labels = {LABEL: tag, "spark-role": role}
    meta = {"name": name or f"{tag}-{role}", "labels": labels}
    api.objects.put("pods", _SPACE, {"metadata": meta, "status": status or {"phase": "Pending"}})


def _server(api: KubernetesServer, **more: Any) -> ApiServer:  # noqa: ANN401 - of the server
    return ApiServer(address=api.address, namespace=_SPACE, login=Login(), **more)


def _run(
    api: KubernetesServer, clock: Clock, *, killed: bool = False, **bounds: float
) -> ClusterRun[Any]:
    return ClusterRun(
        _server(api),
        _TAG,
        Bounds(**bounds),
        is_killed=lambda: killed,
        now=clock.now,
        sleep=clock.sleep,
    )


def _settings(spark: FakeSpark) -> list[str]:
    arguments = spark.calls[-1]["arguments"]
    return [b for a, b in itertools.pairwise(arguments) if a == "--conf"]


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---- what is submitted ---------------------------------------------------------------------------


@pytest.fixture
def submits(api: KubernetesServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What becomes of a driver's pod once `spark-submit` has ended; none is made if it is empty.

    What it uploads lies where it is told.
    """
    status: dict[str, Any] = dict(_SUCCEEDED)
    submit = provider.SparkSubmitHook.submit

    def submitted(hook: Any, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - the provider's
        answer = submit(hook, *given, **more)
        tag = hook._conf[f"spark.kubernetes.executor.label.{LABEL}"]
        if place := hook._conf.get("spark.kubernetes.file.upload.path"):
            (Path(place.removeprefix("file:")) / "spark-upload-a").mkdir(parents=True)
        if status:
            _pod(api, tag, **status)
        return answer

    monkeypatch.setattr(provider.SparkSubmitHook, "submit", submitted)
    return status


@pytest.mark.usefixtures("connected", "submits")
def test_a_driver_is_a_pod_with_the_name_and_label_of_its_attempt(
    spark: FakeSpark, tmp_path: Path
) -> None:
    conf = {
        "spark.kubernetes.driver.pod.name": "always-the-same",
        # With this the Spark provider refuses to follow a pod.
        "spark.kubernetes.submission.waitAppCompletion": "true",
    }
    task = _delete(spark, conf=dict(conf))
    done = run_task(task, context_of(task_state_store=StateStore()))
    tag = tag_of(spark.calls[-1]["spec"]["attempt"])
    given = set(_settings(spark))
    assert done["status"] == "committed"
    assert {
        f"spark.kubernetes.driver.pod.name={tag}-driver",
        f"spark.kubernetes.driver.label.{LABEL}={tag}",
        f"spark.kubernetes.executor.label.{LABEL}={tag}",
        "spark.kubernetes.submission.waitAppCompletion=false",
        f"spark.kubernetes.namespace={_SPACE}",
    } <= given
    # Who submits makes the folder of uploads: the driver's, who may be another, is beside it.
    (uploads,) = [one for one in given if one.startswith("spark.kubernetes.file.upload.path=")]
    folder = spark.calls[-1]["spec"]["result_uri"].rpartition("/")[0]
    assert uploads.partition("=")[2] == f"{folder}-uploads"
    assert task.conf == conf
    assert len(f"{tag}-driver") <= 63  # what a pod's host may be called
    assert list((tmp_path / "results").iterdir()) == []


def test_what_a_user_says_of_uploads_stays_and_s3_is_called_as_hadoop_does() -> None:
    more = {"namespace": "a", "result_uri": "s3://b/r/u/result.json", "is_cluster": True}
    settings = own_settings({}, "t", **more)
    assert settings["spark.kubernetes.file.upload.path"] == "s3a://b/r/u-uploads"
    given = {"spark.kubernetes.file.upload.path": "hdfs://nn/up"}
    assert own_settings(given, "t", **more).items() >= given.items()


@pytest.mark.usefixtures("submits")
def test_on_the_worker_executors_alone_are_labelled(
    spark: FakeSpark, api: KubernetesServer, connected: Connections
) -> None:
    _connect(connected, api, "client")
    assert run_task(_delete(spark), context_of())["status"] == "committed"
    names = {one.partition("=")[0] for one in _settings(spark)}
    assert {one for one in names if one.startswith("spark.kubernetes.")} == {
        "spark.kubernetes.namespace",
        f"spark.kubernetes.executor.label.{LABEL}",
    }


@pytest.mark.usefixtures("connected", "submits")
def test_the_spark_provider_needs_nothing_of_its_own_for_kubernetes(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Kubernetes' provider its hook asks for a name that is not there."""
    monkeypatch.delattr(provider, "kube_client", raising=False)
    assert run_task(_delete(spark), context_of())["status"] == "committed"


@pytest.mark.usefixtures("connected")
def test_a_token_among_the_settings_is_refused_and_not_repeated(spark: FakeSpark) -> None:
    conf = {"spark.kubernetes.authenticate.submission.oauthToken": _CANARY}
    with pytest.raises(ConfigurationError, match="oauthTokenFile") as caught:
        run_task(_delete(spark, conf=conf), context_of())
    assert _CANARY not in str(caught.value)
    assert spark.calls == []


# ---- what is asked -------------------------------------------------------------------------------


def test_a_token_is_read_anew_at_each_question(api: KubernetesServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = {"spark.kubernetes.authenticate.submission.oauthTokenFile": str(file)}
    login = login_of(settings, {"KUBECONFIG": "/none", "HOME": str(tmp_path)}, is_cluster=True)
    server = ApiServer(address=api.address, namespace=_SPACE, login=login)
    with pytest.raises(KubernetesUnavailableError, match="No such file"):
        server.report(_POD)
    file.write_text(f"{_CANARY}-0")
    for token in (f"{_CANARY}-1", f"{_CANARY}-2"):
        api.token = token
        with pytest.raises(KubernetesRefusedError, match="HTTP 401") as caught:
            server.find(_TAG)
        assert _CANARY not in f"{caught.value!r} {login!r} {server!r}"
        file.write_text(f"{token}\n")
        assert server.find(_TAG) == ()
        assert api.requests[-1][2] == token


def test_a_kubeconfig_is_read_as_kubectl_does(api: KubernetesServer, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo "$WHO" >> "$0.asked"\n'
        f'echo \'{{"status": {{"token": "{_CANARY}", "expirationTimestamp": "\'"$UNTIL"\'"}}}}\'\n'
    )
    plugin.chmod(0o755)
    users: dict[str, dict[str, Any]] = {
        "inline": {"token": "one"},
        "file": {"tokenFile": "two.txt"},
        "plugin": {
            "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
        },
    }
    env = [{"name": "WHO", "value": "me"}, {"name": "UNTIL", "value": "2999-01-01T00:00:00Z"}]
    users["plugin"]["exec"]["env"] = env
    (tmp_path / "two.txt").write_text("two")
    (tmp_path / "first").write_text(yaml.safe_dump(_kubeconfig(users, current="inline")))
    (tmp_path / "second").write_text(yaml.safe_dump(_kubeconfig({"inline": {"token": "no"}})))
    environment = {"KUBECONFIG": f"{tmp_path}/first:{tmp_path}/second:{tmp_path}/none"}
    for context, token in {None: "one", "file": "two", "plugin": _CANARY}.items():
        given = {} if context is None else {"spark.kubernetes.context": context}
        login = login_of(given, environment, is_cluster=True)
        server = ApiServer(address=api.address, namespace=_SPACE, login=login)
        for _ in range(2):
            server.find(_TAG)
            assert api.requests[-1][2] == token
    assert Path(f"{plugin}.asked").read_text() == "me\n"  # a token that lasts is asked for once
    env[1]["value"] = "2001-01-01T00:00:00Z"
    (tmp_path / "first").write_text(yaml.safe_dump(_kubeconfig(users, current="plugin")))
    login = login_of({}, environment, is_cluster=True)
    assert [login.bearer(), login.bearer()] == [_CANARY] * 2
    assert Path(f"{plugin}.asked").read_text() == "me\n" * 3
    with pytest.raises(ConfigurationError, match="no context 'other'"):
        login_of({"spark.kubernetes.context": "other"}, environment, is_cluster=True)


def _kubeconfig(users: dict[str, Any], *, current: str | None = None) -> dict[str, Any]:
    contexts = [{"name": n, "context": {"cluster": "c", "user": n}} for n in users]
    known = [{"name": "c", "cluster": {"server": "https://elsewhere.example.com"}}]
    named = {} if current is None else {"current-context": current}
    return {
        **named,
        "contexts": contexts,
        "clusters": known,
        "users": [{"name": n, "user": user} for n, user in users.items()],
    }


def test_certificates_within_a_kubeconfig_lie_on_no_disk(tmp_path: Path) -> None:
    user = {
        "client-certificate-data": base64.b64encode(b"certificate").decode(),
        "client-key-data": base64.b64encode(_CANARY.encode()).decode(),
    }
    content = _kubeconfig({"u": user}, current="u")
    content["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    assert login.certificate is not None
    for name, text in zip(login.certificate, (b"certificate", _CANARY.encode()), strict=True):
        assert Path(name).read_bytes() == text
        assert Path(name).readlink().name.startswith("memfd:")
    assert login.authority == str(tmp_path / "ca.crt")


def test_a_plugin_that_fails_is_named_and_what_it_said_is_not(tmp_path: Path) -> None:
    users = {"u": {"exec": {"command": "sh", "args": ["-c", f"echo {_CANARY}; exit 3"]}}}
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig(users, current="u")))
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    server = ApiServer(address="http://127.0.0.1:1", namespace=_SPACE, login=login)
    with pytest.raises(KubernetesUnavailableError, match="sh, which kubeconfig names") as caught:
        server.report(_POD)
    assert _CANARY not in str(caught.value).replace(json.dumps(users), "")


@pytest.mark.parametrize("way", ["file", "kubeconfig"])
@pytest.mark.parametrize("text", [f"{_CANARY}\n{_CANARY}", f"\u201c{_CANARY}\u201d"])
def test_a_token_that_cannot_be_sent_is_not_shown(
    api: KubernetesServer, tmp_path: Path, text: str, way: str
) -> None:
    """What sends it would say it in its error."""
    (tmp_path / "token").write_text(text, encoding="utf-8")
    login = Login(token_file=tmp_path / "token") if way == "file" else Login(token=text)
    server = ApiServer(address=api.address, namespace=_SPACE, login=login)
    with pytest.raises(KubernetesUnavailableError, match="several lines") as caught:
        server.report(_POD)
    assert _CANARY not in str(caught.value)
    assert server.last_words(_POD) == ""
    assert api.requests == []


def test_a_token_is_sent_without_the_line_end_that_a_kubeconfig_has(api: KubernetesServer) -> None:
    server = ApiServer(address=api.address, namespace=_SPACE, login=Login(token=f"{_CANARY}\n"))
    assert server.find(_TAG) == ()
    assert api.requests[-1][2] == _CANARY


def test_a_plugin_is_asked_anew_when_what_it_gave_counts_no_more(
    api: KubernetesServer, tmp_path: Path
) -> None:
    """It need not say until when that lasts."""
    given = tmp_path / "given"
    said = {"status": {"token": "first"}}
    given.write_text(json.dumps(said))
    users = {"u": {"exec": {"command": "cat", "args": [str(given)]}}}
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig(users, current="u")))
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    server = ApiServer(address=api.address, namespace=_SPACE, login=login)
    api.token = "first"
    assert server.find(_TAG) == ()
    api.token = said["status"]["token"] = "second"
    given.write_text(json.dumps(said))
    with pytest.raises(KubernetesRefusedError):
        server.find(_TAG)
    for _ in range(2):
        assert server.find(_TAG) == ()


def test_a_command_lies_beside_its_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl and Spark's own client have it; one without a slash is on PATH."""
    (tmp_path / "bin").mkdir()
    plugin = tmp_path / "bin" / "plugin"
    plugin.write_text('#!/bin/sh\necho \'{"status": {"token": "one"}}\'\n')
    plugin.chmod(0o755)
    users = {"u": {"exec": {"command": "./bin/plugin"}}}
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig(users, current="u")))
    monkeypatch.chdir("/")
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    assert login.bearer() == "one"


@pytest.mark.parametrize("said", ['{"status": null}', '{"status": {"expirationTimestamp": "no"}}'])
def test_what_a_plugin_says_in_another_form_is_silence(said: str) -> None:
    login = Login(command={"command": "echo", "args": [said]})
    server = ApiServer(address="http://127.0.0.1:1", namespace=_SPACE, login=login)
    with pytest.raises(KubernetesUnavailableError, match="echo, which kubeconfig names"):
        server.report(_POD)


@pytest.mark.parametrize("user", [{"client-key-data": "a"}, {"exec": {"args": []}}])
def test_a_kubeconfig_that_cannot_be_read_is_told(tmp_path: Path, user: dict[str, Any]) -> None:
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig({"u": user}, current="u")))
    with pytest.raises(ConfigurationError, match="no context 'u' that can be read"):
        login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)


def test_whoever_lets_spark_trust_any_certificate_does_so_here(tmp_path: Path) -> None:
    nobody = {"KUBECONFIG": "/none", "HOME": str(tmp_path)}
    for given, authority in (("true", False), ("false", True)):
        settings = {"spark.kubernetes.trust.certificates": given}
        assert login_of(settings, nobody, is_cluster=True).authority is authority


def test_masters_are_read_as_spark_does() -> None:
    assert server_of("k8s://http://127.0.0.1:8001/") == "http://127.0.0.1:8001"


@pytest.mark.parametrize("page", [(200, "a page"), (404, "no such page"), (503, "")])
def test_a_page_is_no_answer(api: KubernetesServer, page: tuple[int, str]) -> None:
    api.page = page
    server = _server(api)
    for ask in (server.report, server.end):
        with pytest.raises(KubernetesUnavailableError, match=f"HTTP {page[0]}"):
            ask(_POD)
    with pytest.raises(KubernetesUnavailableError, match=f"HTTP {page[0]}"):
        server.find(_TAG)


def test_what_we_may_not_ask_is_no_silence(api: KubernetesServer) -> None:
    api.page = (403, "pods is forbidden")
    server = _server(api)
    for ask in (server.report, server.end):
        with pytest.raises(KubernetesRefusedError, match="get, list and delete pods"):
            ask(_POD)


def test_a_token_goes_to_the_master_alone(api: KubernetesServer) -> None:
    login = Login(token=_CANARY)
    with KubernetesServer.started() as other:
        api.moved_to = other.address
        server = ApiServer(address=api.address, namespace=_SPACE, login=login)
        with pytest.raises(KubernetesUnavailableError, match="HTTP 307"):
            server.report(_POD)
        assert api.requests[-1][2] == _CANARY
        assert other.requests == []
    assert _CANARY not in f"{login!r} {server!r}"


def test_an_authority_is_asked_for_and_believed(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "tls")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.file("server.pem"), made.file("server.key"))
    nobody = {"KUBECONFIG": "/none", "HOME": str(tmp_path)}
    for prefix, is_cluster in (("", False), ("submission.", True)):
        name = f"spark.kubernetes.authenticate.{prefix}caCertFile"
        with KubernetesServer.started(tls) as api:
            for settings, is_known in (({}, False), ({name: str(made.authority)}, True)):
                login = login_of(settings, nobody, is_cluster=is_cluster)
                server = ApiServer(address=api.address, namespace=_SPACE, login=login)
                if is_known:
                    assert server.report(_POD) is None
                    continue
                with pytest.raises(KubernetesUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                    server.report(_POD)
                assert api.requests == []


def test_nobody_elses_pods_are_found_or_ended(api: KubernetesServer) -> None:
    _pod(api, "somebody-elses", **_RUNNING)
    _pod(api, _TAG, role=EXECUTOR, **_RUNNING)
    _pod(api, _TAG, name="ended", **_SUCCEEDED)
    api.ignores_selectors = True  # whoever stands between may lose the terms of a question
    assert _server(api).find(_TAG) == ()
    meta = {"name": "web", "labels": {"app": "web"}}
    api.objects.put("pods", _SPACE, {"metadata": meta})
    _server(api).end(f"{_SPACE}:web")
    assert api.deleted == []
    assert len(api.objects.list("pods", _SPACE)) == 4


def test_a_pod_that_took_the_name_of_another_is_left_alone(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pod(api)
    seen = Pod.read

    def renewed(answer: Any) -> Pod:  # noqa: ANN401 - as the server writes it
        pod = seen(answer)
        api.objects.delete("pods", _SPACE, pod.name)
        _pod(api)
        return pod

    monkeypatch.setattr(Pod, "read", renewed)
    _server(api).end(_POD)
    assert len(api.objects.list("pods", _SPACE)) == 1
    monkeypatch.undo()
    _server(api).end(_POD)
    assert api.objects.list("pods", _SPACE) == []


# ---- how long is waited, and what for ------------------------------------------------------------


def _waiting(reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "containerStatuses": [{"name": "spark-kubernetes-driver", "state": state}],
    }


_NO_NODE: Final = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory",
        }
    ],
}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (_NO_NODE, "Unschedulable: 0/3 nodes are available"),
        (_waiting("ImagePullBackOff", "cannot pull a:1"), "ImagePullBackOff: cannot pull a:1"),
        (_waiting("InvalidImageName", "A:1"), "InvalidImageName"),
    ],
)
def test_a_pod_that_is_never_started_is_deleted_and_the_wait_told(
    api: KubernetesServer, status: dict[str, Any], words: str
) -> None:
    _pod(api, **status)
    with pytest.raises(ApplicationNotStartedError, match=words) as caught:
        _run(api, Clock(), start_s=100).follow(_POD)
    assert "namespace etl" in str(caught.value)
    assert 100 < caught.value.waited_s <= 110
    assert api.deleted == [f"{_TAG}-driver"]


def test_a_pod_that_we_may_not_delete_is_not_said_to_be_ended(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may begin at any later time, and commit."""
    _pod(api, **_NO_NODE)

    def refused(*_: object) -> None:
        raise KubernetesRefusedError(asked=f"that it deletes pod {_POD}", reason="HTTP 403")

    monkeypatch.setattr(ApiServer, "end", refused)
    with pytest.raises(KubernetesRefusedError, match="may commit"):
        _run(api, Clock(), start_s=10, refusal_s=20).follow(_POD)


def _ended(reason: str, code: int) -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "spark-kubernetes-driver", "state": state}],
    }


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (_ended("OOMKilled", 137), "OOMKilled, exit code 137"),
        (_ended("Error", 1), "exit code 1"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted: low on"),
    ],
)
@pytest.mark.usefixtures("connected")
def test_why_a_driver_has_failed_is_said_and_its_pod_stays(
    spark: FakeSpark,
    api: KubernetesServer,
    submits: dict[str, Any],
    status: dict[str, Any],
    words: str,
) -> None:
    submits |= status
    spark.tell(answers=False)
    api.logs = lambda *_: "its last words"
    task = _delete(spark)
    with pytest.raises(JobFailedError) as caught:
        run_task(task, context_of(task_state_store=StateStore()))
    assert words in str(caught.value.__cause__)
    assert any(path.partition("?")[0].endswith("/log") for _, path, _ in api.requests)
    assert api.deleted == []


@pytest.mark.usefixtures("connected")
def test_a_driver_that_failed_in_words_keeps_its_pod(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    submits |= _ended("Error", 1)
    spark.tell(error={"type": "LockNotAcquiredError", "message": "locked"})
    with pytest.raises(LockNotAcquiredError):
        run_task(_delete(spark), context_of(task_state_store=StateStore()))
    assert api.deleted == []
    assert len(api.objects.list("pods", _SPACE)) == 1


@pytest.mark.usefixtures("connected", "submits")
def test_a_driver_that_ended_well_and_left_no_result_keeps_its_pod(
    spark: FakeSpark, api: KubernetesServer
) -> None:
    """As with a result_dir that is a disk of the pod's own: its log alone says what it did."""
    spark.tell(answers=False)
    with pytest.raises(JobFailedError, match="left no result"):
        run_task(_delete(spark), context_of(task_state_store=StateStore()))
    assert api.deleted == []
    assert len(api.objects.list("pods", _SPACE)) == 1


def test_a_driver_that_is_done_is_not_kept_alive_by_what_runs_beside_it(
    api: KubernetesServer,
) -> None:
    mesh = {"name": "istio-proxy", "state": {"running": {}}}
    for code, has_succeeded in ((0, True), (1, False)):
        done = _ended("", code)["containerStatuses"][0]
        _pod(api, phase="Running", containerStatuses=[mesh, done])
        found = _run(api, Clock()).follow(_POD)
        assert found is not None
        assert found.has_succeeded is has_succeeded


def test_what_ends_beside_a_driver_does_not_end_it(api: KubernetesServer) -> None:
    beside = {"name": "fetch", "state": {"terminated": {"exitCode": 1}}}
    driver = {"name": "spark-kubernetes-driver", "state": {"running": {}}}
    _pod(api, phase="Running", containerStatuses=[beside, driver])
    found = _server(api).report(_POD)
    assert found is not None
    assert not found.has_ended


def test_a_node_that_does_not_answer_is_waited_for_and_then_given_up(
    api: KubernetesServer,
) -> None:
    _pod(api, phase="Unknown")
    with pytest.raises(KubernetesUnavailableError, match=r"for 6[0-9] s.*its node"):
        _run(api, Clock(), silence_s=60).follow(_POD)
    assert api.deleted == []
    back = Clock(lambda _: api.objects.say(_SPACE, f"{_TAG}-driver", **_SUCCEEDED))
    assert _run(api, back, silence_s=60).follow(_POD) is not None


def test_one_that_does_not_end_when_it_is_told_to_is_told_of_kubernetes(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pod(api, **_RUNNING)
    monkeypatch.setattr(ApiServer, "end", lambda *_: None)
    with pytest.raises(KubernetesUnavailableError, match="told to end it: it is Running"):
        _run(api, Clock(), silence_s=60).end_earlier(_POD, _TAG)


def test_a_pod_that_should_be_gone_and_is_said_to_run_is_given_up(api: KubernetesServer) -> None:
    """Kubernetes deletes those of a node that is away, and calls them running until it is back."""
    labels = {LABEL: _TAG, "spark-role": "driver"}
    meta: dict[str, Any] = {"name": f"{_TAG}-driver", "labels": labels}

    def stands(gone_by: str) -> None:
        pod = {"metadata": {**meta, "deletionTimestamp": gone_by}, "status": dict(_RUNNING)}
        api.objects.put("pods", _SPACE, pod)

    stands("2001-01-01T00:00:00Z")
    clock = Clock()
    with pytest.raises(KubernetesUnavailableError, match=r"for 6[0-9] s.*its node"):
        _run(api, clock, silence_s=60).follow(_POD)
    assert clock.time < 80
    with pytest.raises(KubernetesUnavailableError, match="its node"):
        _run(api, Clock(), silence_s=60).status(_POD)
    assert api.deleted == []
    stands("2999-01-01T00:00:00Z")  # it still has its grace
    done = Clock(lambda _: api.objects.say(_SPACE, f"{_TAG}-driver", **_SUCCEEDED))
    assert _run(api, done, silence_s=0).follow(_POD) is not None


def test_a_killed_task_waits_no_more(api: KubernetesServer) -> None:
    _pod(api, **_RUNNING)
    with pytest.raises(InterruptedError):
        _run(api, Clock(), killed=True).follow(_POD)


def test_executors_that_nobody_starts_end_the_driver_on_the_worker(api: KubernetesServer) -> None:
    _pod(api, role=EXECUTOR, **_NO_NODE)
    stopped = threading.Event()
    bounds = Bounds(start_s=0.5, poll_s=1)
    run = ClusterRun(_server(api, role=EXECUTOR), _TAG, bounds, is_killed=lambda: False)
    with run.watched(stopped.set):
        assert stopped.wait(_PATIENCE_S)
        _until(lambda: api.deleted == [f"{_TAG}-{EXECUTOR}"])
    assert run.overdue is not None
    assert "the executor's container" in str(run.overdue)
    assert "Insufficient memory" in str(run.overdue)


def test_one_executor_that_runs_is_enough(api: KubernetesServer) -> None:
    _pod(api, role=EXECUTOR, name="a-runs", **_RUNNING)
    _pod(api, role=EXECUTOR, name="b-waits")
    stopped = threading.Event()
    bounds = Bounds(start_s=0, poll_s=1)
    run = ClusterRun(_server(api, role=EXECUTOR), _TAG, bounds, is_killed=lambda: False)
    with run.watched(stopped.set):
        _until(lambda: bool(api.requests))
        assert not stopped.wait(1.5)
    assert run.overdue is None


# ---- what a retry finds --------------------------------------------------------------------------


def _left(spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]) -> StateStore:
    """What a worker leaves that was lost while its driver ran; the driver still does."""
    store = StateStore()
    spark.tell(answers=False)
    submits.clear()
    with pytest.raises(ApplicationForgottenError, match="Kubernetes knows nothing"):
        run_task(_delete(spark), context_of(task_state_store=store))
    assert set(store) == {"spark_job_id", RESULT_URI_KEY, SUBMISSION_KEY, ATTEMPT_KEY}
    assert store["spark_job_id"] == driver_of(_SPACE, tag_of(store[ATTEMPT_KEY]))
    (spark.directory / "calls.jsonl").unlink()
    _pod(api, tag_of(store[ATTEMPT_KEY]), **_RUNNING)
    api.requests.clear()
    spark.tell(answers=True)
    submits |= _SUCCEEDED
    return store


@pytest.mark.promise("A7")
@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("is_noted", [True, False])
def test_the_driver_of_a_lost_worker_is_found_again(
    spark: FakeSpark,
    api: KubernetesServer,
    submits: dict[str, Any],
    is_noted: bool,
) -> None:
    store = _left(spark, api, submits)
    pod = store["spark_job_id"].partition(":")[2]
    if not is_noted:
        store.delete("spark_job_id")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClusterRun, "_pause", lambda *_: api.objects.say(_SPACE, pod, **_ended("Error", 1))
        )
        with pytest.raises(JobFailedError):
            run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == f"{_SPACE}:{pod}"


@pytest.mark.usefixtures("connected")
def test_a_pod_that_is_gone_is_submitted_anew_so_that_the_ledger_is_asked(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    store = _left(spark, api, submits)
    api.objects.delete("pods", _SPACE, store["spark_job_id"].partition(":")[2])
    done = run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert (done["status"], len(spark.calls)) == ("committed", 1)
    assert set(store) == {DELIVERED_KEY}
    assert api.objects.list("pods", _SPACE) == []  # what has succeeded is not kept


@pytest.mark.usefixtures("connected")
def test_a_pod_that_is_being_deleted_is_waited_for_and_then_another_is_submitted(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    """As after a try that timed out, whose driver has its grace: the retry is not lost on it."""
    store = _left(spark, api, submits)
    name = store["spark_job_id"].partition(":")[2]
    pod = api.objects.get("pods", _SPACE, name)
    pod["metadata"]["deletionTimestamp"] = "2999-01-01T00:00:00Z"
    api.objects.put("pods", _SPACE, pod)
    submitted_before: list[int] = []

    def gone(*_: object) -> None:
        submitted_before.append(len(spark.calls))
        api.objects.delete("pods", _SPACE, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRun, "_pause", gone)
        done = run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert (done["status"], len(spark.calls), submitted_before) == ("committed", 1, [0])


@pytest.mark.usefixtures("connected")
def test_nothing_is_submitted_while_nobody_says_what_runs(
    spark: FakeSpark,
    api: KubernetesServer,
    submits: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = _left(spark, api, submits)
    api.page = (503, "")
    monkeypatch.setattr(HiveAcidDeleteOperator, "_bounds", lambda _: Bounds(silence_s=0))
    with pytest.raises(KubernetesUnavailableError):
        run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []


# ---- being killed --------------------------------------------------------------------------------


def _killed_when(
    task: HiveAcidDeleteOperator, context: dict[str, Any], holds: Callable[[], bool]
) -> float:
    return killed_when(task, context, lambda: _until(holds))


@pytest.mark.promise("A16")
@pytest.mark.usefixtures("connected")
def test_the_driver_is_deleted_when_the_task_that_found_it_is_killed(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], aborted: list[str]
) -> None:
    store = _left(spark, api, submits)
    pod = store["spark_job_id"].partition(":")[2]
    _pod(api, "hiveacid-7-0123456789ab", **_RUNNING)
    context = context_of(try_number=2, task_state_store=store)
    _killed_when(_delete(spark), context, lambda: len(api.requests) > 1)
    _until(lambda: api.deleted == [pod])
    (left,) = api.objects.list("pods", _SPACE)
    assert left["metadata"]["labels"][LABEL] == "hiveacid-7-0123456789ab"
    assert (spark.calls, len(aborted)) == ([], 1)


@pytest.mark.promise("A16")
@pytest.mark.parametrize(("mode", "role"), [("client", EXECUTOR), ("cluster", "driver")])
def test_pods_are_deleted_of_which_nobody_has_heard(
    spark: FakeSpark,
    api: KubernetesServer,
    aborted: list[str],
    connected: Connections,
    mode: str,
    role: str,
) -> None:
    """While `spark-submit` is still at it, which ends first."""
    _connect(connected, api, mode)
    spark.tell(hangs=True)

    def submitted() -> bool:
        if not (spark.directory / "hanging.json").exists():
            return False
        _pod(api, tag_of(spark.calls[-1]["spec"]["attempt"]), role=role)
        return True

    _killed_when(_delete(spark), context_of(task_state_store=StateStore()), submitted)
    _until(lambda: len(api.deleted) == 1)
    assert api.objects.list("pods", _SPACE) == []
    assert len(aborted) == 1
