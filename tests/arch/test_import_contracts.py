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
    files = sorted((PACKAGE / room).rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    # Only pytest loads the plugin.
    return [name.removesuffix(".__init__") for name in names if not name.endswith(".pytest_plugin")]


def load(modules: list[str], allowed: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REFUSAL],
        input=json.dumps([allowed, modules]),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("room", ALLOWED)
def test_a_package_can_be_imported_without_the_libraries_of_other_packages(room: str) -> None:
    modules = modules_of(room)
    assert len(modules) > 1
    done = load(modules, ALLOWED[room])
    assert done.returncode == 0, done.stderr


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
    files = sorted((PACKAGE / "spark").rglob("[!_]*.py"))
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert len(modules) > 1
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([ALLOWED["writing"], modules]),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.split() == []


def test_the_tasks_of_spark_need_no_library_of_the_metastore() -> None:
    """Executors have only pyspark, pandas, pyarrow and protobuf, as docs/tutorial says."""
    refused = REFUSAL.replace("top in allowed", "top not in allowed")
    files = [path for path in (PACKAGE / "spark").rglob("*.py") if _has_tasks(path)]
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert len(modules) > 8
    done = subprocess.run(
        [sys.executable, "-c", refused],
        input=json.dumps([["thrift", "hmsclient"], modules]),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def _has_tasks(path: Path) -> bool:
    text = path.read_text()
    return "run_tasks(" in text or "task_results(" in text or "mapInArrow(" in text


def test_the_import_of_a_refused_library_fails(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text("import pytest\n")
    script = REFUSAL.replace(
        "sys.meta_path", f"sys.path.insert(0, {str(tmp_path)!r})\nsys.meta_path"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([["greedy"], ["greedy"]]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pytest was refused" in done.stderr


@pytest.mark.airflow
def test_the_provider_info_imports_no_library() -> None:
    done = load(["airflow_hiveacid.provider_info"], ())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("face", FACES)
def test_a_public_module_lists_its_names_without_importing_a_library(face: str) -> None:
    done = load([face], ())
    assert done.returncode == 0, done.stderr
    script = f"""
import sys, {face}
names = dir({face})
print(sorted(name for name in sys.modules if name.startswith("{PACKAGE.name}.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    errors = ["airflow_hiveacid.format", "airflow_hiveacid.format.errors"]
    errors += [f"{errors[-1]}.{one.stem}" for one in (PACKAGE / "format/errors").glob("[a-z]*.py")]
    rules = ("known_secrets", "words")
    errors += [f"airflow_hiveacid.format.{name}" for name in rules]
    more = errors if face.endswith(".errors") else []
    assert done.stdout.strip() == str(sorted([face, *more, "airflow_hiveacid.lazy_names"]))


def test_the_import_of_the_package_imports_no_other_module() -> None:
    script = (
        "import sys; old = {*sys.modules}; import airflow_hiveacid; print({*sys.modules} - old)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert set(ast.literal_eval(done.stdout)) == {"airflow_hiveacid", "__future__"}


def test_a_metastore_can_be_described_without_pyspark() -> None:
    script = REFUSAL + "\nfrom airflow_hiveacid.acid import KerberosLogin, Metastore, Transport"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([[], []]),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


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
    done = subprocess.run(
        [sys.executable, "-c", script, *modules],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


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
