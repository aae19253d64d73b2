"""Which Python workers get the tokens of a store, and where tokens do not appear."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.metastore.auth.tokens import DelegationToken, named_tokens, print_credentials
from airflow_hiveacid.spark.engine import store_tokens
from airflow_hiveacid.spark.engine.store_tokens import (
    Tokens,
    _Keeper,
    _ships,
    _with_tokens,
    give_store_tokens,
    take_tokens,
    with_tokens,
)
from airflow_hiveacid.storage.stores.token_file import VARIABLE

ENCRYPTED = {"spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "TRUE"}

KEYTAB = {"spark.kerberos.keytab": "etl.keytab-4711"}


class Context:
    """What is asked of a Spark context."""

    def __init__(self, master: str, settings: dict[str, str], version: str = "4.1.4") -> None:
        self.master, self._settings, self.version = master, settings, version
        self.environment: dict[str, str] = {}
        sc = SimpleNamespace(conf=lambda: None)
        self._jsc: object = SimpleNamespace(hadoopConfiguration=lambda: None, sc=lambda: sc)

    def getConf(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        return self._settings


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was given nothing, and is as before afterwards."""
    monkeypatch.setattr(store_tokens, "_token_file", None)
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


@pytest.mark.usefixtures("worker")
def test_a_worker_has_the_tokens_of_its_latest_task() -> None:
    seen: list[bytes] = []

    def body(batches: Iterator[int]) -> list[int]:
        seen.append(Path(os.environ[VARIABLE]).read_bytes())
        return list(batches)

    for content in (b"first", b"second, which is longer", b"3"):
        assert _with_tokens(iter([1, 2]), shipped=Tokens(content), inner=body) == [1, 2]
    assert seen == [b"first", b"second, which is longer", b"3"]


@pytest.mark.usefixtures("worker")
def test_a_child_process_of_a_worker_finds_the_tokens_too() -> None:
    take_tokens(Tokens(b"shipped"))
    look = "import os; print(open(os.environ['HADOOP_TOKEN_FILE_LOCATION']).read())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "shipped\n"


@pytest.mark.usefixtures("worker")
def test_shipped_tokens_do_not_replace_the_own_tokens_of_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    take_tokens(Tokens(b"shipped"))
    assert os.environ[VARIABLE] == "/container/tokens"


@pytest.mark.usefixtures("worker")
def test_shipped_tokens_marked_as_replacing_replace_the_own_tokens_of_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    for content in (b"younger", b"youngest"):
        take_tokens(Tokens(content, replaces=True))
        assert Path(os.environ[VARIABLE]).read_bytes() == content


def made(service: str, password: str, issued_s: int, kind: str = "HDFS_DELEGATION_TOKEN") -> bytes:
    """Credentials of one token of alice's."""
    issued = (issued_s * 1000).to_bytes(6, "big")
    identifier = b"\0\5alice\4yarn\0" + bytes([256 - 112 - len(issued)]) + issued + b"\1\2\3"
    token = DelegationToken(
        identifier=identifier, password=password.encode(), kind=kind, service=service
    )
    return print_credentials({f"for {service}": token})


def together(*credentials: bytes) -> bytes:
    found: dict[str, DelegationToken] = {}
    for content in credentials:
        found |= named_tokens(content)
    return print_credentials(found)


def passwords() -> dict[str, str]:
    """Those of this process's tokens, by what they are for."""
    found = named_tokens(Path(os.environ[VARIABLE]).read_bytes()).values()
    return {token.service: token.password.decode() for token in found}


