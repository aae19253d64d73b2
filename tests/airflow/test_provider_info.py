from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from importlib import metadata, resources
from typing import Any

import jsonschema
import pytest
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

from airflow_hiveacid.hooks.connection import ConnectionFields, parse_settings
from airflow_hiveacid.provider_info import get_provider_info


@pytest.fixture(scope="module")
def info() -> dict[str, Any]:
    return get_provider_info()


def test_the_provider_metadata_matches_airflows_schema(info: dict[str, Any]) -> None:
    schema = json.loads(
        resources.files("airflow").joinpath("provider_info.schema.json").read_text()
    )
    jsonschema.validate(info, schema)


@pytest.mark.parametrize("kind", ["hooks", "operators", "sensors", "triggers", "bundles"])
def test_every_module_in_the_provider_metadata_exists(info: dict[str, Any], kind: str) -> None:
    integrations = {i["integration-name"] for i in info["integrations"]}
    for entry in info[kind]:
        assert entry["integration-name"] in integrations
        for module in entry["python-modules"]:
            importlib.import_module(module)


def test_the_connection_type_in_the_provider_metadata_matches_its_hook(
    info: dict[str, Any],
) -> None:
    (entry,) = info["connection-types"]
    module, _, name = entry["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)
    assert hook.conn_type == entry["connection-type"]
    assert hook.hook_name == entry["hook-name"]


def test_the_connection_form_has_exactly_the_extra_fields_that_the_hook_reads(
    info: dict[str, Any],
) -> None:
    (entry,) = info["connection-types"]
    asked: set[str] = set()

    class Recorder(dict[str, object]):
        def get(self, key: str, default: object = None) -> object:
            asked.add(key)
            return default

    parse_settings(ConnectionFields(conn_id="c", host="h", extra=Recorder()))
    assert asked == set(entry["conn-fields"])


def test_the_defaults_of_the_connection_form_equal_those_of_the_hook(info: dict[str, Any]) -> None:
    (entry,) = info["connection-types"]
    defaults = {k: f["schema"].get("default") for k, f in entry["conn-fields"].items()}
    shown = parse_settings(ConnectionFields(conn_id="c", host="h", extra=defaults))
    assert shown == parse_settings(ConnectionFields(conn_id="c", host="h"))


def test_the_connection_form_requires_no_field_and_groups_its_fields() -> None:
    (form,) = (
        hook.extra_fields
        for hook in HookMetaService.hook_meta_data()
        if hook.connection_type == "hive_acid_metastore"
    )
    assert form is not None
    # Airflow's page stars a field, and does not save without it, unless its type allows null.
    assert [name for name, field in form.items() if "null" not in field["schema"]["type"]] == []
    groups = [field["schema"]["section"] for field in form.values()]
    assert [*dict.fromkeys(groups)] == [group for group, _ in itertools.groupby(groups)]
    assert groups[0] == "Login"
    assert max(groups.count(group) for group in groups) <= 4


def test_loading_the_provider_metadata_imports_no_heavy_library() -> None:
    # Every `airflow` command loads it.
    program = (
        "import sys; from airflow_hiveacid.provider_info import get_provider_info;"
        "get_provider_info();"
        "print([m for m in ('airflow', 'pyarrow', 'thrift', 'hmsclient') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_parsing_a_dag_imports_neither_thrift_nor_arrow() -> None:
    modules = ("hooks", "operators", "sensors", "watch.compaction_due", "watch.trigger")
    imports = "".join(f"from airflow_hiveacid.{module} import *;" for module in modules)
    program = (
        f"import sys; {imports}"  # each name of a face
        "print([m for m in ('pyarrow', 'thrift', 'hmsclient', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_airflow_finds_the_provider_by_its_entry_point() -> None:
    found = [
        e
        for e in metadata.entry_points(group="apache_airflow_provider")
        if e.value == "airflow_hiveacid.provider_info:get_provider_info"
    ]
    assert found, "install the project into this environment: pip install -e ."
    assert found[0].load()() == get_provider_info()
