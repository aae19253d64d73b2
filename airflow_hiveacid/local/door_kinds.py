"""Knows what a metastore has to be told for each way to log in to it, and for TLS below.

Takes where keys and users are kept, gives a `Door`. What 3.1 does not know it would pass over in
silence, and let everybody in: such a door says that it is 4's alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.directory import PEOPLE
from airflow_hiveacid.local.door import PLAIN, Door, Language

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_hiveacid.local.kdc import LocalKdc
    from airflow_hiveacid.local.openssl import Certificates, Signer

LOCALHOST: Final = "localhost"
SERVICE: Final = f"hive/{LOCALHOST}"
_ONLY_4: Final = ("4",)
# The server announces the client's user otherwise, and refuses to start with a login of its own.
_NO_ANNOUNCING: Final = {"metastore.execute.setugi": "false"}


def kerberos(
    kdc: LocalKdc,
    *,
    protections: str = "authentication,integrity,privacy",
    proxies: Mapping[str, str] | None = None,
) -> Door:
    """Kerberos, and the delegation tokens that come with it.

    Args:
        kdc: Whose realm; the server's keytab is made if there is none.
        protections: Which the server offers, as hadoop.rpc.protection has them.
        proxies: Whom a user may ask tokens for: users, separated by commas, by short name.

    Raises:
        LocalServerError: Kerberos refused.
    """
    keytab = kdc.keytab(SERVICE)
    allowed = {
        f"hadoop.proxyuser.{name}.{what}": value
        for name, users in (proxies or {}).items()
        for what, value in (("users", users), ("hosts", "*"))
    }
    return Door(
        language=Language.SASL,
        host=LOCALHOST,
        settings={
            "metastore.sasl.enabled": "true",
            "metastore.kerberos.principal": kdc.principal(SERVICE),
            "metastore.kerberos.keytab.file": str(keytab),
        },
        core_settings={
            # The server's own login asks nothing but this file; without it nobody logs in.
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protections,
            **allowed,
        },
        jvm_flags=(f"-Djava.security.krb5.conf={kdc.configuration}",),
    )


def ldap(directory_uri: str, *, beside: Door = PLAIN) -> Door:
    """User and password of an LDAP directory, beside Kerberos if that is given."""
    return _password(
        beside,
        {
            "metastore.authentication": "LDAP",
            "metastore.authentication.ldap.url": directory_uri,
            "metastore.authentication.ldap.baseDN": PEOPLE,
            "metastore.authentication.ldap.userDNPattern": f"uid=%s,{PEOPLE}",
        },
    )


def one_user(user: str, password: str, *, beside: Door = PLAIN) -> Door:
    """One user whose password stands in the server's settings."""
    return _password(
        beside,
        {
            "metastore.authentication": "CONFIG",
            "metastore.authentication.config.username": user,
            "metastore.authentication.config.password": password,
        },
    )


def custom(class_name: str, class_path: Path) -> Door:
    """Users and passwords that a class of one's own knows."""
    door = _password(
        PLAIN,
        {
            "metastore.authentication": "CUSTOM",
            "metastore.custom.authentication.class": class_name,
        },
    )
    return replace(door, class_path=(class_path,))


def http() -> Door:
    """HTTP; whoever calls is who he says, in a header."""
    return Door(
        language=Language.HTTP,
        host=LOCALHOST,
        settings={"metastore.server.thrift.transport.mode": "http", **_NO_ANNOUNCING},
        releases=_ONLY_4,
    )


def bearer(signer: Signer) -> Door:
    """HTTP with a JSON Web Token of this signer."""
    keys = {
        "metastore.authentication": "JWT",
        "metastore.authentication.jwt.jwks.url": signer.key_list.as_uri(),
    }
    return replace(http(), settings={**http().settings, **keys})


def in_tls(door: Door, certificates: Certificates) -> Door:
    """The same door inside TLS."""
    settings = {
        **door.settings,
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(certificates.server_store),
        "metastore.keystore.password": certificates.store_password(),
        "metastore.keystore.type": "PKCS12",
    }
    if door.language is Language.HTTP:
        # Jetty takes the empty default for a name.
        settings["metastore.keymanagerfactory.algorithm"] = "SunX509"
    return replace(door, host=LOCALHOST, settings=settings, authority=certificates.authority)


def _password(beside: Door, settings: Mapping[str, str]) -> Door:
    more = {} if "metastore.sasl.enabled" in beside.settings else _NO_ANNOUNCING
    return replace(
        beside,
        language=Language.SASL,
        host=LOCALHOST,
        settings={**beside.settings, **settings, **more},
        releases=_ONLY_4,
    )
