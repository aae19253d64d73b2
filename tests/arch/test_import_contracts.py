"""The import contracts of pyproject.toml, and the rooms under refusal of each other's libraries."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.provider_info import get_provider_info
from tests.arch.faces import FACES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_hiveacid"

# What each room may load from outside, directly or through what that loads itself. A room that
# names nothing here runs on a Python without a single package installed.
ALLOWED: dict[str, tuple[str, ...]] = {
    "format": (),
    "plan": (),
    "jobs": (),
    "local": (),
    "sql": ("sqlglot",),
    "metastore": ("thrift", "hmsclient", "six"),
    "storage": ("pyarrow", "google", "pyorc", "numpy", "tzdata"),
    **dict.fromkeys(
        ("arrow", "lake", "maintenance", "reading", "writing"),
        ("thrift", "hmsclient", "six", "pyarrow", "google", "pyorc", "numpy", "tzdata"),
    ),
}

# Refuses every module that is neither Python's own, nor ours, nor allowed, by its top-level name.
REFUSAL = """
import importlib, json, sys
allowed, modules = json.loads(sys.stdin.read())

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        ours = top == "airflow_hiveacid" or top in allowed
        if ours or top in sys.stdlib_module_names or top.startswith("_sysconfigdata"):
            return None
        raise ModuleNotFoundError(f"{name} was refused", name=name)

sys.meta_path.insert(0, Refuse())
for module in modules:
    importlib.import_module(module)
"""


def modules_of(room: str) -> list[str]:
    # Only pytest loads the plugin.
    files = (path for path in (PACKAGE / room).rglob("*.py") if path.stem != "pytest_plugin")
    return [name.removesuffix(".__init__") for name in map(module_of, sorted(files))]


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def run(script: str, *arguments: str, given: object = None) -> str:
    """Run a program that gets a value as JSON; return its output, without its last end of line."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("room", ALLOWED)
def test_a_package_can_be_imported_without_the_libraries_of_other_packages(room: str) -> None:
    modules = modules_of(room)
    assert len(modules) > 1
    run(REFUSAL, given=[ALLOWED[room], modules])


def test_every_module_in_spark_needs_pyspark() -> None:
    """What needs none belongs to a room below, where engines without Spark can use it."""
    script = REFUSAL.replace(
        "    importlib.import_module(module)\n",
        """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        continue
    print(module)
""",
    )
    modules = [module_of(path) for path in sorted((PACKAGE / "spark").rglob("[!_]*.py"))]
    assert len(modules) > 1
    assert run(script, given=[ALLOWED["writing"], modules]) == ""


def test_the_tasks_of_spark_need_no_library_of_the_metastore() -> None:
    """Executors have only pyspark, pandas, pyarrow and protobuf, as docs/tutorial says."""
    refused = REFUSAL.replace("top in allowed", "top not in allowed")
    modules = [module_of(path) for path in (PACKAGE / "spark").rglob("*.py") if _has_tasks(path)]
    assert len(modules) > 8
    run(refused, given=[["thrift", "hmsclient"], modules])


def _has_tasks(path: Path) -> bool:
    text = path.read_text()
    return "run_tasks(" in text or "task_results(" in text or "mapInArrow(" in text


@pytest.mark.airflow
def test_the_provider_info_imports_no_library() -> None:
    run(REFUSAL, given=[(), ["airflow_hiveacid.provider_info"]])


@pytest.mark.parametrize("face", FACES)
def test_a_public_module_lists_its_names_without_importing_a_library(face: str) -> None:
    run(REFUSAL, given=[(), [face]])
    script = f"""
import sys, {face}
names = dir({face})
print(sorted(name for name in sys.modules if name.startswith("{PACKAGE.name}.")))
"""
    errors = ["airflow_hiveacid.format", "airflow_hiveacid.format.errors"]
    errors += [f"{errors[-1]}.{one.stem}" for one in (PACKAGE / "format/errors").glob("[a-z]*.py")]
    rules = ("known_secrets", "words")
    errors += [f"airflow_hiveacid.format.{name}" for name in rules]
    more = errors if face.endswith(".errors") else []
    assert run(script) == str(sorted([face, *more, "airflow_hiveacid.lazy_names"]))


def test_the_import_of_the_package_imports_no_other_module() -> None:
    script = (
        "import sys; old = {*sys.modules}; import airflow_hiveacid; print({*sys.modules} - old)"
    )
    assert set(ast.literal_eval(run(script))) == {"airflow_hiveacid", "__future__"}


def test_a_metastore_can_be_described_without_pyspark() -> None:
    script = REFUSAL + "\nfrom airflow_hiveacid.acid import KerberosLogin, Metastore, Transport"
    run(script, given=[[], []])


@pytest.mark.airflow
@pytest.mark.parametrize("room", ["hooks", "operators", "sensors", "triggers"])
def test_modules_that_dag_files_import_load_neither_arrow_nor_pyspark(room: str) -> None:
    # The scheduler parses DAG files every few seconds; what lists files is loaded when a task runs.
    script = """
import sys
refused = "pyarrow", "pyorc", "pyspark", "pandas", "numpy", "duckdb", "thrift", "hmsclient"
for name in refused:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
for module in sys.argv[1:]:
    exec(f"from {module} import *")  # each name of a face
"""
    modules = [name for entry in get_provider_info()[room] for name in entry["python-modules"]]
    assert modules
    run(script, *modules)


def test_no_package_violates_an_import_contract(tmp_path: Path) -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(lint), "--no-logo", "--cache-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_belongs_to_an_import_contract() -> None:
    config = (ROOT / "pyproject.toml").read_text()
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    unnamed = {room for room in rooms if f"airflow_hiveacid.{room}" not in config}
    assert unnamed == set()
