"""How a task logs in at YARN's resource manager by Kerberos, and to whom it shows a ticket."""

from __future__ import annotations

import base64
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from requests.auth import HTTPBasicAuth

from airflow_hiveacid.format.errors import (
    ClusterRefusedError,
    ClusterUnavailableError,
    ConfigurationError,
)
from airflow_hiveacid.metastore.auth.krb5 import GssError
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission.http import Negotiate, service_of
from airflow_hiveacid.operators.submission.yarn import ResourceManager, realm_of
from tests.contract.gssapi_server import GssapiHalf
from tests.contract.sasl_server import Refusal
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.logins.kdc import LocalKdc, LocalKdcConfig
from tests.support.pretended_yarn import RUNNING, ResourceManager as Pretended

_APP = "application_1_0001"


class Context:
    """Shows who it is a ticket for, and believes the one answer that fits."""

    def __init__(self, service: str) -> None:
        self.service, self.is_complete = service, False

    def step(self, token: bytes | None) -> bytes:
        if token is None:
            return f"ticket for {self.service}".encode()
        if token != b"proof":
            raise GssError("a forgery", 0)
        self.is_complete = True
        return b""

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        raise NotImplementedError

    unwrap = wrap


def taken(_: bytes) -> bytes:
    return b"proof"


@pytest.fixture
def yarn() -> Iterator[Pretended]:
    with Pretended.started() as server:
        server.proof, server.app = taken, dict(RUNNING)
        yield server


def _asking(*addresses: str, **more: Any) -> ResourceManager:  # noqa: ANN401
    login = Negotiate(make_context=Context, realm="EXAMPLE.COM", **more)
    return ResourceManager(addresses=addresses, auth=login)


def _tickets(server: Pretended) -> list[str | None]:
    decoded = Pretended.decoded(server.logins)
    return [one and one.removeprefix("ticket for HTTP/") for one in decoded]


# ---- to whom -------------------------------------------------------------------------------------


def test_a_resource_manager_that_requests_a_ticket_gets_one_for_its_host(yarn: Pretended) -> None:
    yarn.tagged = {_APP: "hiveacid-1-a"}
    manager = _asking(yarn.web)
    found = manager.report(_APP)
    assert found is not None
    assert found.state == "RUNNING"
    assert [app.id for app in manager.find("hiveacid-1-a")] == [_APP]
    assert _tickets(yarn) == [None, "127.0.0.1@EXAMPLE.COM"] * 2
    manager.end(_APP)
    assert yarn.killed == [_APP, _APP]  # the first order was turned away with its login
    assert yarn.app == {"state": "KILLED", "finalStatus": "KILLED"}


def test_no_ticket_is_sent_to_a_server_that_does_not_request_one(yarn: Pretended) -> None:
    yarn.proof = None
    assert _asking(yarn.web).report(_APP) is not None
    assert yarn.logins == [None]


def test_each_of_two_resource_managers_gets_a_ticket_for_its_own_host(yarn: Pretended) -> None:
    with Pretended.started() as standby:
        standby.active, standby.proof = yarn.web, taken
        assert _asking(standby.web.replace("127.0.0.1", "localhost")).report(_APP) is not None
        assert _tickets(standby) == [None, "localhost@EXAMPLE.COM"]
        assert _tickets(yarn) == [None, "127.0.0.1@EXAMPLE.COM"]


def test_the_service_principal_has_the_host_in_lower_case_and_the_realm_if_known() -> None:
    assert service_of("https://RM.Example.com:8090/ws", "R") == "HTTP/rm.example.com@R"
    assert service_of("http://rm.example.com:8088", None) == "HTTP/rm.example.com"


def test_the_realm_is_read_from_the_resource_managers_principal_in_yarn_site(
    tmp_path: Path,
) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.principal</name>"
        "<value>rm/_HOST@EXAMPLE.COM</value></property></configuration>"
    )
    assert realm_of({"HADOOP_CONF_DIR": str(tmp_path)}) == "EXAMPLE.COM"
    assert realm_of({}) is None


# ---- who is believed -----------------------------------------------------------------------------


