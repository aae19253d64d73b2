"""The life of a metastore without Java: a small Python server stands in for the JVM."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.local import process, server as metastore_module
from airflow_hiveacid.local.distribution import Distribution
from airflow_hiveacid.local.process import free_port
from airflow_hiveacid.local.releases import HiveRelease
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig, PostgresDatabase

# Takes a JVM's command line. As the schema tool it makes the database; as the server it answers
# every connection with an empty list of databases. What it was told is kept beside its data.
JAVA = """#!{python}
import os, pathlib, socket, struct, sys
if sys.argv[1:] == ["-version"]:
    sys.exit(print('openjdk version "{version}"', file=sys.stderr))
here = pathlib.Path.cwd()
with (here / "told").open("a") as told:
    told.write(" ".join(sys.argv[1:]) + "\\n")
if "-initSchema" in sys.argv:
    (here / "derby").mkdir()  # fails on a database that is already there, as the tool does
    sys.exit((here / "fail-schema").exists())
if (here / "fail-serve").exists():
    print("the server's last words", flush=True)
    sys.exit(7)
method = b"get_all_databases"
answer = struct.pack(">Ii", 0x80010002, len(method)) + method
answer += struct.pack(">ibhbi", 0, 15, 0, 11, 0) + b"\\0"
with socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("-p") + 1]))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)
"""


def _install(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(python=sys.executable, version=version))
    java.chmod(0o755)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalMetastoreConfig:
    _install(tmp_path / "jdk", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setattr(metastore_module, "_JVMS", tmp_path / "jvms")
    monkeypatch.setattr(metastore_module, "find_spec", lambda _: None)

    def fetched(release: HiveRelease, **_: object) -> Distribution:
        return Distribution(release=release, class_path=(), home=tmp_path)

    monkeypatch.setattr(metastore_module, "fetch", fetched)
    return LocalMetastoreConfig(data_dir=tmp_path / "data", start_timeout_s=10)


@pytest.fixture
def metastore(config: LocalMetastoreConfig) -> Iterator[LocalMetastore]:
    server = LocalMetastore(config)
    yield server
    server.stop()


def told(config: LocalMetastoreConfig) -> list[str]:
    return (config.data_dir / "told").read_text().splitlines()


def schema_runs(config: LocalMetastoreConfig) -> int:
    return sum("-initSchema" in line for line in told(config))


def test_the_metastore_answers_between_start_and_stop(metastore: LocalMetastore) -> None:
    assert not metastore.is_running()
    metastore.start()
    assert metastore.is_answering()
    assert metastore.uri == f"thrift://127.0.0.1:{metastore.port}"
    assert metastore.warehouse.is_dir()
    metastore.stop()
    assert not metastore.is_running()


def test_the_schema_is_created_once(metastore: LocalMetastore) -> None:
    metastore.start()
    metastore.restart()
    assert schema_runs(metastore.config) == 1


def test_a_new_directory_gets_a_copy_of_the_empty_database(
    metastore: LocalMetastore, tmp_path: Path
) -> None:
    metastore.start()
    config = replace(metastore.config, data_dir=tmp_path / "other")
    with LocalMetastore(config) as other:
        assert other.is_answering()
        assert config.derby_dir.is_dir()
        assert schema_runs(config) == 0
        metastore.discard_schema_marker()  # what is kept is not what a server has used
        metastore.restart()
    assert schema_runs(metastore.config) == 1


def test_an_incomplete_schema_is_created_again(metastore: LocalMetastore) -> None:
    failure = metastore.config.data_dir / "fail-schema"
    failure.parent.mkdir()
    failure.touch()
    with pytest.raises(process.ServerStartError, match="schema tool"):
        metastore.start()
    assert metastore.config.derby_dir.is_dir()
    failure.unlink()
    metastore.start()
    assert metastore.is_answering()


def test_a_failed_start_shows_the_end_of_the_servers_log_and_keeps_the_finished_schema(
    metastore: LocalMetastore,
) -> None:
    failure = metastore.config.data_dir / "fail-serve"
    failure.parent.mkdir()
    failure.touch()
    with pytest.raises(process.ServerStartError, match=r"status 7(?s:.)*the server's last words"):
        metastore.start()
    assert not metastore.is_running()
    failure.unlink()
    metastore.start()
    assert schema_runs(metastore.config) == 1


def test_a_second_start_finds_the_running_server(metastore: LocalMetastore) -> None:
    metastore.start()
    second = LocalMetastore(metastore.config)
    second.start()
    assert (second.pid, second.uri) == (metastore.pid, metastore.uri)


def test_a_second_process_can_stop_the_metastore(metastore: LocalMetastore) -> None:
    metastore.start()
    LocalMetastore(metastore.config).stop()
    assert not metastore.is_running()


def test_after_a_kill_the_metastore_starts_on_the_same_port(metastore: LocalMetastore) -> None:
    metastore.start()
    port, pid = metastore.port, metastore.pid
    metastore.kill()
    assert not metastore.is_running()
    metastore.start()
    assert metastore.port == port
    assert metastore.pid != pid


def test_a_running_server_with_different_settings_is_a_conflict(metastore: LocalMetastore) -> None:
    metastore.start()
    with pytest.raises(process.ServerConflictError, match="other settings"):
        LocalMetastore(replace(metastore.config, txn_timeout_s=1)).start()
    with pytest.raises(process.ServerConflictError, match="port"):
        LocalMetastore(replace(metastore.config, port=free_port("127.0.0.1"))).start()
    assert metastore.is_answering()


def test_a_data_directory_of_a_different_release_is_refused(metastore: LocalMetastore) -> None:
    metastore.start()
    metastore.stop()
    with pytest.raises(process.ServerConflictError, match=r"4\.0\.1"):
        LocalMetastore(replace(metastore.config, version="3.1.3")).start()


def test_the_error_for_an_occupied_port_names_the_port(metastore: LocalMetastore) -> None:
    metastore.start()
    other = replace(
        metastore.config, data_dir=metastore.config.data_dir / "other", port=metastore.port
    )
    with pytest.raises(process.ServerConflictError, match=str(metastore.port)):
        LocalMetastore(other).start()


def test_a_restart_chooses_a_new_port_if_the_old_one_is_occupied(
    metastore: LocalMetastore, config: LocalMetastoreConfig
) -> None:
    metastore.start()
    port = metastore.port
    metastore.stop()
    with LocalMetastore(replace(config, data_dir=config.data_dir / "other", port=port)):
        metastore.start()
        assert metastore.port != port
        assert metastore.is_answering()


def test_the_database_password_is_in_no_command_line(config: LocalMetastoreConfig) -> None:
    database = PostgresDatabase(host="h", port=1, name="n", user="u", password="s3cret")
    with LocalMetastore(replace(config, database=database)):
        assert len(told(config)) == 2
        assert not any("s3cret" in line for line in told(config))
        site = config.data_dir / "conf" / "metastore-site.xml"
        assert "s3cret" in site.read_text()


def test_without_java_the_error_says_what_to_install(
    metastore: LocalMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(process.MissingProgramError, match=r"needs Java 11 to 23.*openjdk-17"):
        metastore.start()


def test_a_java_that_cannot_run_the_release_is_passed_over(
    config: LocalMetastoreConfig, tmp_path: Path
) -> None:
    newest = replace(config, version="4.2.0")
    with pytest.raises(
        process.MissingProgramError, match=r"4\.2\.0 needs Java 21 to 23.*openjdk-21"
    ):
        LocalMetastore(newest).start()
    for number, version in enumerate(["1.8.0_402", "25.0.1", "21.0.8"]):
        _install(tmp_path / "jvms" / str(number), version)
    with LocalMetastore(newest) as metastore:
        assert metastore.is_answering()
        command = Path(f"/proc/{metastore.pid}/cmdline").read_text()
        assert str(tmp_path / "jvms/2/bin/java") in command


def test_a_server_that_never_started_has_no_address(metastore: LocalMetastore) -> None:
    with pytest.raises(process.LocalServerError, match="has not been started"):
        _ = metastore.uri


def test_stopping_a_metastore_that_never_started_is_not_an_error(metastore: LocalMetastore) -> None:
    metastore.stop()
    assert not metastore.config.data_dir.exists()
