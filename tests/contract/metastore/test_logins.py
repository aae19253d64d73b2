"""Logins at real metastores: accepted, refused, and a job that outlives its login.

All cases, and more servers, are in `make clusters`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import (
    BearerLogin,
    KerberosLogin,
    MetastoreEndpoint,
    SecretSource,
    TokenLogin,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access
from tests.contract.relay import Relay
from tests.support.login_cases import CASES, REFUSALS, Case, Refusal, closed, quick
from tests.support.login_lab import V3, V4, LoginLab, environ
from tests.support.logins.openssl import write_private
from tests.support.terms import job_terms

pytestmark = pytest.mark.server
_PATIENCE_S = 30.0


def _ids(found: list[tuple[Case | Refusal, str]]) -> list[str]:
    return [f"{case.name}, {version}" for case, version in found]


_LET_IN, _REFUSED = quick(CASES), quick(REFUSALS)


@pytest.mark.parametrize(("case", "version"), _LET_IN, ids=_ids(_LET_IN))
def test_each_accepted_login_can_run_a_transaction(
    login_lab: LoginLab, case: Case, version: str
) -> None:
    case.run(login_lab, version)


@pytest.fixture
def lab(login_lab: LoginLab, request: pytest.FixtureRequest) -> Iterator[LoginLab]:
    """The lab with the plain metastores that other tests use as well."""
    for version, name in ((V4, "hive_metastore"), (V3, "hive_metastore_3")):
        login_lab.adopt("plain", version, request.getfixturevalue(name))
    yield login_lab
    closed()


@pytest.mark.parametrize(("case", "version"), _REFUSED, ids=_ids(_REFUSED))
def test_each_refused_login_raises_a_typed_error_with_its_reason(
    lab: LoginLab, case: Refusal, version: str
) -> None:
    error = case.run(lab, version)
    assert type(error) is case.error
    assert re.search(case.words, str(error), re.DOTALL)
    assert error.retryable is not (case.error is errors.MetastoreLoginError)


def test_a_user_without_the_right_to_impersonate_is_refused(login_lab: LoginLab) -> None:
    with environ(login_lab.environment):
        endpoint = login_lab.endpoint("kerberos", V4, login_lab.keytab("airflow"))
        with connect(endpoint) as client, pytest.raises(Exception, match="not allowed to imperson"):
            client.hms().get_delegation_token("bob", "bob")


def test_the_metastore_sees_the_impersonated_user(login_lab: LoginLab) -> None:
    (case,) = [case for case in CASES if case.name == "token of a proxy user"]
    log = login_lab.server("kerberos", V4).log_file
    before = log.stat().st_size
    case.run(login_lab, V4)
    with log.open("rb") as stream:
        stream.seek(before)
        said = stream.read().decode(errors="replace")
    assert re.search(r"ugi=alice\b.*cmd=.*login_", said)


@dataclass(frozen=True, kw_only=True)
class Long:
    """A login that has lapsed and is renewed, each when it is told to."""

    endpoint: MetastoreEndpoint
    lapse: Callable[[], None]
    renew: Callable[[], None]


def by_tickets(lab: LoginLab) -> Long:
    cache = lab.cache("alice")
    service = lab.kdc.principal("hive/localhost")
    endpoint = lab.endpoint("kerberos", V4, KerberosLogin(service=service, cache=f"FILE:{cache}"))

    def lapse() -> None:
        lab.kdc.fetch_tickets("alice", cache, life="1s")
        until(lambda: not _is_let_in(endpoint), "the tickets never expired")

    return Long(endpoint=endpoint, lapse=lapse, renew=lambda: lab.kdc.fetch_tickets("alice", cache))


def by_token(lab: LoginLab) -> Long:
    file = lab.token("kerberos", V4, "alice")
    endpoint = lab.endpoint("kerberos", V4, TokenLogin(token=SecretSource(file=str(file))))

    def lapse() -> None:
        with connect(lab.endpoint("kerberos", V4, lab.keytab("alice"))) as client:
            client.hms().cancel_delegation_token(file.read_text().strip())

    def renew() -> None:
        write_private(file, lab.token("kerberos", V4, "alice").read_text())

    return Long(endpoint=endpoint, lapse=lapse, renew=renew)


def by_bearer(lab: LoginLab) -> Long:
    file = lab.bearer(life_s=600)
    login = BearerLogin(bearer=SecretSource(file=str(file)))

    def write(life_s: float) -> None:
        write_private(file, lab.note(lab.signer.token("etl", life_s=life_s)))

    return Long(
        endpoint=lab.endpoint("HTTPS by JWT", V4, login),
        lapse=lambda: write(-3600),
        renew=lambda: write(600),
    )


@pytest.mark.parametrize("made", [by_tickets, by_token, by_bearer])
def test_a_job_continues_after_its_login_expires_and_is_renewed(
    login_lab: LoginLab, made: Callable[[LoginLab], Long], caplog: pytest.LogCaptureFixture
) -> None:
    with environ(login_lab.environment):
        long = made(login_lab)
        with (
            _relayed(long.endpoint) as (through, drop),
            connect(through) as client,
        ):
            table = _table(client, f"outlives_{made.__name__}")
            writes = [access(table, conflicts.DataOperation.INSERT)]
            with begin(
                client, job_terms("long", lock_timeout_s=30, heartbeat_s=0.3), writes=writes
            ) as transaction:
                long.lapse()
                drop()
                until(lambda: "heartbeat failed" in caplog.text, "no beat failed")
                long.renew()
                before = _last_beat(long.endpoint, transaction.txn_id)
                until(
                    lambda: _last_beat(long.endpoint, transaction.txn_id) > before,
                    "no beat comes through with the new login",
                )
                # The commit must not be sent twice, and waits for a login nevertheless.
                long.lapse()
                drop()
                late = threading.Timer(1.0, long.renew)
                late.start()
            late.join()
            seen = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
            assert seen.high_watermark == 1
            assert (seen.open, seen.aborted) == ((), ())


@contextmanager
def _relayed(endpoint: MetastoreEndpoint) -> Iterator[tuple[MetastoreEndpoint, Callable[[], None]]]:
    """The endpoint through a relay, and what cuts all its connections; HTTPS needs no cut."""
    if endpoint.transport.is_http:
        yield endpoint, lambda: None
        return
    with Relay(int(endpoint.uris[0].rpartition(":")[2])) as relay:
        yield replace(endpoint, uris=(relay.uri,)), relay.drop


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _is_let_in(endpoint: MetastoreEndpoint) -> bool:
    with connect(endpoint) as client:
        try:
            client.valid_txns()
        except errors.HiveAcidError:
            return False
        return True


def _last_beat(endpoint: MetastoreEndpoint, txn_id: ids.TxnId) -> float:
    with connect(endpoint) as client:
        (own,) = [txn for txn in client.open_txns_info() if txn.txn_id == txn_id]
    assert own.last_heartbeat_s is not None
    return own.last_heartbeat_s


def _table(client: MetastoreClient, name: str) -> TableInfo:
    client.create_database(name)
    columns = (Column(name="id", type="bigint"),)
    return client.create_table(NewTable(ref=TableRef(name, "t"), columns=columns))


def test_no_secret_appears_in_a_log_or_a_command_line(login_lab: LoginLab) -> None:
    # The last of this file: of all that the tests above have made servers and clients say.
    assert len(login_lab.secrets) > 3
    assert login_lab.leaks() == []
    proof = login_lab.folder / "proof.log"
    proof.write_text(f"it would be seen: {min(login_lab.secrets)}")
    assert len(login_lab.leaks()) == 1
    proof.unlink()
