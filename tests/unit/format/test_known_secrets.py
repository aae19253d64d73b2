from __future__ import annotations

import base64
import pickle
from urllib.parse import quote

import pytest

from airflow_hiveacid.format import known_secrets
from airflow_hiveacid.format.errors import MetastoreUnavailableError, StorageError
from airflow_hiveacid.format.known_secrets import keep_secret, without_secrets

_SECRET = 'p+a/s s"w&d'


@pytest.fixture(autouse=True)
def _none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_secrets, "_known", {})


@pytest.mark.parametrize(
    "shown", [_SECRET, quote(_SECRET, safe=""), base64.b64encode(_SECRET.encode()).decode()]
)
def test_an_error_hides_a_secret_in_any_form(shown: str) -> None:
    error = MetastoreUnavailableError(uris=("h",), method="m", reason=f"not {shown}!")
    keep_secret(_SECRET)
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert shown not in f"{one} {one!r}"
        assert "not ***" in str(one)


def test_an_error_without_a_secret_is_shown_as_it_is() -> None:
    keep_secret(_SECRET)
    assert repr(StorageError("it's full")) == repr(Exception("it's full")).replace(
        "Exception", "StorageError"
    )


def test_a_secret_that_is_part_of_ordinary_words_is_not_hidden() -> None:
    keep_secret("the")
    assert without_secrets("then") == "then"


def test_a_process_keeps_only_its_newest_secrets() -> None:
    for number in range(1000):
        keep_secret(f"secret-{number:04d}")
    assert len(known_secrets._known) == 100
    assert without_secrets("secret-0000 secret-0999") == "secret-0000 ***"