@pytest.mark.usefixtures("worker")
def test_the_later_of_two_tokens_for_the_same_service_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    container = together(
        made("nn1", "given", 1_800_000_500),
        made("nn2", "given", 1_800_000_100),
        made("nn3", "given", 1_800_000_300),
        made("metastore", "given", 1_800_000_000, "HIVE_DELEGATION_TOKEN"),
    )
    (tmp_path / "tokens").write_bytes(container)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tokens"))

    def take(*credentials: bytes) -> None:
        take_tokens(Tokens(together(*credentials), replaces=True))

    # Of the statement in whose middle the container was started.
    take(made("nn1", "old", 1_800_000_200), made("nn2", "old", 1_800_000_200))
    assert passwords() == {"nn1": "given", "nn2": "old", "nn3": "given", "metastore": "given"}
    # Of the next one, and then of a task that the first has left.
    take(made("nn1", "new", 1_800_000_900), made("nn4", "new", 1_800_000_900))
    take(made("nn1", "old", 1_800_000_200), made("nn2", "old", 1_800_000_200))
    newest = {"nn1": "new", "nn2": "old", "nn3": "given", "nn4": "new", "metastore": "given"}
    assert passwords() == newest
    assert (tmp_path / "tokens").read_bytes() == container


@pytest.mark.usefixtures("worker")
def test_a_worker_without_own_tokens_keeps_the_later_shipped_token() -> None:
    for password, issued_s in (
        ("one", 1_800_000_000),
        ("two", 1_800_000_900),
        ("one", 1_800_000_000),
    ):
        take_tokens(Tokens(made("nn", password, issued_s)))
    assert passwords() == {"nn": "two"}


class Keeper:
    """One that ships, of a context that runs or was stopped."""

    shipped = Tokens(b"canary")

    def __init__(self, *, is_running: bool) -> None:
        self.is_running = is_running


def test_tasks_carry_no_tokens_after_their_spark_context_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_tokens, "_keeper", Keeper(is_running=True))
    carrying = with_tokens(len)
    assert b"canary" in pickle.dumps(carrying)
    assert "canary" not in repr(carrying)
    monkeypatch.setattr(store_tokens, "_keeper", Keeper(is_running=False))
    assert with_tokens(len) is len


