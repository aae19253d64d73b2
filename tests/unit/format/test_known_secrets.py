from __future__ import annotations

import base64
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from airflow_hiveacid.format import known_secrets
from airflow_hiveacid.format.errors import MetastoreUnavailableError, StorageError

_SECRET = 'p+a/s s"w&d'
_HARD = """p+a/s s"'w\\&~*ä-d"""


@pytest.fixture(autouse=True)
def _none_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_secrets, "_known", OrderedDict())


@pytest.mark.parametrize(
    "shown", [_SECRET, quote(_SECRET, safe=""), base64.b64encode(_SECRET.encode()).decode()]
)
def test_an_error_hides_a_plain_a_quoted_and_a_base64_secret(shown: str) -> None:
    error = MetastoreUnavailableError(uris=("h",), method="m", reason=f"not {shown}!")
    known_secrets.keep_secret(_SECRET)
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert shown not in f"{one} {one!r}"
        assert "not ***" in str(one)


def test_a_pickled_error_does_not_contain_its_secret() -> None:
    known_secrets.keep_secret(_SECRET)
    sent = pickle.dumps(StorageError(f"not {_SECRET}!"))
    known_secrets.forget_secrets()
    assert str(pickle.loads(sent)) == "not ***!"  # noqa: S301 - our own


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("secret", ["hunter", "hunter2", "hunter22"])
def test_a_secret_is_hidden_in_base64_without_padding(
    secret: str, encode: Callable[[bytes], bytes]
) -> None:
    known_secrets.keep_secret(secret)
    assert (
        known_secrets.without_secrets(f"not {encode(secret.encode()).decode().rstrip('=')}!")
        == "not ***!"
    )


@pytest.mark.parametrize(
    "shown",
    [
        _HARD,
        quote(_HARD),
        quote_plus(_HARD),
        quote(_HARD, safe="").lower(),
        "p%2Ba%2Fs+s%22%27w%5C%26%7E*%C3%A4-d",
        repr(_HARD)[1:-1],
        json.dumps(_HARD)[1:-1],
        json.dumps(_HARD, ensure_ascii=False)[1:-1],
        json.dumps(_HARD)[1:-1].replace("/", "\\/"),
    ],
    ids=["raw", "URL", "form", "lower case", "Java", "repr", "JSON", "JSON in UTF-8", "slash"],
)
def test_a_secret_with_special_characters_is_hidden_as_other_programs_escape_it(shown: str) -> None:
    known_secrets.keep_secret(_HARD)
    assert known_secrets.without_secrets(f"{shown} {_HARD}") == "*** ***"


@pytest.mark.parametrize("user", ["", "e", "et", "etl"])
@pytest.mark.parametrize("after", ["", "x", "xy"])
@pytest.mark.parametrize("secret", ["hunter2-long", "hunter", "five5", "?>?>?>?>?>"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_hidden_in_the_header_of_a_basic_login(
    user: str, after: str, secret: str, encode: Callable[[bytes], bytes]
) -> None:
    known_secrets.keep_secret(secret)
    shown = known_secrets.without_secrets(encode(f"{user}:{secret}{after}".encode()).decode())
    before, hidden, rest = shown.partition("***")
    assert hidden
    # Of the secret, at most four bits are in the character on each side.
    assert len(before) <= -(-(len(user) + 1) * 4 // 3)
    assert len(rest.rstrip("=")) <= 1 + -(-len(after) * 4 // 3)


@pytest.mark.parametrize("order", [1, -1])
def test_a_secret_that_begins_with_a_different_secret_is_hidden_completely(order: int) -> None:
    for secret in ("s3cret", "s3cret-of-2027")[::order]:
        known_secrets.keep_secret(secret)
    assert known_secrets.without_secrets("s3cret-of-2027 s3cret") == "*** ***"


@pytest.mark.parametrize("at", range(13))
def test_a_shortened_text_contains_no_part_of_a_secret(at: int) -> None:
    known_secrets.keep_secret("s3cret-of-2027")
    shown = known_secrets.beginning_of(f"{'x' * at}s3cret-of-2027{'y' * 20}", 10)
    assert shown == f"{'x' * at}***{'y' * 20}"[:10]


def test_a_secret_is_not_interpreted_as_a_regular_expression() -> None:
    known_secrets.keep_secret("a.*b(")
    assert known_secrets.without_secrets("a---b( a.*b(") == "a---b( ***"


def test_an_error_without_a_secret_is_shown_unchanged() -> None:
    known_secrets.keep_secret(_SECRET)
    assert repr(StorageError("it's full")) == repr(Exception("it's full")).replace(
        "Exception", "StorageError"
    )


def test_a_secret_of_three_characters_is_not_hidden() -> None:
    known_secrets.keep_secret("the")
    assert known_secrets.without_secrets("then") == "then"


def test_only_secrets_of_at_least_five_characters_are_hidden() -> None:
    for secret in ("", "four", "five5"):
        assert known_secrets.keep_secret(secret) == secret
    assert known_secrets.without_secrets("four five5") == "four ***"


def test_a_password_that_is_read_repeatedly_is_hidden_despite_many_newer_secrets() -> None:
    for number in range(1000):
        known_secrets.keep_secret("a password")
        known_secrets.keep_secret(f"secret-{number:04d}")
    assert known_secrets.without_secrets("a password secret-0999") == "*** ***"


def test_a_process_remembers_only_its_100_newest_secrets() -> None:
    for number in range(1000):
        known_secrets.keep_secret(f"secret-{number:04d}")
    assert len(known_secrets._known) == 100
    assert known_secrets.without_secrets("secret-0000 secret-0999") == "secret-0000 ***"
