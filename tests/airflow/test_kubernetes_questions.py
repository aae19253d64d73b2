"""Requests to the API server of Kubernetes: their logins, and the accepted responses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from airflow_hiveacid.format.errors import (
    ClusterRefusedError,
    ClusterUnavailableError,
    ConfigurationError,
)
from airflow_hiveacid.operators.submission.kubernetes import EXECUTOR, ApiServer, Pod
from airflow_hiveacid.operators.submission.kubernetes_login import (
    KubernetesLogin,
    login_of,
    server_of,
)
from tests.support.cluster_tasks import POD, RUNNING, SPACE, SUCCEEDED, TAG, api_server, put_pod
from tests.support.logins.openssl import make_certificates
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.slow_server import dripping

_CANARY: Final = "canary-of-a-token"


def test_the_token_file_is_read_for_each_request(api: KubernetesServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = {"spark.kubernetes.authenticate.submission.oauthTokenFile": str(file)}
    login = login_of(settings, {"KUBECONFIG": "/none", "HOME": str(tmp_path)}, is_cluster=True)
    server = ApiServer(address=api.address, namespace=SPACE, login=login)
    with pytest.raises(ClusterUnavailableError, match="No such file"):
        server.report(POD)
    file.write_text(f"{_CANARY}-0")
    for token in (f"{_CANARY}-1", f"{_CANARY}-2"):
        api.token = token
        with pytest.raises(ClusterRefusedError, match="HTTP 401") as caught:
            server.find(TAG)
        assert _CANARY not in f"{caught.value!r} {login!r} {server!r}"
        file.write_text(f"{token}\n")
        assert server.find(TAG) == ()
        assert api.requests[-1][2] == token


# On a busy machine, a byte may come too late.
_NO_ANSWER: Final = r"no answer within 1 s|Read timed out"


def test_a_request_times_out_even_if_the_response_arrives_very_slowly() -> None:
    with dripping() as address:
        server = ApiServer(address=address, namespace=SPACE, login=KubernetesLogin())
        for ask in (server.find, server.end):
            with pytest.raises(ClusterUnavailableError, match=_NO_ANSWER):
                ask(POD, timeout=(0.5, 0.5))


def test_a_kubeconfig_is_read_as_kubectl_reads_it(api: KubernetesServer, tmp_path: Path) -> None:
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
        server = ApiServer(address=api.address, namespace=SPACE, login=login)
        for _ in range(2):
            server.find(TAG)
            assert api.requests[-1][2] == token
    assert Path(f"{plugin}.asked").read_text() == "me\n"  # a token that lasts is asked for once
    env[1]["value"] = "2001-01-01T00:00:00Z"
    (tmp_path / "first").write_text(yaml.safe_dump(_kubeconfig(users, current="plugin")))
    login = login_of({}, environment, is_cluster=True)
    assert [login.bearer(), login.bearer()] == [_CANARY] * 2
    assert Path(f"{plugin}.asked").read_text() == "me\n" * 3
    with pytest.raises(ConfigurationError, match="cannot read context 'other'"):
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


def test_certificates_in_a_kubeconfig_are_not_written_to_disk(tmp_path: Path) -> None:
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


def test_an_error_names_a_failed_login_plugin_but_not_its_output(tmp_path: Path) -> None:
    users = {"u": {"exec": {"command": "sh", "args": ["-c", f"echo {_CANARY}; exit 3"]}}}
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig(users, current="u")))
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    server = ApiServer(address="http://127.0.0.1:1", namespace=SPACE, login=login)
    with pytest.raises(ClusterUnavailableError, match="login command sh returned") as caught:
        server.report(POD)
    assert _CANARY not in str(caught.value).replace(json.dumps(users), "")


@pytest.mark.parametrize("way", ["file", "kubeconfig"])
@pytest.mark.parametrize("text", [f"{_CANARY}\n{_CANARY}", f"\u201c{_CANARY}\u201d"])
def test_an_invalid_token_is_neither_sent_nor_shown(
    api: KubernetesServer, tmp_path: Path, text: str, way: str
) -> None:
    """The HTTP client would show an invalid token in its error."""
    (tmp_path / "token").write_text(text, encoding="utf-8")
    login = (
        KubernetesLogin(token_file=tmp_path / "token")
        if way == "file"
        else KubernetesLogin(token=text)
    )
    server = ApiServer(address=api.address, namespace=SPACE, login=login)
    with pytest.raises(ClusterUnavailableError, match="several lines") as caught:
        server.report(POD)
    assert _CANARY not in str(caught.value)
    failed = {"metadata": {"namespace": SPACE, "name": f"{TAG}-driver"}}
    with pytest.raises(OSError, match="several lines") as unread:
        server.last_words(Pod.read({**failed, "status": {"phase": "Failed"}}), is_copied=False)
    assert _CANARY not in str(unread.value)
    assert api.requests == []


def test_a_token_is_sent_without_its_trailing_newline(api: KubernetesServer) -> None:
    server = ApiServer(
        address=api.address, namespace=SPACE, login=KubernetesLogin(token=f"{_CANARY}\n")
    )
    assert server.find(TAG) == ()
    assert api.requests[-1][2] == _CANARY


def test_the_login_plugin_runs_again_after_its_token_was_refused(
    api: KubernetesServer, tmp_path: Path
) -> None:
    """The plugin's response may omit the token's expiry."""
    given = tmp_path / "given"
    said = {"status": {"token": "first"}}
    given.write_text(json.dumps(said))
    users = {"u": {"exec": {"command": "cat", "args": [str(given)]}}}
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig(users, current="u")))
    login = login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)
    server = ApiServer(address=api.address, namespace=SPACE, login=login)
    api.token = "first"
    assert server.find(TAG) == ()
    api.token = said["status"]["token"] = "second"
    given.write_text(json.dumps(said))
    with pytest.raises(ClusterRefusedError):
        server.find(TAG)
    for _ in range(2):
        assert server.find(TAG) == ()


def test_a_relative_plugin_path_is_resolved_against_the_folder_of_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl and Spark's client do the same; a command without a slash is searched in PATH."""
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
def test_an_invalid_login_plugin_response_raises_a_cluster_unavailable_error(said: str) -> None:
    login = KubernetesLogin(command={"command": "echo", "args": [said]})
    server = ApiServer(address="http://127.0.0.1:1", namespace=SPACE, login=login)
    with pytest.raises(ClusterUnavailableError, match="login command echo returned"):
        server.report(POD)