def test_tokens_are_hidden_when_printed_and_survive_pickling() -> None:
    tokens = Tokens(b"canary")
    assert "canary" not in f"{tokens!r} {tokens} {[tokens]}"
    assert pickle.loads(pickle.dumps(tokens)) == tokens  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("master", "settings", "ships"),
    [
        ("k8s://https://host", ENCRYPTED, True),
        ("spark://host:7077", ENCRYPTED, True),
        ("k8s://https://host", ENCRYPTED | {"spark.io.encryption.enabled": "false"}, False),
        ("k8s://https://host", {"spark.network.crypto.enabled": "true"}, False),
        ("k8s://https://host", {"spark.io.encryption.enabled": "true"}, False),
        (
            "k8s://https://host",
            {"spark.ssl.rpc.enabled": "true", "spark.io.encryption.enabled": "true"},
            True,
        ),
        ("yarn", ENCRYPTED, False),
        ("yarn", ENCRYPTED | KEYTAB, True),
        ("yarn", ENCRYPTED | {"spark.yarn.keytab": "etl.keytab-4711"}, True),
        ("yarn", KEYTAB, False),
        ("local[4]", ENCRYPTED | KEYTAB, False),
        ("local[4]", ENCRYPTED, False),
    ],
)
def test_tokens_leave_the_driver_only_if_network_and_disk_are_encrypted(
    master: str, settings: dict[str, str], *, ships: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        assert _ships(Context(master, settings)) is ships  # type: ignore[arg-type]
    is_warned = "spark.io.encryption.enabled" in caplog.text
    assert is_warned is (not ships and not master.startswith(("yarn", "local")))


def test_an_encryption_setting_of_spark_4_does_not_count_on_spark_3() -> None:
    settings = {"spark.ssl.rpc.enabled": "true", "spark.io.encryption.enabled": "true"}
    assert _ships(Context("k8s://https://host", settings, "4.0.1"))  # type: ignore[arg-type]
    assert not _ships(Context("k8s://https://host", settings, "3.5.6"))  # type: ignore[arg-type]


# ---- the driver's ----------------------------------------------------------------------------


class Credentials:
    """What is asked of Java's."""

    def __init__(self, others: Credentials | None = None) -> None:
        self.tokens: dict[str, Any] = {} if others is None else dict(others.tokens)

    def add(self, kind: str, service: str, name: str = "") -> None:
        """Put in a token; it lasts for an hour."""
        self.tokens[service] = SimpleNamespace(
            getKind=lambda: kind,
            getService=lambda: service,
            renew=lambda _: (time.time() + 3600) * 1000,
            name=name or service,
        )

    def addToken(self, alias: str, token: object) -> None:  # noqa: N802 - Java's name
        self.tokens[alias] = token

    def addAll(self, others: Credentials) -> None:  # noqa: N802
        self.tokens |= others.tokens

    def getAllTokens(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(toArray=lambda: list(self.tokens.values()))

    def writeTokenStorageToStream(self, stream: Any) -> None:  # noqa: ANN401, N802
        stream.write(",".join(token.name for token in self.tokens.values()).encode())


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch, worker: None) -> Iterator[Context]:  # noqa: ARG001
    """That of a driver with Kerberos, on Kubernetes unless its master is changed."""
    monkeypatch.setattr(store_tokens, "_keeper", None)
    for name in ("_LATER_S", "_LOOK_S"):
        monkeypatch.setattr(store_tokens, name, 0.01)
    context = Context("k8s://https://host", ENCRYPTED)
    yield context
    context._jsc = None  # which ends the thread
    for thread in threading.enumerate():
        if thread.name == "hdfs tokens":
            thread.join(30)


class Provider:
    """Spark's, which gets what is there, and else goes on without."""

    def __init__(self, rounds: Iterable[dict[str, str]]) -> None:
        self._rounds = iter(rounds)

    def obtainDelegationTokens(self, found: Credentials) -> None:  # noqa: N802
        for service, name in next(self._rounds).items():
            found.add("HDFS_DELEGATION_TOKEN", service, name)


def session(context: Context, provider: Provider | None = None) -> Any:  # noqa: ANN401 - a Spark session
    """One whose JVM has tokens of HDFS and of the metastore, or has to fetch them."""
    found = Credentials()
    if provider is None:
        found.add("HDFS_DELEGATION_TOKEN", "nn:8020")
        found.add("HIVE", "metastore")
    user = SimpleNamespace(getCredentials=lambda: found)
    security = SimpleNamespace(
        Credentials=Credentials,
        UserGroupInformation=SimpleNamespace(
            getCurrentUser=lambda: user, isSecurityEnabled=lambda: True
        ),
    )
    java = SimpleNamespace(
        FileOutputStream=lambda path: FileIO(path, "w"), DataOutputStream=lambda file: file
    )
    managers = SimpleNamespace(HadoopDelegationTokenManager=lambda *_: provider)
    apache = SimpleNamespace(
        hadoop=SimpleNamespace(security=security),
        spark=SimpleNamespace(deploy=SimpleNamespace(security=managers)),
    )
    jvm = Jvm(org=SimpleNamespace(apache=apache), java=SimpleNamespace(io=java))
    return SimpleNamespace(sparkContext=context, _jvm=jvm)


class Jvm(SimpleNamespace):
    __hash__ = object.__hash__


def shipped() -> bytes | None:
    found = with_tokens(len)
    return None if found is len else found.keywords["shipped"].content  # type: ignore[attr-defined]


def test_a_driver_uses_all_tokens_of_its_jvm_and_ships_only_those_of_hdfs(context: Context) -> None:
    give_store_tokens(session(context))
    assert Path(os.environ[VARIABLE]).read_bytes() == b"nn:8020,metastore"
    assert VARIABLE not in context.environment
    assert shipped() == b"nn:8020"


def test_local_python_workers_read_the_token_file_of_the_driver(context: Context) -> None:
    context.master = "local[2]"
    give_store_tokens(session(context))
    assert context.environment[VARIABLE] == os.environ[VARIABLE]
    assert shipped() is None


def test_a_driver_pod_keeps_its_own_token_file_and_ships_tokens_to_its_workers(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "/pod/tokens")
    give_store_tokens(session(context))
    assert os.environ[VARIABLE] == "/pod/tokens"
    assert shipped() == b"nn:8020"


@pytest.mark.parametrize("master", ["yarn", "local[2]"])
def test_on_yarn_and_in_local_mode_a_given_token_file_is_left_unchanged(
    context: Context, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    context.master = master
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    give_store_tokens(session(context))
    assert os.environ[VARIABLE] == "/container/tokens"
    assert context.environment == {}
    assert store_tokens._keeper is None


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_driver_container_uses_the_tokens_that_spark_fetches_with_its_keytab(
    context: Context, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    context.master, context._settings = "yarn", KEYTAB | (ENCRYPTED if is_encrypted else {})
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    give_store_tokens(session(context))
    assert Path(os.environ[VARIABLE]).read_bytes() == b"nn:8020,metastore"
    assert context.environment == {}
    assert shipped() == (b"nn:8020" if is_encrypted else None)
    if is_encrypted:
        assert store_tokens._keeper is not None
        assert store_tokens._keeper.shipped == Tokens(b"nn:8020", replaces=True)


def test_a_driver_container_keeps_its_own_tokens_until_its_jvm_has_tokens(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.master, context._settings = "yarn", KEYTAB | ENCRYPTED
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    keeper = _Keeper(session(context, Provider([{}, {"nn:8020": "one"}])), is_given=True)
    keeper._fetch()
    assert (os.environ[VARIABLE], keeper.shipped) == ("/container/tokens", None)
    keeper._fetch()
    assert Path(os.environ[VARIABLE]).read_bytes() == b"one"


def test_tokens_that_cannot_be_fetched_again_are_kept(context: Context) -> None:
    both = {"nn1:8020": "one", "nn2:8020": "two"}
    provider = Provider([both, {}, {"nn2:8020": "three"}, both])
    keeper = _Keeper(session(context, provider), is_given=False)
    waits = {store_tokens._LATER_S: "soon", store_tokens._UNKNOWN_S: "in an hour"}
    seen = []
    for _ in range(4):
        wait = waits.get(keeper._fetch(), "half-way")
        assert keeper.shipped is not None
        seen.append((keeper.shipped.content, Path(os.environ[VARIABLE]).read_bytes(), wait))
    assert seen == [
        (b"one,two", b"one,two", "half-way"),
        (b"one,two", b"one,two", "soon"),
        (b"one,three", b"one,three", "in an hour"),
        (b"one,two", b"one,two", "half-way"),
    ]


def test_without_hdfs_tokens_the_next_fetch_waits_for_the_interval_without_tokens(
    context: Context,
) -> None:
    keeper = _Keeper(session(context, Provider([{}, {}])), is_given=False)
    assert [keeper._fetch() for _ in range(2)] == [store_tokens._NONE_S] * 2


class Failing(_Keeper):
    """One whose JVM is not as we know it."""

    def _fetch(self) -> float:
        raise TypeError("'JavaPackage' object is not callable")


def test_a_repeated_failure_to_fetch_tokens_is_logged_once_and_stops_nothing(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Failing(session(context), is_given=False)
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        assert [keeper._try_to_fetch() for _ in range(3)] == [store_tokens._LATER_S] * 3
        assert caplog.text.count("'JavaPackage' object is not callable") == 1
        caplog.clear()
        keeper._complaint = ""
        context._jsc = None
        keeper._try_to_fetch()
    assert caplog.text == ""


def test_a_session_does_not_wait_for_tokens_indefinitely(
    context: Context, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()

    class Slow(_Keeper):
        def _fetch(self) -> float:
            gate.wait()
            return super()._fetch()

    monkeypatch.setattr(store_tokens, "_START_S", 0.01)
    monkeypatch.setattr(store_tokens, "_Keeper", Slow)
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        give_store_tokens(session(context))
    assert "continuing without" in caplog.text
    assert shipped() is None
    gate.set()