@pytest.mark.parametrize(("proof", "words"), [(b"", "did not prove"), (b"other", "a forgery")])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_server_that_fails_mutual_authentication_raises_an_error(
    yarn: Pretended, proof: bytes, words: str, is_known: bool
) -> None:
    """Least of all that there is no such application, after which it is submitted anew."""
    yarn.proof = lambda _: proof
    yarn.app = dict(RUNNING) if is_known else None
    with pytest.raises(ClusterUnavailableError, match=words):
        _asking(yarn.web).report(_APP)


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_ticket_raises_a_cluster_refused_error_and_is_not_sent_again(
    yarn: Pretended, status: int
) -> None:
    yarn.proof, yarn.turns_away = lambda _: None, status
    with pytest.raises(ClusterRefusedError, match=f"HTTP {status}"):
        _asking(yarn.web).report(_APP)
    assert len(yarn.logins) == 2


def test_a_missing_ticket_raises_a_cluster_unavailable_error(yarn: Pretended) -> None:
    def nothing(_: str) -> Context:
        raise GssError("No Kerberos credentials available", 0)

    manager = ResourceManager(addresses=(yarn.web,), auth=Negotiate(make_context=nothing))
    with pytest.raises(ClusterUnavailableError, match=r"no ticket for HTTP/127.*KRB5CCNAME"):
        manager.report(_APP)


def test_a_missing_kerberos_library_raises_a_cluster_unavailable_error(yarn: Pretended) -> None:
    """What was submitted from it runs meanwhile, so the try is not over with an input error."""

    def nothing(_: str) -> Context:
        raise ConfigurationError("Kerberos needs libgssapi_krb5.so.2")

    manager = ResourceManager(addresses=(yarn.web,), auth=Negotiate(make_context=nothing))
    with pytest.raises(ClusterUnavailableError, match=r"no ticket for HTTP/127.*libgssapi_krb5"):
        manager.report(_APP)


def test_a_missing_keytab_raises_an_error_with_its_path(yarn: Pretended) -> None:
    with pytest.raises(ClusterUnavailableError, match=r"cannot read the keytab /nowhere/k"):
        _asking(yarn.web, keytab="/nowhere/k").report(_APP)


def test_an_unresponsive_kdc_delays_a_request_only_until_its_timeout(yarn: Pretended) -> None:
    silent = threading.Event()

    class Silent(Context):
        def step(self, token: bytes | None) -> bytes:
            silent.wait(60)
            return super().step(token)

    manager = ResourceManager(addresses=(yarn.web,), auth=Negotiate(make_context=Silent))
    with pytest.raises(ClusterUnavailableError, match=r"the KDC returned no answer within 0\.2 s"):
        manager.find("x", (0.2, 0.2))
    silent.set()


# ---- by the system's library ---------------------------------------------------------------------


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalKdc]:
    with ExitStack() as stack:
        found = LocalKdc(LocalKdcConfig(data_dir=tmp_path / "kdc", ends_with_parent=True))
        stack.callback(found.stop)
        found.start()
        monkeypatch.setenv("KRB5_CONFIG", str(found.configuration))
        monkeypatch.setenv("KRB5RCACHEDIR", str(found.config.data_dir))
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
        monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
        yield found


@pytest.mark.server
def test_tickets_come_from_a_keytab_a_ticket_cache_or_the_environment(
    yarn: Pretended, kdc: LocalKdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = kdc.keytab("HTTP/127.0.0.1")

    def accept(token: bytes) -> bytes | None:
        try:
            return GssapiHalf(service)._accept(token)
        except Refusal:
            return None

    yarn.proof = accept
    etl, realm = kdc.keytab("etl"), kdc.config.realm
    kdc.fetch_tickets("etl", tmp_path / "cache")
    for login in (
        Negotiate(client=kdc.principal("etl"), keytab=str(etl), realm=realm),
        Negotiate(keytab=str(etl), realm=realm),
        Negotiate(client="who stands in the connection", cache=f"FILE:{tmp_path / 'cache'}"),
    ):
        assert ResourceManager(addresses=(yarn.web,), auth=login).report(_APP) is not None
    manager = ResourceManager(addresses=(yarn.web,))
    with pytest.raises(ClusterUnavailableError, match="no ticket for HTTP/127"):
        manager.report(_APP)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(etl))
    assert manager.report(_APP) is not None
    kdc.administer("change_password -randkey HTTP/127.0.0.1")
    with pytest.raises(ClusterRefusedError, match="HTTP 403"):
        ResourceManager(addresses=(yarn.web,), auth=Negotiate(keytab=str(etl), realm=realm)).report(
            _APP
        )


