"""Versions that stand in more than one file agree, and docker-compose.yml is whole."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from airflow_hiveacid import __version__, supported_versions as supported
from airflow_hiveacid.local.releases import (
    DEPENDENCY_PLUGIN,
    HIVE_4,
    POSTGRESQL_DRIVER_VERSION,
    RELEASES,
)

ROOT = Path(__file__).resolve().parents[2]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name: version for name, _, version in pairs}


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_compose_runs_the_pinned_airflow_version(compose: dict[str, Any]) -> None:
    service = compose["x-airflow"]
    assert service["build"]["args"]["AIRFLOW_VERSION"] == pins()["apache-airflow"]
    assert service["image"].endswith(f":{pins()['apache-airflow']}")


def test_compose_runs_the_pinned_spark_version(compose: dict[str, Any]) -> None:
    assert compose["x-spark"]["image"].endswith(f":{pins()['pyspark']}")


def test_compose_runs_the_same_metastore_version_as_the_local_metastore(
    compose: dict[str, Any],
) -> None:
    arguments = compose["services"]["metastore-image"]["build"]["args"]
    assert arguments["HIVE_VERSION"] == HIVE_4.version
    assert arguments["POSTGRESQL_DRIVER_VERSION"] == POSTGRESQL_DRIVER_VERSION
    for service in ("metastore-image", "metastore", "permissions"):
        assert compose["services"][service]["image"].endswith(f":{HIVE_4.version}")
    assert DEPENDENCY_PLUGIN in (ROOT / "docker/metastore/Dockerfile").read_text()


def test_the_driver_and_the_executors_run_the_same_python_version() -> None:
    airflow = (ROOT / "docker/airflow.Dockerfile").read_text()
    spark = (ROOT / "docker/spark.Dockerfile").read_text()
    found = re.findall(r"^FROM \S*python:?(3\.\d+)", airflow + spark, re.MULTILINE)
    assert len(found) == 2
    assert len(set(found)) == 1


def test_compose_names_only_services_and_volumes_that_exist(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        named = {mount.split(":")[0] for mount in service.get("volumes", ())}
        assert {name for name in named if not name.startswith(".")} <= set(compose["volumes"])


def test_compose_mounts_and_builds_only_existing_files(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists(), source
        build = service.get("build")
        if build:
            context = ROOT / build["context"]
            assert (context / build.get("dockerfile", "Dockerfile")).is_file()


def test_every_secret_comes_from_the_environment_file(compose: dict[str, Any]) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    wanted = set(re.findall(r"\$\{(\w+)", text))
    example = (ROOT / "docker/example.env").read_text()
    assert wanted == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    for service in compose["services"].values():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY", key) and not key.endswith("_FILE"):
                assert re.fullmatch(r"\$\{\w+:\?.+\}", value), key
        assert "${" not in " ".join(service.get("command", ()))


def test_compose_has_a_health_check_for_each_airflow_component(compose: dict[str, Any]) -> None:
    services = compose["services"]
    running = {name for name in services if name.startswith("airflow-")} - {"airflow-prepare"}
    checks = {name: services[name]["healthcheck"]["test"] for name in running}
    assert {name: check[-2:] for name, check in checks.items() if "jobs" in check} == {
        "airflow-scheduler": ["SchedulerJob", "--local"],
        "airflow-dag-processor": ["DagProcessorJob", "--local"],
        "airflow-triggerer": ["TriggererJob", "--local"],
    }


def test_compose_waits_for_the_success_of_every_service_that_ends(compose: dict[str, Any]) -> None:
    # `docker compose up --wait` fails when any other service ends.
    services = compose["services"]
    ending = {name for name, s in services.items() if s.get("restart", "no") == "no"}
    awaited = {
        name
        for service in services.values()
        for name, need in service.get("depends_on", {}).items()
        if need["condition"] == "service_completed_successfully"
    }
    assert ending == awaited


def test_the_airflow_image_installs_no_version_that_we_pin(project: dict[str, Any]) -> None:
    steps = (ROOT / "docker/airflow.Dockerfile").read_text().split("USER airflow")[1]
    commands = re.sub(r"\\\n", "", steps[steps.index("RUN ") :]).removeprefix("RUN ").split("&&")
    found = [" ".join(command.split()) for command in commands]
    assert found[0] == found[-1] == "pip check"
    assert all("--no-deps" in command for command in found if "--constraint" in command)
    listed = [Requirement(text) for text in project["project"]["dependencies"]]
    assert "protobuf" not in {requirement.name for requirement in listed}
    (airflow,) = (requirement for requirement in listed if requirement.name == "apache-airflow")
    assert not airflow.specifier.contains("4.0.0")


def test_every_requirement_is_pinned_to_an_allowed_version(project: dict[str, Any]) -> None:
    listed = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["spark-runtime"],
        *project["project"]["optional-dependencies"]["dev"],
        *(entry for entry in project["dependency-groups"]["spark-environment"] if "=" not in entry),
    ]
    for text in (entry for entry in listed if isinstance(entry, str)):
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins()[requirement.name]), text


def test_the_pinned_requirements_contain_no_url() -> None:
    assert not re.search(r"https?:|@", (ROOT / "constraints.txt").read_text())


def test_the_page_of_versions_shows_the_supported_versions() -> None:
    lines = (ROOT / supported.PAGE).read_text().splitlines()
    start = lines.index("| part | versions |") + 2
    cells = [line.strip("| ").split(" | ") for line in lines[start : lines.index("", start)]]
    rows = {part: re.sub(r"\s*\(.*?\)", "", versions) for part, versions in cells}
    windows = (
        *(supported.AIRFLOW, supported.METASTORE, supported.PYSPARK),
        *(supported.JAVA, supported.PYTHON),
    )
    assert len(rows) == len(windows)
    for part, versions in rows.items():
        (window,) = (w for w in windows if part.endswith(w.part) or part.startswith(w.part))
        assert tuple(re.split(r",\s*", versions.strip())) == window.versions


def test_the_bounds_of_the_package_are_those_of_the_supported_versions(
    project: dict[str, Any],
) -> None:
    table = project["project"]
    assert table["requires-python"] == f">={supported.PYTHON.versions[0]}"
    named = [re.search(r":: Python :: (3\.\d+)$", one) for one in table["classifiers"]]
    assert tuple(match[1] for match in named if match) == supported.PYTHON.versions
    (airflow,) = (r for r in map(Requirement, table["dependencies"]) if r.name == "apache-airflow")
    assert f">={supported.AIRFLOW.versions[0]}" in str(airflow.specifier)
    assert {release.version for release in RELEASES} == set(supported.METASTORE.versions)


def test_the_version_is_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
