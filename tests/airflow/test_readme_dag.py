"""The README's first fifteen minutes, in an empty Airflow that has this provider from its wheel."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hiveacid import __version__
from airflow_hiveacid.cli.spark_wheel import build_spark_wheel
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from tests.support.documents import README, python_blocks
from tests.support.yarn_tasks import rows_of

REPOSITORY = Path(__file__).resolve().parents[2]
CUSTOMERS = TableRef("demo", "customers")


def run(*arguments: str, cwd: Path = REPOSITORY, **variables: str) -> str:
    """Run a module of this environment, which finds what lies in `cwd` first.

    Its output is shown when it fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, **variables},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs, its entry points included."""
    folder = tmp_path_factory.mktemp("wheel")
    run("build", "--wheel", "--no-isolation", "--outdir", str(folder))
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    run("pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    return site


@pytest.fixture
def client(hive_metastore: LocalMetastore) -> Iterator[MetastoreClient]:
    with connect(MetastoreEndpoint(uris=(hive_metastore.uri,))) as opened:
        yield opened


@pytest.fixture
def _no_customers(client: MetastoreClient) -> Iterator[None]:
    yield
    client.drop_table(CUSTOMERS)


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    dags = tmp_path / "dags"
    dags.mkdir()
    for number, block in enumerate(python_blocks()):
        if "DAG(" in block:
            (dags / f"example_{number}.py").write_text(block)
    return {
        "PYTHONPATH": str(installed),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(REPOSITORY / ".venv-spark" / "bin"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def connection_commands(metastore: LocalMetastore) -> list[list[str]]:
    """The README's `airflow connections add` lines, with the metastore of this test."""
    text = README.read_text().replace("\\\n", " ")
    lines = re.findall(r"^ *(airflow connections add .*)$", text, re.MULTILINE)
    commands = [shlex.split(line) for line in lines]
    here = {"hms.example.com": "127.0.0.1", "9083": str(metastore.port), "local[2]": "local[1]"}
    return [[here.get(word, word) for word in command] for command in commands]


def events_of(database: Path, task_id: str) -> list[dict[str, object]]:
    """What consumers are told of a task's assets."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        asked = "select extra from asset_event where source_task_id = ?"
        return [json.loads(extra) for (extra,) in connection.execute(asked, [task_id])]


@pytest.mark.promise("A9")
@pytest.mark.usefixtures("_no_customers")
def test_the_readmes_commands_and_dags_run_from_the_wheel(
    environment: dict[str, str],
    client: MetastoreClient,
    hive_metastore: LocalMetastore,
    tmp_path: Path,
) -> None:
    def airflow(*arguments: str, **variables: str) -> str:
        return run("airflow", *arguments, cwd=tmp_path, **{**environment, **variables})

    # Before the second step, there is no Spark; then, the tests' option leaves all to a driver.
    first = {
        "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(tmp_path / "nowhere"),
        "AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT": "True",
    }

    assert "airflow-provider-hiveacid" in airflow("providers", "list", "--output", "plain")
    airflow("db", "migrate")
    to_metastore, to_spark = connection_commands(hive_metastore)
    airflow(*to_metastore[1:])
    found = run("inspect", "--details", "airflow_hiveacid", cwd=tmp_path, **environment)
    assert environment["PYTHONPATH"] in found  # the wheel's, and not the checkout's
    told = airflow("dags", "test", "merge_customers", **first)
    assert "the worker did this job without Spark" in told
    table = client.get_table(CUSTOMERS)
    assert rows_of(client, table) == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
    (event,) = events_of(tmp_path / "airflow.db", "merge")
    assert (event["table"], event["write_id"]) == ("demo.customers", 1)
    # One delta is no reason to compact.
    told = airflow("dags", "test", "compact_customers", **first)
    assert "below the thresholds: 1 delta directories" in told
    airflow(*to_spark[1:])
    told = airflow("dags", "test", "merge_customers")
    assert f"{environment['PYTHONPATH']}/airflow_hiveacid/_spark_apps/merge.py" in told
    assert rows_of(client, table) == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]


def test_the_description_of_the_wheel_has_no_relative_links(installed: Path) -> None:
    (described,) = installed.glob("airflow_provider_hiveacid-*.dist-info/METADATA")
    text = described.read_text()
    assert "the demo shows (`docs/tutorial/demo.md`)" in text
    assert re.findall(r"\]\((?!https:)[^)]*\)", text) == []
    assert "overview.svg" not in text


def test_the_wheel_contains_the_example_dags_and_airflow_parses_them(
    environment: dict[str, str], installed: Path
) -> None:
    examples = installed / "airflow_hiveacid" / "example_dags"
    assert {file.name for file in examples.glob("*.py")} == {
        file.name for file in (REPOSITORY / "dags").glob("*.py")
    }
    program = (
        "from airflow.dag_processing.dagbag import DagBag\n"
        "from airflow_hiveacid.bundles import HiveAcidExampleDagBundle\n"
        "path = str(HiveAcidExampleDagBundle(name='examples').path)\n"
        f"assert path == {str(examples)!r}, path\n"
        "bag = DagBag(dag_folder=path)\n"
        "assert not bag.import_errors, bag.import_errors\n"
        "assert len(bag.dags) == 19, bag.dags\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        cwd=installed,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_for_spark_is_the_same_from_the_installed_provider_and_from_a_checkout(
    installed: Path, tmp_path: Path
) -> None:
    run(
        "airflow_hiveacid.cli.spark_wheel",
        str(tmp_path / "installed"),
        cwd=tmp_path,
        PYTHONPATH=str(installed),
    )
    (built,) = (tmp_path / "installed").iterdir()
    own = build_spark_wheel(tmp_path / "checkout", version=__version__)
    assert (built.name, built.read_bytes()) == (own.name, own.read_bytes())


def test_the_wheel_tells_type_checkers_that_it_has_types(installed: Path) -> None:
    assert (installed / "airflow_hiveacid" / "py.typed").is_file()
