"""Parse the login from a connection's fields, and refuse fields of a different kind of login.

Example:
    >>> from airflow_hiveacid.hooks.extras import Extras
    >>> extras = Extras("hms", {"authentication": "bearer", "secret_from": "file:/run/jwt"})
    >>> parse_login(extras, user=None).bearer
    SecretSource(file='/run/jwt', variable=None)
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, assert_never

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.hooks.extras import Extras
from airflow_hiveacid.jobs import endpoint


class Authentication(enum.Enum):
    """The kinds of login, with the values of the connection's `authentication` field."""

    NONE = "none"
    KERBEROS = "kerberos"
    TOKEN = "token"  # noqa: S105 - a word
    PASSWORD = "password"  # noqa: S105 - a word
    BEARER = "bearer"
    HEADER = "header"


_KERBEROS_FIELDS: Final = (
    "kerberos_service",
    "kerberos_client",
    "kerberos_keytab",
    "kerberos_cache",
)
_PROTECTED: Final = (Authentication.KERBEROS, Authentication.TOKEN)
_WITH_SECRET: Final = (Authentication.TOKEN, Authentication.PASSWORD, Authentication.BEARER)
_WITH_USER: Final = (Authentication.PASSWORD, Authentication.HEADER)
_NEEDS: Final[Mapping[Authentication, str]] = MappingProxyType(
    {
        Authentication.KERBEROS: "kerberos_service",
        Authentication.PASSWORD: "secret_from",
        Authentication.BEARER: "secret_from",
    }
)
_DEFAULT: Final = "default"
_IN_CLEAR: Final = (Authentication.PASSWORD, Authentication.BEARER)
_USERS: Final[Mapping[str, tuple[Authentication, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_KERBEROS_FIELDS, (Authentication.KERBEROS,)),
        "protection": _PROTECTED,
        "secret_from": _WITH_SECRET,
        "secret_in_clear": _IN_CLEAR,
    }
)
"""Each field, with the kinds of login that use it; other kinds would ignore the field."""


def parse_login(extras: Extras, user: str | None) -> endpoint.Login | None:
    """Parse and check the login; `user` is the value of Airflow's login field."""
    kind = extras.choice("authentication", Authentication.NONE)
    is_default = (extras.text("protection") or _DEFAULT) == _DEFAULT
    protection = (
        None if is_default else extras.choice("protection", endpoint.Protection.AUTHENTICATION)
    )
    in_clear = extras.truth("secret_in_clear", default=False)
    texts = {name: extras.text(name) for name in (*_KERBEROS_FIELDS, "secret_from")}
    names = {name for name, text in texts.items() if text}
    # Airflow's form sets `protection` and `secret_in_clear` to their default values, so treat a
    # default value as missing.
    names |= (
        {"protection"} if protection not in (None, endpoint.Protection.AUTHENTICATION) else set()
    )
    names |= {"secret_in_clear"} if in_clear else set()
    for name in sorted(names):
        if kind not in _USERS[name]:
            ways = " or ".join(way.value for way in _USERS[name])
            raise extras.wrong(
                name, f"is set, but authentication is {kind.value}; it is used only with {ways}"
            )
    _check_needs(extras, kind, texts, user)
    secret = _secret(extras, texts["secret_from"])
    try:
        return _login(
            kind, texts, user=user or "", secret=secret, protection=protection, in_clear=in_clear
        )
    except ConfigurationError as error:
        raise extras.wrong("authentication", f"{kind.value}: {error}") from error


def _check_needs(
    extras: Extras, kind: Authentication, texts: Mapping[str, str | None], user: str | None
) -> None:
    name = _NEEDS.get(kind)
    if name and not texts[name]:
        raise extras.wrong(name, f"is empty, but authentication {kind.value} requires it")
    if kind in _WITH_USER and not user:
        raise extras.wrong("login", f"is empty, but authentication {kind.value} requires a user")


def _secret(extras: Extras, text: str | None) -> endpoint.SecretSource | None:
    try:
        return endpoint.SecretSource.parse(text) if text else None
    except ConfigurationError as error:
        raise extras.wrong("secret_from", str(error)) from error


def _login(  # noqa: PLR0913 - one argument for each possible part of a login
    kind: Authentication,
    texts: Mapping[str, str | None],
    *,
    user: str,
    secret: endpoint.SecretSource | None,
    protection: endpoint.Protection | None,
    in_clear: bool,
) -> endpoint.Login | None:
    match kind:
        case Authentication.NONE:
            return None
        case Authentication.KERBEROS:
            return endpoint.KerberosLogin(
                service=texts["kerberos_service"] or "",
                client=texts["kerberos_client"],
                keytab=texts["kerberos_keytab"],
                cache=texts["kerberos_cache"],
                protection=protection,
            )
        case Authentication.TOKEN:
            return endpoint.TokenLogin(token=secret, protection=protection)
        case Authentication.PASSWORD:
            return endpoint.PasswordLogin(
                user=user, password=secret or endpoint.SecretSource(), in_clear=in_clear
            )
        case Authentication.BEARER:
            return endpoint.BearerLogin(bearer=secret or endpoint.SecretSource(), in_clear=in_clear)
        case Authentication.HEADER:
            return endpoint.HeaderLogin(user=user)
        case _:
            assert_never(kind)
