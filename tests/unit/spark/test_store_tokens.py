"""Which Python workers are handed tokens, and what of them anybody sees."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.spark import store_tokens
from airflow_hiveacid.spark.store_tokens import (
    Tokens,
    _ships,
    _with_tokens,
    take_tokens,
    with_tokens,
)
from airflow_hiveacid.storage.stores.token_file import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

ENCRYPTED = {"spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "TRUE"}


class Context:
    """What is asked of a Spark context."""

    def __init__(self, master: str, settings: dict[str, str]) -> None:
        self.master, self._settings = master, settings

    def getConf(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        return self._settings


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was given nothing, and is as before afterwards."""
    monkeypatch.setattr(store_tokens, "_taken", None)
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


@pytest.mark.usefixtures("worker")
def test_a_worker_has_the_tokens_of_its_latest_task() -> None:
    seen: list[bytes] = []

    def body(batches: Iterator[int]) -> list[int]:
        seen.append(Path(os.environ[VARIABLE]).read_bytes())
        return list(batches)

    for content in (b"first", b"second, which is longer", b"3"):
        assert _with_tokens(iter([1, 2]), shipped=Tokens(content), inner=body) == [1, 2]
    assert seen == [b"first", b"second, which is longer", b"3"]


@pytest.mark.usefixtures("worker")
def test_a_containers_own_tokens_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/container/tokens")
    take_tokens(Tokens(b"shipped"))
    assert os.environ[VARIABLE] == "/container/tokens"


class Keeper:
    """One that ships, of a context that runs or was stopped."""

    shipped = Tokens(b"canary")

    def __init__(self, *, is_running: bool) -> None:
        self.is_running = is_running


def test_tasks_of_a_context_that_was_stopped_are_the_last_to_carry_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_tokens, "_keeper", Keeper(is_running=True))
    carrying = with_tokens(len)
    assert b"canary" in pickle.dumps(carrying)
    assert "canary" not in repr(carrying)
    monkeypatch.setattr(store_tokens, "_keeper", Keeper(is_running=False))
    assert with_tokens(len) is len


def test_nobody_is_shown_tokens_and_they_arrive() -> None:
    tokens = Tokens(b"canary")
    assert "canary" not in f"{tokens!r} {tokens} {[tokens]}"
    assert pickle.loads(pickle.dumps(tokens)) == tokens  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("master", "settings", "ships"),
    [
        ("k8s://https://host", ENCRYPTED, True),
        ("spark://host:7077", ENCRYPTED, True),
        ("k8s://https://host", ENCRYPTED | {"spark.io.encryption.enabled": "false"}, False),
        ("k8s://https://host", {"spark.network.crypto.enabled": "true"}, False),
        ("k8s://https://host", {"spark.io.encryption.enabled": "true"}, False),
        (
            "k8s://https://host",
            {"spark.ssl.rpc.enabled": "true", "spark.io.encryption.enabled": "true"},
            True,
        ),
        ("yarn", ENCRYPTED, False),
        ("local[4]", ENCRYPTED, False),
    ],
)
def test_tokens_leave_the_driver_only_where_all_that_carries_them_is_encrypted(
    master: str, settings: dict[str, str], *, ships: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="hiveacid"):
        assert _ships(Context(master, settings)) is ships  # type: ignore[arg-type]
    is_warned = "spark.io.encryption.enabled" in caplog.text
    assert is_warned is (not ships and not master.startswith(("yarn", "local")))
