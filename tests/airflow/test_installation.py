"""Two Airflows with the same DAG, run and task are two jobs, and each keeps its key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.submission.run_identity import installation, key_of
from tests.support.airflow_support import StateStore, context_of

KEY = "dag/scheduled__2013-01-02/task/-1"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda name: monkeypatch.setenv("AIRFLOW__HIVEACID__INSTALLATION", name)


def test_two_installations_with_the_same_task_have_different_job_keys(
    named: Callable[[str], None],
) -> None:
    keys = set()
    for name in ("blue", "green"):
        named(name)
        keys |= {key_of(context_of(task_state_store=StateStore()), n) for n in (1, 2)}
    assert keys == {f"{KEY}@blue", f"{KEY}@blue#2", f"{KEY}@green", f"{KEY}@green#2"}


def test_a_retry_and_a_clear_keep_the_job_key_if_the_installation_setting_changes(
    named: Callable[[str], None],
) -> None:
    store = StateStore()
    named("blue")
    first = key_of(context_of(task_state_store=store))
    named("green")
    for try_number in (2, 3):
        again = context_of(try_number=try_number, task_state_store=store)
        assert key_of(again) == first == f"{KEY}@blue"


def test_the_first_try_that_leaves_a_note_sets_the_installation_of_all_later_tries(
    named: Callable[[str], None],
) -> None:
    store = StateStore()
    named("blue")
    for try_number in (2, 3):
        context = context_of(try_number=try_number, task_state_store=store)
        assert key_of(context) == f"{KEY}@blue"
        named("green")


def test_without_a_state_store_the_job_key_has_no_installation_name(
    named: Callable[[str], None],
) -> None:
    """A later try could not know what the first one called its job."""
    named("blue")
    assert key_of(context_of()) == KEY


@pytest.mark.parametrize(
    ("base_url", "execution", "name"),
    [
        ("", "", ""),
        ("http://localhost:8080", "http://localhost:8080/execution/", ""),
        ("https://flow.example.com/team/", "", "flow.example.com/team"),
        ("http://localhost:8080", "http://api:8080/execution/", "api:8080"),
        ("https://me:secret@flow.example.com", "", "flow.example.com"),
        ("http://[broken", "http://h:no/", ""),
    ],
)
def test_the_default_installation_name_is_the_address_of_the_api_server(
    monkeypatch: pytest.MonkeyPatch, base_url: str, execution: str, name: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", execution)
    assert installation() == name


@pytest.mark.parametrize("name", ["a b", "x#2", "\u00e9", "a" * 101, "-x"])
def test_an_installation_name_that_is_not_valid_in_a_job_key_is_refused(
    named: Callable[[str], None], name: str
) -> None:
    named(name)
    with pytest.raises(ConfigurationError, match="option installation of section"):
        installation()