@pytest.mark.parametrize("user", [{"client-key-data": "a"}, {"exec": {"args": []}}])
def test_an_invalid_kubeconfig_raises_an_error_that_names_its_context(
    tmp_path: Path, user: dict[str, Any]
) -> None:
    (tmp_path / "config").write_text(yaml.safe_dump(_kubeconfig({"u": user}, current="u")))
    with pytest.raises(ConfigurationError, match="cannot read context 'u' of the kubeconfig"):
        login_of({}, {"KUBECONFIG": str(tmp_path / "config")}, is_cluster=True)


def test_sparks_setting_to_trust_any_certificate_also_applies_to_our_requests(
    tmp_path: Path,
) -> None:
    nobody = {"KUBECONFIG": "/none", "HOME": str(tmp_path)}
    for given, authority in (("true", False), ("false", True)):
        settings = {"spark.kubernetes.trust.certificates": given}
        assert login_of(settings, nobody, is_cluster=True).authority is authority


def test_the_api_servers_address_is_read_from_the_spark_master() -> None:
    assert server_of("k8s://http://127.0.0.1:8001/") == "http://127.0.0.1:8001"


@pytest.mark.parametrize("page", [(200, "a page"), (404, "no such page"), (503, "")])
def test_a_response_that_is_not_from_the_api_raises_a_cluster_unavailable_error(
    api: KubernetesServer, page: tuple[int, str]
) -> None:
    api.page = page
    server = api_server(api)
    for ask in (server.report, server.end):
        with pytest.raises(ClusterUnavailableError, match=f"HTTP {page[0]}"):
            ask(POD)
    with pytest.raises(ClusterUnavailableError, match=f"HTTP {page[0]}"):
        server.find(TAG)


def test_a_forbidden_request_raises_a_cluster_refused_error(api: KubernetesServer) -> None:
    api.page = (403, "pods is forbidden")
    server = api_server(api)
    for ask in (server.report, server.end):
        with pytest.raises(ClusterRefusedError, match="get, list and delete pods"):
            ask(POD)


def test_a_token_is_not_sent_to_a_server_that_the_master_redirects_to(
    api: KubernetesServer,
) -> None:
    login = KubernetesLogin(token=_CANARY)
    with KubernetesServer.started() as other:
        api.moved_to = other.address
        server = ApiServer(address=api.address, namespace=SPACE, login=login)
        with pytest.raises(ClusterUnavailableError, match="HTTP 307"):
            server.report(POD)
        assert api.requests[-1][2] == _CANARY
        assert other.requests == []
    assert _CANARY not in f"{login!r} {server!r}"


def test_the_api_server_is_trusted_only_if_its_certificate_authority_is_configured(
    tmp_path: Path,
) -> None:
    made = make_certificates(tmp_path / "tls")
    nobody = {"KUBECONFIG": "/none", "HOME": str(tmp_path)}
    for prefix, is_cluster in (("", False), ("submission.", True)):
        name = f"spark.kubernetes.authenticate.{prefix}caCertFile"
        with KubernetesServer.started(made.server_context()) as api:
            for settings, is_known in (({}, False), ({name: str(made.authority)}, True)):
                login = login_of(settings, nobody, is_cluster=is_cluster)
                server = ApiServer(address=api.address, namespace=SPACE, login=login)
                if is_known:
                    assert server.report(POD) is None
                    continue
                with pytest.raises(ClusterUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                    server.report(POD)
                assert api.requests == []


def test_pods_of_other_applications_are_neither_found_nor_deleted(api: KubernetesServer) -> None:
    put_pod(api, "somebody-elses", **RUNNING)
    put_pod(api, TAG, role=EXECUTOR, **RUNNING)
    put_pod(api, TAG, name="ended", **SUCCEEDED)
    api.ignores_selectors = True  # whoever stands between may lose the terms of a question
    assert api_server(api).find(TAG) == ()
    meta = {"name": "web", "labels": {"app": "web"}}
    api.objects.put("pods", SPACE, {"metadata": meta})
    api_server(api).end(f"{SPACE}:web")
    assert api.deleted == []
    assert len(api.objects.list("pods", SPACE)) == 4


def test_a_new_pod_with_the_name_of_the_old_one_is_not_deleted(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pod(api)
    seen = Pod.read

    def renewed(answer: Any) -> Pod:  # noqa: ANN401 - as the server writes it
        pod = seen(answer)
        api.objects.delete("pods", SPACE, pod.name)
        put_pod(api)
        return pod

    monkeypatch.setattr(Pod, "read", renewed)
    api_server(api).end(POD)
    assert len(api.objects.list("pods", SPACE)) == 1
    monkeypatch.undo()
    api_server(api).end(POD)
    assert api.objects.list("pods", SPACE) == []
