from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError

import pyspark
import pytest

import airflow_hiveacid.spark
from airflow_hiveacid import supported_versions
from airflow_hiveacid.format.errors import ConfigurationError, MetastoreVersionError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.supported_versions import AIRFLOW, JAVA, METASTORE, PAGE, PYSPARK, Window
from tests.contract.stub_server import StubServer

OLD, NEW = "too old", "too new"


@pytest.mark.parametrize(
    ("window", "found", "fault"),
    [
        (AIRFLOW, "3.0.6", OLD),
        (AIRFLOW, "2.11.2", OLD),
        (AIRFLOW, "3.1.8", None),
        (AIRFLOW, "3.3.2rc1", None),
        (AIRFLOW, "3.10.0", NEW),
        (PYSPARK, "3.5.9", None),
        (PYSPARK, "4.4.0.dev1", NEW),
        (JAVA, "1.8.0_392", OLD),
        (JAVA, "17.0.9", None),
        (JAVA, "26", NEW),
        (METASTORE, "3.1.0", OLD),
        (METASTORE, "4.0.0", None),
        (METASTORE, "4.10.0", NEW),
    ],
)
def test_versions_are_compared_by_the_numbers_that_the_window_names(
    window: Window, found: str, fault: str | None
) -> None:
    assert window.fault(found) == fault


@pytest.mark.parametrize(("found", "fault"), [("3.4.4", "old"), ("4.4.0", "new")])
def test_the_refusal_is_one_sentence_with_the_version_the_window_and_the_page(
    found: str, fault: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        PYSPARK.check(found, newest=True)
    text = str(raised.value)
    assert text.startswith(f"PySpark {found} is too {fault} for airflow-provider-hiveacid")
    assert str(PYSPARK) in text
    assert PAGE in text
    assert "\n" not in text


def installed(**versions: str) -> Callable[[str], str]:
    def version(package: str) -> str:
        try:
            return versions[package.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(package) from None

    return version


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ({"apache_airflow_core": "3.0.6", "apache_airflow": "3.0.6"}, "3.0.6 is too old"),
        ({"apache_airflow": "2.11.2"}, "2.11.2 is too old"),
        ({"apache_airflow_core": "4.0.0"}, "4.0.0 is too new"),
        ({"apache_airflow_core": "3.1.0"}, None),
        ({"apache_airflow_core": "3.4.0"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("face", ["operators", "sensors", "hooks", "assets"])
def test_an_unsupported_airflow_is_refused_before_any_of_its_names_is_imported(
    monkeypatch: pytest.MonkeyPatch, face: str, packages: dict[str, str], found: str | None
) -> None:
    module = importlib.import_module(f"airflow_hiveacid.{face}")
    monkeypatch.setattr(supported_versions, "version", installed(**packages))
    supported_versions.check_airflow.cache_clear()
    if found is None:
        supported_versions.check_airflow()
        return
    with pytest.raises(ConfigurationError, match=f"^Airflow {found}.*3.1 to 3.3") as raised:
        getattr(module, module.__all__[0])
    assert PAGE in str(raised.value)


def test_the_version_of_airflow_is_read_once_for_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    packages: list[str] = []

    def version(package: str) -> str:
        packages.append(package)
        return "3.3.2"

    monkeypatch.setattr(supported_versions, "version", version)
    supported_versions.check_airflow.cache_clear()
    for _ in range(3):
        supported_versions.check_airflow()
    assert packages == ["apache-airflow-core"]


def test_a_pyspark_that_is_too_old_is_refused_at_the_first_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.4.4")
    with pytest.raises(ConfigurationError, match=r"^PySpark 3\.4\.4 is too old"):
        importlib.reload(airflow_hiveacid.spark)
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")  # only a driver refuses it
    importlib.reload(airflow_hiveacid.spark)


def test_a_metastore_without_write_ids_is_refused_at_the_first_call() -> None:
    with (
        StubServer() as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
        pytest.raises(
            MetastoreVersionError, match=r"older than Hive 3\.0.*3\.1\.2 to 4\.2\.0"
        ) as raised,
    ):
        client.valid_txns()
    assert PAGE in str(raised.value)
