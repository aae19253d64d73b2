"""Real servers behind real logins, each started when it is first asked for: for tests and clusters.

One realm, one LDAP directory, one authority and one signer serve all metastores of a `LoginLab`.
"""

from __future__ import annotations

import base64
import itertools
import logging
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Login, MetastoreEndpoint, Transport
from airflow_hiveacid.local.distribution import fetch
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import PLAIN, Access, Language, LocalMetastoreConfig
from airflow_hiveacid.metastore.auth.tokens import parse_token
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access
from tests.support.chosen_versions import chosen
from tests.support.logins import access_kinds, openssl
from tests.support.logins.directory import LocalDirectory, LocalDirectoryConfig
from tests.support.logins.kdc import LocalKdc, LocalKdcConfig
from tests.support.secret_search import files_below
from tests.support.terms import job_terms

V4, V3 = "4.0.1", "3.1.3"
SERVICE: Final = "hive/_HOST@HIVEACID.TEST"
PASSWORD: Final = "one-user-of-the-settings"
_COLUMNS: Final = (Column(name="id", type="bigint"),)
_CUSTOM: Final = """package custom;
import org.apache.hadoop.hive.metastore.MetaStorePasswdAuthenticationProvider;
public class Knows implements MetaStorePasswdAuthenticationProvider {
  public void authenticate(String user, String password)
      throws javax.security.sasl.AuthenticationException {
    if (!user.equals("etl") || !password.equals("%s"))
      throw new javax.security.sasl.AuthenticationException("unknown");
  }
}
"""
# So that a job outlives its token within seconds.
_SHORT_TOKENS: Final = {
    "metastore.cluster.delegation.token.renew-interval": "5s",
    "metastore.cluster.delegation.token.max-lifetime": "8s",
}
_PROXIES: Final = {"airflow": "alice"}
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a metastore of the lab is entered, and what more it is told."""

    access: Callable[[LoginLab], Access]
    settings: dict[str, str] = field(default_factory=dict)


def _kerberos(protections: str) -> Kind:
    return Kind(
        access=lambda lab: access_kinds.kerberos(lab.kdc, protections=protections, proxies=_PROXIES)
    )


def _in_tls(kind: Callable[[LoginLab], Access]) -> Kind:
    return Kind(access=lambda lab: access_kinds.in_tls(kind(lab), lab.certificates))


def _one_user(lab: LoginLab) -> Access:
    return access_kinds.one_user("etl", lab.note(PASSWORD))


KINDS: Final = {
    "plain": Kind(access=lambda _: PLAIN),
    "kerberos": _kerberos("authentication,integrity,privacy"),
    "kerberos, authentication only": _kerberos("authentication"),
    "kerberos, integrity only": _kerberos("integrity"),
    "kerberos, privacy only": _kerberos("privacy"),
    "kerberos, short tokens": Kind(
        access=lambda lab: access_kinds.kerberos(lab.kdc), settings=_SHORT_TOKENS
    ),
    "kerberos and a user": Kind(
        access=lambda lab: access_kinds.one_user(
            "etl",
            lab.note(PASSWORD),
            beside=access_kinds.kerberos(lab.kdc, proxies=_PROXIES),
        )
    ),
    "kerberos in TLS": _in_tls(lambda lab: access_kinds.kerberos(lab.kdc)),
    "kerberos and LDAP in TLS": _in_tls(
        lambda lab: access_kinds.ldap(lab.directory.uri, beside=access_kinds.kerberos(lab.kdc))
    ),
    "LDAP in TLS": _in_tls(lambda lab: access_kinds.ldap(lab.directory.uri)),
    "a user in TLS": _in_tls(_one_user),
    "a class in TLS": _in_tls(lambda lab: access_kinds.custom("custom.Knows", lab.custom_class)),
    "HTTP by name": Kind(access=lambda _: access_kinds.http()),
    "HTTPS by name": _in_tls(lambda _: access_kinds.http()),
    "HTTP by JWT": Kind(access=lambda lab: access_kinds.bearer(lab.signer)),
    "HTTPS by JWT": _in_tls(lambda lab: access_kinds.bearer(lab.signer)),
}


class LoginLab:
    """A folder of servers. Mutable: it starts them, and ends them all at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets: set[str] = set()
        self._servers: dict[tuple[str, str], LocalMetastore] = {}
        self._own: list[LocalMetastore | LocalKdc | LocalDirectory] = []
        self._log = logging.FileHandler(folder / "client.log")
        self._log.setLevel(logging.DEBUG)
        self._loggers = [logging.getLogger(name) for name in ("airflow_hiveacid", "thrift")]
        for logger in self._loggers:
            logger.addHandler(self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in reversed(self._own):
            server.stop()
        for logger in self._loggers:
            logger.removeHandler(self._log)
        self._log.close()

    def note(self, secret: str) -> str:
        """The secret, which from now on is looked for where it must not be."""
        self.secrets.add(secret)
        return secret

    def tell(self, error: BaseException) -> None:
        """Keeps what an error says with the client's log."""
        self._loggers[0].error("%r: %s", error, error)

    @cached_property
    def kdc(self) -> LocalKdc:
        """The realm: alice, bob, airflow (who may stand in for alice), and the metastores."""
        made = LocalKdc(LocalKdcConfig(data_dir=self.folder / "kdc", ends_with_parent=True))
        made.start()
        self._own.append(made)
        return made

    @cached_property
    def directory(self) -> LocalDirectory:
        """LDAP, with a user etl."""
        config = LocalDirectoryConfig(data_dir=self.folder / "ldap", ends_with_parent=True)
        made = LocalDirectory(config)
        made.start()
        self._own.append(made)
        self.note(made.password_file.read_text().strip())
        return made

    @cached_property
    def certificates(self) -> openssl.Certificates:
        """An authority, and whom it vouches for."""
        made = openssl.make_certificates(self.folder / "tls")
        self.note(made.store_password())
        return made

    @cached_property
    def signer(self) -> openssl.Signer:
        """Whose tokens metastores take."""
        return openssl.make_signer(self.folder / "jwt")

    @cached_property
    def custom_class(self) -> Path:
        """A folder with a class that knows one user."""
        source = self.folder / "classes" / "custom" / "Knows.java"
        source.parent.mkdir(parents=True)
        source.write_text(_CUSTOM % self.note(PASSWORD))
        jars = os.pathsep.join(
            map(str, fetch(LocalMetastoreConfig(data_dir=Path("/")).release).class_path)
        )
        subprocess.run(["javac", "-cp", jars, str(source)], check=True)  # noqa: S607
        source.unlink()
        return source.parents[1]

    @property
    def environment(self) -> dict[str, str]:
        """What takes part in the realm needs."""
        return {"KRB5_CONFIG": str(self.kdc.configuration), "KRB5CCNAME": "FILE:/nowhere/cache"}

    def adopt(self, kind: str, version: str, server: LocalMetastore) -> None:
        """Takes a server that somebody else runs."""
        self._servers[kind, version] = server

    def server(self, kind: str, version: str) -> LocalMetastore:
        """The metastore of that kind, running."""
        found = self._servers.get((kind, version))
        if found is None:
            name = f"{kind.replace(' ', '-').replace(',', '')}-{version}"
            config = LocalMetastoreConfig(
                version=chosen(version),
                data_dir=self.folder / name,
                access=KINDS[kind].access(self),
                txn_timeout_s=8.0,
                housekeeping_interval_s=2.0,
                log_level="INFO",  # which is where the server says who did what
                ends_with_parent=True,
                extra_settings=KINDS[kind].settings,
            )
            found = LocalMetastore(config)
            found.start()
            self._own.append(found)
            self._servers[kind, version] = found
        return found

    def end(self, kind: str, version: str) -> None:
        """Ends that metastore if it is the lab's own; whoever asks for it again starts it again."""
        server = self._servers.get((kind, version))
        if server in self._own:
            server.stop()
            self._own.remove(server)
            del self._servers[kind, version]

    def endpoint(
        self, kind: str, version: str, login: Login | None, **changes: object
    ) -> MetastoreEndpoint:
        """How a client reaches that metastore."""
        server = self.server(kind, version)
        access = server.config.access
        over_http = access.language is Language.HTTP
        transport = {
            (False, False): Transport.PLAIN,
            (False, True): Transport.TLS,
            (True, False): Transport.HTTP,
            (True, True): Transport.HTTPS,
        }[over_http, access.authority is not None]
        fields = {
            "uris": (server.uri,),
            "transport": transport,
            "login": login,
            "ca_certificate": str(access.authority) if access.authority else None,
            "connect_timeout_s": 20.0,
            "call_timeout_s": 60.0,
        }
        return MetastoreEndpoint(**{**fields, **changes})  # type: ignore[arg-type]

    # ---- credentials -----------------------------------------------------------------------------

    def keytab(self, name: str, **changes: object) -> KerberosLogin:
        """The login of a principal by its keytab."""
        fields = {
            "service": SERVICE,
            "client": self.kdc.principal(name),
            "keytab": str(self.kdc.keytab(name)),
        }
        return KerberosLogin(**{**fields, **changes})  # type: ignore[arg-type]

    def cache(self, name: str, *, life: str | None = None) -> Path:
        """A file of fresh tickets."""
        file = self.folder / f"cache-{next(_numbers)}"
        self.kdc.fetch_tickets(name, file, life=life)
        return file

    def bearer(self, *, life_s: float, signer: openssl.Signer | None = None) -> Path:
        """A file with a JWT of etl."""
        file = self.folder / f"jwt-{next(_numbers)}"
        text = (signer or self.signer).token("etl", life_s=life_s)
        openssl.write_private(file, f"{self.note(text)}\n")
        return file

    def token(self, kind: str, version: str, owner: str, *, asked_by: str | None = None) -> Path:
        """A file with a delegation token of a user, as a text; the renewer is the user."""
        login = self.keytab(asked_by or owner)
        with connect(self.endpoint(kind, version, login)) as client:
            text = client.hms().get_delegation_token(owner, owner)
        file = self.folder / f"token-{next(_numbers)}"
        openssl.write_private(file, f"{self.note(text)}\n")
        parts = parse_token(text)
        self.note(base64.b64encode(parts.password).decode())
        return file

    def container_file(self, token: Path) -> Path:
        """A file of credentials with that token, as YARN leaves it in a container."""
        text = token.read_text().strip()
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        alias = b"hive.server2.delegation.token"
        file = self.folder / f"container-{next(_numbers)}"
        content = b"HDTS\0" + bytes([1, len(alias)]) + alias + raw + bytes([0])
        file.write_bytes(content)
        return file

    # ---- what must not be found ------------------------------------------------------------------

    def leaks(self) -> list[str]:
        """Logs and command lines in which a secret stands."""
        found = []
        logs = (files_below(self.folder, pattern) for pattern in ("*.log*", "*.out"))
        for log, content in itertools.chain.from_iterable(logs):
            text = content.decode(errors="replace")
            found += [f"{log}: {s[:4]}..." for s in self.secrets if s in text]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            found += [f"process {process.name}: {s[:4]}..." for s in self.secrets if s in line]
        return found


def live(endpoint: MetastoreEndpoint) -> None:
    """A small life: a database, a table, a transaction with a lock that is committed."""
    with connect(endpoint) as client:
        ref = TableRef(f"login_{os.getpid()}_{next(_numbers)}", "t")
        client.create_database(ref.db)
        table = client.create_table(NewTable(ref=ref, columns=_COLUMNS))
        writes = [access(table, DataOperation.INSERT)]
        with begin(client, job_terms(str(ref), lock_timeout_s=30), writes=writes) as transaction:
            (lock,) = client.show_locks(ref)
            assert lock.txn_id == transaction.txn_id
        seen = client.valid_write_ids([ref], client.valid_txns())[ref]
        assert seen.is_visible(WriteId(1))
        assert client.show_locks(ref) == ()


@contextmanager
def environ(variables: dict[str, str]) -> Iterator[None]:
    """Sets variables of this process, and puts back what was there."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def skew(cache: Path, seconds: int) -> Path:
    """Tells a cache of tickets that the KDC's clock differs by so much from this machine's.

    It is what a clock that is off does to whoever uses the cache: its requests bear another time.
    """
    data = cache.read_bytes()
    (length,) = struct.unpack_from(">H", data, 2)
    head = struct.pack(">HHHii", 12, 1, 8, seconds, 0)
    cache.write_bytes(data[:2] + head + data[4 + length :])
    return cache
