"""What the contract of HDFS does not ask: settings, errors as they are printed, a lack of it."""

from __future__ import annotations

import builtins
import errno
import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError, StoreUnavailableError
from airflow_hiveacid.storage.stores.hadoop_settings import (
    JAVA_PATTERN,
    bytes_of,
    given_settings,
    number_of,
    read_settings,
    travelling,
    umask_of,
    without_observers,
)
from airflow_hiveacid.storage.stores.hdfs import NO_KEY, connect as hdfs_connect, hdfs_errors
from airflow_hiveacid.storage.stores.hdfs.connect import answer_s, client_settings, open_hdfs
from airflow_hiveacid.storage.stores.hdfs.handler import (
    PIECE_BYTES,
    HdfsHandler,
    HdfsReader,
    HdfsWriter,
)
from airflow_hiveacid.storage.stores.locations import renames_directories, traits_of
from tests.contract.stores.hdfs_model import Entry, Model, Options
from tests.support.cases import tables_of

TABLES = tables_of(__file__)
UMASK = "fs.permissions.umask-mode"
BASIC = {UMASK: "022", "fs.defaultFS": " hdfs://nn "}
SETTINGS = "HIVEACID_STORE_SETTINGS"


def site(settings: Mapping[str, str]) -> str:
    properties = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    empty = "<property><name>empty</name><value/></property>"
    return f"<configuration>{''.join(properties)}{empty}</configuration>"


