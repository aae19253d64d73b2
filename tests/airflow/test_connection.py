from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from pathlib import Path

import pytest
from airflow.sdk import Connection

from airflow_hiveacid import acid
from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.connection import (
    EXTRAS,
    ConnectionFields,
    MetastoreSettings,
    parse_settings,
)
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs import endpoint
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.provider_info import get_provider_info
from airflow_hiveacid.sensors import HiveAcidLockFreeSensor
from tests.support.airflow_minors import IS_3_1
from tests.support.airflow_support import Connections
from tests.support.cases import cases_of

CASES = Path(__file__).with_name("cases")
HEADER = {"authentication": "header"}


def _parse(host: str = "hms", port: int | None = None, **extra: object) -> MetastoreSettings:
    return parse_settings(ConnectionFields(conn_id="hms_prod", host=host, port=port, extra=extra))


@pytest.mark.parametrize(
    ("host", "port", "extra", "uris"),
    [
        ("hms", 9090, {}, ["thrift://hms:9090"]),
        ("hms", None, {}, ["thrift://hms:9083"]),
        ("[::1]:9090", None, {}, ["thrift://[::1]:9090"]),
        (
            "b, a:9085 ,thrift://c",
            9084,
            {},
            ["thrift://b:9084", "thrift://a:9085", "thrift://c:9084"],
        ),
        ("hms", None, {"uris": "thrift://x:1,thrift://y:2"}, ["thrift://x:1", "thrift://y:2"]),
        (
            "",
            None,
            {**HEADER, "transport": "https", "uris": "https://a/gate/hms/,b:1"},
            ["https://a:9083/gate/hms", "https://b:1"],
        ),
    ],
)
def test_the_servers_are_those_of_host_and_port_or_of_uris(
    host: str, port: int | None, extra: dict[str, str], uris: list[str]
) -> None:
    fields = ConnectionFields(conn_id="c", host=host, port=port, login="etl", extra=extra)
    assert parse_settings(fields).endpoint.uris == tuple(uris)


