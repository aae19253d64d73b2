"""Requests to YARN's resource manager: their user names and routes, and the accepted responses."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from requests.auth import HTTPBasicAuth

from airflow_hiveacid.format.errors import ClusterRefusedError, ClusterUnavailableError
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from tests.support.pretended_yarn import FAILED, RUNNING, ResourceManager as Pretended
from tests.support.slow_server import dripping

_APP = "application_1_0001"
_TAG = "hiveacid-1-a"


@pytest.fixture
def standby(yarn: Pretended) -> Iterator[Pretended]:
    with Pretended.started() as server:
        server.active = yarn.web
        yield server


def _names(server: Pretended) -> list[str]:
    """Return the user name of each request; an empty string for a request without one."""
    queries = [urlsplit(one.split()[1]).query for one in server.requests]
    return [parse_qs(query).get("user.name", [""])[0] for query in queries]


# ---- accepted responses --------------------------------------------------------------------------


def test_the_second_resource_manager_is_used_if_the_first_is_unreachable(yarn: Pretended) -> None:
    manager = ResourceManager(addresses=("http://127.0.0.1:1", yarn.web))
    yarn.app = dict(RUNNING)
    found = manager.report(_APP)
    assert found is not None
    assert (found.id, found.has_ended) == (_APP, False)


@pytest.mark.parametrize("page", [(200, "standby"), (404, "no such page"), (503, "")])
def test_a_response_that_is_not_from_the_api_raises_a_cluster_unavailable_error(
    yarn: Pretended, page: tuple[int, str]
) -> None:
    yarn.page = page
    manager = ResourceManager(addresses=(yarn.web,))
    for ask in (manager.report, manager.find, manager.end):
        with pytest.raises(ClusterUnavailableError, match=f"HTTP {page[0]}"):
            ask(_APP)


# On a busy machine, a byte may come too late.
_NO_ANSWER: Final = r"no answer within 1 s|Read timed out"


def test_a_request_times_out_even_if_the_response_arrives_very_slowly() -> None:
    with dripping() as address:
        manager = ResourceManager(addresses=(address,))
        for ask in (manager.find, manager.end):
            with pytest.raises(ClusterUnavailableError, match=_NO_ANSWER):
                ask(_APP, timeout=(0.5, 0.5))


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_request_raises_a_cluster_refused_error(yarn: Pretended, status: int) -> None:
    yarn.page = (status, "you?")
    manager = ResourceManager(addresses=("http://127.0.0.1:1", yarn.web))
    for ask in (manager.report, manager.find, manager.end):
        with pytest.raises(ClusterRefusedError, match=rf"HTTP {status} 'you\?'") as caught:
            ask(_APP)
        assert "yarn_rm_auth" in str(caught.value)


def test_the_report_of_an_unknown_application_is_none(yarn: Pretended) -> None:
    yarn.app = None
    assert ResourceManager(addresses=(yarn.web,)).report(_APP) is None


def test_only_our_own_application_is_found_in_a_list_of_the_whole_cluster(
    yarn: Pretended, standby: Pretended
) -> None:
    """A standby redirects without the requested tag, so the response lists the whole cluster."""
    yarn.app = dict(RUNNING)
    yarn.tagged = {"application_1_0002": f"{_TAG}b", _APP: _TAG, "application_1_0003": "nightly"}
    manager = ResourceManager(addresses=(standby.web,))
    assert [app.id for app in manager.find(_TAG)] == [_APP]
    assert manager.find("hiveacid-1-b") == ()
    assert "applicationTags" not in "".join(yarn.requests)


def test_a_killed_task_kills_only_its_own_application(yarn: Pretended, standby: Pretended) -> None:
    yarn.app = dict(RUNNING)
    yarn.tagged = {"application_1_0002": f"{_TAG}b", _APP: _TAG, "application_1_0003": "nightly"}
    run = ClusterRun(
        ResourceManager(addresses=(standby.web,)), _TAG, Bounds(), is_killed=lambda: True
    )
    run.begin_end().join(60)
    assert yarn.killed == [_APP]


def test_an_ended_application_is_not_found_by_its_tag(yarn: Pretended, standby: Pretended) -> None:
    yarn.app, yarn.tagged = dict(FAILED), {_APP: _TAG}
    assert ResourceManager(addresses=(standby.web,)).find(_TAG) == ()


def test_a_single_application_is_accepted_without_a_list(yarn: Pretended) -> None:
    yarn.app, yarn.tagged, yarn.alone_in_list = dict(RUNNING), {_APP: _TAG}, False
    assert [app.id for app in ResourceManager(addresses=(yarn.web,)).find(_TAG)] == [_APP]


def _says(monkeypatch: pytest.MonkeyPatch, body: str) -> ResourceManager:
    """Return a resource manager that answers each request with this body."""
    answer = requests.Response()
    answer.status_code, answer._content = 200, body.encode()
    answer.headers["Content-Type"] = "application/json"
    monkeypatch.setattr("airflow_hiveacid.operators.submission.yarn._send", lambda *_, **__: answer)
    return ResourceManager(addresses=("http://rm",))


@pytest.mark.parametrize(
    "body",
    [
        '{"apps": {}}',
        "[]",
        "{",
        '{"app": null}',
        '{"app": []}',
        '{"app": {"id": "application_1_0001"}}',
        '{"app": {"state": "FINISHED", "finalStatus": "SUCCEEDED"}}',
    ],
)
def test_a_report_in_an_unknown_format_raises_a_cluster_unavailable_error(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    with pytest.raises(ClusterUnavailableError, match="unknown form"):
        _says(monkeypatch, body).report(_APP)


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        '{"apps": ["application_1_0001"]}',
        '{"apps": {"app": ["application_1_0001"]}}',
        '{"apps": {"app": 1}}',
        f'{{"apps": {{"app": [{{"applicationTags": "{_TAG}"}}]}}}}',
    ],
)
def test_a_list_in_an_unknown_format_raises_a_cluster_unavailable_error(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """With an empty list instead, the retry would submit a second application."""
    with pytest.raises(ClusterUnavailableError, match="unknown form"):
        _says(monkeypatch, body).find(_TAG)


def test_a_null_list_of_applications_is_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _says(monkeypatch, '{"apps": null}').find(_TAG) == ()


# ---- user names ----------------------------------------------------------------------------------


def test_every_request_contains_a_user_name(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If users see only their own applications, a request without a user name sees none."""
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    for user, expected in ((None, "etl"), ("nightly", "nightly")):
        yarn.requests.clear()
        manager = ResourceManager(addresses=(yarn.web,), user=user)
        manager.report(_APP)
        manager.find(_TAG)
        manager.end(_APP)
        assert _names(yarn) == [expected] * 3