def opened(
    model: Model | None = None, umask: int = 0o022, address: str = "hdfs://model"
) -> pafs.FileSystem:
    return pafs.PyFileSystem(HdfsHandler(address, model or Model(), umask, Options))


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for the package hdfs-native that records its clients; nothing is configured."""
    clients: list[tuple[str, dict[str, str]]] = []

    def client(url: str, settings: dict[str, str]) -> Model:
        clients.append((url, settings))
        return Model()

    package = SimpleNamespace(Client=client, WriteOptions=Options, clients=clients)
    monkeypatch.setitem(sys.modules, "hdfs_native", package)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    return package


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "umask"), TABLES["umasks"])
def test_a_umask_is_parsed_in_octal_and_symbolic_form(text: str, umask: str) -> None:
    assert umask_of({UMASK: text}) == int(umask, 8)


@pytest.mark.parametrize("text", ["", "9", "g-w", "u=rwx;g=r", "rwxr-xr-x"])
def test_an_invalid_umask_raises_an_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="umask-mode"):
        umask_of({UMASK: text})


def test_settings_are_read_from_the_hadoop_configuration_directories(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "hadoop"
    folder.mkdir(parents=True)
    (folder / "core-site.xml").write_text(site(BASIC))
    found = read_settings({"HADOOP_HOME": str(tmp_path)})
    assert found == {UMASK: "022", "fs.defaultFS": "hdfs://nn"}
    (folder / "hdfs-site.xml").write_text(site({**BASIC, UMASK: "077"}))
    assert umask_of(read_settings({"HADOOP_CONF_DIR": str(folder), "HADOOP_HOME": "/x"})) == 0o077
    assert read_settings({}) == read_settings({"HADOOP_CONF_DIR": str(tmp_path)}) == {}
    (folder / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigurationError, match=r"hdfs-site\.xml"):
        read_settings({"HADOOP_CONF_DIR": str(folder)})


def test_settings_shared_by_the_driver_override_the_files(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(site(BASIC))
    shared = {UMASK: "027", "dfs.nameservices": "lake"}
    told = {"HADOOP_CONF_DIR": str(tmp_path), SETTINGS: json.dumps(shared)}
    assert given_settings(told) == {"fs.defaultFS": "hdfs://nn", **shared}
    with pytest.raises(ConfigurationError, match="HIVEACID_STORE_SETTINGS is not JSON"):
        given_settings({SETTINGS: "x"})


@pytest.mark.parametrize(("name", "is_shared"), TABLES["shared settings"])
def test_only_settings_without_secrets_are_shared(name: str, is_shared: bool) -> None:
    assert (name in travelling({name: "x"})) == is_shared
    is_key = name.startswith("fs.s3a.") and name.endswith(".key")
    assert (re.search(JAVA_PATTERN, name) is not None) == (is_shared or is_key)


def test_numbers_and_sizes_are_parsed_as_in_java() -> None:
    sizes = {"1": "134217728", "2": "128m", "3": "1G", "4": "2tb"}
    assert [bytes_of(sizes, n) for n in "12345"] == [1 << 27, 1 << 27, 1 << 30, 2 << 40, None]
    assert [number_of({"a": "15", "c": "-1", "d": "+5"}, n) for n in "abcd"] == [15, None, None, 5]
    for read, text in ((number_of, "x"), (bytes_of, "m"), (bytes_of, "1.5g")):
        with pytest.raises(ConfigurationError, match=r"dfs\.x"):
            read({"dfs.x": text}, "dfs.x")


def test_a_single_name_node_is_tried_five_times_unless_configured_otherwise() -> None:
    attempts = "dfs.client.failover.max.attempts"
    service = {"dfs.ha.namenodes.lake": " nn1 , nn2,", "dfs.nameservices": "lake"}
    assert client_settings({}) == {attempts: "5"}
    assert client_settings({attempts: "2"}) == {attempts: "2"}
    assert client_settings({"dfs.ha.namenodes.lone": "nn1"})[attempts] == "5"
    assert client_settings(service) == {**service, "dfs.ha.namenodes.lake": "nn1,nn2"}


@pytest.mark.parametrize("provider", ["", "Router"])
def test_observer_name_nodes_are_not_used(
    provider: str,
) -> None:
    names = "org.apache.hadoop.hdfs.server.namenode.ha."
    kinds = {
        "": f"{names}ObserverReadProxyProvider",
        "Router": f"{names}RouterObserverReadConfiguredFailoverProxyProvider",
    }
    site = {
        "dfs.client.failover.proxy.provider.lake": kinds[provider],
        "dfs.client.failover.proxy.provider.pond": f"{names}IPFailoverProxyProvider",
        "dfs.client.failover.observer.auto-msync-period.lake": "0ms",
    }
    active = {"dfs.client.failover.proxy.provider.lake": f"{names}ConfiguredFailoverProxyProvider"}
    assert without_observers(site) == active
    assert client_settings(site).items() >= {**site, **active}.items()
    assert travelling(site) == site  # what a driver knows of it, its workers do, too


@pytest.mark.parametrize(("off", "order"), TABLES["unreachable"])
def test_unreachable_name_nodes_are_tried_last(
    native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, off: list[str], order: str
) -> None:
    """hdfs-native itself would wait two minutes for each, in every process."""

    def connect(address: tuple[str, int], timeout: float) -> object:
        assert timeout < 10
        if address[0] in off:
            raise TimeoutError
        raise ConnectionRefusedError

    monkeypatch.setattr(hdfs_connect.socket, "create_connection", connect)
    names = {f"dfs.namenode.rpc-address.lake.n{n}": f"n{n}:8020" for n in (1, 2, 3)}
    given = {"dfs.ha.namenodes.lake": "n1,n2,n3", **names}
    monkeypatch.setenv(SETTINGS, json.dumps(given))
    open_hdfs("hdfs", "lake")
    open_hdfs("viewfs", "cl")
    found = [settings["dfs.ha.namenodes.lake"] for _, settings in native.clients]
    assert found == [order, "n1,n2,n3"]


def test_the_response_timeout_depends_on_the_name_nodes_and_the_retry_settings() -> None:
    lake = {"dfs.ha.namenodes.lake": "nn1,nn2"}
    assert [answer_s({}), answer_s(lake)] == [150, 300]
    assert answer_s({"ipc.client.rpc-timeout.ms": "0"}) == 150
    assert answer_s({"ipc.client.rpc-timeout.ms": "-1"}) == 150
    assert answer_s({"ipc.client.rpc-timeout.ms": "20000", **lake}) == 40
    assert answer_s({"dfs.client.failover.max.attempts": "10"}) == 150 + 10 * 15
    few = {"dfs.client.failover.max.attempts": "2", "dfs.client.failover.sleep.max.millis": "500"}
    assert answer_s(few) == 151


# ---- errors --------------------------------------------------------------------------------------

CASES = json.loads(Path(__file__).with_name("errors.json").read_text())
"""What hdfs-native prints of an error, and our error: the name of its number, and its text."""


def number_of_error(name: str) -> int:
    return NO_KEY if name == "ENOKEY" else getattr(errno, name)


@pytest.mark.parametrize(("kind", "printed", "number", "text"), CASES["errors"])
def test_an_hdfs_error_is_mapped_to_an_errno_and_a_single_line(
    kind: str, printed: str | list[Any], number: str, text: str
) -> None:
    error = getattr(builtins, kind)(*(printed if isinstance(printed, list) else [printed]))
    with pytest.raises(OSError, match="/path") as caught, hdfs_errors("/path"):
        raise error
    assert (caught.value.errno, caught.value.strerror) == (number_of_error(number), text)
    assert type(caught.value) is type(OSError(number_of_error(number), ""))


@pytest.mark.parametrize(("error", "number", "words"), CASES["kms"])
@pytest.mark.parametrize("kind", ["OperationFailed", "UnsupportedFeature"])
def test_a_missing_kms_setting_an_unreachable_kms_and_a_denial_raise_distinct_errors(
    error: str, number: str, words: str, kind: str
) -> None:
    with pytest.raises(OSError, match=re.escape(words)) as caught, hdfs_errors("/path"):
        raise RuntimeError(f'{kind}("{error}")')
    assert caught.value.errno == number_of_error(number)


def test_a_kms_token_is_masked_in_errors() -> None:
    address = "http://kms:9600/kms/v1/keyversion/k%400/_eek?eek_op=decrypt&delegation=S3cr3t-_"
    text = f'OperationFailed("KMS HTTP error: error sending request for url ({address})")'
    with pytest.raises(OSError, match="is down") as caught, hdfs_errors("/path"):
        raise RuntimeError(text)
    assert "delegation=***)" in str(caught.value)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_errors_of_other_kinds_are_raised_unchanged() -> None:
    with pytest.raises(KeyError), hdfs_errors("/path"):
        raise KeyError("x")


@pytest.mark.parametrize(("text", "number", "remedy"), CASES["logins"])
def test_the_error_of_a_failed_login_says_what_to_do(text: str, number: str, remedy: str) -> None:
    with pytest.raises(OSError, match=re.escape(remedy)) as caught, hdfs_errors("/path"):
        raise RuntimeError(text)
    assert caught.value.errno == number_of_error(number)


@pytest.mark.parametrize("name", ["SafeModeException", "RetriableException", "StandbyException"])
def test_a_name_node_that_is_not_ready_causes_a_retryable_error(name: str) -> None:
    with pytest.raises(OSError, match=name) as caught, hdfs_errors("/path"):
        raise RuntimeError(f'RPCError("org.apache.hadoop.ipc.{name}", "not now")')
    assert caught.value.errno == errno.EAGAIN


def test_a_rust_panic_is_mapped_to_an_os_error() -> None:
    gave_up = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(OSError, match="hdfs-native failed: out of range") as caught,
        hdfs_errors("/path"),
    ):
        raise gave_up("out of range\nmore")
    assert caught.value.errno == errno.EIO
    with pytest.raises(KeyboardInterrupt), hdfs_errors("/path"):
        raise KeyboardInterrupt


# ---- streams -------------------------------------------------------------------------------------


class Sink:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = 0

    def write(self, buf: bytes) -> int:
        self.pieces.append(buf)
        return len(buf)

    def close(self) -> None:
        self.closed += 1


def test_small_writes_are_combined_and_large_writes_are_split() -> None:
    sink = Sink()
    writer = HdfsWriter(sink, "/f")
    for _ in range(3):
        writer.write(b"abc")
    assert sink.pieces == []
    large = bytes(5 * PIECE_BYTES)
    writer.write(large)
    assert writer.tell() == 9 + len(large)
    writer.close()
    writer.close()
    assert b"".join(sink.pieces) == b"abc" * 3 + large
    assert max(map(len, sink.pieces)) < 2 * PIECE_BYTES
    assert sink.closed == 1


@pytest.mark.parametrize("failure", [RuntimeError("ChecksumError"), KeyboardInterrupt()])
def test_a_file_with_a_failed_write_is_never_completed(
    failure: BaseException,
) -> None:
    class Full(Sink):
        def write(self, buf: bytes) -> int:
            if len(self.pieces) == 1:
                raise failure
            return super().write(buf)

    sink = Full()
    writer = HdfsWriter(sink, "hdfs://nn/f")
    writer.write(bytes(PIECE_BYTES))
    with pytest.raises((OSError, KeyboardInterrupt)):
        writer.write(bytes(PIECE_BYTES))
    with pytest.raises(OSError, match="an earlier write to it failed"):
        writer.write(bytes(PIECE_BYTES))
    for _ in range(2):
        if not writer.closed:
            with pytest.raises(OSError, match="an earlier write to it failed"):
                writer.close()
    writer.close()
    assert (len(sink.pieces), sink.closed) == (1, 0)


def test_a_file_that_pyarrow_closes_after_a_failed_write_is_not_completed() -> None:
    model = Model()
    model.full_at = 2 * PIECE_BYTES
    fs = opened(model)

    def write() -> None:
        with fs.open_output_stream("/f") as stream:
            for _ in range(3):
                stream.write(bytes(PIECE_BYTES))

    with pytest.raises(OSError, match="an earlier write to it failed: The DiskSpace") as caught:
        write()
    assert caught.value.errno == errno.EDQUOT
    assert model.get_file_info("/f").length == 0


def test_a_short_read_raises_an_error() -> None:
    class Short(bytes):
        def read_range(self, offset: int, _: int) -> bytes:
            return self[offset : offset + 2]

    reader = HdfsReader(Short(b"12345"), "/f")
    reader.seek(1)
    with pytest.raises(OSError, match="received 2 of 4 bytes at 1"):
        reader.read()


# ---- the client ----------------------------------------------------------------------------------


def test_a_name_node_without_access_control_lists_is_asked_only_once() -> None:
    model = Model()
    model.knows_lists = False
    asked: list[str] = []

    def refuse(path: str) -> object:
        asked.append(path)
        return Model.get_acl_status(model, path)

    model.get_acl_status = refuse  # type: ignore[method-assign,assignment]
    fs = opened(model, 0o027)
    fs.create_dir("/a/b")
    fs.create_dir("/a/c")
    assert asked == ["/a"]
    assert model.get_file_info("/a/c").permission == 0o750


def test_an_unreadable_access_control_list_raises_an_error() -> None:
    """Else what is made would lack rights of those whom the list names."""
    model = Model()

    def fail(_: str) -> object:
        raise OSError("RPC listener disconnected")

    model.get_acl_status = fail  # type: ignore[method-assign,assignment]
    fs = opened(model, 0o027)
    with pytest.raises(OSError, match="disconnected"):
        fs.create_dir("/a")
    with pytest.raises(OSError, match="disconnected"):
        fs.open_output_stream("/f")
    assert list(model.tree) == ["/"]


def test_an_access_entry_of_a_directory_is_not_inherited_by_new_subdirectories() -> None:
    model = Model()
    fs = opened(model, 0o027)
    fs.create_dir("/a")
    model.modify_acl_entries("/a", [Entry("user", "access", "rwx", "hive")])
    fs.create_dir("/a/b")
    assert model.get_file_info("/a/b").permission == 0o750


def test_with_viewfs_access_control_lists_are_checked_for_every_directory() -> None:
    model = Model()
    model.knows_lists = False
    fs = opened(model, address="viewfs://cl")
    fs.create_dir("/a")
    model.knows_lists = True
    model.modify_acl_entries("/a", [Entry("user", "default", "rwx", "hive")])
    fs.create_dir("/a/b")
    assert model.get_file_info("/a/b").permission == 0o777


def test_directories_deleted_during_a_listing_are_omitted_only_if_allowed() -> None:
    model = Model()
    fs = opened(model)
    for path in ("/t/a", "/t/b/c", "/t/d"):
        fs.create_dir(path)
    list_status = model.list_status

    def overtaken(path: str, recursive: bool) -> object:
        if path == "/t/b":
            model.delete("/t/b", True)  # noqa: FBT003 - the client's own
        return list_status(path, recursive)

    model.list_status = overtaken  # type: ignore[method-assign,assignment]
    with pytest.raises(FileNotFoundError):
        fs.get_file_info(pafs.FileSelector("/t", recursive=True))
    fs.create_dir("/t/b")
    found = fs.get_file_info(pafs.FileSelector("/t", recursive=True, allow_not_found=True))
    assert [f.path for f in found] == ["/t/a", "/t/b", "/t/d"]
    assert fs.get_file_info(pafs.FileSelector("/none", recursive=True, allow_not_found=True)) == []


def test_a_file_that_was_replaced_by_an_empty_one_is_read_as_empty() -> None:
    model = Model()
    fs = opened(model)
    for content in (b"long", b""):
        with fs.open_output_stream("/f") as stream:
            stream.write(content)
        if content:
            known = model.get_file_info("/f")
    look, looks = model.get_file_info, [known]
    model.get_file_info = lambda path: looks.pop() if looks else look(path)  # type: ignore[method-assign]
    with fs.open_input_stream("/f") as stream:
        assert stream.read() == b""


def test_an_error_names_the_store_and_the_path() -> None:
    fs = opened(Model(user="bob"), address="hdfs://nn:8020")
    with pytest.raises(PermissionError, match=r"user=bob.*'hdfs://nn:8020/d/f'"):
        fs.open_output_stream("/d/f")
    fs = opened(Model(user="bob"), address="viewfs:///")
    with pytest.raises(PermissionError, match="'viewfs:/d'"):
        fs.create_dir("/d")


@pytest.mark.parametrize(("environment", "settings", "user"), TABLES["users"])
def test_without_kerberos_a_python_worker_uses_the_user_of_its_jvm(
    native: SimpleNamespace,  # noqa: ARG001 - replaces the package
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    settings: dict[str, str],
    user: str | None,
) -> None:
    """A container of YARN runs as `yarn`, say, and its JVM acts as who submitted."""
    for name in ("SPARK_USER", "HADOOP_USER_NAME"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(SETTINGS, json.dumps(settings))
    open_hdfs("hdfs", "nn")
    assert os.environ.get("HADOOP_USER_NAME") == user


@pytest.mark.parametrize(("location", "settings", "place"), TABLES["tokens"])
def test_a_delegation_token_is_looked_up_by_ip_address_unless_disabled(
    native: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    location: str,
    settings: dict[str, str],
    place: str,
) -> None:
    monkeypatch.setenv(SETTINGS, json.dumps(settings))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/tokens")
    open_hdfs("hdfs", location)
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION")
    open_hdfs("hdfs", location)
    assert [url for url, _ in native.clients] == [place, f"hdfs://{location}"]


def test_an_unresponsive_kdc_raises_an_error_after_the_timeout(
    native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    native.Client = lambda *_: gate.wait()
    monkeypatch.setenv(SETTINGS, json.dumps({"ipc.client.rpc-timeout.ms": "10"}))
    with pytest.raises(StoreUnavailableError, match=r"cannot open hdfs://nn:8020 .*no answer"):
        open_hdfs("hdfs", "nn")
    gate.set()


def test_files_are_created_with_the_configured_replication_block_size_and_umask(
    native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []

    def options(**told: object) -> Options:
        made.append(told)
        return Options(permission=0o644, overwrite=True, create_parent=True)

    native.WriteOptions = options
    settings = {"dfs.replication": "2", "dfs.blocksize": "64m", UMASK: "027"}
    for told in (settings, {}):
        monkeypatch.setenv(SETTINGS, json.dumps(told))
        open_hdfs("hdfs", "nn:8020").open_output_stream("/f").close()
    usual = {"permission": 0o644, "overwrite": True, "create_parent": True}
    strict = {**usual, "permission": 0o640, "replication": 2, "block_size": 64 << 20}
    assert made == [strict, usual]


def test_deleting_the_contents_of_the_root_and_appending_are_not_supported() -> None:
    fs = opened()
    with pytest.raises(NotImplementedError):
        fs.delete_dir_contents("/", accept_root_dir=True)
    with pytest.raises(NotImplementedError):
        fs.open_append_stream("/f")


def test_handlers_of_the_same_address_are_equal() -> None:
    one, same = (HdfsHandler("hdfs://one", Model(), 0o022, Options) for _ in range(2))
    other = HdfsHandler("hdfs://other", Model(), 0o022, Options)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert pafs.PyFileSystem(one).equals(pafs.PyFileSystem(same))
    assert pafs.PyFileSystem(one).normalize_path("/a?b#c//") == "/a?b#c//"


def test_the_client_gets_the_address_and_a_missing_setting_or_package_is_reported(
    native: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def client(url: str, settings: dict[str, str]) -> Model:
        asked.append(url)
        assert settings == {"dfs.client.failover.max.attempts": "5"}
        if "none" in url:
            raise RuntimeError('InvalidArgument("no name node for none")')
        return Model()

    native.Client = client
    fs = open_hdfs("hdfs", "nn:8020")
    assert open_hdfs("viewfs", "").get_file_info("/").type == pafs.FileType.Directory
    assert asked == ["hdfs://nn:8020", "viewfs:///"]
    assert traits_of(fs).refuses_taken_names
    assert traits_of(fs).deletes_at_once
    with pytest.raises(
        ConfigurationError, match=r"no name node for none.*HADOOP_CONF_DIR.*not set"
    ):
        open_hdfs("hdfs", "none")
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigurationError, match="the package hdfs-native"):
        open_hdfs("hdfs", "nn:8020")


@pytest.mark.parametrize(("scheme", "authority", "place"), TABLES["addresses"])
def test_an_address_without_a_port_is_a_name_service_or_gets_the_default_port(
    native: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    authority: str,
    place: str,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    settings = {"fs.defaultFS": "hdfs://other/", "dfs.ha.namenodes.lake": "nn1,nn2"}
    (tmp_path / "core-site.xml").write_text(site(settings))
    open_hdfs(scheme, authority)
    ((url, told),) = native.clients
    assert (url, told["fs.defaultFS"]) == (place, "hdfs://other/")


def test_a_local_disk_deletes_file_by_file_and_object_stores_rename_no_directories() -> None:
    traits = traits_of(pafs.LocalFileSystem())
    assert not traits.deletes_at_once
    assert not traits.refuses_taken_names
    assert traits.reads_open_files
    assert [s for s in ("file", "hdfs", "viewfs", "s3a", "gs") if renames_directories(s)] == [
        "file",
        "hdfs",
        "viewfs",
    ]