@pytest.mark.parametrize("host", ["[::1", "thrift://a\u2100.com", "hms:port"])
def test_an_invalid_address_raises_an_error_that_names_the_host_field(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'hms_prod', field 'host'.*(address|port)"):
        _parse(host)


@pytest.mark.parametrize(
    "host", ["u:hunter2@hms", "u:hunter2@[::1", "u:hunter2@a\u2100", "h?hunter2"]
)
def test_an_error_does_not_show_an_address_that_contains_a_secret(host: str) -> None:
    with pytest.raises(ConfigurationError, match="has an address with a user, a query") as caught:
        _parse(host)
    assert "hunter2" not in repr((caught.value, caught.value.__cause__, caught.value.__context__))


@pytest.mark.parametrize("secret", [4711, {"password": 4711}, [4711]])
def test_an_error_does_not_show_a_secret_given_in_place_of_its_source(secret: object) -> None:
    with pytest.raises(ConfigurationError, match="expected text") as caught:
        _parse(authentication="token", secret_from=secret)
    assert "4711" not in str(caught.value)


def test_a_field_of_spaces_is_treated_as_blank() -> None:
    endpoint = _parse(
        transport="tls", ca_certificate=" ", client_certificate=" ", client_key=" "
    ).endpoint
    assert endpoint.ca_certificate is None
    assert (endpoint.client_certificate, endpoint.client_key) == (None, None)


def test_every_field_of_the_connection_form_is_read() -> None:
    settings = parse_settings(
        ConnectionFields(
            conn_id="c",
            host="hms",
            login="etl",
            extra={
                "transport": "TLS",
                "ca_certificate": "/ca.pem",
                "client_certificate": "/c.pem",
                "client_key": "/k.pem",
                "verify_host": "false",
                "connect_timeout_s": "2.5",
                "call_timeout_s": 30,
                "lock_timeout_s": 60.0,
                "result_dir": "hdfs://nn/results",
                "conflict_policy": "Strict",
                "allow_unsafe_expressions": "true",
            },
        )
    )
    assert settings == MetastoreSettings(
        conn_id="c",
        endpoint=MetastoreEndpoint(
            uris=("thrift://hms:9083",),
            transport=Transport.TLS,
            ca_certificate="/ca.pem",
            client_certificate="/c.pem",
            client_key="/k.pem",
            verify_host=False,
            user="etl",
            connect_timeout_s=2.5,
            call_timeout_s=30.0,
        ),
        lock_timeout_s=60.0,
        conflict_policy=ConflictPolicy.STRICT,
        allow_unsafe_expressions=True,
        result_dir="hdfs://nn/results",
    )


def test_a_connection_may_set_the_lock_timeout_to_zero() -> None:
    assert _parse(lock_timeout_s=0).lock_timeout_s == 0


def test_blank_fields_of_the_connection_form_are_ignored() -> None:
    blank = dict.fromkeys(
        ("uris", "transport", "ca_certificate", "verify_host", "call_timeout_s", "result_dir"), ""
    )
    assert _parse(**blank) == _parse()


@pytest.mark.parametrize(("extra", "field"), cases_of(CASES / "wrong_fields.txt"))
def test_an_error_names_the_wrong_field_and_its_connection(extra: str, field: str) -> None:
    fields = ConnectionFields(conn_id="hms_prod", host="hms", login="etl", extra=json.loads(extra))
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(fields)
    assert str(caught.value).startswith(f"connection 'hms_prod', field '{field.strip()}': ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("extra", "expected"), cases_of(CASES / "logins.txt"))
def test_every_kind_of_login_is_read_from_the_connection(extra: str, expected: str) -> None:
    scheme, _, login = expected.strip().partition(" ")
    kind, _, given = login.partition(" ")
    transport = Transport(scheme)
    fields = ConnectionFields(conn_id="c", host="hms", login="etl", extra=json.loads(extra))
    found = parse_settings(fields).endpoint
    assert (found.transport, found.user) == (transport, "etl")
    assert found.uris == (f"{transport.scheme}://hms:9083",)
    read = Codec().read(getattr(endpoint, kind), json.loads(given)) if kind else None
    assert found.login == read


@pytest.mark.parametrize("kind", ["password", "header"])
def test_a_login_without_its_user_raises_an_error_that_names_the_login_field(kind: str) -> None:
    extra = {"password": {"transport": "tls", "secret_from": "env:P"}}.get(
        kind, {"transport": "http"}
    )
    with pytest.raises(ConfigurationError, match="field 'login'"):
        _parse(authentication=kind, **extra)


def test_a_connection_without_an_address_raises_an_error_that_names_the_host_field() -> None:
    with pytest.raises(ConfigurationError, match="field 'host'"):
        _parse("")


def test_the_hook_reads_the_airflow_connection(connections: Connections) -> None:
    connections.add(
        "hms_prod",
        "hive_acid_metastore",
        host="hms",
        port=9085,
        login="etl",
        extra={"lock_timeout_s": 5},
    )
    hook = HiveAcidHook("hms_prod")
    assert hook.endpoint() == MetastoreEndpoint(uris=("thrift://hms:9085",), user="etl")
    assert hook.settings.lock_timeout_s == 5.0


def test_a_connection_given_as_a_uri_is_read() -> None:
    connection = Connection.from_uri("hive-acid-metastore://etl@hms:9085/?call_timeout_s=7", "c")
    assert connection.conn_type == HiveAcidHook.conn_type
    endpoint = parse_settings(ConnectionFields.of(connection)).endpoint
    assert (endpoint.uris, endpoint.user, endpoint.call_timeout_s) == (
        ("thrift://hms:9085",),
        "etl",
        7.0,
    )


@pytest.mark.parametrize("conn_type", ["postgres", "http", "hive_metastore", "spark", "generic"])
def test_a_connection_of_another_type_is_refused_before_anything_is_sent(
    connections: Connections, conn_type: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)  # noqa: FBT003 - the socket's signature
        port = server.getsockname()[1]
        connections.add("other", conn_type, host="127.0.0.1", port=port, login="etl")
        refused = pytest.raises(ConfigurationError, match=r"'other' is of type.*nothing was sent")
        with refused, HiveAcidHook("other").metastore() as client:
            client.list_databases()
        with refused:
            asyncio.run(HiveAcidHook("other").fetch_settings())
        assert HiveAcidHook("other").test_connection()[0] is False
        with refused:
            HiveAcidLockFreeSensor(task_id="t", table="db.t", hive_acid_conn_id="other").observe()
        if conn_type != "spark":
            with refused:
                SparkTarget.resolve("other", None, {})
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_field_that_is_not_used_is_named_once_and_not_shown(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    uris = {"uris": "thrift://hms:9083"}
    connections.add("unused", HiveAcidHook.conn_type, host="h", password="hunter2", extra=uris)
    for _ in range(2):
        HiveAcidHook("unused").endpoint()
    assert [one.getMessage() for one in caplog.records] == [
        "connection unused: field password is not used; give secret_from",
        "connection unused: field host is not used: uris replace it",
    ]


@pytest.mark.parametrize("extra", ['{"transport": "tls"', "[1]", '"tls"', "transport=tls"])
@pytest.mark.parametrize("conn_type", [HiveAcidHook.conn_type, "spark"])
def test_an_extra_that_is_no_json_object_is_refused_and_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch, conn_type: str, extra: str
) -> None:
    given = {"conn_type": conn_type, "host": "local[1]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_DAMAGED", json.dumps(given))
    hook = HiveAcidHook("damaged")
    read = (
        partial(SparkTarget.resolve, "damaged", None, {}) if conn_type == "spark" else hook.endpoint
    )
    # Airflow 3.1 cannot read such a connection, and says that there is none.
    reason = "no connection 'damaged'" if IS_3_1 else r"'damaged'.* not a JSON object"
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read()
    assert "tls" not in str(caught.value)


def test_a_python_program_connects_by_the_id_of_a_connection(connections: Connections) -> None:
    extra = {"lock_timeout_s": 7, "conflict_policy": "strict"}
    connections.add("lake", HiveAcidHook.conn_type, host="hms-1", extra=extra)
    with acid.connect("lake") as lake:
        assert repr(lake) == "<connection to thrift://hms-1:9083>"
        session = lake._session
        assert (session.lock_timeout_s, session.conflict_policy) == (7.0, ConflictPolicy.STRICT)
    with acid.connect("lake", lock_timeout_s=9.0) as lake:
        assert lake._session.lock_timeout_s == 9.0


def test_the_form_has_the_extras_that_are_read() -> None:
    (connection_type,) = get_provider_info()["connection-types"]
    assert sorted(connection_type["conn-fields"]) == sorted(EXTRAS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lock_timeout", "did you mean 'lock_timeout_s'"),
        ("result-dir", "did you mean 'result_dir'"),
        ("Transport", "did you mean 'transport'"),
        ("kerberos_service_name", "did you mean 'kerberos_service'"),
        ("deploy-mode", "is no extra of this connection; correct it"),
        ("auth_mechanism", "is no extra of this connection"),
    ],
)
def test_an_unknown_extra_is_refused_and_its_value_is_not_shown(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'hms_prod', field '{name}'.*{hint}") as caught:
        _parse(**{name: "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert _parse(**{name: ""}) == _parse()


@pytest.mark.parametrize("host", ["hms1;hms2", "hms1 hms2", "hms1|hms2:9083", "hms1\nhms2"])
def test_a_list_of_hosts_without_commas_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"field 'host'.*by commas"):
        _parse(host)


def test_a_setting_of_tls_without_tls_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'verify_host'.*transport is plain"):
        _parse(verify_host=False)
    assert _parse(verify_host=True) == _parse()


def test_a_missing_connection_raises_an_error_with_its_name() -> None:
    with pytest.raises(ConfigurationError, match="no connection 'nowhere'"):
        HiveAcidHook("nowhere").endpoint()


def test_the_settings_do_not_contain_the_password_of_the_connection() -> None:
    connection = Connection(
        conn_id="c", conn_type=HiveAcidHook.conn_type, host="hms", password="hunter2"
    )
    assert "hunter2" not in repr(parse_settings(ConnectionFields.of(connection)))