def test_a_request_is_sent_without_a_user_name_if_none_is_known(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: {}["uid not found"])
    assert ResourceManager(addresses=(yarn.web,)).report(_APP) is not None
    assert _names(yarn) == [""]


def test_a_request_with_a_login_contains_no_user_name(yarn: Pretended) -> None:
    auth = HTTPBasicAuth("etl", "hunter2")
    ResourceManager(addresses=(yarn.web,), auth=auth, user="nightly").end(_APP)
    assert _names(yarn) == [""]


def test_logins_from_a_netrc_file_are_not_sent(
    yarn: Pretended, standby: Pretended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login etl password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    ResourceManager(addresses=(standby.web,)).report(_APP)
    assert standby.logins == yarn.logins == [None]


def test_a_password_in_an_address_is_sent_but_not_shown_in_errors(yarn: Pretended) -> None:
    yarn.page = (503, "")
    manager = ResourceManager(addresses=(yarn.web.replace("//", "//etl:hunter2@"),))
    with pytest.raises(ClusterUnavailableError, match=r"//\*\*\*@127\.0\.0\.1") as caught:
        manager.report(_APP)
    assert "hunter2" not in str(caught.value)
    assert yarn.logins == [f"Basic {base64.b64encode(b'etl:hunter2').decode()}"]


# ---- routes --------------------------------------------------------------------------------------


def test_requests_use_the_environments_proxy_except_for_hosts_in_no_proxy(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", yarn.web)
    ResourceManager(addresses=("http://rm.invalid:8088",)).report(_APP)
    assert "http://rm.invalid:8088/ws/v1/cluster/apps" in yarn.requests[0]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert ResourceManager(addresses=(yarn.web,)).report(_APP) is not None


def test_a_missing_ca_bundle_of_the_environment_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")
    with pytest.raises(ClusterUnavailableError, match=r"/nowhere\.pem"):
        ResourceManager(addresses=("https://127.0.0.1:1",)).report(_APP)