# ---- what an operator gives it -------------------------------------------------------------------


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What logins were made of, each of which has a ticket."""
    found: list[dict[str, Any]] = []
    make = Negotiate.__init__

    def made(login: Negotiate, **of: Any) -> None:  # noqa: ANN401
        found.append(of)
        make(login, **{**of, "keytab": None, "make_context": Context})

    monkeypatch.setattr(Negotiate, "__init__", made)
    return found


@pytest.fixture
def connected(
    yarn: Pretended,
    connections: Connections,
    tmp_path: Path,
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """The Spark connection's extra; a driver in the cluster."""
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)  # nobody needs it
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.web}
    connections.add("spark_default", "spark", host="yarn", extra=extra)
    connections.metastore(result_dir=f"file:{tmp_path}/results")
    spark.tell(says=f"Submitted application {_APP}")
    yarn.states = [dict(RUNNING)]
    yarn.app = {"state": "FINISHED", "finalStatus": "SUCCEEDED"}
    return extra


def _run(**arguments: Any) -> None:  # noqa: ANN401
    task = HiveAcidDeleteOperator(task_id="task", table="demo.flights", where="id = 1", **arguments)
    done = run_task(task, context_of(task_state_store=StateStore()))
    assert done["status"] == "committed"


def _given(found: list[dict[str, Any]]) -> set[tuple[str | None, ...]]:
    return {(of["client"], of["keytab"], of["cache"]) for of in found}


@pytest.mark.usefixtures("connected", "spark")
def test_requests_to_yarn_use_the_keytab_of_the_operator(
    yarn: Pretended, logins: list[dict[str, Any]]
) -> None:
    _run(principal="etl@EXAMPLE.COM", keytab="/etl.keytab")
    assert _given(logins) == {("etl@EXAMPLE.COM", "/etl.keytab", None)}
    assert _tickets(yarn)[-1] == "127.0.0.1"


@pytest.mark.usefixtures("spark")
def test_requests_to_yarn_use_the_keytab_of_the_spark_connection(
    connected: dict[str, Any],
    connections: Connections,
    logins: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which has the keytab itself, as text."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keytab = base64.b64encode(b"a keytab").decode()
    extra = {**connected, "principal": "etl@EXAMPLE.COM", "keytab": keytab}
    connections.add("spark_default", "spark", host="yarn", extra=extra)
    _run()
    ((client, file, _),) = _given(logins)
    assert client == "etl@EXAMPLE.COM"
    assert Path(str(file)).read_bytes() == b"a keytab"


@pytest.mark.usefixtures("connected", "spark")
def test_requests_to_yarn_use_the_tickets_in_the_environment_of_spark_submit(
    logins: list[dict[str, Any]],
) -> None:
    _run(env_vars={"KRB5CCNAME": "FILE:/c", "HADOOP_USER_NAME": "etl"})
    assert _given(logins) == {(None, None, "FILE:/c")}
    logins.clear()
    _run(env_vars={"KRB5CCNAME": "FILE:/c", "KRB5_CLIENT_KTNAME": "/k"})
    assert _given(logins) == {(None, "/k", None)}


@pytest.mark.usefixtures("connected", "spark")
def test_yarn_rm_auth_takes_precedence_over_kerberos(
    yarn: Pretended, logins: list[dict[str, Any]]
) -> None:
    yarn.proof = None
    _run(yarn_rm_auth=HTTPBasicAuth("etl", "hunter2"))
    assert logins == []
    assert all(login is not None and login.startswith("Basic ") for login in yarn.logins)
