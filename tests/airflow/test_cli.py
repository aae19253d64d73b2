"""`airflow hiveacid`: the program's commands, where a connection names the metastore."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_hiveacid.cli.airflow_group import get_commands
from airflow_hiveacid.cli.definition import COMMANDS, Command
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.provider_info import get_provider_info
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import Connections
from tests.support.cases import cases_of
from tests.unit.storage.orc_tables import insert, write_acid

ARGVS = [argv for argv, _ in cases_of(Path(__file__).with_name("cases") / "airflow_commands.txt")]


def group() -> GroupCommand:
    (found,) = get_commands()
    return found


def actions() -> list[ActionCommand]:
    return [one for one in group().subcommands if isinstance(one, ActionCommand)]


@pytest.fixture
def server() -> FakeMetastore:
    return FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=300.0)


@pytest.fixture
def asked(
    monkeypatch: pytest.MonkeyPatch, airflow_home: Path, server: FakeMetastore
) -> list[tuple[str, ...]]:
    """The servers that commands have asked."""
    assert airflow_home
    servers: list[tuple[str, ...]] = []

    def connect(endpoint: MetastoreEndpoint) -> FakeClient:
        servers.append(endpoint.uris)
        return FakeClient(server)

    monkeypatch.setattr("airflow_hiveacid.metastore.client.connect", connect)
    return servers


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Status, output and errors of `airflow hiveacid`, by Airflow's own arguments."""

    def command(*argv: str) -> tuple[int, str, str]:
        top = argparse.ArgumentParser()
        commands = top.add_subparsers()
        for action in actions():
            one = commands.add_parser(action.name)
            for argument in action.args:
                argument.add_to_parser(one)
            one.set_defaults(func=action.func)
        options = top.parse_args(argv)
        with pytest.raises(SystemExit) as ended:
            options.func(options)
        return int(str(ended.value.code)), *capfd.readouterr()

    return command


def test_the_command_group_is_in_the_provider_metadata_and_has_every_command() -> None:
    assert get_provider_info()["cli"] == ["airflow_hiveacid.cli.airflow_group.get_commands"]
    assert group().name == "hiveacid"
    assert [action.name for action in actions()] == [command.name for command in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_airflow_command_has_the_hiveacid_arguments_and_conn_id_if_it_needs_one(
    command: Command,
) -> None:
    (action,) = [one for one in actions() if one.name == command.name]
    own = {name for argument in action.args for name in argument.flags}
    given = {name for argument in command.arguments for name in argument.names}
    assert own - given == ({"--conn-id"} if command.calls_metastore else set())
    assert given <= own


def test_each_airflow_command_ends_its_help_with_examples_of_its_own_name() -> None:
    for action in actions():
        head, *examples = (action.epilog or "").splitlines()
        assert head == "examples:"
        assert [line.split()[:3] for line in examples] == [["airflow", "hiveacid", action.name]] * 2


def test_a_command_calls_the_metastore_of_the_default_or_the_given_connection(
    run: Callable[..., tuple[int, str, str]], asked: list[tuple[str, ...]], connections: Connections
) -> None:
    connections.add("other", "hive_acid_metastore", extra={"uris": "thrift://b:2"})
    connections.metastore("thrift://a:1")
    assert run("locks", "-o", "json")[:2] == (0, "[]\n")
    status, out, _ = run("tables", "--conn-id", "other", "-o", "json")
    assert (status, json.loads(out)) == (0, [])
    assert asked == [("thrift://a:1",), ("thrift://b:2",)]


@pytest.mark.usefixtures("asked", "connections")
@pytest.mark.parametrize("argv", ARGVS)
def test_each_command_does_its_work_under_airflow(
    run: Callable[..., tuple[int, str, str]], server: FakeMetastore, tmp_path: Path, argv: str
) -> None:
    ref = TableRef("default", "t")
    client = FakeClient(server)
    columns = (Column(name="id", type="int"), Column(name="name", type="string"))
    client.create_table(NewTable(ref=ref, columns=columns, location=str(tmp_path)))
    for number in (1, 2):
        txn_id = client.open_txn()
        write_id = client.allocate_write_id(txn_id, ref)
        path = tmp_path / f"delta_{number}_{number}_0" / "bucket_00000"
        write_acid(path, [insert(write_id, 0, number)])
        client.commit_txn(txn_id)
    client.open_txn()
    status, _, err = run(*argv.split())
    assert (status, err) == (0, "")


def test_the_commands_that_were_tried_are_all_that_call_the_metastore() -> None:
    tried = {argv.split()[0] for argv in ARGVS}
    assert tried | {"check"} == {one.name for one in COMMANDS if one.calls_metastore}


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["locks", "--conn-id", "nothing"], 2, "there is no connection 'nothing'"),
        (["history", "default.nothing"], 3, "TableNotFoundError"),
        (["keep", "default.t"], 2, "give one of --readable-for, --off"),
    ],
)
def test_an_error_is_one_line_and_sets_the_exit_status(
    run: Callable[..., tuple[int, str, str]],
    connections: Connections,
    argv: list[str],
    status: int,
    said: str,
) -> None:
    assert connections
    found, out, err = run(*argv)
    assert (found, out) == (status, "")
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert said in line


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("engine", "has_spark", "why"),
    [
        (None, False, "not used: Airflow has no connection 'spark_default'"),
        ("worker", True, "not used: the connection's engine is 'worker'"),
        (None, True, "there is no spark-submit on PATH"),
        ("spark", False, "there is no spark-submit on PATH"),
    ],
)
def test_the_check_looks_for_spark_only_if_operators_with_this_connection_may_use_it(
    run: Callable[..., tuple[int, str, str]],
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    engine: str | None,
    has_spark: bool,
    why: str,
) -> None:
    connections.metastore(engine=engine)
    if has_spark:
        connections.add("spark_default", "spark", host="local[2]")
    else:
        connections.remove("spark_default")
    monkeypatch.delenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    steps = {step["step"]: step for step in json.loads(run("check", "-o", "json")[1])}
    assert why in steps["spark-submit"]["found"]
    is_unused = why.startswith("not used")
    assert [steps[name]["is_ok"] for name in ("Java", "spark-submit")] == [is_unused] * 2
    assert ("tables" in steps) is is_unused


def test_log_lines_are_written_to_standard_error_and_not_to_the_output(
    run: Callable[..., tuple[int, str, str]],
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def noisy(_: object) -> Iterator[str]:
        print("a line of a logger")  # noqa: T201 - as Airflow's loggers do
        yield "[]\n"

    assert connections
    monkeypatch.setattr("airflow_hiveacid.cli.transactions.locks", noisy)
    status, out, err = run("locks", "-o", "json")
    assert (status, out) == (0, "[]\n")
    assert "a line of a logger" in err


def test_the_command_group_imports_no_module_that_airflow_has_not_loaded() -> None:
    code = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules);"
        "from airflow_hiveacid.cli.airflow_group import get_commands; get_commands();"
        "new = set(sys.modules) - before;"
        "print([name for name in new if not name.startswith('airflow_hiveacid')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
